//! Windows of both ends, against the bytes in flight on a measured path.

use super::{Check, CheckRun};
use crate::formula::{bdp, bytes, gbit};
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Path};

pub(super) const CHECK: Check = Check {
    name: "window-vs-bdp",
    about: "buffers smaller than the bandwidth-delay product of a path",
    sources: &[IP_SYSCTL, ESNET],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    let (rtt, need) = (path.measured.rtt?, path.rate());
    let (from, to) = (&path.from.facts.tcp, &path.to.facts.tcp);
    let (send, receive) = (from.wmem.get()?, to.rmem.get()?);
    let window = window(path)?;
    let one = bdp::rate(window, rtt);
    if one >= need {
        return None;
    }
    let streams = path.measured.streams.unwrap_or(1).max(1);
    let title = format!("windows limit one connection to {}", gbit(one));
    let size = (2.0 * bdp::bytes(need, rtt)).ceil() as u64;
    let size = size.checked_next_power_of_two().unwrap_or(size);
    let set = |sent: u64, received: u64| {
        format!(
            "{}: sysctl -w net.ipv4.tcp_wmem='{} {} {sent}'; {}: sysctl -w net.ipv4.tcp_rmem='{} {} {received}'",
            path.from.name, send[0], send[1], path.to.name, receive[0], receive[1]
        )
    };
    let finding = Finding::leaves(one * f64::from(streams), need, title)
        .evidence(format!(
            "{} at {:.1} ms needs {} in flight",
            gbit(need),
            rtt * 1e3,
            bytes(bdp::bytes(need, rtt))
        ))
        .evidence(format!(
            "{} sends from a buffer of {}, {} receives into {}",
            path.from.name,
            bytes(send[2] as f64),
            path.to.name,
            bytes(receive[2] as f64)
        ))
        .evidence(format!("{streams} streams were used; {:.0} would fill the path", (need / one).ceil()))
        .fix(set(size, size))
        .undo(set(send[2], receive[2]))
        .conflict(
            "more streams help as well, and recover sooner from a loss; but they take more than their share",
        );
    Some(finding)
}

/// Bytes that one connection may have in flight.
pub(super) fn window(path: &Path<'_>) -> Option<f64> {
    let (from, to) = (&path.from.facts.tcp, &path.to.facts.tcp);
    let receive = bdp::window(to.rmem.get()?[2], to.adv_win_scale.get().unwrap_or(1));
    Some(receive.min(bdp::window(from.wmem.get()?[2], 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{fixture, found_between, lines};

    fn at(rtt: f64) -> Vec<Finding> {
        let measured = PathMeasurements { rtt: Some(rtt), streams: Some(2), ..PathMeasurements::default() };
        found_between(&CHECK, &fixture("stock-10g"), &fixture("stock-10g"), measured)
    }

    #[test]
    fn a_long_path_needs_more_than_the_usual_buffers() {
        let found = at(0.05);
        assert_eq!(lines(&found), ["window-vs-bdp - critical 671 Mbit/s"]);
        assert!(found[0].evidence[2].contains("30 would fill the path"), "{:?}", found[0].evidence);
    }

    #[test]
    fn a_short_one_does_not() {
        assert!(at(0.0005).is_empty());
    }
}
