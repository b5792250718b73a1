//! Formats numbers for the page and its figures.

use linerate_quantity::{BitRate, Bytes};
pub(crate) use linerate_quantity::{
    count as grouped, counted as count, exact as tick, plain, three as short,
};

/// A number with four significant digits, for tables of similar values.
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

/// A number of bytes in decimal units, for example `1.02 GB`.
pub(crate) fn bytes(count: u64) -> String {
    Bytes::of(count).to_string()
}

/// A configured rate, given in bit/s, for example `10 Gbit/s` or `2.5 Gbit/s`.
pub(crate) fn bits_per_second(rate: u64) -> String {
    format!("{:#}", BitRate(rate as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_whatever_the_size() {
        let shown = [9.394_81, 23.521, 104.44, 0.560_44, 0.0, 43_210.4, 2e9, f64::NAN].map(fine);
        assert_eq!(shown, ["9.395", "23.52", "104.4", "0.5604", "0", "43210", "2.000e9", "–"]);
    }
}
