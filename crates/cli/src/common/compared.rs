//! The numbers that a comparison of trees has found, for the metrics and the log of a run.

use super::log::{self, RunFigures};
use super::metrics::{Gauge, RunMetrics};

/// The numbers that a comparison of trees has found.
#[derive(Debug, Default)]
pub struct ComparedFigures {
    /// The number of entries that exist at both ends.
    pub entries: u64,
    /// The bytes of files whose contents are equal.
    pub bytes: u64,
    /// The number of entries that exist at both ends and differ.
    pub differ: u64,
    /// The number of entries that the destination lacks.
    pub missing: u64,
    /// The number of entries that only the destination has; `None` if the comparison didn't look for them.
    pub extra: Option<u64>,
    /// The number of entries that couldn't be read.
    pub failed: u64,
    /// The number of files that changed while they were read.
    pub changed: u64,
}

impl ComparedFigures {
    /// Adds the numbers to the run's metrics and log; `text` is the result as a sentence.
    pub fn record(&self, metrics: &RunMetrics, text: &str) {
        metrics.set(Gauge::VerifyCompared, &[], self.entries as f64);
        metrics.set(Gauge::VerifySameBytes, &[], self.bytes as f64);
        let extra = self.extra.map(|extra| ("extra", extra));
        let kinds = [("differs", self.differ), ("missing", self.missing)].into_iter().chain(extra);
        metrics.by_kind(Gauge::VerifyDifferences, kinds);
        let problems = [("failed", self.failed), ("changed", self.changed)];
        metrics.by_kind(Gauge::VerifyProblems, problems);
        let mut numbers = vec![
            ("compared", self.entries),
            ("bytes", self.bytes),
            ("differ", self.differ),
            ("missing", self.missing),
        ];
        numbers.extend(extra.into_iter().chain(problems));
        log::sum_up(RunFigures { text: text.to_owned(), numbers });
    }
}
