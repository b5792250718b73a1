//! Named counters that only increase, and their growth between two moments.

use std::collections::BTreeMap;

use super::{Recording, TimeSeries};

/// The values of counters, by their names.
pub type CounterValues = BTreeMap<String, u64>;

/// The values of counters at several moments, which are given in seconds.
pub(crate) type History = Vec<(f64, CounterValues)>;

/// The counters that `parse` finds in the texts of one kind of data, at each moment.
pub(crate) fn history(recording: &Recording, kind: &str, parse: impl Fn(&str) -> CounterValues) -> History {
    recording.texts(kind).map(|(seconds, text)| (seconds, parse(text))).collect()
}

/// The growth of each counter from the first moment to the last. If a counter decreased (because its device was created
/// again) or appeared later, only its growth from that moment on counts.
pub(crate) fn totals(history: &[(f64, CounterValues)]) -> CounterValues {
    let mut totals = CounterValues::new();
    for (_, name, passed) in steps(history) {
        let total = totals.entry(name.to_owned()).or_default();
        *total = total.saturating_add(passed);
    }
    totals
}

/// The rate of each counter over time: its growth per second, multiplied by `scale`, in `unit`. Each point is
/// at the end of the interval that it describes.
pub(crate) fn rates(kind: &str, unit: &str, scale: f64, history: &[(f64, CounterValues)]) -> Vec<TimeSeries> {
    let mut points: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for ((from, to), name, passed) in steps(history) {
        if to > from {
            points.entry(name).or_default().push((to, passed as f64 * scale / (to - from)));
        }
    }
    points.into_iter().map(|(name, points)| TimeSeries::new(kind, name, unit, points)).collect()
}

/// The series that have at least one value other than zero.
pub(crate) fn moved(series: Vec<TimeSeries>) -> Vec<TimeSeries> {
    series.into_iter().filter(|series| series.points.iter().any(|(_, value)| *value != 0.0)).collect()
}

/// The growth of each counter from each moment to the next: the two moments, the counter's name and its
/// growth.
fn steps(history: &[(f64, CounterValues)]) -> impl Iterator<Item = ((f64, f64), &str, u64)> {
    history.windows(2).flat_map(|pair| {
        let ((from, earlier), (to, later)) = (&pair[0], &pair[1]);
        later.iter().filter_map(move |(name, now)| {
            let before = earlier.get(name)?;
            Some(((*from, *to), name.as_str(), now.saturating_sub(*before)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[&[(&str, u64)]]) -> History {
        let counters =
            |of: &&[(&str, u64)]| of.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        values.iter().map(counters).enumerate().map(|(at, c)| (at as f64 * 0.5, c)).collect()
    }

    #[test]
    fn what_went_backwards_or_appeared_counts_from_there_on() {
        let history = moments(&[&[("a", 5)], &[("a", 15), ("b", 100)], &[("a", 2), ("b", 101)], &[("a", 4)]]);
        let totals = totals(&history);
        assert_eq!((totals["a"], totals["b"]), (12, 1));
    }

    #[test]
    fn rates_stand_at_the_end_of_their_step() {
        let series = rates("x", "1/s", 2.0, &moments(&[&[("a", 0)], &[("a", 10)], &[("a", 10)]]));
        assert_eq!(series[0].points, [(0.5, 40.0), (1.0, 0.0)]);
        assert!(moved(rates("x", "1/s", 1.0, &moments(&[&[("a", 1)], &[("a", 1)]]))).is_empty());
    }
}
