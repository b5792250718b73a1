//! Routes that limit their connections more than the host's settings do.

use linerate_host::facts::{PortKind, RouteFacts};

use super::{Check, CheckRun, shell};
use crate::formula::{flow, gbit, trip};
use crate::{Citation, Finding, Host, Severity};

/// The number of segments that a connection sends first (RFC 6928).
const FIRST: u32 = 10;
/// The kernel's own least time in milliseconds before an unanswered segment is sent again (TCP_RTO_MIN in
/// include/net/tcp.h). If a route has a lower value, somebody has set it on purpose, such as Google's scripts 5 ms for
/// its own network.
const LEAST_TIMEOUT: u32 = 200;

pub(super) const CHECK: Check = Check {
    name: "route-settings",
    about: "a route that limits its connections by a window, MTU, timeout or congestion control of its own",
    sources: &[Citation {
        name: "ip-route(8): window, mtu, initcwnd, rto_min, congctl",
        url: "https://man7.org/linux/man-pages/man8/ip-route.8.html",
    }],
    run: CheckRun::Host(|host| {
        host.facts.tcp.routes.known().into_iter().flatten().filter_map(|route| of(host, route)).collect()
    }),
};

fn of(host: &Host<'_>, route: &RouteFacts) -> Option<Finding> {
    let others = [window(host, route), first(route), timeout(route), control(route)];
    let others: Vec<String> = others.into_iter().flatten().collect();
    let mtu = mtu(host, route);
    if others.is_empty() {
        return mtu.map(|mtu| smaller(route, &mtu));
    }
    let limits = others.into_iter().chain(mtu);
    let title = format!("the route to {} limits its connections", route.destination);
    let ceiling = route
        .window
        .map(|bytes| flow::rate(f64::from(bytes), host.near_trip()))
        .filter(|rate| *rate < host.rate());
    let finding = match ceiling {
        Some(ceiling) => Finding::leaves(ceiling, host.rate(), title),
        None => Finding::new(Severity::Note, title),
    };
    let finding = limits.fold(finding, Finding::evidence);
    Some(
        finding
            .at(&route.destination)
            .fix(format!(
                "ip route show {0}, and note the line; then ip route change {0} ... without these settings, but with its mtu if it has one",
                shell::word(&route.destination)
            ))
            .undo(format!("ip route change with the noted line, which has {}", settings(route))),
    )
}

/// The route's present settings, as ip prints them.
fn settings(route: &RouteFacts) -> String {
    let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name} {value}"));
    let parts = [
        number("mtu", route.mtu),
        number("window", route.window),
        number("initcwnd", route.initcwnd),
        route.rto_min.map(|time| format!("rto_min {time}ms")),
        route.congestion_control.as_deref().map(|name| format!("congctl {}", shell::word(name))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn window(host: &Host<'_>, route: &RouteFacts) -> Option<String> {
    let window = route.window?;
    let one = flow::rate(f64::from(window), host.near_trip());
    (one < host.rate()).then(|| {
        format!(
            "with a window of {window} bytes one connection reaches {} at a round trip of {}",
            gbit(one),
            trip::text(host.near_trip())
        )
    })
}

/// The note about a route that has only a smaller MTU, which an overlay's agent or a cloud's guide may have set.
fn smaller(route: &RouteFacts, evidence: &str) -> Finding {
    Finding::new(Severity::Note, format!("packets of the route to {} are smaller than its port's", route.destination))
        .at(&route.destination)
        .evidence(evidence)
        .fix("find out who has set this MTU, and why")
        .conflict("an overlay, a VPN or a smaller network behind the route may need it: without it, full packets are lost")
}

/// The route's MTU in words, if it is smaller than its port's; `None` for a route into an overlay, whose agent sets it.
fn mtu(host: &Host<'_>, route: &RouteFacts) -> Option<String> {
    let port = host.facts.port(route.port.as_deref()?)?;
    if port.kind.get() == Some(PortKind::Software) {
        return None;
    }
    let (own, port) = (route.mtu?, port.mtu.get()?);
    (own < port).then(|| format!("MTU {own}; the port's is {port}"))
}

fn first(route: &RouteFacts) -> Option<String> {
    let segments = route.initcwnd?;
    (segments < FIRST).then(|| format!("initcwnd {segments}; the kernel's default is {FIRST}"))
}

fn timeout(route: &RouteFacts) -> Option<String> {
    let time = route.rto_min?;
    (time > LEAST_TIMEOUT).then(|| {
        format!(
            "rto_min {time} ms: a lost last segment is retransmitted only after this time; the kernel's default is {LEAST_TIMEOUT}"
        )
    })
}

fn control(route: &RouteFacts) -> Option<String> {
    let name = route.congestion_control.as_deref()?;
    ["reno", "vegas", "lp"].contains(&name).then(|| format!("congctl {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    fn with(route: RouteFacts) -> Vec<String> {
        let facts = changed("stock-10g", |facts| facts.tcp.routes = Fact::Known(vec![route]));
        lines(&found(&CHECK, &facts))
    }

    #[test]
    fn what_holds_back_is_found() {
        let route =
            RouteFacts { destination: "default".into(), port: Some("eno1".into()), ..RouteFacts::default() };
        assert_eq!(
            with(RouteFacts { window: Some(65536), ..route.clone() }),
            ["route-settings default critical 2.62 Gbit/s"]
        );
        assert_eq!(with(RouteFacts { mtu: Some(1400), ..route.clone() }), ["route-settings default note -"]);
        assert_eq!(with(RouteFacts { congestion_control: Some("reno".into()), ..route.clone() }).len(), 1);
        assert_eq!(with(RouteFacts { initcwnd: Some(2), ..route.clone() }).len(), 1);
        assert_eq!(with(RouteFacts { rto_min: Some(8000), ..route }), ["route-settings default note -"]);
    }

    #[test]
    fn the_undo_names_the_routes_settings() {
        let route = RouteFacts {
            window: Some(65536),
            rto_min: Some(300),
            congestion_control: Some("reno".into()),
            ..RouteFacts::default()
        };
        let facts = changed("stock-10g", |facts| facts.tcp.routes = Fact::Known(vec![route]));
        let undo = found(&CHECK, &facts).remove(0).undo.unwrap();
        assert!(undo.ends_with("which has window 65536 rto_min 300ms congctl reno"), "{undo}");
    }

    #[test]
    fn what_helps_is_not() {
        let route = RouteFacts {
            destination: "default".into(),
            initcwnd: Some(30),
            rto_min: Some(5),
            congestion_control: Some("bbr".into()),
            ..RouteFacts::default()
        };
        assert!(with(route).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
