//! Numbers in the text of evidence.

use linerate_quantity::{BitRate, Bytes, Seconds, Share};

/// A share of 0 to 1 in percent.
pub fn percent(share: f64) -> String {
    format!("{:#}", Share(share.clamp(0.0, 99.99)))
}

/// A rate in bits a second, for people.
pub fn rate(bits: f64) -> String {
    BitRate(bits).to_string()
}

/// A time in microseconds, for people.
pub fn time(micros: f64) -> String {
    format!("{:#}", Seconds(micros * 1e-6))
}

/// A number of bytes, for people.
pub fn bytes(bytes: f64) -> String {
    Bytes(bytes).to_string()
}

/// A part of a whole as a share; 0 if the whole is 0.
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
            ("9.41 Gbit/s".into(), "5.00 Mbit/s".into(), "1.00 kbit/s".into())
        );
        assert_eq!(
            (time(50_100.0), time(1500.0), time(80.0)),
            ("50 ms".into(), "1.5 ms".into(), "80 \u{b5}s".into())
        );
        assert_eq!((bytes(2.5e6), bytes(12.0)), ("2.50 MB".into(), "12 B".into()));
        assert_eq!((ratio(1.0, 0.0), ratio(1.0, 4.0)), (0.0, 0.25));
    }
}
