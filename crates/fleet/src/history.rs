//! The number of bytes sent over time: for an attempt, and for each host of a run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::attempt::Attempt;

/// The greatest number of points in an attempt's history. Before a further point is added, every second point is
/// removed.
const MOST_POINTS: usize = 64;
/// The greatest number of intervals into which a run is divided.
const INTERVALS: u64 = 60;

/// The number of bytes that an attempt had sent at several times: pairs of the seconds since the attempt's start, and
/// the bytes. From pair to pair, the seconds increase, and the bytes don't decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Vec<(u64, u64)>);

impl History {
    /// Adds a point: the seconds since the attempt's start, and the bytes sent so far.
    pub fn note(&mut self, seconds: u64, bytes: u64) {
        if self.0.last().is_some_and(|(last, _)| *last >= seconds) {
            self.0.pop();
        }
        if self.0.len() >= MOST_POINTS {
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
        self.0.push((seconds, bytes));
    }

    /// The bytes that were sent in each of `count` intervals of `interval` seconds; the first interval begins
    /// `before` seconds before the attempt. Between two points, bytes are distributed evenly.
    fn spread(&self, before: u64, interval: u64, count: usize) -> Vec<f64> {
        let mut intervals = vec![0.0; count];
        let end = interval.saturating_mul(count as u64);
        let mut last = (0, 0);
        for point in &self.0 {
            let from = before.saturating_add(last.0).min(end.saturating_sub(1));
            let to = before.saturating_add(point.0).max(from + 1);
            let rate = point.1.saturating_sub(last.1) as f64 / (to - from) as f64;
            for (number, bytes) in intervals.iter_mut().enumerate() {
                let begin = interval.saturating_mul(number as u64);
                let seconds = to.min(begin.saturating_add(interval)).saturating_sub(from.max(begin));
                *bytes += rate * seconds as f64;
            }
            last = *point;
        }
        intervals
    }
}

/// The rates of a host over a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostRates {
    /// The name of the host; for a destination, the name in the plan.
    pub host: String,
    /// Whether the host is a destination.
    pub receives: bool,
    /// The rate in each interval, in Gbit/s.
    pub gbit_per_second: Vec<f64>,
}

/// The rates of all hosts over a run.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct RunRates {
    /// The length of an interval, in seconds.
    pub interval_seconds: u64,
    /// The rates of each host.
    pub hosts: Vec<HostRates>,
}

impl RunRates {
    /// The rates of these attempts' hosts, by the hosts' clocks.
    pub fn of(attempts: &[&Attempt]) -> Self {
        let begun = attempts.iter().map(|attempt| attempt.begun).min().unwrap_or(0);
        let end = attempts.iter().map(|attempt| attempt.written).max().unwrap_or(begun);
        let seconds = end.saturating_sub(begun).max(1);
        let interval = seconds.div_ceil(INTERVALS);
        let count = usize::try_from(seconds.div_ceil(interval)).unwrap_or(1);
        let mut hosts = BTreeMap::<(bool, &str), Vec<f64>>::new();
        for attempt in attempts {
            let spread = attempt.history.spread(attempt.begun.saturating_sub(begun), interval, count);
            let to = attempt.receiver().map(|host| (true, host));
            for key in [(false, &*attempt.maker.host)].into_iter().chain(to) {
                let sums = hosts.entry(key).or_insert_with(|| vec![0.0; count]);
                sums.iter_mut().zip(&spread).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
        let rate = |bytes: f64| bytes * 8e-9 / interval as f64;
        let rates = |((receives, host), bytes): ((bool, &str), Vec<f64>)| HostRates {
            host: host.to_owned(),
            receives,
            gbit_per_second: bytes.into_iter().map(rate).collect(),
        };
        Self { interval_seconds: interval, hosts: hosts.into_iter().map(rates).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(host: &str, begun: u64, points: &[(u64, u64)]) -> Attempt {
        let mut attempt = Attempt::begin("d:/x".into());
        attempt.maker.host = host.into();
        points.iter().for_each(|(seconds, bytes)| attempt.history.note(*seconds, *bytes));
        (attempt.begun, attempt.written) = (begun, begun + points.last().map_or(0, |(seconds, _)| *seconds));
        attempt
    }

    #[test]
    fn a_long_attempt_keeps_few_points_and_its_last() {
        let mut history = History::default();
        (1..=10_000).for_each(|second| history.note(second, 10 * second));
        assert!(history.0.len() <= MOST_POINTS && history.0.last() == Some(&(10_000, 100_000)));
        history.note(10_000, 100_500);
        assert_eq!(history.0.last(), Some(&(10_000, 100_500)), "a second has one point");
        let spread = history.spread(0, 1000, 10);
        assert!(spread.iter().all(|bytes| (9_900.0..=10_600.0).contains(bytes)), "{spread:?}");
    }

    #[test]
    fn the_rates_of_hosts_are_those_of_their_attempts_and_nothing_is_lost() {
        let made = [
            attempt("a", 100, &[(10, 1_000_000_000), (20, 3_000_000_000)]),
            attempt("b", 110, &[(30, 3_000_000_000)]),
        ];
        let rates = RunRates::of(&made.iter().collect::<Vec<_>>());
        assert_eq!(rates.interval_seconds, 1);
        let of = |name: &str| &rates.hosts.iter().find(|host| host.host == name).unwrap().gbit_per_second;
        assert_eq!((of("a").len(), of("d").len()), (40, 40));
        let near = |rate: f64, expected: f64| (rate - expected).abs() < 1e-9;
        assert!(near(of("a")[5], 0.8) && near(of("a")[15], 1.6) && near(of("a")[25], 0.0));
        assert!(near(of("d")[15], 2.4) && near(of("d")[35], 0.8));
        assert!(near(of("d").iter().sum::<f64>(), 48.0), "6 GB are 48 Gbit");
        assert_eq!(rates.hosts.iter().map(|host| host.receives).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn an_attempt_of_less_than_a_second_has_a_rate() {
        for begun in [100, 110] {
            let made = [attempt("b", 100, &[(10, 10)]), attempt("a", begun, &[(0, 7)])];
            let rates = RunRates::of(&made.iter().collect::<Vec<_>>());
            let of_a = &rates.hosts.iter().find(|host| host.host == "a").unwrap().gbit_per_second;
            assert!((of_a.iter().sum::<f64>() - 56e-9).abs() < 1e-15, "{of_a:?}");
        }
    }

    #[test]
    fn a_run_without_attempts_has_no_rates() {
        assert_eq!(RunRates::of(&[]).hosts, []);
    }

    #[test]
    fn times_that_can_not_be_are_no_panic() {
        let mut odd = attempt("a", 3, &[(7, u64::MAX)]);
        odd.history = serde_json::from_str(&format!("[[{0}, {0}], [3, 7], [{0}, 1]]", u64::MAX)).unwrap();
        (odd.begun, odd.written) = (u64::MAX - 5, u64::MAX);
        let early = attempt("b", 0, &[(5, 5)]);
        let rates = RunRates::of(&[&odd, &early]);
        assert_eq!(rates.hosts.len(), 3);
        assert!(rates.hosts.iter().all(|host| host.gbit_per_second.len() <= 60));
    }
}
