//! The numbers of a comparison, in the metrics and in the log of its run.

use super::log::{self, RunFigures};
use super::metrics::{Gauge, RunMetrics};

/// The numbers of trees that were compared.
#[derive(Debug, Default)]
pub struct ComparedFigures {
    /// Entries at both ends.
    pub entries: u64,
    /// Bytes of files that are the same.
    pub bytes: u64,
    /// Entries at both ends that differ.
    pub differ: u64,
    /// Entries that the destination lacks.
    pub missing: u64,
    /// Entries that only the destination has; `None` if the comparison didn't look for them.
    pub extra: Option<u64>,
    /// Entries that couldn't be read.
    pub failed: u64,
    /// Files that changed while they were read.
    pub changed: u64,
}

impl ComparedFigures {
    /// Puts the numbers into the run's metrics and log; `text` is the result for people.
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
