//! A run whose output is kept for later, since no terminal shows it now.

use linerate_doctor::limiter::Verdict;
use serde::{Deserialize, Serialize};

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sighting {
    /// Seconds since the first data connection.
    pub seconds: f64,
    /// Bytes that the receiver has.
    pub bytes: u64,
    /// Files in place.
    pub files: u64,
    pub found_files: u64,
    pub found_bytes: u64,
    /// The scan is over.
    pub scanned: bool,
    pub limiter: String,
    /// The share of the time for which it limits, 0 to 1.
    pub limiter_share: f64,
    pub limiter_evidence: String,
}

impl Sighting {
    /// A progress with only the limiter.
    pub fn limited(limiter: &Verdict) -> Self {
        Self {
            limiter: limiter.limiter.name().to_owned(),
            limiter_share: limiter.share,
            limiter_evidence: limiter.to_string(),
            ..Self::default()
        }
    }
}

/// Keeps the output of a run.
pub trait Keeper: Send + Sync {
    /// A line of JSON.
    fn event(&self, line: String);
    /// The run's progress; called a few times a second.
    fn progress(&self, sighting: Sighting);
    /// The last line for people, and the progress at the run's end.
    fn last(&self, text: String, sighting: Sighting);
}
