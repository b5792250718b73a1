//! Keeps the output of a run that no terminal shows, so that it can be shown later.

use linerate_doctor::limiter::Verdict;
use serde::{Deserialize, Serialize};

/// The progress of a run at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sighting {
    /// Seconds since the first data connection was established.
    pub seconds: f64,
    /// The number of bytes that the receiver has.
    pub bytes: u64,
    /// The number of files that are in place.
    pub files: u64,
    pub found_files: u64,
    pub found_bytes: u64,
    /// True once the scan is complete.
    pub scanned: bool,
    pub limiter: String,
    /// The share of the time, from 0 to 1, for which the limiter was the limit.
    pub limiter_share: f64,
    pub limiter_evidence: String,
}

impl Sighting {
    /// A value that contains only the limiter.
    pub fn limited(limiter: &Verdict) -> Self {
        Self {
            limiter: limiter.limiter.name().to_owned(),
            limiter_share: limiter.share,
            limiter_evidence: limiter.to_string(),
            ..Self::default()
        }
    }
}

/// Keeps the output of a run for later.
pub trait Keeper: Send + Sync {
    /// Keeps an event, as a line of JSON.
    fn event(&self, line: String);
    /// Keeps the run's progress. Called a few times a second.
    fn progress(&self, sighting: Sighting);
    /// Keeps the last line of the run's output, and the progress at its end.
    fn last(&self, text: String, sighting: Sighting);
}
