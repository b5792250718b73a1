//! Figures in the text of evidence.

/// A share of 0 to 1 in percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", (100.0 * share).clamp(0.0, 9999.0))
}

/// Bits a second.
pub fn rate(bits: f64) -> String {
    match bits {
        1e9.. => format!("{:.2} Gbit/s", bits * 1e-9),
        1e6.. => format!("{:.1} Mbit/s", bits * 1e-6),
        _ => format!("{:.1} kbit/s", bits * 1e-3),
    }
}

/// A time given in microseconds.
pub fn time(micros: f64) -> String {
    match micros {
        1e6.. => format!("{:.2} s", micros * 1e-6),
        10e3.. => format!("{:.0} ms", micros * 1e-3),
        1e3.. => format!("{:.1} ms", micros * 1e-3),
        _ => format!("{micros:.0} \u{b5}s"),
    }
}

/// Bytes.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        1e9.. => format!("{:.1} GB", bytes * 1e-9),
        1e6.. => format!("{:.1} MB", bytes * 1e-6),
        1e3.. => format!("{:.0} kB", bytes * 1e-3),
        _ => format!("{bytes:.0} B"),
    }
}

/// A part of a whole; 0 where there is no whole.
pub fn ratio(part: f64, whole: f64) -> f64 {
    let ratio = part / whole;
    if whole > 0.0 && ratio.is_finite() { ratio } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_units() {
        assert_eq!(percent(0.984), "98 %");
        assert_eq!(
            (rate(9.41e9), rate(5e6), rate(1e3)),
            ("9.41 Gbit/s".into(), "5.0 Mbit/s".into(), "1.0 kbit/s".into())
        );
        assert_eq!(
            (time(50_100.0), time(1500.0), time(80.0)),
            ("50 ms".into(), "1.5 ms".into(), "80 \u{b5}s".into())
        );
        assert_eq!((bytes(2.5e6), bytes(12.0)), ("2.5 MB".into(), "12 B".into()));
        assert_eq!((ratio(1.0, 0.0), ratio(1.0, 4.0)), (0.0, 0.25));
    }
}
