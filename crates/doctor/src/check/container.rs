//! linerate runs in a container, or in a network namespace of its own, from which the host's ports and limits can't be
//! seen.

use super::{Check, CheckRun};
use crate::source::NAMESPACES;
use crate::{Finding, Host, Severity};
use linerate_host::facts::Port;

pub(super) const CHECK: Check = Check {
    name: "container",
    about: "a container, whose host's ports and limits can't be seen from inside",
    sources: &[NAMESPACES],
    run: CheckRun::HostOne(of),
};

/// A sysctl that only the first network namespace has, or may write.
const FIRST_ONLY: &str = "net.core.rmem_max";

fn of(host: &Host<'_>) -> Option<Finding> {
    let facts = host.facts;
    let runtime = facts.machine.container.known();
    let ports = facts.ports.known()?;
    // The host's end of a container's veth belongs to a bridge.
    let is_inner = |port: &&Port| {
        port.layer.known().is_some_and(|layer| layer.is_elsewhere) && port.master.known().is_none()
    };
    let inner: Vec<&Port> = host.linked().filter(is_inner).collect();
    let is_unsure = host.linked().any(|port| port.kind.known().is_none());
    // Only the first network namespace may set the largest buffers of programs.
    let is_own = facts.machine.fixed.known().is_some_and(|fixed| fixed.iter().any(|key| key == FIRST_ONLY));
    let has_device = host.devices().next().is_some() || is_unsure;
    let shows_it = !inner.is_empty() || ports.is_empty() && is_own || runtime.is_some();
    // A container may have the host's own ports (--network host).
    if has_device || !shows_it {
        return None;
    }
    let name = runtime.map_or("a separate network namespace, as in a container".to_owned(), |runtime| {
        if runtime == "some" { "a container".into() } else { format!("a container ({runtime})") }
    });
    let finding = Finding::new(
        Severity::Note,
        format!("this is {name}: the network of its host can't be seen from inside"),
    );
    let taps: Vec<&Port> = host.linked().filter(|port| is_tap(port)).collect();
    let finding = match inner.as_slice() {
        [] if !taps.is_empty() => taps.iter().fold(finding, |finding, port| finding.evidence(proxied(port))),
        [] if ports.is_empty() => finding.evidence("the only port is the loopback"),
        inner => inner.iter().fold(finding, |finding, port| finding.evidence(reported(port))),
    };
    Some(
        finding
            .evidence("cards, queues, interrupts, shapers, the packet filter and swap belong to the host")
            .fix("also run linerate doctor on the container's host: its findings apply here too"),
    )
}

/// True for a tap, the port of a container without root: a program of the host copies each packet.
fn is_tap(port: &Port) -> bool {
    port.driver.known().is_some_and(|driver| driver == "tun")
}

fn proxied(port: &Port) -> String {
    format!(
        "{} is a tap: a program of the host, such as pasta or slirp4netns, carries all its data on one thread",
        port.name
    )
}

fn reported(port: &Port) -> String {
    let kind = port.layer.known().and_then(|layer| layer.kind.as_deref()).unwrap_or("port");
    let end = match kind {
        "veth" => "its other end is",
        _ => "the port below it is",
    };
    let mtu = port.mtu.get().map_or(String::new(), |mtu| format!("; MTU {mtu}{}", overlay(mtu)));
    format!("{} is a {kind}; {end} in another network namespace{mtu}", port.name)
}

/// The overlay that an MTU points to: network plugins leave room for its headers in packets of 1500 bytes.
fn overlay(mtu: u32) -> &'static str {
    match mtu {
        1450 => ", as with vxlan or geneve",
        1480 => ", as with ipip",
        1420 | 1440 => ", as with wireguard",
        1370..1500 => ", as with an overlay",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::facts::{PortKind, PortLayer};
    use linerate_host::{Fact, Facts};

    fn inside(mtu: u32) -> Facts {
        changed("stock-10g", |facts| {
            let port = Port {
                name: "eth0".into(),
                driver: Fact::Known("veth".into()),
                kind: Fact::Known(PortKind::Software),
                state: Fact::Known("up".into()),
                mtu: Fact::Known(mtu),
                layer: Fact::Known(PortLayer {
                    kind: Some("veth".into()),
                    is_elsewhere: true,
                    ..PortLayer::default()
                }),
                ..Port::default()
            };
            facts.ports = Fact::Known(vec![port]);
        })
    }

    #[test]
    fn a_container_is_named_with_its_ports_mtu() {
        let named = found(&CHECK, &inside(1450));
        assert_eq!(lines(&named), ["container - note -"]);
        assert!(named[0].evidence[0].ends_with("MTU 1450, as with vxlan or geneve"), "{named:?}");
        let mut none = inside(1500);
        none.ports = Fact::Known(Vec::new());
        none.machine.container = Fact::Known("docker".into());
        assert!(found(&CHECK, &none)[0].title.contains("docker"));
    }

    /// podman run as a user.
    #[test]
    fn a_container_behind_a_tap_is_named_with_the_program_behind_it() {
        let mut rootless = inside(65_520);
        let Fact::Known(ports) = &mut rootless.ports else { panic!("no ports") };
        (ports[0].driver, ports[0].layer) = (Fact::Known("tun".into()), Fact::Known(PortLayer::default()));
        assert!(found(&CHECK, &rootless).is_empty(), "a tap alone may be a tunnel");
        rootless.machine.container = Fact::Known("podman".into());
        let named = found(&CHECK, &rootless);
        assert_eq!(lines(&named), ["container - note -"]);
        assert!(named[0].evidence[0].contains("pasta"), "{named:?}");
    }

    #[test]
    fn a_namespace_without_ports_is_reported_by_what_it_may_not_set() {
        let mut none = inside(1500);
        none.ports = Fact::Known(Vec::new());
        assert!(found(&CHECK, &none).is_empty(), "nothing else says so");
        none.machine.fixed = Fact::Known(vec![FIRST_ONLY.into()]);
        assert_eq!(lines(&found(&CHECK, &none)), ["container - note -"]);
    }

    #[test]
    fn a_host_isnt_one_though_it_runs_some() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("veth-host")).is_empty());
        let bridged = changed("stock-10g", |facts| {
            *facts = inside(1450);
            let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
            ports[0].master = Fact::Known("cni0".into());
        });
        assert!(found(&CHECK, &bridged).is_empty(), "the host's end of a container's port");
        let own_ports = changed("stock-10g", |facts| facts.machine.container = Fact::Known("docker".into()));
        assert!(found(&CHECK, &own_ports).is_empty(), "--network host");
    }
}
