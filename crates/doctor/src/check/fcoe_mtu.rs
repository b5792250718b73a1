//! Fibre Channel over Ethernet: its frames need larger packets and a lossless network.

use linerate_host::facts::{Facts, Port};

use super::{Check, CheckRun, processors};
use crate::source::VMMARK;
use crate::{Citation, Finding, Severity};

/// Bytes of a Fibre Channel frame's payload.
const PAYLOAD: u32 = 2112;
/// The least MTU for a Fibre Channel frame with both headers ("baby jumbo").
const LEAST_MTU: u32 = 2158;

pub(super) const CHECK: Check = Check {
    name: "fcoe-mtu",
    about: "Fibre Channel over a port with small packets, or without flow control",
    sources: &[
        Citation {
            name: "Linux, commit bb2af4f54ffa: the parts of the 2158 bytes of FCoE's MTU",
            url: "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/commit/?id=bb2af4f54ffa8245d5ce278cae9c66198bc14d8b",
        },
        VMMARK,
    ],
    run: CheckRun::Host(|host| ports(host.facts).into_iter().flat_map(of).collect()),
};

/// Ports that Fibre Channel hosts name: `fcoe v0.1 over eth2`.
fn ports(facts: &Facts) -> Vec<&Port> {
    let hosts = facts.storage.fc_hosts.known().into_iter().flatten();
    let names = hosts
        .filter_map(|host| host.symbolic_name.known()?.rsplit_once(" over ").map(|(_, name)| name.trim()));
    names.filter_map(|name| facts.port(name)).collect()
}

fn of(port: &Port) -> Vec<Finding> {
    [small(port), lossy(port)].into_iter().flatten().collect()
}

fn small(port: &Port) -> Option<Finding> {
    let mtu = port.mtu.get().filter(|mtu| *mtu < LEAST_MTU)?;
    let finding =
        Finding::new(Severity::Major, format!("{} is too small for a whole Fibre Channel frame", port.name))
            .at(&port.name)
            .evidence(format!("MTU {mtu}; a frame of {PAYLOAD} bytes with its headers needs {LEAST_MTU}"))
            .fix(format!("ip link set {} mtu 2500, and on the switch", port.name))
            .undo(format!("ip link set {} mtu {mtu}", port.name));
    Some(finding)
}

fn lossy(port: &Port) -> Option<Finding> {
    let pause = port.pause.get()?;
    if pause.rx && pause.tx {
        return None;
    }
    let finding = Finding::new(Severity::Minor, format!("{} may lose Fibre Channel frames", port.name))
        .at(&port.name)
        .evidence(format!("pause frames: received {}, sent {}", pause.rx, pause.tx))
        .evidence(
            "priority flow control (DCB) would prevent losses better; the doctor can't see whether it is on",
        )
        .fix(format!("dcb pfc set dev {0} prio-pfc 3:on; or ethtool -A {0} rx on tx on", port.name))
        .undo(processors::pauses_as_now(port, &pause))
        .conflict("pause frames are a risk for other traffic: one slow host stops all the others");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines, port_of};
    use linerate_host::Fact;
    use linerate_host::facts::{FcHost, Pause};

    fn over(fixture: &str, port: &str) -> Vec<String> {
        let name = format!("fcoe v0.1 over {port}");
        let host = FcHost { name: "host7".into(), symbolic_name: Fact::Known(name) };
        lines(&found(&CHECK, &changed(fixture, |facts| facts.storage.fc_hosts = Fact::Known(vec![host]))))
    }

    #[test]
    fn small_packets_are_found() {
        assert_eq!(over("stock-10g", "eno1"), ["fcoe-mtu eno1 major -"]);
        assert_eq!(over("kvm-host-no-vhost", "ens2f0"), ["fcoe-mtu ens2f0 minor -"], "no pause");
    }

    #[test]
    fn pauses_go_back_to_what_they_were() {
        let obeys = changed("kvm-host-no-vhost", |facts| {
            let name = Fact::Known("fcoe v0.1 over ens2f0".into());
            facts.storage.fc_hosts = Fact::Known(vec![FcHost { name: "host7".into(), symbolic_name: name }]);
            port_of(facts, "ens2f0").pause = Fact::Known(Pause { rx: true, ..Pause::default() });
        });
        assert_eq!(found(&CHECK, &obeys)[0].undo.as_deref(), Some("ethtool -A ens2f0 rx on tx off"));
    }

    #[test]
    fn other_ports_and_hosts_without_it_are_not() {
        assert!(over("stock-10g", "eth9").is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
