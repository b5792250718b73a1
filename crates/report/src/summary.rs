//! A case's summary for the page: its numbers, its name, and the failures of its runs.

use std::borrow::Cow;

use linerate_bench::metric::Metric;
use linerate_bench::record::{Case, Measures, Outcome, Record, Run};
use linerate_bench::stats::{self, CaseSummary, Estimate, above_ceiling, good_runs};

use crate::ceiling::link_named;

/// A case with the summary of its runs, and with texts for the page.
pub(crate) struct Summary<'a> {
    /// The case of the study.
    pub(crate) case: &'a Case,
    /// The case's name, which distinguishes it from all other cases.
    pub(crate) name: String,
    /// The factor levels that distinguish the case from other cases with the same label.
    pub(crate) levels: Vec<String>,
    /// The statistics over the case's runs.
    pub(crate) figures: CaseSummary,
    /// The connections of all good runs together (attempted, made, failed); `None` if the tool reports no connections.
    pub(crate) connections: Option<[u64; 3]>,
    /// The limiting factor that the runs of the case report most often.
    pub(crate) limiter: Option<&'a str>,
    /// Whether the case moves payload; a case that measures only a login doesn't.
    pub(crate) moves_payload: bool,
    /// Whether any run was faster than its link allows, which means an error of the measurement.
    pub(crate) breaks_ceiling: bool,
    /// Disturbed runs, with the reason.
    pub(crate) disturbed: Vec<Note<'a>>,
    /// Runs that were near a limit of the test bed, with the part of the test bed that limits.
    pub(crate) limited_by_bed: Vec<Note<'a>>,
    /// Runs with warnings from the tool itself, with the first warning of each run.
    pub(crate) warned: Vec<Note<'a>>,
    /// Runs that failed, with the reason.
    pub(crate) failed: Vec<Note<'a>>,
    /// Runs that weren't possible, for example because the tool isn't installed, with the reason.
    pub(crate) unavailable: Vec<Note<'a>>,
}

/// A remark on one run.
#[derive(Clone, Copy)]
pub(crate) struct Note<'a> {
    /// The block of the run.
    pub(crate) block: u32,
    /// The reason, in the words of the record.
    pub(crate) reason: &'a str,
}

/// The state of a case: measured, or the reason why it has no value.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum State<'a> {
    /// The case has a value.
    Measured,
    /// Every run failed; the text is the reason of the first failure.
    Failed(&'a str),
    /// No run was possible, for example because the tool isn't installed; the text is the first reported reason.
    Unavailable(&'a str),
    /// The record holds no run of the case.
    NotRun,
}

/// The summaries of all cases, in the order of the study.
pub(crate) fn summaries(record: &Record) -> Vec<Summary<'_>> {
    let figures = stats::summaries(record, record.baseline.as_deref());
    record.cases.iter().zip(figures).map(|(case, figures)| Summary::new(record, case, figures)).collect()
}

/// The label of a case, with the levels that distinguish it from other cases of the same label.
pub(crate) fn case_name(record: &Record, case: &Case) -> String {
    let namesakes = || record.cases.iter().filter(|other| other.id != case.id && other.label == case.label);
    let differs = |property: fn(&Case) -> Cow<'_, str>| {
        let own = property(case);
        namesakes().any(|other| property(other) != own).then_some(own)
    };
    let parts = [streams_words, cipher_words, data_words, link_words].into_iter().filter_map(differs);
    let levels = distinct_levels(record, case).into_iter().map(Cow::from);
    std::iter::once(Cow::from(&case.label)).chain(parts).chain(levels).collect::<Vec<_>>().join(", ")
}

/// The levels of the factors (except streams, cipher, data and link) in which the case differs from other
/// cases of its label.
fn distinct_levels(record: &Record, case: &Case) -> Vec<String> {
    const SHOWN_ELSEWHERE: [&str; 5] = ["streams", "cipher", "dataset", "link", "tool"];
    let namesakes = || record.cases.iter().filter(|other| other.id != case.id && other.label == case.label);
    let differs =
        |factor: &String, level: &String| namesakes().any(|other| other.factors.get(factor) != Some(level));
    let factors = case.factors.iter().filter(|(factor, _)| !SHOWN_ELSEWHERE.contains(&factor.as_str()));
    factors.filter(|(factor, level)| differs(factor, level)).map(|(_, level)| level.clone()).collect()
}

/// The case's cipher in words.
pub(crate) fn cipher_words(case: &Case) -> Cow<'_, str> {
    case.cipher.as_deref().unwrap_or("clear text").into()
}

/// The data that a case moves, in words.
pub(crate) fn data_words(case: &Case) -> Cow<'_, str> {
    case.dataset.as_deref().unwrap_or("memory").into()
}

fn streams_words(case: &Case) -> Cow<'_, str> {
    match case.streams {
        None => "auto".into(),
        Some(1) => "1 stream".into(),
        Some(n) => format!("{n} streams").into(),
    }
}

fn link_words(case: &Case) -> Cow<'_, str> {
    case.link.as_str().into()
}

/// The ends of an estimate's interval, if it has one.
pub(crate) fn ends(estimate: Estimate) -> Option<(f64, f64)> {
    estimate.interval.ends()
}

/// The rate over the whole command, if it is visibly lower than the rate over the payload time alone.
pub(crate) fn tip(summary: &Summary<'_>) -> Option<f64> {
    let (whole, payload) = (summary.of(Metric::CommandRate)?.median, summary.of(Metric::PayloadRate)?.median);
    (whole < payload * 0.985).then_some(whole)
}

impl<'a> Summary<'a> {
    fn new(record: &'a Record, case: &'a Case, figures: CaseSummary) -> Self {
        let good: Vec<&Measures> = good_runs(record, &case.id).map(|(_, run)| run).collect();
        let notes = |of: fn(&Run) -> Option<&str>| {
            let note = |run: &'a Run| Some(Note { block: run.block, reason: of(run)? });
            stats::runs(record, &case.id).filter_map(note).collect()
        };
        Self {
            case,
            name: case_name(record, case),
            levels: distinct_levels(record, case),
            figures,
            connections: connections(&good),
            limiter: most_frequent(good.iter().filter_map(|m| m.limiter.as_deref())),
            moves_payload: good.is_empty() || good.iter().any(|m| m.bytes > 0),
            breaks_ceiling: breaks_ceiling(record, case, &good),
            disturbed: notes(|run| measures(run)?.disturbed.as_deref()),
            limited_by_bed: notes(|run| measures(run)?.limited_by_bed.as_deref()),
            warned: notes(|run| measures(run)?.warnings().next()),
            failed: notes(failure),
            unavailable: notes(absence),
        }
    }

    /// The case's estimate of a metric.
    pub(crate) fn of(&self, metric: Metric) -> Option<Estimate> {
        self.figures.of(metric)
    }

    /// The receiving host's CPU in percent or, if only one host was measured, that host's CPU.
    pub(crate) fn receiver(&self) -> Option<Estimate> {
        self.quantity(Metric::FarBusyPercent)
    }

    /// The case's estimate of a figure's quantity.
    pub(crate) fn quantity(&self, quantity: Metric) -> Option<Estimate> {
        self.figures.quantity(quantity)
    }

    /// The state of this case.
    pub(crate) fn state(&self) -> State<'a> {
        if self.figures.measured > 0 { State::Measured } else { self.lack() }
    }

    /// Whether this case has a value of a quantity, or the reason why it has none.
    pub(crate) fn state_of(&self, quantity: Metric) -> State<'a> {
        if self.quantity(quantity).is_some() { State::Measured } else { self.lack() }
    }

    fn lack(&self) -> State<'a> {
        match (self.failed.first(), self.unavailable.first()) {
            (Some(note), _) => State::Failed(note.reason),
            (None, Some(note)) => State::Unavailable(note.reason),
            (None, None) if self.figures.measured > 0 => State::Failed("no run gave a value"),
            (None, None) => State::NotRun,
        }
    }
}

/// The connections of all runs and ports: attempted, made and failed.
fn connections(good: &[&Measures]) -> Option<[u64; 3]> {
    let all = good.iter().flat_map(|m| &m.connections);
    all.map(|c| [c.attempted, c.made, c.failed])
        .reduce(|sum, next| [0, 1, 2].map(|at| sum[at].saturating_add(next[at])))
}

fn breaks_ceiling(record: &Record, case: &Case, good: &[&Measures]) -> bool {
    let Some(link) = link_named(record, &case.link) else { return false };
    good.iter().any(|m| above_ceiling(m, link).is_some())
}

fn measures(run: &Run) -> Option<&Measures> {
    match &run.outcome {
        Outcome::Measured(measures) => Some(measures),
        _ => None,
    }
}

fn failure(run: &Run) -> Option<&str> {
    match &run.outcome {
        Outcome::Failed { reason } => Some(reason),
        _ => None,
    }
}

fn absence(run: &Run) -> Option<&str> {
    match &run.outcome {
        Outcome::Unavailable { reason } => Some(reason),
        _ => None,
    }
}

/// The name that occurs most often; if several names occur equally often, the first of them.
fn most_frequent<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let times = |name: &str| names.clone().filter(|other| *other == name).count();
    names.clone().reduce(|best, name| if times(name) > times(best) { name } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limiter_met_most_often_stands() {
        assert_eq!(most_frequent(["disk", "network", "network"].into_iter()), Some("network"));
        assert_eq!(most_frequent(["disk", "network"].into_iter()), Some("disk"));
        assert_eq!(most_frequent(std::iter::empty()), None);
    }
}
