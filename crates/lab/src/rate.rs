//! A link's rate, in the notation of tc(8).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The rate of a link in bits per second, Ethernet headers included. The rate is never zero.
///
/// Its text is in the notation of tc(8): [`linerate_quantity::bit_rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(u64);

/// The error for a text that isn't a [`Rate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a link rate: {reason}; write a number and a unit, such as 10gbit, 2.5gbit or 100mbit, or open for an unshaped link"
)]
pub struct RateError {
    text: String,
    reason: &'static str,
}

/// Units of rates, in the order in which they are tried to get the shortest exact text.
const UNITS: [(&str, u64); 9] = [
    ("tbit", 1_000_000_000_000),
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1000),
    ("tibit", 1 << 40),
    ("gibit", 1 << 30),
    ("mibit", 1 << 20),
    ("kibit", 1 << 10),
    ("bit", 1),
];

/// The allowed rates, in bit/s. Their bursts fit in tbf's 32-bit fields and in memory. No real link is near either
/// bound.
const BOUNDS: std::ops::RangeInclusive<u64> = 8_000..=1_000_000_000_000;

/// The burst, in bytes, with which tbf reaches 10 Gbit/s on a busy host: the bytes of 3.4 ms at that rate.
const BURST_AT_10_GBIT: u128 = 4 << 20;

/// The smallest burst in bytes: two super-packets of 64 KiB. With a smaller burst, tbf would have to split
/// super-packets.
const LEAST_BURST: u64 = 128 << 10;

impl Rate {
    /// The rate in bits per second.
    pub fn bits_per_second(self) -> u64 {
        self.0
    }

    /// The bytes that a token bucket at this rate lets pass at once: those of 3.4 ms, but at least 128 KiB.
    pub fn burst(self) -> u64 {
        let scaled = u128::from(self.0) * BURST_AT_10_GBIT / 10_000_000_000;
        u64::try_from(scaled).unwrap_or(u64::MAX).max(LEAST_BURST)
    }
}

/// Parses the value of `--link`: a rate, or `open` for a link without a shaper.
///
/// # Errors
/// [`RateError`] for any other text.
pub fn parse_link(text: &str) -> Result<Option<Rate>, RateError> {
    if text.trim().eq_ignore_ascii_case("open") { Ok(None) } else { text.parse().map(Some) }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let error = |reason| RateError { text: text.to_owned(), reason };
        let bits = linerate_quantity::bit_rate(text).map_err(error)?;
        if BOUNDS.contains(&bits) { Ok(Self(bits)) } else { Err(error("it isn't between 8kbit and 1tbit")) }
    }
}

impl fmt::Display for Rate {
    /// Writes the shortest exact text, which parses to the same rate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |factor: u64| self.0 >= factor && (self.0 % factor * 1000).is_multiple_of(factor);
        let (name, factor) = UNITS.into_iter().find(|(_, factor)| fits(*factor)).unwrap_or(("bit", 1));
        let thousandths = format!("{:03}", self.0 % factor * 1000 / factor);
        let fraction = thousandths.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{}{point}{fraction}{name}", self.0 / factor)
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;

    fn try_from(text: String) -> Result<Self, RateError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_tc() {
        for (text, bits) in [
            ("10gbit", 10_000_000_000),
            ("1gbit", 1_000_000_000),
            ("100mbit", 100_000_000),
            ("2.5gbit", 2_500_000_000),
            (" 10 Gbit ", 10_000_000_000),
            ("64kbit", 64_000),
            ("8000bit", 8_000),
            ("1gibit", 1 << 30),
            ("0.1tbit", 100_000_000_000),
        ] {
            assert_eq!(text.parse::<Rate>().map(Rate::bits_per_second), Ok(bits), "{text}");
        }
    }

    #[test]
    fn refused_with_the_reason() {
        for (text, reason) in [
            ("", "start with a number"),
            ("10", "unit is missing"),
            ("10gbps", "bytes per second"),
            ("10parsec", "isn't known"),
            ("gbit", "start with a number"),
            ("-1gbit", "start with a number"),
            ("1.2.3gbit", "start with a number"),
            ("infgbit", "start with a number"),
            ("0gbit", "between"),
            ("99999999999999999999999tbit", "between"),
        ] {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn open_is_no_rate() {
        assert_eq!(parse_link("open"), Ok(None));
        assert_eq!(parse_link("1gbit"), Ok(Some(Rate(1_000_000_000))));
        assert!(parse_link("closed").is_err());
    }

    #[test]
    fn shown_as_written() {
        for text in ["10gbit", "2.5gbit", "100mbit", "64kbit", "8.001kbit", "1tbit", "9.999gbit"] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
        for text in ["1gibit", "12345678901bit", "8001bit", "3mibit"] {
            let rate = text.parse::<Rate>().expect(text);
            assert_eq!(rate.to_string().parse(), Ok(rate), "{text} shown as {rate}");
        }
    }

    #[test]
    fn burst_follows_the_rate() {
        let burst = |text: &str| text.parse::<Rate>().expect(text).burst();
        assert_eq!(burst("10gbit"), 4 << 20);
        assert_eq!(burst("40gbit"), 16 << 20);
        assert_eq!(burst("10mbit"), 128 << 10);
    }
}
