//! A path whose route takes slow ports, although both ends have faster ones.

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::{Citation, Finding, Host, Path, Severity};

pub(super) const CHECK: Check = Check {
    name: "route-port",
    about: "a path over slow ports, although both ends have faster ones",
    sources: &[
        Citation {
            name: "ip-route(8): get",
            url: "https://man7.org/linux/man-pages/man8/ip-route.8.html#get",
        },
        Citation { name: "ip-rule(8)", url: "https://man7.org/linux/man-pages/man8/ip-rule.8.html" },
    ],
    run: CheckRun::Path(of),
};

/// The rates of an end: that of its route's port, and that of its fastest port.
struct EndRates {
    now: f64,
    able: f64,
}

fn of(path: &Path<'_>) -> Option<Finding> {
    let [from, to] = path.ends().map(|end| rates(&end));
    let (from, to) = (from?, to?);
    let (now, able) = (from.now.min(to.now), from.able.min(to.able));
    if now >= able {
        return None;
    }
    let title = format!("the path takes ports of {}; both ends have ports of {}", gbit(now), gbit(able));
    let finding = Finding::leaves(now, able, title).at_most(Severity::Minor).fix(
        "ip route get ADDRESS shows the route at either end; if the faster ports reach each other, let the other host's name resolve to the address of its faster port, or set a route over that port",
    );
    let finding = path.ends().iter().filter_map(reported).fold(finding, Finding::evidence);
    Some(finding.conflict("the faster port may be in another network on purpose, as for storage"))
}

fn rates(end: &Host<'_>) -> Option<EndRates> {
    let beside = end.facts.route.known()?.beside.as_ref().map_or(0.0, |port| port.mbps as f64 * 1e6);
    let now = end.fastest()?;
    Some(EndRates { now, able: now.max(beside) })
}

fn reported(end: &Host<'_>) -> Option<String> {
    let route = end.facts.route.known()?;
    let table = route.table.map_or_else(String::new, |table| format!(", by routing table {table}"));
    let beside = route.beside.as_ref();
    let beside = beside
        .map_or_else(String::new, |port| format!("; {} has {}", port.name, gbit(port.mbps as f64 * 1e6)));
    Some(format!("{}: {}{table}{beside}", end.name, route.words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::along_route;
    use crate::testing::{changed, fixture, found_between, lines, port_of};
    use linerate_host::facts::TakenRoute;
    use linerate_host::{Fact, Facts};

    /// A host with two ports of different speeds, whose route takes the slow one.
    fn host(beside: u64) -> Facts {
        along_route(changed("bond-layer2", |facts| {
            facts.route = Fact::Known(TakenRoute { ports: vec!["eth0".into()], ..TakenRoute::default() });
            let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
            ports.retain(|port| port.name != "bond0");
            port_of(facts, "eth0").speed_mbps = Fact::Known(1_000);
            port_of(facts, "eth1").speed_mbps = Fact::Known(beside);
        }))
    }

    fn between(from: &Facts, to: &Facts) -> Vec<String> {
        lines(&found_between(&CHECK, from, to, PathMeasurements::default()))
    }

    #[test]
    fn a_route_over_slow_ports_is_found() {
        let fast = host(100_000);
        assert_eq!(between(&fast, &fast), ["route-port - minor 1.00 Gbit/s"]);
        let evidence = found_between(&CHECK, &fast, &host(25_000), PathMeasurements::default()).remove(0);
        assert_eq!(evidence.evidence[1], "b: eth0; eth1 has 25.0 Gbit/s");
    }

    #[test]
    fn one_end_without_a_faster_port_and_an_unknown_route_are_not() {
        assert!(between(&host(100_000), &host(100)).is_empty());
        assert!(between(&host(100_000), &fixture("stock-10g")).is_empty());
    }
}
