//! The report of a crowd, with a check of its plausibility.

use crate::report::{LoadReport, per_second};
use crate::window::Phases;

use super::crowd::Crowd;
use super::tally::UserTally;

/// The greatest tolerated relative difference between the number of users and rate x response time.
const TOLERANCE: f64 = 0.05;

/// The report of a crowd.
pub fn report(crowd: &Crowd, tally: &UserTally) -> LoadReport {
    let (count, seconds) = (tally.latency.count(), crowd.window.measured.as_secs_f64());
    let mut report = LoadReport::new("http", tally.counts.payload, seconds)
        .with_transactions(count, tally.latency.summary());
    report.window = tally.phases.as_ref().map(Phases::counted);
    report.users = Some(crowd.users);
    report.bytes_out = Some(tally.counts.sent);
    report.header_bytes = Some(tally.counts.framing);
    report.connections.clone_from(&tally.connections);
    report.errors = Some(tally.errors.clone());
    report.warnings.extend(failures(tally));
    report.new_connections_per_second = crowd.new_connections.then(|| per_second(count as f64, seconds));
    if crowd.pace.is_none() {
        let rate = per_second(count as f64, seconds);
        let cycle = tally.latency.mean_seconds() + crowd.think.as_secs_f64();
        report.warnings.extend(little(crowd.users, rate, cycle));
    }
    report
}

fn failures(tally: &UserTally) -> Option<String> {
    let errors = &tally.errors;
    let connections: u64 = tally.connections.iter().map(|connections| connections.failed).sum();
    let statuses: u64 = errors.statuses.values().sum();
    let parts = [
        (connections, "connections failed"),
        (statuses, "answers had a status other than 2xx"),
        (errors.timeouts, "requests timed out"),
        (errors.broken, "replies were broken"),
    ];
    let reported: Vec<_> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let first = tally.reason.as_ref().map_or(String::new(), |reason| format!("; the first: {reason}"));
    (!reported.is_empty()).then(|| format!("{}{first}", reported.join(", ")))
}

/// Checks a result by Little's law for a closed loop: the number of users must equal rate x (mean response
/// time + think time). If they differ, users spent time outside of answered requests: in failures, or because
/// the window is short compared with the response time. (J. D. C. Little, "A proof for the queuing formula L
/// = lambda W", 1961.)
pub fn little(users: u32, per_second: f64, cycle_seconds: f64) -> Option<String> {
    let (users, seen) = (f64::from(users), per_second * cycle_seconds);
    ((seen / users - 1.0).abs() > TOLERANCE).then(|| {
        format!(
            "the closed loop's numbers disagree: {per_second:.1} requests a second x {:.2} ms are {seen:.1} users, not \
             {users}; measure for longer if requests take long, otherwise look at the failures",
            cycle_seconds * 1e3
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_loop_that_closes_is_silent(users in 1u32..10_000, mean in 1e-6f64..10.0, off in -0.04f64..0.04) {
            let rate = f64::from(users) / mean;
            prop_assert_eq!(little(users, rate * (1.0 + off), mean), None);
            prop_assert!(little(users, rate * 1.06, mean).is_some());
            prop_assert!(little(users, rate * 0.94, mean).is_some());
        }
    }

    #[test]
    fn nothing_at_all_does_not_close() {
        assert!(little(5, 0.0, 0.0).is_some());
    }
}
