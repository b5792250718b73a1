//! Random loss of segments.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The share of segments that a link loses, 0 to 50 %, in steps of a billionth.
///
/// Its text is a percentage: `0.01%`. A number without `%` is refused, because it could be a share or a
/// percentage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Loss(u32);

/// The error for a text that isn't a [`Loss`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} isn't a share of segments to lose; write a percentage from 0% to 50%, such as 0.01%")]
pub struct LossError(String);

/// Billionths in a percent.
const PERCENT: f64 = 1e7;

impl Loss {
    /// The share, 0 to 0.5.
    pub fn share(self) -> f64 {
        f64::from(self.0) * 1e-9
    }
}

impl FromStr for Loss {
    type Err = LossError;

    fn from_str(text: &str) -> Result<Self, LossError> {
        let error = || LossError(text.to_owned());
        let number = text.trim().strip_suffix('%').ok_or_else(error)?.trim_end();
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent: f64 = number.parse().ok().filter(|_| plain).ok_or_else(error)?;
        if (0.0..=50.0).contains(&percent) {
            Ok(Self((percent * PERCENT).round() as u32))
        } else {
            Err(error())
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / PERCENT)
    }
}

impl TryFrom<String> for Loss {
    type Error = LossError;

    fn try_from(text: String) -> Result<Self, LossError> {
        text.parse()
    }
}

impl From<Loss> for String {
    fn from(loss: Loss) -> Self {
        loss.to_string()
    }
}

/// Decides for each segment in turn if it is lost, by independent random draws. The same seed gives the same
/// draws.
#[derive(Debug)]
pub(crate) struct LossDraws {
    share: f64,
    rng: fastrand::Rng,
    /// The number of segments that pass before the next lost one.
    left: u64,
}

impl LossDraws {
    pub(crate) fn new(loss: Loss, seed: u64) -> Self {
        let mut losses = Self { share: loss.share(), rng: fastrand::Rng::with_seed(seed), left: 0 };
        losses.left = losses.draw();
        losses
    }

    /// The number of the next `segments` segments that pass before one is lost. The draw of the lost segment is also
    /// consumed. Returns `segments` if none is lost.
    pub(crate) fn pass(&mut self, segments: usize) -> usize {
        if let Some(left) = self.left.checked_sub(segments as u64) {
            self.left = left;
            return segments;
        }
        let passed = self.left as usize;
        self.left = self.draw();
        passed
    }

    /// The number of independent draws that succeed before one fails. This draws from the geometric
    /// distribution by the inverse of its distribution function.
    fn draw(&mut self) -> u64 {
        if self.share == 0.0 {
            return u64::MAX;
        }
        // 1 - f64() is above zero, so its logarithm is finite. A huge quotient saturates.
        ((1.0 - self.rng.f64()).ln() / (-self.share).ln_1p()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(text: &str) -> Loss {
        text.parse().expect(text)
    }

    /// The number of lost segments among `segments`, if they come in super-packets of `size` segments.
    fn lost(losses: &mut LossDraws, segments: usize, size: usize) -> usize {
        let mut lost = 0;
        for _ in 0..segments / size {
            let mut rest = size;
            while rest > 0 {
                let passed = losses.pass(rest);
                lost += usize::from(passed < rest);
                rest -= (passed + 1).min(rest);
            }
        }
        lost
    }

    #[test]
    fn shares_are_percentages() {
        for (text, share) in
            [("0.01%", 1e-4), ("0%", 0.0), ("50 %", 0.5), ("0.000001%", 1e-8), ("2.5%", 0.025)]
        {
            assert!((loss(text).share() - share).abs() < 1e-12, "{text}");
            assert_eq!(loss(text).to_string().parse(), Ok(loss(text)), "{text}");
        }
        for text in ["", "%", "0.01", "-1%", "51%", "nan%", "inf%", "1e1%", "1.2.3%", "half"] {
            assert!(text.parse::<Loss>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_share_is_lost_whatever_the_packets() {
        for (text, segments) in [("0.01%", 20_000_000), ("1%", 1_000_000), ("50%", 100_000)] {
            for size in [1, 7, 45] {
                let expected = loss(text).share() * segments as f64;
                let counted = lost(&mut LossDraws::new(loss(text), 7), segments, size) as f64;
                let deviation = (expected * (1.0 - loss(text).share())).sqrt();
                assert!((counted - expected).abs() < 5.0 * deviation, "{text} by {size}: {counted}");
            }
        }
    }

    #[test]
    fn which_are_lost_depends_on_the_seed_and_not_on_the_packets() {
        let positions = |seed, size: usize| {
            let mut losses = LossDraws::new(loss("1%"), seed);
            let (mut at, mut found) = (0, Vec::new());
            while at < 10_000 {
                let rest = size - at % size;
                let passed = losses.pass(rest);
                if passed < rest {
                    found.push(at + passed);
                }
                at += (passed + 1).min(rest);
            }
            found
        };
        assert_eq!(positions(3, 1), positions(3, 50));
        assert_ne!(positions(3, 1), positions(4, 1));
    }

    #[test]
    fn nothing_is_lost_where_nothing_should_be() {
        assert_eq!(lost(&mut LossDraws::new(Loss::default(), 1), 1_000_000, 10), 0);
    }
}
