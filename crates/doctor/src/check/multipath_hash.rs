//! A route with several next hops, of which all connections between two hosts take one.

use linerate_host::facts::TakenRoute;

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::IP_SYSCTL;
use crate::{Finding, Host, Path, Severity};

pub(super) const CHECK: Check = Check {
    name: "multipath-hash",
    about: "a route with several next hops, of which a path uses one",
    sources: &[IP_SYSCTL],
    run: CheckRun::Path(|path: &Path<'_>| path.ends().iter().find_map(of)),
};

fn of(end: &Host<'_>) -> Option<Finding> {
    let route = end.facts.route.known()?;
    let policy = end.facts.tcp.multipath_hash.get()?;
    if policy != 0 || route.is_v6 || route.ways.len() < 2 {
        return None;
    }
    let port = route.ports.last()?;
    let title = format!(
        "{}: all connections of the path take {port}, one of {} next hops",
        end.name,
        route.ways.len()
    );
    let own = end.fastest().filter(|own| *own < end.rate());
    let finding = match own {
        Some(own) => Finding::leaves(own, end.rate(), title),
        None => Finding::new(Severity::Note, title),
    };
    Some(told(finding, end, route))
}

fn told(finding: Finding, end: &Host<'_>, route: &TakenRoute) -> Finding {
    let rate = end.fastest().map_or_else(String::new, |rate| format!(", of which it has {}", gbit(rate)));
    finding
        .evidence(format!("the route's next hops are on {}{rate}", route.ways.join(", ")))
        .evidence("net.ipv4.fib_multipath_hash_policy is 0: the two hosts' addresses choose, and not the connections' ports")
        .fix(format!("on {}: sysctl -w net.ipv4.fib_multipath_hash_policy=1; each stream then takes a next hop of its own", end.name))
        .undo("sysctl -w net.ipv4.fib_multipath_hash_policy=0")
        .conflict("routers and switches on the way choose by settings of their own")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::along_route;
    use crate::testing::{changed, fixture, found_between, lines};
    use linerate_host::{Fact, Facts};

    fn host(policy: u32, is_v6: bool) -> Facts {
        along_route(changed("bond-layer2", |facts| {
            let ways = vec!["eth0".to_owned(), "eth1".to_owned()];
            facts.route =
                Fact::Known(TakenRoute { ports: vec!["eth1".into()], ways, is_v6, ..TakenRoute::default() });
            facts.tcp.multipath_hash = Fact::Known(policy);
        }))
    }

    fn between(from: &Facts, to: &Facts) -> Vec<Finding> {
        found_between(&CHECK, from, to, PathMeasurements::default())
    }

    #[test]
    fn one_of_several_next_hops_is_found_at_either_end() {
        let other = fixture("bond-layer2");
        let named = between(&other, &host(0, false));
        assert_eq!(lines(&named), ["multipath-hash - note -"]);
        assert!(
            named[0].title.starts_with("b: all connections of the path take eth1, one of 2"),
            "{named:?}"
        );
    }

    #[test]
    fn connections_that_are_spread_are_not() {
        let other = fixture("bond-layer2");
        assert!(between(&host(1, false), &other).is_empty() && between(&host(0, true), &other).is_empty());
        assert!(between(&other, &other).is_empty());
    }
}
