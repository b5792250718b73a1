//! A round-trip time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The round-trip time that a link adds, 0 to 1 s. Its text is a number with a unit: `50ms`, `0.5s` or `200us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rtt(u64);

/// The error for a text that isn't an [`Rtt`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} isn't a round-trip time; write a number and us, ms or s, up to 1s, such as 50ms")]
pub struct RttError(String);

const UNITS: [(&str, u64); 4] = [("us", 1000), ("ms", 1_000_000), ("ns", 1), ("s", 1_000_000_000)];
const LONGEST: u64 = 1_000_000_000;

impl Rtt {
    /// The round-trip time as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) fn ns(self) -> u64 {
        self.0
    }

    pub(crate) fn one_way_ns(self) -> u64 {
        self.0 / 2
    }
}

impl FromStr for Rtt {
    type Err = RttError;

    fn from_str(text: &str) -> Result<Self, RttError> {
        let error = || RttError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let (name, factor) = UNITS.into_iter().find(|(name, _)| lower.ends_with(name)).ok_or_else(error)?;
        let number = lower.strip_suffix(name).unwrap_or_default().trim_end();
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number: f64 = number.parse().ok().filter(|_| plain).ok_or_else(error)?;
        let ns = (number * factor as f64).round();
        if ns <= LONGEST as f64 { Ok(Self(ns as u64)) } else { Err(error()) }
    }
}

impl fmt::Display for Rtt {
    /// Writes the shortest exact text, which parses to the same time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.0 {
            ns if ns.is_multiple_of(1_000_000_000) && ns > 0 => (ns as f64 / 1e9, "s"),
            ns if ns >= 1_000_000 || ns == 0 => (ns as f64 / 1e6, "ms"),
            ns => (ns as f64 / 1e3, "us"),
        };
        write!(f, "{number}{unit}")
    }
}

impl TryFrom<String> for Rtt {
    type Error = RttError;

    fn try_from(text: String) -> Result<Self, RttError> {
        text.parse()
    }
}

impl From<Rtt> for String {
    fn from(rtt: Rtt) -> Self {
        rtt.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, ns) in [
            ("50ms", 50_000_000),
            ("0.5s", 500_000_000),
            ("200us", 200_000),
            ("0ms", 0),
            ("1 s", 1_000_000_000),
            ("12.345ms", 12_345_000),
        ] {
            let rtt: Rtt = text.parse().expect(text);
            assert_eq!(rtt.ns(), ns, "{text}");
            assert_eq!(rtt.to_string().parse(), Ok(rtt), "{rtt}");
        }
        assert_eq!("0.05s".parse::<Rtt>().expect("a time").to_string(), "50ms");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "50", "ms", "-1ms", "1.1s", "1e9ms", "nanms", "fast", "1.2.3s"] {
            assert!(text.parse::<Rtt>().is_err(), "{text}");
        }
    }
}
