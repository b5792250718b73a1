//! A route with several next hops, on which all connections between two hosts take the same next hop.

use linerate_host::facts::TakenRoute;

use super::{Check, CheckRun};
use crate::along::is_one_hop;
use crate::formula::gbit;
use crate::source::IP_SYSCTL;
use crate::{Finding, Host, Path, Severity};

pub(super) const CHECK: Check = Check {
    name: "multipath-hash",
    about: "a route with several next hops, only one of which a path uses",
    sources: &[IP_SYSCTL],
    run: CheckRun::Path(|path: &Path<'_>| of(&path.from)),
};

fn of(end: &Host<'_>) -> Option<Finding> {
    let route = end.facts.route.known()?;
    let policy = end.facts.tcp.multipath_hash.get()?;
    if !is_one_hop(route, end.facts) || route.ways.len() < 2 {
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
    Some(reported(finding, end, route, policy))
}

fn reported(finding: Finding, end: &Host<'_>, route: &TakenRoute, policy: u32) -> Finding {
    let fields = end.facts.tcp.multipath_fields.get().filter(|_| policy == 3);
    let fields =
        fields.map_or_else(String::new, |fields| format!(" with fib_multipath_hash_fields {fields}"));
    let rate = end.fastest().map_or_else(String::new, |rate| format!("; the used port has {}", gbit(rate)));
    finding
        .evidence(format!("the route's next hops are on {}{rate}", route.ways.join(", ")))
        .evidence(format!(
            "net.ipv4.fib_multipath_hash_policy is {policy}{fields}: the choice of the next hop ignores the connections' ports"
        ))
        .fix(format!("on {}: sysctl -w net.ipv4.fib_multipath_hash_policy=1; the streams then spread over the next hops", end.name))
        .undo(format!("sysctl -w net.ipv4.fib_multipath_hash_policy={policy}"))
        .conflict("routers and switches on the path have their own settings for this")
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
    fn one_of_several_next_hops_is_found_at_the_end_that_sends() {
        let other = fixture("bond-layer2");
        let named = between(&host(2, false), &other);
        assert_eq!(lines(&named), ["multipath-hash - note -"]);
        assert!(
            named[0].title.starts_with("a: all connections of the path take eth1, one of 2"),
            "{named:?}"
        );
        assert!(named[0].evidence[1].contains("policy is 2:"), "{named:?}");
        assert!(named[0].undo.as_deref().unwrap().ends_with("policy=2"), "{named:?}");
        assert!(between(&other, &host(0, false)).is_empty(), "only acknowledgements");
        let mut fields = host(3, false);
        assert!(between(&fields, &other).is_empty(), "unknown fields");
        fields.tcp.multipath_fields = Fact::Known(7);
        assert!(
            between(&fields, &other)[0].evidence[1].contains("policy is 3 with fib_multipath_hash_fields 7:")
        );
    }

    #[test]
    fn connections_that_are_spread_are_not() {
        let other = fixture("bond-layer2");
        assert!(between(&host(1, false), &other).is_empty() && between(&host(0, true), &other).is_empty());
        assert!(between(&other, &other).is_empty());
    }
}
