//! Numbers as text for people: three significant digits, units, counts.

pub(crate) use linerate_bench::out::{plain, thousands as grouped};

/// Three significant digits without an exponent where that is readable: `9.39`, `12.3`, `104`, `0.056`.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "–".to_owned(),
        _ if size >= 1e6 => format!("{value:.1e}"),
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        _ if size >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Four significant digits: for tables, where neighbours are compared.
pub(crate) fn fine(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "–".to_owned(),
        _ if size >= 1e9 => format!("{value:.3e}"),
        _ if size >= 999.95 || size == 0.0 => format!("{value:.0}"),
        _ if size >= 99.995 => format!("{value:.1}"),
        _ if size >= 9.9995 => format!("{value:.2}"),
        _ if size >= 0.99995 => format!("{value:.3}"),
        _ if size >= 0.000_1 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// The label of a tick: no trailing zeros.
pub(crate) fn tick(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 || (size < 1e-3 && size > 0.0) => format!("{value:.1e}"),
        _ => trim(format!("{value:.4}")),
    }
}

/// Bytes in decimal units: `1.02 GB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let value = count as f64;
    match UNITS.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{} {name}", short(value / unit)),
        None => format!("{count} B"),
    }
}

/// Bit/s as people say it: `10 Gbit/s`, `2.5 Gbit/s`, `100 Mbit/s`.
pub(crate) fn bits_per_second(rate: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let value = rate as f64;
    match UNITS.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{} {name}", tick(value / unit)),
        None => format!("{rate} bit/s"),
    }
}

/// A count with its noun: `1 run`, `5 runs`; thousands are set apart.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

fn trim(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_whatever_the_size() {
        let shown = [9.394, 12.34, 104.4, 0.5604, 0.056, 0.0, 9.999, 99.99, 1e9, 1e-9, f64::NAN].map(short);
        assert_eq!(
            shown,
            ["9.39", "12.3", "104", "0.56", "0.0560", "0.00", "10.0", "100", "1.0e9", "1.0e-9", "–"]
        );
    }

    #[test]
    fn four_digits_whatever_the_size() {
        let shown = [9.394_81, 23.521, 104.44, 0.560_44, 0.0, 43_210.4, 2e9, f64::NAN].map(fine);
        assert_eq!(shown, ["9.395", "23.52", "104.4", "0.5604", "0", "43210", "2.000e9", "–"]);
    }

    #[test]
    fn ticks_carry_no_trailing_zero() {
        assert_eq!([10.0, 2.5, 0.1, 0.0, 1000.0].map(tick), ["10", "2.5", "0.1", "0", "1000"]);
    }

    #[test]
    fn units_are_decimal() {
        assert_eq!(bytes(1_024_000_000), "1.02 GB");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bits_per_second(10_000_000_000), "10 Gbit/s");
        assert_eq!(bits_per_second(2_500_000_000), "2.5 Gbit/s");
        assert_eq!(count(1, "run", "runs"), "1 run");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
