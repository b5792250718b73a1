//! Texts about a case in figures and tables.

use linerate_bench::stats::Estimate;

use crate::number::short;
use crate::summary::{State, Summary, ends};

/// The reason why a case has no value, in words; true if the reason is a failure.
pub(crate) fn lack_text(state: State<'_>) -> (String, bool) {
    match state {
        State::Measured => (String::new(), false),
        State::Failed(reason) => (format!("failed: {reason}"), true),
        State::Unavailable(reason) => (format!("not there: {reason}"), false),
        State::NotRun => ("not run".to_owned(), false),
    }
}

/// An estimate as text: `9.39 [9.37, 9.40]`, or only the median if it has no interval.
pub(crate) fn with_interval(estimate: Option<Estimate>) -> String {
    match estimate.map(|estimate| (estimate.median, ends(estimate))) {
        None => "–".to_owned(),
        Some((median, None)) => short(median),
        Some((median, Some((low, high)))) => format!("{} [{}, {}]", short(median), short(low), short(high)),
    }
}

/// The footnote signs of a case: † if a run was disturbed, ‡ if a run failed, and § if a run was at the limit
/// of the test bed.
pub(crate) fn signs(summary: &Summary<'_>) -> String {
    let signs = [("†", &summary.disturbed), ("‡", &summary.failed), ("§", &summary.limited_by_bed)];
    signs.into_iter().filter(|(_, notes)| !notes.is_empty()).map(|(sign, _)| sign).collect()
}

/// The reason why a case has no value, or the meaning of its footnote signs; empty if neither applies.
pub(crate) fn remark(summary: &Summary<'_>, state: State<'_>) -> String {
    let (lack, _) = lack_text(state);
    if !lack.is_empty() {
        return lack;
    }
    let signs = [
        ("disturbed", summary.disturbed.len()),
        ("failed", summary.failed.len()),
        ("limited by the test bed", summary.limited_by_bed.len()),
    ];
    let signs = signs.into_iter().filter(|(_, count)| *count > 0);
    signs.map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// A factor's level in words, for example "4 queues" instead of only "4".
pub(crate) fn level_words(factor: Option<&str>, level: &str) -> String {
    const COUNTED: [&str; 7] = ["links", "queues", "guests", "streams", "users", "workers", "tiles"];
    let Some(factor) = factor.filter(|_| level.parse::<f64>().is_ok()) else { return level.to_owned() };
    match (COUNTED.contains(&factor), level) {
        (true, "1") => format!("1 {}", factor.trim_end_matches('s')),
        (true, _) => format!("{level} {factor}"),
        (false, _) => format!("{factor} {level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_what_it_counts() {
        let words = |factor, level| level_words(Some(factor), level);
        assert_eq!([words("queues", "1"), words("links", "2")], ["1 queue", "2 links"]);
        assert_eq!([words("rps", "3"), words("link", "10gbit")], ["rps 3", "10gbit"]);
        assert_eq!(level_words(None, "4"), "4");
    }
}
