//! How fast a window grows back after a loss.

use super::{Check, CheckRun};
use crate::formula::{bdp, gbit, trip};
use crate::remedy::Remedy;
use crate::source::{BBR, ESNET, RFC_9438};
use crate::{Finding, Host, Severity};

/// Congestion controls whose window grows by one segment each round trip after a loss: Reno and similar ones.
const SLOW: [&str; 3] = ["reno", "vegas", "lp"];

pub(super) const CHECK: Check = Check {
    name: "congestion-control",
    about: "a congestion control that recovers slowly after a loss",
    sources: &[RFC_9438, BBR, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let used = tcp.congestion_control.known()?;
    if !SLOW.contains(&used.as_str()) {
        return None;
    }
    let window = bdp::bytes(host.rate(), trip::REGION) / 1448.0;
    // A loss halves the window, which then grows by a segment each round trip.
    let seconds = window / 2.0 * trip::REGION;
    let better = better(tcp.available.known().map_or(&[][..], Vec::as_slice));
    let finding =
        Finding::new(Severity::Minor, format!("{used} takes {seconds:.0} s to recover from one loss"))
            .evidence(format!("tcp_congestion_control is {used}"))
            .evidence(format!(
                "{} at 10 ms is a window of {window:.0} segments: \
                 a loss halves it, and each round trip adds one",
                gbit(host.rate())
            ))
            .remedied(Remedy::sysctl("net.ipv4.tcp_congestion_control", used, better))
            .conflict(
                "perfSONAR sets htcp, ESnet cubic or bbr, distributions cubic; \
                 bbr takes more than its share from other flows",
            );
    Some(finding)
}

fn better(available: &[String]) -> &str {
    ["cubic", "htcp", "bbr"].into_iter().find(|name| available.iter().any(|a| a == name)).unwrap_or("cubic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn reno_takes_long() {
        let reno = changed("stock-10g", |facts| facts.tcp.congestion_control = Fact::Known("reno".into()));
        let found_in = found(&CHECK, &reno);
        assert_eq!(lines(&found_in), ["congestion-control - minor -"]);
        assert!(found_in[0].title.contains("43 s"), "{}", found_in[0].title);
        assert!(found_in[0].fix.as_ref().unwrap().ends_with("=cubic"));
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        for other in ["westwood", "illinois", "yeah", "bic", "highspeed", "cdg", "dctcp", "nobodys"] {
            let host = changed("stock-10g", |facts| facts.tcp.congestion_control = Fact::Known(other.into()));
            assert!(found(&CHECK, &host).is_empty(), "{other} has an arithmetic of its own");
        }
    }
}
