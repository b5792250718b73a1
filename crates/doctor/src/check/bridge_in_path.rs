//! A port in a bridge: each packet passes through the bridge, and the smallest MTU of the bridge's ports counts.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::source::BRIDGE;
use crate::{Finding, Host, Severity};

const OTHER_PORT: &str = "use a port outside the bridge for the host's own transfers, \
    and a virtual function or macvtap for guests";
const RULES: &str = "net.bridge.bridge-nf-call-iptables";

pub(super) const CHECK: Check = Check {
    name: "bridge-in-path",
    about: "a hardware port that belongs to a bridge of the kernel",
    sources: &[BRIDGE],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.linked().filter_map(|bridge| of(host, bridge)).collect()
}

fn of(host: &Host<'_>, bridge: &Port) -> Option<Finding> {
    let names = bridge.bridge_ports.known()?;
    let ports: Vec<&Port> = names.iter().filter_map(|name| host.facts.port(name)).collect();
    let real = host.hardware().find(|port| names.contains(&port.name))?;
    let narrow = ports.iter().find(|port| port.mtu.get() < real.mtu.get() && port.mtu.get().is_some());
    let title = format!("packets of {} pass through the bridge {}", real.name, bridge.name);
    let severity = if narrow.is_some() { Severity::Minor } else { Severity::Note };
    let finding = Finding::new(severity, title)
        .at(&bridge.name)
        .evidence(format!("the bridge's ports: {}", names.join(", ")))
        .fix(OTHER_PORT);
    let finding = match host.facts.softnet.bridge_calls_iptables.get() {
        Some(true) => past_rules(finding),
        _ => finding,
    };
    Some(match narrow {
        Some(port) => finding.evidence(format!(
            "{} has MTU {}, {} has {}: the smallest MTU limits all of them",
            port.name,
            port.mtu.get().unwrap_or(0),
            real.name,
            real.mtu.get().unwrap_or(0)
        )),
        None => finding,
    })
}

/// Bridged packets also pass through the rules of iptables. That is wasted time if no rule concerns them.
fn past_rules(finding: Finding) -> Finding {
    finding
        .evidence("bridged packets also pass through the rules of iptables: bridge-nf-call-iptables is 1")
        .fix(format!("{OTHER_PORT}; if no rule needs bridged packets, sysctl -w {RULES}=0"))
        .undo(format!("sysctl -w {RULES}=1"))
        .conflict("the firewall rules of containers and guests may need bridge-nf-call-iptables")
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn a_real_port_in_a_bridge_is_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("kvm-host-no-vhost"))), ["bridge-in-path br0 note -"]);
        let narrow = edited("kvm-host-no-vhost", "tap0", |port| port.mtu = Fact::Known(1500));
        assert_eq!(lines(&found(&CHECK, &narrow)), ["bridge-in-path br0 minor -"]);
    }

    #[test]
    fn rules_are_turned_off_only_where_they_are_on() {
        let mut host = fixture("kvm-host-no-vhost");
        for (calls, undo) in [
            (Fact::Known(true), Some("sysctl -w net.bridge.bridge-nf-call-iptables=1")),
            (Fact::Known(false), None),
            (Fact::NotApplicable, None),
        ] {
            host.softnet.bridge_calls_iptables = calls;
            let found = found(&CHECK, &host).remove(0);
            assert_eq!(found.undo.as_deref(), undo);
            assert_eq!(found.fix.is_some_and(|fix| fix.contains("sysctl -w")), undo.is_some());
        }
    }

    #[test]
    fn bridges_among_containers_are_not() {
        assert!(found(&CHECK, &fixture("veth-host")).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
