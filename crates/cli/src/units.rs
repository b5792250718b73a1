//! Quantities as users write and read them.

pub use linerate_bench::out::thousands as show_count;
use std::time::Duration;

/// Bytes of a size: `1G`, `1GB` (powers of ten), `1GiB` (powers of two), `300`.
///
/// # Errors
/// A message that says what is understood.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) =
        split(text).ok_or_else(|| format!("'{text}' isn't a size; write 500M, 1GB or 1GiB"))?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return Err(format!("'{unit}' isn't a unit of size; write k, M, G, T, KiB, MiB, GiB or TiB")),
    };
    Ok((number * factor) as u64)
}

/// Bytes a second of a rate: as rsync's `--bwlimit` (a bare number is KiB/s; `10m` is MiB/s), or bits with
/// `bit` (`500mbit`, `2.5gbit`). Zero is no limit.
///
/// # Errors
/// A message that says what is understood.
pub fn parse_rate(text: &str) -> Result<Option<u64>, String> {
    let (number, unit) =
        split(text).ok_or_else(|| format!("'{text}' isn't a rate; write 20m (MiB a second) or 500mbit"))?;
    let bytes = match unit.to_ascii_lowercase().as_str() {
        "b" => number,
        "" | "k" | "kib" => number * 1024.0,
        "m" | "mib" => number * 1024f64.powi(2),
        "g" | "gib" => number * 1024f64.powi(3),
        "kb" => number * 1e3,
        "mb" => number * 1e6,
        "gb" => number * 1e9,
        "kbit" => number * 125.0,
        "mbit" => number * 125e3,
        "gbit" => number * 125e6,
        _ => {
            return Err(format!(
                "'{unit}' isn't a unit of rate; write k, m, g (KiB, MiB, GiB a second) or mbit, gbit"
            ));
        }
    };
    if bytes == 0.0 { Ok(None) } else { Ok(Some((bytes as u64).max(1))) }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Two TCP ports, `FIRST-LAST` or one.
///
/// # Errors
/// A message that says what is understood.
pub fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("'{text}' isn't a range of ports; write 50000-50010");
    let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
    let (first, last) =
        (first.trim().parse().map_err(|_| wrong())?, last.trim().parse().map_err(|_| wrong())?);
    if first == 0 || first > last { Err(wrong()) } else { Ok((first, last)) }
}

/// A number of streams, or `auto`.
///
/// # Errors
/// A message that says what is understood.
pub fn parse_streams(text: &str) -> Result<Option<u32>, String> {
    if text == "auto" {
        return Ok(None);
    }
    match text.parse() {
        Ok(streams @ 1..=64) => Ok(Some(streams)),
        _ => Err(format!("'{text}' isn't a number of streams; write 1 to 64, or auto")),
    }
}

/// Bytes for people, in powers of ten: `2.05 GB`.
pub fn show_bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", value * 1e-3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value * 1e-6),
        1_000_000_000..1_000_000_000_000 => format!("{:.2} GB", value * 1e-9),
        _ => format!("{:.2} TB", value * 1e-12),
    }
}

/// A payload rate for people: `9.41 Gbit/s`.
pub fn show_rate(bytes: u64, seconds: f64) -> String {
    let bits = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    if bits >= 1e9 { format!("{:.2} Gbit/s", bits * 1e-9) } else { format!("{:.1} Mbit/s", bits * 1e-6) }
}

/// A duration for people: `1.75 s`, `3 min 20 s`.
pub fn show_time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_secs() {
        0..60 => format!("{seconds:.2} s"),
        whole @ 60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        whole => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_read_with_their_units() {
        assert_eq!(parse_size("1.5GB"), Ok(1_500_000_000));
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert!(parse_size("many").is_err() && parse_size("1x").is_err());
        assert_eq!(parse_rate("100"), Ok(Some(102_400)));
        assert_eq!(parse_rate("1gbit"), Ok(Some(125_000_000)));
        assert_eq!(parse_rate("0"), Ok(None));
        assert!(parse_rate("fast").is_err());
    }

    #[test]
    fn ports_and_streams_have_bounds() {
        assert_eq!(parse_ports("50000-50010"), Ok((50000, 50010)));
        assert_eq!(parse_ports("443"), Ok((443, 443)));
        assert!(parse_ports("9-1").is_err() && parse_ports("70000").is_err() && parse_ports("0").is_err());
        assert_eq!(parse_streams("auto"), Ok(None));
        assert!(parse_streams("0").is_err() && parse_streams("65").is_err());
    }

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(show_count(12), "12");
        assert_eq!(show_bytes(2_050_000_000), "2.05 GB");
        assert_eq!(show_rate(1_250_000_000, 1.0), "10.00 Gbit/s");
        assert_eq!(show_time(Duration::from_secs(200)), "3 min 20 s");
    }
}
