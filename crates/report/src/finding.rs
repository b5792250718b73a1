//! The sentence at the top of the page. It states one of these: the finding of the first figure; the rate of the
//! program's encrypted transfer, compared with the best synthetic stream and with scp; or the best value of the study's
//! main quantity.

use linerate_bench::metric::Metric;
use linerate_bench::record::Record;
use linerate_bench::stats::{best_stream, bound_rows, outcome, ratio};

use crate::figure::{Shown, time_unit};
use crate::number::{count, short};
use crate::summary::{State, Summary, ends, tip};

/// The main finding of a record as a sentence, followed by the results of its bounds and by the number of
/// disturbed runs. All are computed from the record's numbers.
pub(crate) fn sentence(record: &Record, summaries: &[Summary<'_>], figures: &[Shown<'_>]) -> String {
    let finding = capital(record, &finding(record, summaries, figures));
    let bounds = outcome(&bound_rows(record)).map(|outcome| format!("{outcome}."));
    let disturbed: usize = summaries.iter().map(|s| s.disturbed.len()).sum();
    let runs = count(record.runs.len() as u64, "run was", "runs were");
    let disturbed = (disturbed > 0).then(|| format!("{disturbed} of {runs} disturbed."));
    [Some(finding), bounds, disturbed].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The text with a capital first letter, unless it begins with the name of a tool.
fn capital(record: &Record, text: &str) -> String {
    let first_word = |name: &str| text.starts_with(name.split('-').next().unwrap_or(name));
    let mut rest = text.chars();
    match rest.next() {
        Some(first) if !record.cases.iter().any(|case| first_word(&case.tool)) => {
            first.to_uppercase().chain(rest).collect()
        }
        _ => text.to_owned(),
    }
}

fn finding(record: &Record, summaries: &[Summary<'_>], figures: &[Shown<'_>]) -> String {
    if let Some(said) = figures.first().and_then(|figure| figure.drawn.findings.first()) {
        return said.clone();
    }
    match subject(summaries) {
        Some(subject) if summaries.iter().all(|s| s.of(Metric::TransactionRate).is_none()) => {
            transfer(record, summaries, subject)
        }
        _ => requests(summaries)
            .or_else(|| scores(summaries))
            .or_else(|| subject(summaries).map(|subject| transfer(record, summaries, subject)))
            .unwrap_or_else(|| nothing_measured(record, summaries)),
    }
}

fn transfer(record: &Record, summaries: &[Summary<'_>], subject: &Summary<'_>) -> String {
    let comparisons = [against_stream(summaries, subject), against_scp(record, summaries, subject)];
    let comparisons: Vec<_> = comparisons.into_iter().flatten().collect();
    let colon = if comparisons.is_empty() { "" } else { ": " };
    format!("{}{colon}{}.", claim(record, subject), comparisons.join(", and "))
}

/// The case that the sentence is about: the program's encrypted transfer of files, if possible the one in
/// which the program chooses the number of streams; otherwise the fastest transfer of files; otherwise the
/// fastest case.
fn subject<'s, 'a>(summaries: &'s [Summary<'a>]) -> Option<&'s Summary<'a>> {
    let ours = |s: &&Summary<'_>| is_ours(s) && s.case.dataset.is_some() && s.case.cipher.is_some();
    summaries
        .iter()
        .filter(|s| s.of(Metric::PayloadRate).is_some())
        .filter(ours)
        .find(|s| s.case.streams.is_none())
        .or_else(|| fastest(summaries.iter().filter(ours)))
        .or_else(|| fastest(summaries.iter().filter(|s| s.case.dataset.is_some())))
        .or_else(|| fastest(summaries.iter()))
}

fn claim(record: &Record, subject: &Summary<'_>) -> String {
    let rate = subject.of(Metric::PayloadRate).map_or(0.0, |estimate| estimate.median);
    let what = match subject.case.dataset.as_deref() {
        Some(name) => format!("the {name}"),
        None => "memory".to_owned(),
    };
    let how = if subject.case.cipher.is_some() { "encrypted" } else { "in clear text" };
    let label = plain_label(record, subject);
    let whole =
        tip(subject).map_or_else(String::new, |whole| format!(" ({} over the whole command)", short(whole)));
    format!("{label}, {how}, moved {what} at {} Gbit/s{whole}", short(rate))
}

/// `linerate cp` for the program's own transfers, whatever label the study gives them; otherwise the case's
/// label.
fn plain_label(record: &Record, subject: &Summary<'_>) -> String {
    let moves_files = record.datasets.iter().any(|d| Some(&d.name) == subject.case.dataset.as_ref());
    if is_ours(subject) && moves_files { "linerate cp".to_owned() } else { subject.name.clone() }
}

fn against_stream(summaries: &[Summary<'_>], subject: &Summary<'_>) -> Option<String> {
    let percent = subject.figures.stream_percent?;
    let interval = ends(percent).map_or(String::new(), |(low, high)| format!(" [{low:.1}, {high:.1}]"));
    let best = best_stream(summaries.iter().map(|s| &s.figures), &subject.case.link)?;
    let label = &summaries.iter().find(|s| s.case.id == best.case.id)?.name;
    let median = percent.median;
    Some(format!("{median:.1} %{interval} of the best synthetic stream on the same link ({label})"))
}

/// The comparison with scp as text. Whole commands are compared, because scp doesn't report how long its
/// login took.
fn against_scp(record: &Record, summaries: &[Summary<'_>], subject: &Summary<'_>) -> Option<String> {
    let same_path =
        |s: &&Summary<'_>| s.case.dataset == subject.case.dataset && s.case.link == subject.case.link;
    let scp = summaries
        .iter()
        .filter(|s| s.case.group == "scp" || s.case.tool == "scp")
        .filter(same_path)
        .find(|s| s.case.streams.is_none_or(|n| n == 1) && s.of(Metric::PayloadRate).is_some())?;
    let ratio = ratio(record, Metric::CommandRate, &subject.case.id, &scp.case.id)?;
    Some(format!("as a whole command {} times as fast as {}", short(ratio.median), scp.case.label))
}

/// A sentence about the case with the most transactions per second, with its response times.
fn requests(summaries: &[Summary<'_>]) -> Option<String> {
    let most = best(summaries, Metric::TransactionRate)?;
    let rate = most.of(Metric::TransactionRate)?.median;
    let times = most.of(Metric::P50).zip(most.of(Metric::P99)).map_or_else(String::new, |(median, slow)| {
        let (unit, factor) = time_unit(slow.median);
        let (median, slow) = (short(median.median * factor), short(slow.median * factor));
        format!(", half of them within {median} {unit} and 99 % within {slow} {unit}")
    });
    let payload = most
        .of(Metric::PayloadRate)
        .map_or_else(String::new, |payload| format!(", {} Gbit/s of payload", short(payload.median)));
    Some(format!("{} made {} transactions a second{payload}{times}.", most.name, short(rate)))
}

fn scores(summaries: &[Summary<'_>]) -> Option<String> {
    let most = best(summaries, Metric::Score)?;
    Some(format!("{} had the highest score, {}.", most.name, short(most.of(Metric::Score)?.median)))
}

fn best<'s, 'a>(summaries: &'s [Summary<'a>], quantity: Metric) -> Option<&'s Summary<'a>> {
    let valued = summaries.iter().filter_map(|s| Some((s.quantity(quantity)?.median, s)));
    valued.max_by(|(left, _), (right, _)| left.total_cmp(right)).map(|(_, s)| s)
}

fn nothing_measured(record: &Record, summaries: &[Summary<'_>]) -> String {
    let of = |wanted: fn(&State<'_>) -> bool| summaries.iter().filter(|s| wanted(&s.state())).count() as u64;
    format!(
        "Nothing was measured: {}, of which {} failed and {} couldn't be run on this host; {} in the record.",
        count(summaries.len() as u64, "case", "cases"),
        of(|state| matches!(state, State::Failed(_))),
        of(|state| matches!(state, State::Unavailable(_))),
        count(record.runs.len() as u64, "run", "runs"),
    )
}

fn fastest<'s, 'a: 's>(summaries: impl Iterator<Item = &'s Summary<'a>>) -> Option<&'s Summary<'a>> {
    let rated = summaries.filter_map(|s| Some((s.of(Metric::PayloadRate)?.median, s)));
    rated.max_by(|(left, _), (right, _)| left.total_cmp(right)).map(|(_, s)| s)
}

fn is_ours(summary: &Summary<'_>) -> bool {
    summary.case.group.starts_with("linerate") || summary.case.tool.starts_with("linerate")
}
