//! Segments lost on a path, and the rate that one connection reaches at that loss.

use super::{Check, CheckRun};
use crate::formula::goodput::Segments;
use crate::formula::{flow, gbit, percent};
use crate::{Citation, Finding, Host, Path};

/// Share of lost segments up to which any path loses segments now and then.
const USUAL: f64 = 1e-6;
/// Share of lost segments from which a device drops packets on purpose, or is broken, however short the path is: full
/// queues lose less.
const MUCH: f64 = 0.01;
/// Share of the needed rate that a path without trouble reaches.
const REACHED: f64 = 0.9;

pub(super) const CHECK: Check = Check {
    name: "path-loss",
    about: "segments that were lost while the path was measured",
    sources: &[
        Citation {
            name: "RFC 9438, CUBIC, 5.1: the window that a loss rate leaves",
            url: "https://www.rfc-editor.org/rfc/rfc9438#section-5.1",
        },
        Citation {
            name: "ESnet, Network troubleshooting: packet loss",
            url: "https://fasterdata.es.net/network-tuning/tcp-issues-explained/packet-loss/",
        },
    ],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    let (loss, rtt) = (path.measured.loss()?, path.measured.rtt?);
    if loss >= MUCH && path.measured.rate.is_some_and(|rate| rate < path.rate() * REACHED) {
        return Some(dropped(path, loss));
    }
    if loss < USUAL || bears_loss(&path.from) {
        return None;
    }
    let (streams, need) = (path.measured.streams.unwrap_or(1).max(1), path.rate());
    let one = flow::cubic(Segments::usual(path.mtu()).payload(), rtt, loss);
    if one * f64::from(streams) >= need {
        return None;
    }
    let title = format!(
        "{:.4} % of the segments were retransmitted: a connection reaches {}",
        loss * 100.0,
        gbit(one)
    );
    let finding = Finding::leaves(one * f64::from(streams), need, title)
        .evidence(format!("round trip {:.1} ms, with {streams} streams", rtt * 1e3))
        .evidence(format!(
            "of {} segments, {} were retransmitted",
            path.measured.sent?, path.measured.retransmitted?
        ))
        .evidence("this is the rate in the long run: a connection's first seconds may be faster")
        .fix(
            "find where segments are lost: see drops-by-cause of both hosts, then the switches; \
            pacing helps against bursts, if nobody has set up traffic classes on the port (tc class show dev PORT): tc qdisc replace dev PORT root fq",
        )
        .undo("tc qdisc del dev PORT root")
        .conflict("BBR keeps its rate at losses of a few percent, but takes it from other flows on the path");
    Some(finding)
}

/// The finding about a loss that is too high for congestion at the ends. The cause of such a loss is a policer, a bad
/// cable, or a full queue before a slower line.
fn dropped(path: &Path<'_>, loss: f64) -> Finding {
    let (rate, need) = (path.measured.rate.unwrap_or(0.0), path.rate());
    let title = format!(
        "{} of the segments were dropped at {}: a policer, a line of that rate, or a damaged line",
        percent(loss),
        gbit(rate)
    );
    let finding = Finding::leaves(rate, need, title)
        .evidence(format!(
            "of {} segments, {} were retransmitted",
            path.measured.sent.unwrap_or(0),
            path.measured.retransmitted.unwrap_or(0)
        ))
        .evidence("a line whose queue is full loses a few packets in a thousand; a policer drops all packets above its rate");
    let finding = path.ends().iter().flat_map(limits).fold(finding, Finding::evidence);
    finding
        .fix(
            "ask the owner of the path about policers (a provider's contract, an instance's allowance), and see rate-limit and \
             drops-by-cause of both ends; if a policer allows a rate R, and nobody has set up traffic classes on the port (tc class show dev PORT): tc qdisc replace dev PORT root fq maxrate R at the sender",
        )
        .conflict("with a --rate-limit below the policer's rate nothing is dropped, and often more data arrives")
}

/// The policers and rate limits of an end, in words.
fn limits(host: &Host<'_>) -> Vec<String> {
    let of_port = |port: &linerate_host::facts::Port| {
        let policers = port.policers.known()?;
        let rate = policers.inwards.into_iter().chain(policers.outwards).min()?;
        Some(format!("{}: a policer on {} drops packets above {}", host.name, port.name, gbit(rate as f64)))
    };
    let rules = host.facts.tcp.rule_rates.known().and_then(|rates| rates.iter().min().copied());
    let rule = rules
        .map(|rate| format!("{}: a rule of nftables limits packets to {}", host.name, gbit(rate as f64)));
    host.linked().filter_map(of_port).chain(rule).collect()
}

/// True if the sender uses BBR. BBR doesn't interpret a loss as congestion, so the formula doesn't give BBR's rate.
pub(super) fn bears_loss(sender: &Host<'_>) -> bool {
    sender.facts.tcp.congestion_control.known().is_some_and(|name| name.starts_with("bbr"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found_between, lines};
    use crate::{PathMeasurements, Severity};

    fn between(retransmitted: u64) -> Vec<Finding> {
        let (from, to) = (fixture("stock-10g"), fixture("stock-10g"));
        let measured = PathMeasurements {
            rtt: Some(0.05),
            rate: Some(1e9),
            streams: Some(1),
            retransmitted: Some(retransmitted),
            sent: Some(1_000_000),
            ..PathMeasurements::default()
        };
        found_between(&CHECK, &from, &to, measured)
    }

    #[test]
    fn loss_on_a_long_path_is_costly() {
        let found = between(100);
        assert_eq!(lines(&found), ["path-loss - critical 28.4 Mbit/s"]);
        assert_eq!((found[0].severity, found[0].host.as_str()), (Severity::Critical, "a -> b"));
    }

    #[test]
    fn a_clean_path_has_none() {
        assert!(between(0).is_empty());
        let bbr = fixture("mlx5-25g-tuned");
        let lossy = PathMeasurements {
            rtt: Some(0.05),
            retransmitted: Some(9),
            sent: Some(9999),
            ..PathMeasurements::default()
        };
        assert!(found_between(&CHECK, &bbr, &bbr, lossy).is_empty(), "BBR");
        let (from, to) = (fixture("stock-10g"), fixture("stock-10g"));
        assert!(
            found_between(&CHECK, &from, &to, PathMeasurements::default()).is_empty(),
            "nothing measured"
        );
    }
}
