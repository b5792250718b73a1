//! Summarises the runs of each case.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bootstrap::Estimate;
use super::figure::{estimate, good_runs, ratio, ratios, runs};
use crate::metric::Metric;
use crate::record::{Case, Outcome, Record};

/// The statistics of a case's runs that tables, JSON, pages and figures show.
#[derive(Clone, Debug, Serialize)]
pub struct CaseSummary {
    /// The case.
    pub case: Case,
    /// The estimates over blocks of the metrics that have values.
    #[serde(flatten)]
    pub estimates: BTreeMap<Metric, Option<Estimate>>,
    /// The parameter whose best level was searched for, if there was a search.
    pub searched: Option<String>,
    /// The case's main metric (score, transaction rate or payload rate) divided by the baseline's, computed within each
    /// block; `None` unless both cases have the same link, and the case moves the baseline's files or no files.
    pub ratio: Option<Estimate>,
    /// The payload rate in percent of the rate of the best synthetic stream on the same link, computed within each
    /// block; `None` for cases that don't move files.
    pub stream_percent: Option<Estimate>,
    /// Payload bytes of a good run.
    pub bytes: Option<u64>,
    /// The largest peak resident memory of any run, in bytes.
    pub peak_rss_bytes: Option<u64>,
    /// The number of streams at the end of the last run, if the tool reports it.
    pub streams: Option<u32>,
    /// The number of good runs.
    pub measured: usize,
    /// The number of disturbed runs.
    pub disturbed: usize,
    /// The number of runs without values: those that failed, and those that weren't possible.
    pub failed: usize,
    /// The reason why the first bad run gave no values.
    pub reason: Option<String>,
}

impl CaseSummary {
    /// The estimate of a metric.
    pub fn of(&self, metric: Metric) -> Option<Estimate> {
        *self.estimates.get(&metric)?
    }

    /// The main metric of the case.
    pub fn main(&self) -> Option<Metric> {
        Metric::MAIN.into_iter().find(|metric| self.of(*metric).is_some())
    }
}

/// The summaries of all cases, in the study's order. Ratios are relative to `baseline`, if there is one.
pub fn summaries(record: &Record, baseline: Option<&str>) -> Vec<CaseSummary> {
    let mut all: Vec<CaseSummary> = record.cases.iter().map(|case| summary(record, case, baseline)).collect();
    for at in 0..all.len() {
        all[at].stream_percent = stream_percent(record, &all, &all[at].case);
    }
    all
}

/// The case with the highest rate among the synthetic streams on a link. Synthetic streams are cases that move data
/// from memory to memory, make no requests and have no score.
pub fn best_stream<'s>(
    all: impl IntoIterator<Item = &'s CaseSummary>,
    link: &str,
) -> Option<&'s CaseSummary> {
    let synthetic = |summary: &&CaseSummary| {
        summary.case.link == link
            && summary.case.dataset.is_none()
            && summary.main() == Some(Metric::PayloadRate)
    };
    let rate = |summary: &CaseSummary| summary.of(Metric::PayloadRate).map_or(0.0, |rate| rate.median);
    all.into_iter().filter(synthetic).max_by(|left, right| rate(left).total_cmp(&rate(right)))
}

fn stream_percent(record: &Record, all: &[CaseSummary], case: &Case) -> Option<Estimate> {
    let stream = best_stream(all, &case.link).filter(|_| case.dataset.is_some())?;
    let percent = |ratio: f64| 100.0 * ratio;
    let ratios = ratios(record, Metric::PayloadRate, &case.id, &stream.case.id);
    Estimate::of(&ratios.into_iter().map(percent).collect::<Vec<_>>(), record.seed)
}

fn summary(record: &Record, case: &Case, baseline: Option<&str>) -> CaseSummary {
    let base = baseline.and_then(|id| record.cases.iter().find(|base| base.id == id));
    let comparable = base.filter(|base| is_comparable(case, base));
    let of = |metric: Metric| estimate(record, &case.id, |run| metric.shown(run, record.counts_cpu_once()));
    // For bytes and memory, the largest value counts instead of the median.
    let medians = Metric::all().filter(|metric| !matches!(metric, Metric::Bytes | Metric::PeakRss));
    let ratio =
        |base: &Case| Metric::MAIN.into_iter().find_map(|main| ratio(record, main, &case.id, &base.id));
    let good = || good_runs(record, &case.id).map(|(_, run)| run);
    let reasons: Vec<&str> = runs(record, &case.id).filter_map(bad).collect();
    CaseSummary {
        estimates: medians.map(|metric| (metric, of(metric))).collect(),
        searched: good().find_map(|run| run.found.as_ref()).map(|found| found.parameter.clone()),
        ratio: comparable.and_then(ratio),
        stream_percent: None,
        bytes: good().map(|run| run.bytes).max(),
        peak_rss_bytes: good().filter_map(|run| run.peak_rss_bytes).max(),
        streams: good().filter_map(|run| run.streams).last(),
        measured: good().count(),
        disturbed: good().filter(|run| run.disturbed.is_some()).count(),
        failed: reasons.len(),
        reason: reasons.first().map(|reason| (*reason).to_owned()),
        case: case.clone(),
    }
}

/// True if the rates of two cases can be compared: both use the same link, and `case` moves the same files as `base` or
/// no files.
pub(crate) fn is_comparable(case: &Case, base: &Case) -> bool {
    base.link == case.link && has_its_files(case, base)
}

/// True if a case moves the same files as `base`, or moves no files.
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

    #[test]
    fn files_are_set_beside_the_fastest_stream_of_their_link() {
        let rates = [("cp", 9.0), ("slow", 5.0), ("fast", 10.0), ("open", 40.0)];
        let runs = rates.map(|(case, rate)| run(case, 0, measured(rate, 1.0)));
        let mut record = record(&rates.map(|(case, _)| case), 1, runs.to_vec());
        record.cases[0].dataset = Some("tree".into());
        record.cases[3].link = "open".into();
        let all = summaries(&record, None);
        assert!((all[0].stream_percent.unwrap().median - 90.0).abs() < 1e-6);
        assert!(all[1..].iter().all(|stream| stream.stream_percent.is_none()));
        record.cases[0].link = "other".into();
        assert!(summaries(&record, None)[0].stream_percent.is_none());
    }
}
