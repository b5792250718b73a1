//! A report on a run of a plan: its hosts, its limiting factors, and slow shards.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::attempt::{Attempt, AttemptState};
use crate::history::RunRates;
use crate::plan::FleetPart;
use crate::status::{FleetStatus, PartState};

/// A shard is slow if it took more than a second, and more than this number times the median time of all shards.
pub const STRAGGLES: f64 = 1.5;

/// The report on a run.
#[derive(Debug, PartialEq, Serialize)]
pub struct FleetReport {
    /// The seconds from the start of the first attempt to the end of the last completed attempt, by the hosts' clocks.
    pub seconds: u64,
    /// The number of bytes that the completed attempts sent.
    pub sent_bytes: u64,
    /// The mean rate over `seconds`, in Gbit/s.
    pub gbit_per_second: f64,
    /// The number of attempts that completed their part.
    pub done: u32,
    /// The number of attempts that neither completed their part nor are running.
    pub lost: u32,
    /// The hosts on which the completed attempts ran, and the destination hosts.
    pub hosts: Vec<HostShare>,
    /// The limiting factors, with the parts and bytes for which each was the limit.
    pub limiters: Vec<LimiterShare>,
    /// The median time of a shard, in seconds.
    pub median_seconds: f64,
    /// The shards that took much longer than the median.
    pub stragglers: Vec<Straggler>,
    /// The rates of the hosts over time.
    pub rates: RunRates,
}

/// The work of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostShare {
    /// The name of the host; for a destination, the name in the plan.
    pub host: String,
    /// Whether the host is a destination.
    pub receives: bool,
    /// The number of parts that were completed.
    pub parts: u32,
    /// The number of bytes that were sent.
    pub sent_bytes: u64,
    /// The total time in which the host's tasks sent data, in seconds.
    pub seconds: f64,
    /// The mean rate of one task, in Gbit/s.
    pub gbit_per_second: f64,
    /// The processor time of both ends, in seconds.
    pub cpu_seconds: f64,
}

/// The parts of a run that were limited by the same factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimiterShare {
    /// The name of the limiting factor.
    pub limiter: String,
    /// The number of parts that this factor limited.
    pub parts: u32,
    /// The number of bytes that the attempts at these parts sent.
    pub sent_bytes: u64,
}

/// A shard that took much longer than the median.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Straggler {
    /// The name of the part.
    pub part: String,
    /// The time from the start to the end of the attempt, in seconds.
    pub seconds: u64,
    /// The host on which the task ran.
    pub host: String,
    /// The destination of the attempt.
    pub to: String,
    /// The number of bytes that the attempt sent.
    pub sent_bytes: u64,
    /// The limiting factor of the attempt.
    pub limiter: String,
}

impl FleetReport {
    /// The report on the attempts of a plan so far.
    pub fn of(status: &FleetStatus) -> Self {
        let all: Vec<(FleetPart, PartState, &Attempt, u32)> = status
            .parts()
            .filter_map(|(part, state, attempt, count)| Some((part, state, attempt?, count)))
            .collect();
        let done: Vec<_> =
            all.iter().filter(|(.., attempt, _)| attempt.state == AttemptState::Done).collect();
        let begun = all.iter().map(|(.., attempt, _)| attempt.begun).min().unwrap_or(0);
        let seconds =
            done.iter().map(|(.., attempt, _)| attempt.written).max().unwrap_or(begun).saturating_sub(begun);
        let sent_bytes = done.iter().map(|(.., attempt, _)| attempt.progress.sent_bytes).sum::<u64>();
        let made: u32 = all.iter().map(|(.., count)| count).sum();
        let counts = |state: &PartState| matches!(state, PartState::Done | PartState::Running);
        let counting = all.iter().filter(|(_, state, ..)| counts(state)).count();
        let shards: Vec<_> = done.iter().filter(|(part, ..)| *part != FleetPart::Directories).collect();
        let mut times: Vec<u64> = shards.iter().map(|(.., attempt, _)| took(attempt)).collect();
        times.sort_unstable();
        let median_seconds = times.get(times.len() / 2).map_or(0.0, |seconds| *seconds as f64);
        let is_long = |attempt: &Attempt| took(attempt) as f64 > (STRAGGLES * median_seconds).max(1.0);
        let mut stragglers: Vec<_> = shards
            .iter()
            .filter(|(.., attempt, _)| is_long(attempt))
            .map(|(part, _, attempt, _)| straggler(*part, attempt))
            .collect();
        stragglers.sort_by_key(|straggler| std::cmp::Reverse(straggler.seconds));
        let attempts = || done.iter().map(|(.., attempt, _)| *attempt);
        Self {
            seconds,
            sent_bytes,
            gbit_per_second: if seconds > 0 { sent_bytes as f64 * 8e-9 / seconds as f64 } else { 0.0 },
            done: u32::try_from(done.len()).unwrap_or(u32::MAX),
            lost: made.saturating_sub(u32::try_from(counting).unwrap_or(0)),
            hosts: hosts(attempts()),
            limiters: limiters(attempts()),
            median_seconds,
            stragglers,
            rates: RunRates::of(&all.iter().map(|(.., attempt, _)| *attempt).collect::<Vec<_>>()),
        }
    }
}

fn took(attempt: &Attempt) -> u64 {
    attempt.written.saturating_sub(attempt.begun)
}

fn straggler(part: FleetPart, attempt: &Attempt) -> Straggler {
    Straggler {
        part: part.name(),
        seconds: took(attempt),
        host: attempt.maker.host.clone(),
        to: attempt.to.clone(),
        sent_bytes: attempt.progress.sent_bytes,
        limiter: attempt.progress.limiter.clone(),
    }
}

fn hosts<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Vec<HostShare> {
    let mut hosts = BTreeMap::<(bool, String), HostShare>::new();
    for attempt in attempts {
        let to = attempt.receiver().map(|host| (true, host.to_owned()));
        for (receives, host) in [(false, attempt.maker.host.clone())].into_iter().chain(to) {
            let share = hosts.entry((receives, host.clone())).or_default();
            (share.host, share.receives) = (host, receives);
            share.parts += 1;
            share.sent_bytes = share.sent_bytes.saturating_add(attempt.progress.sent_bytes);
            share.seconds += attempt.progress.seconds;
            share.cpu_seconds += attempt.progress.cpu_seconds;
        }
    }
    let rated = |share: HostShare| HostShare {
        gbit_per_second: if share.seconds > 0.0 {
            share.sent_bytes as f64 * 8e-9 / share.seconds
        } else {
            0.0
        },
        ..share
    };
    hosts.into_values().map(rated).collect()
}

fn limiters<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Vec<LimiterShare> {
    let mut limiters = BTreeMap::<&str, LimiterShare>::new();
    for attempt in attempts.filter(|attempt| !attempt.progress.limiter.is_empty()) {
        let limiter = attempt.progress.limiter.clone();
        let new = || LimiterShare { limiter, parts: 0, sent_bytes: 0 };
        let share = limiters.entry(&attempt.progress.limiter).or_insert_with(new);
        share.parts += 1;
        share.sent_bytes = share.sent_bytes.saturating_add(attempt.progress.sent_bytes);
    }
    let mut limiters: Vec<_> = limiters.into_values().collect();
    limiters.sort_by_key(|share| std::cmp::Reverse((share.sent_bytes, share.parts)));
    limiters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::AttemptProgress;

    fn attempt(host: &str, to: &str, seconds: u64, limiter: &str) -> Option<Attempt> {
        let mut attempt = Attempt::begin(format!("{to}:/x"));
        attempt.state = AttemptState::Done;
        attempt.maker.host = host.into();
        (attempt.begun, attempt.written) = (1000, 1000 + seconds);
        let progress = AttemptProgress {
            seconds: seconds as f64,
            sent_bytes: 1_000_000_000,
            ..AttemptProgress::default()
        };
        attempt.progress = AttemptProgress { limiter: limiter.into(), ..progress };
        Some(attempt)
    }

    #[test]
    fn hosts_limiters_and_stragglers_are_named() {
        let made = [
            (0, attempt("s1", "d1", 10, "network")),
            (1, attempt("s2", "d2", 10, "network")),
            (2, attempt("s1", "d1", 11, "network")),
            (3, attempt("s2", "d2", 40, "destination-write")),
            (4, attempt("s1", "d1", 9, "network").map(|it| Attempt { state: AttemptState::Failed, ..it })),
        ];
        let at_work = || Attempt { begun: 1000, ..Attempt::begin("d1:/x".into()) };
        let mut gone = at_work();
        gone.maker.started += 1;
        let made = made.into_iter().chain([(5, Some(at_work())), (6, Some(gone))]);
        let parts = made.map(|(shard, attempt)| (FleetPart::Shard(shard), [(1, attempt)].into()));
        let status = FleetStatus::of(parts.collect());
        let states: Vec<_> = status.parts().map(|(_, state, ..)| state).skip(4).collect();
        assert_eq!(states, [PartState::Failed, PartState::Running, PartState::Interrupted]);
        assert!(status.is_at_work());
        let report = FleetReport::of(&status);
        assert_eq!((report.seconds, report.sent_bytes, report.done, report.lost), (40, 4_000_000_000, 4, 2));
        let names: Vec<_> =
            report.hosts.iter().map(|share| (&*share.host, share.receives, share.parts)).collect();
        assert_eq!(names, [("s1", false, 2), ("s2", false, 2), ("d1", true, 2), ("d2", true, 2)]);
        assert!((report.hosts[1].gbit_per_second - 16.0 / 50.0).abs() < 1e-9);
        assert_eq!(report.stragglers.len(), 1);
        assert_eq!((&*report.stragglers[0].part, &*report.stragglers[0].host), ("00003", "s2"));
        assert_eq!(report.limiters[0].limiter, "network");
        assert_eq!(report.limiters[0].parts, 3);
        let nothing = FleetReport::of(&FleetStatus::of(BTreeMap::new()));
        assert_eq!((nothing.seconds, nothing.hosts.len()), (0, 0));
    }
}
