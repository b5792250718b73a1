//! One summary a case: what its runs come to, and what went wrong in them.

use std::borrow::Cow;

use linerate_bench::record::{Case, Cpu, Latency, Measures, Outcome, Quantity, Record, Run};
use linerate_bench::stats::{Estimate, Interval, above_ceiling, cpu_per_gb};

use crate::link::link_named;

/// What the runs of one case come to.
pub(crate) struct Summary<'a> {
    /// The case.
    pub(crate) case: &'a Case,
    /// Its name among the other cases.
    pub(crate) name: String,
    /// The levels of factors that tell it from other cases of its label.
    pub(crate) levels: Vec<String>,
    /// Payload rate in Gbit/s, over the tool's own payload time where it states one.
    pub(crate) payload: Option<Estimate>,
    /// Payload rate in Gbit/s over the whole command, login included.
    pub(crate) whole: Option<Estimate>,
    /// Payload rate over that of the record's baseline, taken inside each block.
    pub(crate) ratio: Option<Estimate>,
    /// Wall time of the whole command in seconds.
    pub(crate) seconds: Option<Estimate>,
    /// Busy share of the sending host's processors in percent.
    pub(crate) cpu_a: Option<Estimate>,
    /// Busy share of the receiving host's processors in percent.
    pub(crate) cpu_b: Option<Estimate>,
    /// CPU-seconds per gigabyte (10^9 bytes) of payload, both ends together.
    pub(crate) cpu_per_gb: Option<Estimate>,
    /// Transactions a second.
    pub(crate) transactions: Option<Estimate>,
    /// Median response time in microseconds.
    pub(crate) response: Option<Estimate>,
    /// 99th percentile of the response times in microseconds.
    pub(crate) slowest_hundredth: Option<Estimate>,
    /// The tool's own score.
    pub(crate) score: Option<Estimate>,
    /// What was looked for before each run, such as users, and the number that was found best.
    pub(crate) found: Option<(&'a str, Estimate)>,
    /// Connections of all good runs together: attempted, made, failed; `None` where the load has none.
    pub(crate) connections: Option<[u64; 3]>,
    /// The largest peak resident memory of any run, in bytes.
    pub(crate) peak_rss: Option<u64>,
    /// What the runs named as their limiter most often.
    pub(crate) limiter: Option<&'a str>,
    /// Runs that ended well.
    pub(crate) measured: usize,
    /// Whether the case moves payload at all; one that times a login doesn't.
    pub(crate) moves_payload: bool,
    /// Whether any run was faster than its link allows.
    pub(crate) breaks_ceiling: bool,
    /// Runs that something else disturbed, with the reason.
    pub(crate) disturbed: Vec<Note<'a>>,
    /// Runs that came near what the test bed can do at most, with its part.
    pub(crate) limited_by_bed: Vec<Note<'a>>,
    /// Runs of which the tool itself warns, with its first warning.
    pub(crate) warned: Vec<Note<'a>>,
    /// Runs that failed, with the reason.
    pub(crate) failed: Vec<Note<'a>>,
    /// Runs whose tool wasn't there, with the reason.
    pub(crate) unavailable: Vec<Note<'a>>,
}

/// What is to be said of one run.
#[derive(Clone, Copy)]
pub(crate) struct Note<'a> {
    /// The block of the run.
    pub(crate) block: u32,
    /// What happened, in the words of the record.
    pub(crate) reason: &'a str,
}

/// Whether a case has a figure to show.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum State<'a> {
    /// It has.
    Measured,
    /// Every run failed; the first reason.
    Failed(&'a str),
    /// The tool wasn't there; the first reason.
    Unavailable(&'a str),
    /// The record holds no run of it.
    NotRun,
}

/// The summaries of all cases, in the order of the study.
pub(crate) fn summaries(record: &Record) -> Vec<Summary<'_>> {
    record.cases.iter().map(|case| Summary::of(record, case)).collect()
}

/// The label of a case, with whatever tells it from the other cases of the same label.
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

/// The levels of those factors, beside streams, cipher, data and link, in which the case differs from others
/// of its label.
fn distinct_levels(record: &Record, case: &Case) -> Vec<String> {
    const TOLD: [&str; 5] = ["streams", "cipher", "dataset", "link", "tool"];
    let namesakes = || record.cases.iter().filter(|other| other.id != case.id && other.label == case.label);
    let differs =
        |factor: &String, level: &String| namesakes().any(|other| other.factors.get(factor) != Some(level));
    let factors = case.factors.iter().filter(|(factor, _)| !TOLD.contains(&factor.as_str()));
    factors.filter(|(factor, level)| differs(factor, level)).map(|(_, level)| level.clone()).collect()
}

/// The cipher for people.
pub(crate) fn cipher_words(case: &Case) -> Cow<'_, str> {
    case.cipher.as_deref().unwrap_or("clear text").into()
}

/// What is moved, for people.
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

/// The ratio of two cases' rates, taken inside each block.
pub(crate) fn paired_ratio(
    record: &Record,
    over: &str,
    under: &str,
    rate: fn(&Measures) -> f64,
) -> Option<Estimate> {
    let bottoms = good_runs(record, under);
    let in_same_block = |block: u32| bottoms.iter().find(|(other, _)| *other == block).map(|(_, m)| rate(m));
    let tops = good_runs(record, over);
    estimate(record, tops.iter().filter_map(|(block, m)| Some(rate(m) / in_same_block(*block)?)))
}

/// The ends of an interval, where there is one.
pub(crate) fn ends(estimate: Estimate) -> Option<(f64, f64)> {
    match estimate.interval {
        Interval::Known(low, high) => Some((low, high)),
        Interval::Insufficient => None,
    }
}

/// The rate over the whole command, where it is visibly below the rate of the payload time alone.
pub(crate) fn tip(summary: &Summary<'_>) -> Option<f64> {
    let (whole, payload) = (summary.whole?.median, summary.payload?.median);
    (whole < payload * 0.985).then_some(whole)
}

impl<'a> Summary<'a> {
    /// Sums up the runs of `case`.
    fn of(record: &'a Record, case: &'a Case) -> Self {
        let good = good_runs(record, &case.id);
        let moves_payload = good.is_empty() || good.iter().any(|(_, m)| m.bytes > 0);
        let median = |value: &dyn Fn(&Measures) -> f64| estimate(record, good.iter().map(|(_, m)| value(m)));
        let rate = |value: fn(&Measures) -> f64| if moves_payload { median(&value) } else { None };
        let of = |quantity| median(&|m| m.quantity(quantity).unwrap_or(f64::NAN));
        let time = |value: fn(&Latency) -> f64| median(&|m| m.latency.as_ref().map_or(f64::NAN, value));
        let notes = |of: fn(&Run) -> Option<&str>| {
            let note = |run: &'a Run| Some(Note { block: run.block, reason: of(run)? });
            runs_of(record, &case.id).filter_map(note).collect()
        };
        Self {
            case,
            name: case_name(record, case),
            levels: distinct_levels(record, case),
            payload: rate(Measures::payload_gbit_per_second),
            whole: rate(Measures::gbit_per_second),
            ratio: record
                .baseline
                .as_deref()
                .and_then(|base| paired_ratio(record, &case.id, base, Measures::payload_gbit_per_second)),
            seconds: median(&|m| m.seconds),
            cpu_a: median(&|m| percent(&m.cpu_a)),
            cpu_b: median(&|m| percent(&m.cpu_b)),
            cpu_per_gb: median(&|m| cpu_per_gb(m, record.shared_processors).unwrap_or(f64::NAN)),
            transactions: of(Quantity::TransactionRate),
            response: of(Quantity::ResponseTime),
            slowest_hundredth: time(|latency| latency.p99_us),
            score: of(Quantity::Score),
            found: found(record, &good),
            connections: connections(&good),
            peak_rss: good.iter().filter_map(|(_, m)| m.peak_rss_bytes).max(),
            limiter: most_frequent(good.iter().filter_map(|(_, m)| m.limiter.as_deref())),
            measured: good.len(),
            moves_payload,
            breaks_ceiling: breaks_ceiling(record, case, &good),
            disturbed: notes(|run| measures(run)?.disturbed.as_deref()),
            limited_by_bed: notes(|run| measures(run)?.limited_by_bed.as_deref()),
            warned: notes(|run| measures(run)?.warnings().next()),
            failed: notes(failure),
            unavailable: notes(absence),
        }
    }

    /// What the case comes to in a quantity.
    pub(crate) fn quantity(&self, quantity: Quantity) -> Option<Estimate> {
        match quantity {
            Quantity::PayloadRate => self.payload,
            Quantity::TransactionRate => self.transactions,
            Quantity::ResponseTime => self.response,
            Quantity::BusyPercent => self.cpu_b.or(self.cpu_a),
            Quantity::Score => self.score,
        }
    }

    /// What there is to show of this case.
    pub(crate) fn state(&self) -> State<'a> {
        let figures = [self.payload, self.transactions, self.response, self.score];
        let any = figures.iter().any(Option::is_some);
        if any || (!self.moves_payload && self.measured > 0) { State::Measured } else { self.lack() }
    }

    /// What there is to show of this case in a quantity.
    pub(crate) fn state_of(&self, quantity: Quantity) -> State<'a> {
        if self.quantity(quantity).is_some() { State::Measured } else { self.lack() }
    }

    fn lack(&self) -> State<'a> {
        match (self.failed.first(), self.unavailable.first()) {
            (Some(note), _) => State::Failed(note.reason),
            (None, Some(note)) => State::Unavailable(note.reason),
            (None, None) if self.measured > 0 => State::Failed("no run gave a figure"),
            (None, None) => State::NotRun,
        }
    }
}

/// The estimate of those values that are finite and not negative.
pub(crate) fn estimate(record: &Record, values: impl Iterator<Item = f64>) -> Option<Estimate> {
    let values: Vec<f64> = values.filter(|value| value.is_finite() && *value >= 0.0).collect();
    Estimate::of(&values, record.seed)
}

/// The good runs of a case, with their blocks.
pub(crate) fn good_runs<'a>(record: &'a Record, case: &str) -> Vec<(u32, &'a Measures)> {
    runs_of(record, case).filter_map(|run| Some((run.block, measures(run)?))).collect()
}

/// What the searches before the runs looked for, and what they found.
fn found<'a>(record: &Record, good: &[(u32, &'a Measures)]) -> Option<(&'a str, Estimate)> {
    let all = || good.iter().filter_map(|(_, m)| m.found.as_ref());
    let parameter = &all().next()?.parameter;
    Some((parameter, estimate(record, all().map(|found| f64::from(found.level)))?))
}

/// All connections of the runs, whatever port they went to.
fn connections(good: &[(u32, &Measures)]) -> Option<[u64; 3]> {
    let all = good.iter().flat_map(|(_, m)| &m.connections);
    all.map(|c| [c.attempted, c.made, c.failed])
        .reduce(|sum, next| [0, 1, 2].map(|at| sum[at].saturating_add(next[at])))
}

fn breaks_ceiling(record: &Record, case: &Case, good: &[(u32, &Measures)]) -> bool {
    let Some(link) = link_named(record, &case.link) else { return false };
    good.iter().any(|(_, m)| above_ceiling(m, link).is_some())
}

fn runs_of<'a>(record: &'a Record, case: &str) -> impl Iterator<Item = &'a Run> {
    record.runs.iter().filter(move |run| run.case == case)
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

/// Busy percent, or NaN where no time was counted at all, so that it isn't taken for an idle host.
fn percent(cpu: &Cpu) -> f64 {
    let counted = cpu.busy() + cpu.steal + cpu.idle + cpu.iowait;
    if counted > 0.0 { cpu.busy_percent() } else { f64::NAN }
}

/// The most frequent of the names; of equals, the one met first.
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

    #[test]
    fn an_uncounted_host_is_not_an_idle_one() {
        assert!(percent(&Cpu::default()).is_nan());
        assert_eq!(percent(&Cpu { user: 1.0, idle: 3.0, ..Cpu::default() }), 25.0);
    }
}
