//! Limits how often the other end may report its counters. An honest end reports them ten times a second.

use std::time::{Duration, Instant};

/// More reports than this in less than [`SPELL`] are a flood. When a stopped end continues, up to a tenth of
/// this number may wait in its pipes.
const MOST_REPORTS: u32 = 1_000_000;
const SPELL: Duration = Duration::from_secs(1000);

/// Counts the reports in the current period.
pub(super) struct FloodGuard {
    since: Instant,
    count: u32,
}

impl FloodGuard {
    /// A guard that has counted no report.
    pub fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Counts a report; false if there were too many reports in the current period.
    pub fn is_welcome(&mut self) -> bool {
        if self.since.elapsed() >= SPELL {
            *self = Self::new();
        }
        self.count += 1;
        self.count <= MOST_REPORTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_not_welcome_and_a_new_spell_is() {
        let mut reports = FloodGuard::new();
        assert!((0..MOST_REPORTS).all(|_| reports.is_welcome()));
        assert!(!reports.is_welcome());
        let long_ago = Instant::now() - SPELL;
        reports.since = long_ago;
        assert!(reports.is_welcome());
    }
}
