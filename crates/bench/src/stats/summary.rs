//! One summary a case: what its runs come to.

use serde::Serialize;

use super::bootstrap::Estimate;
use super::figure::{figure, measures};
use crate::record::{Case, Outcome, Record};
use crate::spec::expression::Metric;

/// What the runs of a case come to.
#[derive(Clone, Debug, Serialize)]
pub struct CaseSummary {
    /// The case.
    pub case: Case,
    /// Payload Gbit/s.
    pub payload_rate: Option<Estimate>,
    /// Seconds of the whole command.
    pub seconds: Option<Estimate>,
    /// Busy percent of the sending host's processors.
    pub busy_percent: Option<Estimate>,
    /// CPU-seconds per 10^9 payload bytes, both ends.
    pub cpu_per_gb: Option<Estimate>,
    /// Transactions in a second, where the tool makes any.
    pub transaction_rate: Option<Estimate>,
    /// Median response time in microseconds.
    pub p50_us: Option<Estimate>,
    /// 99th percentile of the response times in microseconds.
    pub p99_us: Option<Estimate>,
    /// The tool's score, where it has one.
    pub score: Option<Estimate>,
    /// The level that a search found before each run: the number of users that brings the most.
    pub found: Option<Estimate>,
    /// The parameter that was searched.
    pub searched: Option<String>,
    /// The case's main figure (score, transaction rate or payload rate) over the baseline's, taken inside
    /// each block; only on the same link and files.
    pub ratio: Option<Estimate>,
    /// Payload bytes of a good run.
    pub bytes: Option<u64>,
    /// The largest peak resident memory of any run, in bytes.
    pub peak_rss_bytes: Option<u64>,
    /// Streams at the end, where the tool states them (the last run's).
    pub streams: Option<u32>,
    /// Runs that something else disturbed.
    pub disturbed: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Why the first bad run gave nothing.
    pub reason: Option<String>,
}

/// The summaries of all cases, in the study's order; ratios are to `baseline`, where there is one.
pub fn summaries(record: &Record, baseline: Option<&str>) -> Vec<CaseSummary> {
    record.cases.iter().map(|case| summary(record, case, baseline)).collect()
}

fn summary(record: &Record, case: &Case, baseline: Option<&str>) -> CaseSummary {
    let base = baseline.and_then(|id| record.cases.iter().find(|base| base.id == id));
    let comparable = base.filter(|base| is_comparable(case, base));
    let over_blocks = |value: &dyn Fn(u32) -> Option<f64>| {
        let values: Vec<f64> = (0..record.blocks).filter_map(value).collect();
        Estimate::of(&values, record.seed)
    };
    let estimate = |metric| over_blocks(&|block| figure(record, metric, &case.id, block));
    let rate =
        |case: &str, block| figure(record, Metric::PayloadRate, case, block).filter(|rate| *rate > 0.0);
    let good = || (0..record.blocks).filter_map(|block| measures(record, &case.id, block));
    let reasons: Vec<&str> = record.runs.iter().filter(|run| run.case == case.id).filter_map(bad).collect();
    CaseSummary {
        payload_rate: over_blocks(&|block| rate(&case.id, block)),
        seconds: estimate(Metric::Seconds),
        busy_percent: estimate(Metric::BusyPercent),
        cpu_per_gb: estimate(Metric::CpuPerGb),
        transaction_rate: estimate(Metric::TransactionRate),
        p50_us: estimate(Metric::P50),
        p99_us: estimate(Metric::P99),
        score: estimate(Metric::Score),
        found: estimate(Metric::Found),
        searched: good().find_map(|run| run.found.as_ref()).map(|found| found.parameter.clone()),
        ratio: comparable.and_then(|base| ratio(record, &case.id, &base.id)),
        bytes: good().map(|run| run.bytes).max(),
        peak_rss_bytes: good().filter_map(|run| run.peak_rss_bytes).max(),
        streams: good().filter_map(|run| run.streams).next_back(),
        disturbed: good().filter(|run| run.disturbed.is_some()).count(),
        failed: reasons.len(),
        reason: reasons.first().map(|reason| (*reason).to_owned()),
        case: case.clone(),
    }
}

/// The ratio of the first figure that both cases have.
fn ratio(record: &Record, case: &str, base: &str) -> Option<Estimate> {
    let of = |metric| {
        let value = |id: &str, block| figure(record, metric, id, block);
        Estimate::of(&paired_ratios(record.blocks, &value, case, base), record.seed)
    };
    [Metric::Score, Metric::TransactionRate, Metric::PayloadRate].into_iter().find_map(of)
}

/// One ratio for each block in which both cases have the figure, taken inside it.
pub(crate) fn paired_ratios(
    blocks: u32,
    value: &impl Fn(&str, u32) -> Option<f64>,
    case: &str,
    base: &str,
) -> Vec<f64> {
    let positive = |id, block| value(id, block).filter(|value| *value > 0.0);
    let ratio = |block| Some(positive(case, block)? / positive(base, block)?);
    (0..blocks).filter_map(ratio).collect()
}

/// Rates over other files or another link say nothing beside one another.
pub(crate) fn is_comparable(case: &Case, base: &Case) -> bool {
    base.link == case.link && has_its_files(case, base)
}

/// The same files, or none.
pub(crate) fn has_its_files(case: &Case, base: &Case) -> bool {
    case.dataset.is_none() || case.dataset == base.dataset
}

fn bad(run: &crate::record::Run) -> Option<&str> {
    match &run.outcome {
        Outcome::Measured(_) => None,
        Outcome::Failed { reason } | Outcome::Unavailable { reason } => Some(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{measured, record, run};

    #[test]
    fn a_ratio_is_taken_on_the_same_link_and_files_only() {
        let runs = ["cp", "scp", "open"]
            .map(|case| run(case, 0, measured(if case == "scp" { 3.0 } else { 9.0 }, 1.0)));
        let mut record = record(&["cp", "scp", "open"], 1, runs.to_vec());
        record.cases[2].link = "open".into();
        let ratio = |record: &Record, i: usize| {
            summaries(record, Some("scp"))[i].ratio.map(|ratio| (ratio.median * 1000.0).round() / 1000.0)
        };
        assert_eq!((ratio(&record, 0), ratio(&record, 1), ratio(&record, 2)), (Some(3.0), Some(1.0), None));
        record.cases[0].dataset = Some("small".into());
        assert_eq!(ratio(&record, 0), None);
        assert!(summaries(&record, None)[1].ratio.is_none());
    }
}
