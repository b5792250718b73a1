//! Quantities with units: bytes, seconds, bits per second.

/// Bytes: `1 GB`, `1.6 MB`, `64 KiB`, `100`. Decimal units are powers of 1,000, those with an `i` of 1,024; a
/// bare letter (`1G`) counts as decimal.
///
/// # Errors
/// A sentence for people.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit = unit.to_ascii_lowercase();
    let factor = match unit.strip_suffix('b').unwrap_or(&unit) {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1_048_576.0,
        "gi" => 1_073_741_824.0,
        "ti" => 1_099_511_627_776.0,
        _ => {
            return Err(format!(
                "{text:?} has a unit that isn't one of bytes; write it as \"1.6 MB\" or \"64 KiB\""
            ));
        }
    };
    whole(number * factor).ok_or_else(|| format!("{text:?} is not a number of bytes"))
}

/// Seconds: `2`, `0.5 s`, `200 ms`, `5 min`.
///
/// # Errors
/// A sentence for people.
pub fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "{text:?} has a unit that isn't one of time; write it as \"200 ms\" or \"5 min\""
            ));
        }
    };
    Ok(number * factor)
}

/// Bits per second as tc spells them: `10gbit`, `2.5 Gbit/s`, `100mbit`; `open` is `None`, a link that
/// nothing shapes.
///
/// # Errors
/// A sentence for people.
pub fn bit_rate(text: &str) -> Result<Option<u64>, String> {
    if text == "open" {
        return Ok(None);
    }
    let problem =
        || format!("{text:?} is not a rate; write it as \"10gbit\", or \"open\" for a link without a shaper");
    let (number, unit) = split(text).map_err(|_| problem())?;
    let unit = unit.to_ascii_lowercase();
    let factor = match unit.strip_suffix("/s").unwrap_or(&unit) {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(problem()),
    };
    whole(number * factor).filter(|rate| *rate > 0).map(Some).ok_or_else(problem)
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let number: f64 =
        text[..end].replace('_', "").parse().map_err(|_| format!("{text:?} doesn't begin with a number"))?;
    Ok((number, text[end..].trim()))
}

/// The nearest whole number, where it can be told apart from its neighbours.
fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && (0.0..9e15).contains(&value)).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_bytes() {
        assert_eq!(bytes("1.6 MB"), Ok(1_600_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1G"), Ok(1_000_000_000));
        assert_eq!(bytes("100_000"), Ok(100_000));
        assert!(bytes("1 Gbit").is_err());
        assert!(bytes("").is_err());
        assert!(bytes("-1").is_err());
        assert!(bytes("1e300").is_err());
        assert!(bytes("99999999999999999999 GB").is_err());
    }

    #[test]
    fn reads_rates_and_times() {
        assert_eq!(bit_rate("10gbit"), Ok(Some(10_000_000_000)));
        assert_eq!(bit_rate("2.5 Gbit/s"), Ok(Some(2_500_000_000)));
        assert_eq!(bit_rate("open"), Ok(None));
        assert!(bit_rate("0gbit").is_err());
        assert!(bit_rate("10 GB").is_err());
        assert_eq!(seconds("200 ms"), Ok(0.2));
        assert_eq!(seconds("5 min"), Ok(300.0));
        assert!(seconds("1 d").is_err());
    }
}
