//! The number of connections that reach the needed rate.

use linerate_host::facts::Port;

use super::path_loss::bears_loss;
use super::window_vs_bdp::window;
use super::{Check, CheckRun};
use crate::formula::goodput::Segments;
use crate::formula::{cpu, flow, gbit};
use crate::source::{ESNET, FEDEX};
use crate::{Finding, Host, Path, Severity};

pub(super) const CHECK: Check = Check {
    name: "stream-count",
    about: "a needed rate that requires several connections",
    sources: &[FEDEX, ESNET],
    run: CheckRun::Path(of),
};

/// linerate's own maximum of streams. More streams wouldn't help.
const MOST_STREAMS: f64 = 64.0;

fn of(path: &Path<'_>) -> Option<Finding> {
    let need = path.rate();
    let limits = limits(path);
    let (name, one) = limits.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let streams = (need / one).ceil();
    if streams < 2.0 || path.measured.streams.is_some_and(|used| f64::from(used) >= streams) {
        return None;
    }
    let streams = streams.min(MOST_STREAMS);
    let title = format!("{streams:.0} streams are needed to reach {}", gbit(need));
    let finding = Finding::leaves(*one, need, title)
        .at_most(Severity::Note)
        .evidence(format!("one stream reaches {}, limited by {name}", gbit(*one)));
    let finding = limits
        .iter()
        .filter(|limit| limit.1.is_finite())
        .fold(finding, |finding, (name, rate)| finding.evidence(format!("{name}: {}", gbit(*rate))));
    Some(finding.fix(format!("linerate cp --streams {streams:.0}; iperf3 -P {streams:.0}")).conflict(
        "in the papers eight streams were five times as fast as one, not eight times; ESnet uses four; \
         many streams take more than their share from other traffic",
    ))
}

/// The rate of one connection in bits a second, by each limit.
fn limits(path: &Path<'_>) -> Vec<(&'static str, f64)> {
    let rtt = path.measured.rtt;
    let lost = path.measured.loss().filter(|loss| *loss > 1e-6 && !bears_loss(&path.from));
    let of_loss = |loss| Some(("loss", flow::cubic(Segments::usual(path.mtu()).payload(), rtt?, loss)));
    let of_window = rtt.and_then(|rtt| Some(("windows", flow::rate(window(path)?, rtt))));
    let of_core = port(&path.to).and_then(|port| {
        let aggregated = port.offload("rx-gro").get()?;
        Some(("the receiver's core", cpu::connection(port.mtu.get()?, aggregated).low))
    });
    [of_window, lost.and_then(of_loss), of_core].into_iter().flatten().collect()
}

fn port<'a>(host: &Host<'a>) -> Option<&'a Port> {
    host.devices().max_by_key(|port| port.speed_mbps.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{fixture, found_between, lines};

    fn with(rtt: f64, streams: u32) -> Vec<Finding> {
        let measured =
            PathMeasurements { rtt: Some(rtt), streams: Some(streams), ..PathMeasurements::default() };
        found_between(&CHECK, &fixture("stock-10g"), &fixture("stock-10g"), measured)
    }

    #[test]
    fn a_window_of_three_mebibytes_takes_several() {
        let found = with(0.01, 1);
        assert_eq!(lines(&found), ["stream-count - note 2.52 Gbit/s"]);
        assert!(found[0].title.contains("4 streams"), "{}", found[0].title);
    }

    #[test]
    fn losses_count_unless_the_congestion_control_bears_them() {
        let lossy = PathMeasurements {
            rtt: Some(0.001),
            streams: Some(1),
            sent: Some(100_000),
            retransmitted: Some(100),
            ..PathMeasurements::default()
        };
        let between = |host: &linerate_host::Facts| found_between(&CHECK, host, host, lossy);
        let found = between(&fixture("stock-10g"));
        assert!(found[0].evidence[0].ends_with("by loss"), "{found:?}");
        let bbr = between(&fixture("mlx5-25g-tuned"));
        assert!(bbr.iter().all(|f| !f.evidence.iter().any(|line| line.contains("loss"))), "{bbr:?}");
    }

    #[test]
    fn enough_streams_are_enough() {
        assert!(with(0.01, 8).is_empty());
        assert!(with(0.0001, 1).is_empty());
    }
}
