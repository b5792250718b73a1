//! VLANs on a port whose card leaves the tags to the processor.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::remedy::{Remedy, Setting};
use crate::source::{ETHTOOL, FEDEX, RED_HAT};
use crate::{Finding, Host, Severity};

const FEATURES: [&str; 2] = ["rx-vlan-hw-parse", "tx-vlan-hw-insert"];

pub(super) const CHECK: Check = Check {
    name: "vlan-offload",
    about: "VLANs whose tags the processor reads and writes",
    sources: &[ETHTOOL, RED_HAT, FEDEX],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let is_above = |other: &&Port| other.vlan.known().is_some_and(|vlan| vlan.lower == port.name);
    let vlan = host.linked().find(is_above)?;
    let is_off = |name: &&str| port.offload(name).get() == Some(false) && !port.has_fixed(name);
    let off: Vec<_> = FEATURES.into_iter().filter(is_off).collect();
    if off.is_empty() {
        return None;
    }
    let on = |name: &&str| {
        let setting = Setting::Feature { port: port.name.clone(), feature: (*name).into() };
        Remedy::of(setting, "off", "on")
    };
    let names = off.join(", ");
    let finding = Finding::new(
        Severity::Minor,
        format!("{} leaves the tags of {} to the processor", port.name, vlan.name),
    )
    .at(&port.name)
    .evidence(format!("{names} off: the card may also stop segmenting"))
    .remedied(off.iter().filter_map(on));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;
    use linerate_host::facts::{Offload, Vlan};

    use super::*;
    use crate::testing::{fixture, found, lines, port_of};

    /// The stock host with a VLAN on its port.
    fn with(on: bool, fixed: bool) -> Vec<String> {
        let mut host = fixture("stock-10g");
        let Fact::Known(features) = &mut port_of(&mut host, "eno1").offloads else { panic!("no features") };
        features.insert("tx-vlan-hw-insert".into(), Offload { on, fixed });
        let vlan = Port {
            name: "eno1.7".into(),
            vlan: Fact::Known(Vlan { id: 7, lower: "eno1".into() }),
            ..port_of(&mut host, "eno1").clone()
        };
        let Fact::Known(ports) = &mut host.ports else { panic!("no ports") };
        ports.push(Port { kind: Fact::Known(linerate_host::facts::PortKind::Software), ..vlan });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn tags_by_the_processor_are_found() {
        assert_eq!(with(false, false), ["vlan-offload eno1 minor -"]);
    }

    #[test]
    fn tags_by_the_card_and_no_vlan_are_not() {
        assert!(with(true, false).is_empty());
        assert!(with(false, true).is_empty(), "a card without it, as virtio's");
        assert!(found(&CHECK, &fixture("virtio-one-queue")).is_empty());
    }
}
