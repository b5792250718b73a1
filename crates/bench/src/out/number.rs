//! Numbers for people.

use std::time::Duration;

/// Three significant digits, without an exponent: `9.41`, `0.984`, `12.3`, `1250`.
pub(crate) fn three(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match () {
        () if magnitude >= 99.95 => 0,
        () if magnitude >= 9.995 => 1,
        () if magnitude >= 0.9995 || magnitude == 0.0 => 2,
        () => 3,
    };
    let text = format!("{value:.decimals$}");
    // A small negative that rounds to nothing isn't less than nothing.
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        text.replace('-', "")
    } else {
        text
    }
}

/// Two decimals, so that a column's figures stand below one another; more for what is small, fewer for what is large.
pub fn plain(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 999.5 || (magnitude > 0.0 && magnitude < 0.0995) {
        three(value)
    } else {
        format!("{value:.2}")
    }
}

/// Bytes in the decimal unit that suits them: `1.00 GB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{} {name}", three(bytes as f64 / *unit as f64)),
        None => format!("{bytes} B"),
    }
}

/// So many files: `1 file`, `20,000 files`.
pub(crate) fn files(number: u64) -> String {
    format!("{} file{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// A time of day's length: `45 s`, `3 min`, `1 h 5 min`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match seconds {
        0..=89 => format!("{seconds} s"),
        90..=5399 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A whole number with its thousands apart: `20,000`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let cases = [
            (9.414, "9.41"),
            (0.98431, "0.984"),
            (12.34, "12.3"),
            (1250.4, "1250"),
            (0.0, "0.00"),
            (99.96, "100"),
        ];
        for (value, text) in cases {
            assert_eq!(three(value), text);
        }
        assert_eq!(
            [9.414, 12.345, 0.63, 0.0123, 4321.0].map(plain),
            ["9.41", "12.35", "0.63", "0.012", "4321"]
        );
        assert_eq!(three(-0.0001), "0.000");
        assert_eq!(
            (size(999), size(1_000_000_000), size(12_345_678)),
            ("999 B".into(), "1.00 GB".into(), "12.3 MB".into())
        );
        assert_eq!(duration(Duration::from_secs(200)), "3 min");
        assert_eq!(duration(Duration::from_millis(44_600)), "45 s");
        assert_eq!(duration(Duration::from_secs(3900)), "65 min");
        assert_eq!(duration(Duration::from_secs(7500)), "2 h 5 min");
        assert_eq!(
            (thousands(1), thousands(20_000), thousands(1_234_567)),
            ("1".into(), "20,000".into(), "1,234,567".into())
        );
    }
}
