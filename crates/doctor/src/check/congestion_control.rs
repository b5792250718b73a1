//! The time in which a window grows back after a loss.

use super::{Check, CheckRun};
use crate::formula::{flow, gbit, trip};
use crate::remedy::Remedy;
use crate::source::{BBR, ESNET, RFC_9438};
use crate::{Finding, Host, Severity};

/// Better congestion controls, the best first.
const BETTER: [&str; 3] = ["cubic", "htcp", "bbr"];
/// The sysctl with the congestion controls that other network namespaces may choose. Only the first network namespace
/// may write it.
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
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
    let window = flow::in_flight(host.rate(), trip::REGION) / 1448.0;
    // A loss halves the window, which then grows by a segment each round trip.
    let seconds = window / 2.0 * trip::REGION;
    let finding =
        Finding::new(Severity::Minor, format!("{used} takes {seconds:.0} s to recover from one loss"))
            .evidence(format!("tcp_congestion_control is {used}"))
            .evidence(format!(
                "{} at a round trip of 10 ms needs a window of {window:.0} segments: a loss halves the window, and each round trip adds one segment",
                gbit(host.rate())
            ))
            .remedied_or(better(host, used), &without(host))
            .conflict(
                "perfSONAR sets htcp, ESnet cubic or bbr, distributions cubic; \
                 bbr takes more than its share from other flows",
            );
    Some(finding)
}

/// The change to the best congestion control that can be the default on this host.
fn better(host: &Host<'_>, used: &str) -> Option<Remedy> {
    let tcp = &host.facts.tcp;
    let possible = if is_apart(host) { tcp.allowed.known() } else { tcp.available.known() }?;
    let best = BETTER.into_iter().find(|name| possible.iter().any(|one| one == name))?;
    Remedy::sysctl("net.ipv4.tcp_congestion_control", used, best)
}

/// The steps to a better congestion control if the kernel accepts none on this host now.
fn without(host: &Host<'_>) -> String {
    let first = if is_apart(host) {
        format!("on the underlying host, add cubic to {ALLOWED}")
    } else {
        "modprobe tcp_cubic".into()
    };
    format!("{first}; then sysctl -w net.ipv4.tcp_congestion_control=cubic")
}

/// True in a network namespace that may choose only among the congestion controls that the first namespace allows.
fn is_apart(host: &Host<'_>) -> bool {
    host.facts.machine.fixed.known().is_some_and(|fixed| fixed.iter().any(|key| key == ALLOWED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    fn of_reno(available: &[&str], allowed: &[&str], is_apart: bool) -> Finding {
        let list = |names: &[&str]| Fact::Known(names.iter().map(|name| (*name).to_owned()).collect());
        let reno = changed("stock-10g", |facts| {
            facts.tcp.congestion_control = Fact::Known("reno".into());
            (facts.tcp.available, facts.tcp.allowed) = (list(available), list(allowed));
            facts.machine.fixed = list(if is_apart { &[ALLOWED] } else { &[] });
        });
        found(&CHECK, &reno).remove(0)
    }

    /// The kernel refuses all others (EPERM), even to root.
    #[test]
    fn a_network_namespace_gets_only_what_the_first_one_allows() {
        let all = ["reno", "bbr", "cubic"];
        let reported = |finding: &Finding| finding.remedies.first().map(|remedy| remedy.new.clone());
        assert_eq!(reported(&of_reno(&all, &["reno", "bbr"], true)).as_deref(), Some("bbr"));
        assert_eq!(reported(&of_reno(&all, &all, true)).as_deref(), Some("cubic"));
        assert_eq!(reported(&of_reno(&all, &["reno"], false)).as_deref(), Some("cubic"));
        let none = of_reno(&all, &["reno"], true);
        assert!(none.remedies.is_empty() && none.undo.is_none(), "{none:?}");
        assert!(none.fix.unwrap().starts_with("on the underlying host, add cubic to"));
    }

    #[test]
    fn a_module_that_is_not_loaded_is_loaded_first() {
        let finding = of_reno(&["reno"], &["reno"], false);
        assert!(finding.remedies.is_empty(), "{finding:?}");
        assert!(finding.fix.unwrap().starts_with("modprobe tcp_cubic; then sysctl -w "));
    }

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
