//! Parses quantities with units. The units `k`, `m` and `g` mean powers of ten, except in [`limit`] and
//! [`rsync_bytes`], which follow rsync.

use super::{GIB, KIB, MIB, TIB};

/// Parses a number of bytes: `1.6 MB`, `1G` (powers of ten), `64 KiB`, `1gib` (powers of two), `300`.
///
/// # Errors
/// A sentence that states which texts are accepted.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) =
        split(text).ok_or_else(|| format!("'{text}' isn't a size; write 500M, 1GB or 1GiB"))?;
    let unit = unit.to_ascii_lowercase();
    let factor = match unit.strip_suffix('b').unwrap_or(&unit) {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "p" => 1e15,
        "ki" => KIB,
        "mi" => MIB,
        "gi" => GIB,
        "ti" => TIB,
        "pi" => TIB * KIB,
        _ => {
            let wrong = format!(
                "the unit of '{text}' isn't a unit of size; write k, M, G, T, P, KiB, MiB, GiB, TiB or PiB"
            );
            return Err(format!("{wrong}, as in 1.6 MB or 64 KiB"));
        }
    };
    whole(number * factor).ok_or_else(|| format!("'{text}' is too large for a size; write 500M, 1GB or 1GiB"))
}

/// Parses a number of bytes in the notation of rsync's `--max-size`: `10m` and `10MiB` are 10 * 2^20 bytes, `10mb` is
/// 10 * 10^6 bytes. A final `+1` or `-1` adds or subtracts one byte.
///
/// # Errors
/// A sentence that states which texts are accepted.
pub fn rsync_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' isn't a size; write 500k, 10m (MiB) or 1gb (10^9 bytes)");
    let (size, more) = match (text.strip_suffix("+1"), text.strip_suffix("-1")) {
        (Some(size), _) => (size, 1.0),
        (_, Some(size)) => (size, -1.0),
        _ => (text, 0.0),
    };
    let (number, unit) = split(size).ok_or_else(wrong)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => GIB,
        "t" | "tib" => TIB,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(wrong()),
    };
    whole((number * factor).floor() + more).ok_or_else(wrong)
}

/// Parses a rate limit in the notation of rsync's `--bwlimit`, and returns bytes per second. A number without a unit is
/// in KiB per second, and `10m` is 10 MiB per second. Units that contain `bit` are bits per second: `500mbit`,
/// `2.5gbit`. Returns `None` for 0, which means no limit.
///
/// # Errors
/// A sentence that states which texts are accepted.
pub fn limit(text: &str) -> Result<Option<u64>, String> {
    let (number, unit) =
        split(text).ok_or_else(|| format!("'{text}' isn't a rate; write 20m (MiB a second) or 500mbit"))?;
    let lower = unit.to_ascii_lowercase();
    let factor = match lower.as_str() {
        "b" => 1.0,
        "" | "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => GIB,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => bits(&lower).map(|bits| bits / 8.0).map_err(|_| {
            format!("'{unit}' isn't a unit of rate; write k, m, g (KiB, MiB, GiB a second) or mbit, gbit")
        })?,
    };
    let bytes = number * factor;
    if !is_rate(bytes * 8.0) {
        return Err(format!("'{text}' is too large for a rate; write 20m (MiB a second) or 500mbit"));
    }
    Ok(if bytes == 0.0 { None } else { Some((bytes as u64).max(1)) })
}

/// Parses a rate in bits per second in the notation of tc(8): `10gbit`, `2.5 Gbit/s`, `100mbit`, `1gibit`. Unlike tc,
/// this function refuses a number without a unit, and units such as `gbps`: for tc, `10gbps` means ten giga*bytes* per
/// second, which hardly any user wants.
///
/// # Errors
/// The reason why the text isn't accepted, as a part of a sentence.
pub fn bit_rate(text: &str) -> Result<u64, &'static str> {
    let (number, unit) = split(text).ok_or("it doesn't start with a number")?;
    let unit = unit.to_ascii_lowercase();
    let factor = bits(unit.strip_suffix("/s").unwrap_or(&unit))?;
    let rate = (number * factor).round();
    if is_rate(rate) { Ok(rate as u64) } else { Err("it isn't between 0 and 2^64 bits a second") }
}

/// Parses a time, and returns seconds: `2` (seconds), `0.5 s`, `200 ms`, `5 min`, `1 h`.
///
/// # Errors
/// A sentence that states which texts are accepted.
pub fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text).ok_or_else(|| format!("{text:?} doesn't begin with a number"))?;
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "{text:?} has a unit that isn't a unit of time; write it as \"200 ms\" or \"5 min\""
            ));
        }
    };
    Ok(number * factor)
}

/// True if this number of bits per second fits into 64 bits.
fn is_rate(bits: f64) -> bool {
    (0.0..u64::MAX as f64).contains(&bits)
}

/// The number of bits in a unit of rates, such as `Mbit/s`.
fn bits(unit: &str) -> Result<f64, &'static str> {
    Ok(match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        "tbit" => 1e12,
        "kibit" => KIB,
        "mibit" => MIB,
        "gibit" => GIB,
        "tibit" => TIB,
        "" => return Err("the unit is missing"),
        _ if unit.ends_with("bps") => {
            return Err("tc reads bps as bytes per second, so bps isn't allowed here");
        }
        _ => return Err("the unit isn't known"),
    })
}

/// Splits a text into a number, in which `_` may stand between digits, and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

/// The nearest whole number; `None` if the value is negative, or is 9 * 10^15 or more. Much larger values can't be
/// distinguished from their neighbors.
fn whole(value: f64) -> Option<u64> {
    (0.0..9e15).contains(&value).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let read =
            ["1.6 MB", "1.5GB", "64KiB", "1G", "1g", "100_000", "300"].map(|text| bytes(text).unwrap());
        assert_eq!(read, [1_600_000, 1_500_000_000, 65_536, 1_000_000_000, 1_000_000_000, 100_000, 300]);
        for wrong in ["1 Gbit", "", "-1", "1e300", "99999999999999999999 GB", "many", "1x"] {
            assert!(bytes(wrong).unwrap_err().contains("write "), "{wrong}");
        }
    }

    #[test]
    fn a_limit_is_rsyncs_and_everything_else_decimal() {
        assert_eq!(limit("1g"), Ok(Some(1 << 30)));
        assert_eq!(bytes("1g"), Ok(1_000_000_000));
        assert_eq!(
            (limit("100"), limit("1gbit"), limit("0")),
            (Ok(Some(102_400)), Ok(Some(125_000_000)), Ok(None))
        );
        assert_eq!(limit("1MB"), Ok(Some(1_000_000)));
        assert!(limit("fast").unwrap_err().contains("write 20m (MiB a second) or 500mbit"));
        assert!(limit("1x").unwrap_err().contains("k, m, g (KiB, MiB, GiB a second)"));
        for wrong in ["99999999999999999999gbit", "18446745tbit", "3000000000g", &"9".repeat(400)] {
            assert!(limit(wrong).unwrap_err().contains("is too large for a rate"), "{wrong}");
        }
        assert_eq!(limit("18446744tbit"), Ok(Some(2_305_843_000_000_000_000)));
    }

    #[test]
    fn link_rates_and_times() {
        assert_eq!((bit_rate("10gbit"), bit_rate("2.5 Gbit/s")), (Ok(10_000_000_000), Ok(2_500_000_000)));
        assert_eq!(bit_rate("1kibit"), Ok(1024));
        assert!(bit_rate("10gbps").unwrap_err().contains("bytes per second"));
        for wrong in ["99999999999999999999gbit", "18446745tbit", &format!("{}bit", "9".repeat(400))] {
            assert!(bit_rate(wrong).unwrap_err().contains("between"), "{wrong}");
        }
        assert!(bit_rate("10").is_err() && bit_rate("10 GB").is_err() && bit_rate("").is_err());
        assert_eq!((seconds("200 ms"), seconds("5 min"), seconds("2")), (Ok(0.2), Ok(300.0), Ok(2.0)));
        assert!(seconds("1 d").unwrap_err().contains("write it as"));
    }
}
