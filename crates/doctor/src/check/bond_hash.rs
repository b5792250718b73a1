//! A bond whose hash policy leaves some ports idle between two hosts.

use linerate_host::facts::{Bond, Port};

use super::{Check, CheckRun, shell};
use crate::finding::Way;
use crate::formula::gbit;
use crate::source::BONDING;
use crate::subject::speed;
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "bond-hash",
    about: "a bond that sends all traffic for one host over one port",
    sources: &[
        BONDING,
        Citation {
            name: "Red Hat Enterprise Linux 9, Configuring a network bond",
            url: "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/configuring_and_managing_networking/configuring-network-bonding_configuring-and-managing-networking",
        },
    ],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.linked().filter_map(|port| of(host, port, port.bond.known()?)).collect()
}

fn of(host: &Host<'_>, port: &Port, bond: &Bond) -> Option<Finding> {
    match bond.mode.known()?.as_str() {
        "balance-xor" | "802.3ad" => by_hash(host, port, bond),
        "balance-rr" => bond.slaves.known().filter(|slaves| slaves.len() > 1).map(|_| in_turn(port)),
        _ => None,
    }
}

fn by_hash(host: &Host<'_>, port: &Port, bond: &Bond) -> Option<Finding> {
    let policy = bond.hash_policy.known().filter(|policy| !policy.contains("3+4"))?;
    let slaves = bond.slaves.known().filter(|slaves| slaves.len() > 1)?;
    let one = slaves.iter().filter_map(|name| speed(host.facts.port(name)?)).max_by(f64::total_cmp)?;
    let title =
        format!("{} sends all traffic for one host over one of its {} ports", port.name, slaves.len());
    let set = |policy: &str| format!("ip link set {} type bond xmit_hash_policy {policy}", port.name);
    // With many other hosts, their addresses spread over the ports. A transfer to one host still uses one port.
    let finding = Finding::leaves(one, host.rate_of(port)?, title)
        .at_most(Severity::Minor)
        .only(Way::Sends)
        .at(&port.name)
        .evidence(format!(
            "xmit_hash_policy {policy}: addresses choose the port, and all streams have the same addresses"
        ))
        .evidence(format!("{} have {} each", slaves.join(", "), gbit(one)))
        .fix(format!(
            "{}; this helps only several streams, and the switch chooses the ports of received packets",
            set("layer3+4")
        ))
        .undo(set(&shell::word(policy)))
        .conflict(
            "layer3+4 isn't strictly 802.3ad: fragments of one packet may take two ports (bonding.rst)",
        );
    Some(finding)
}

fn in_turn(port: &Port) -> Finding {
    Finding::new(
        Severity::Minor,
        format!("{} sends packets over its ports in turn, which reorders the packets", port.name),
    )
    .at(&port.name)
    .evidence("mode balance-rr: TCP treats reordered packets as lost")
    .fix("mode 802.3ad with layer3+4 and several streams, if the switch speaks LACP; or raise net.ipv4.tcp_reordering at both ends")
    .conflict("balance-rr is the only mode in which one connection can be faster than one port")
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(change: impl FnOnce(&mut Bond)) -> Vec<String> {
        let host = edited("bond-layer2", "bond0", |port| {
            let Fact::Known(bond) = &mut port.bond else { panic!("no bond") };
            change(bond);
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn choosing_by_addresses_leaves_one_port() {
        assert_eq!(lines(&found(&CHECK, &fixture("bond-layer2"))), ["bond-hash bond0 minor 10.0 Gbit/s"]);
        assert_eq!(with(|bond| bond.mode = Fact::Known("balance-rr".into())), ["bond-hash bond0 minor -"]);
    }

    #[test]
    fn choosing_by_ports_and_one_at_a_time_are_not_found() {
        assert!(with(|bond| bond.hash_policy = Fact::Known("layer3+4".into())).is_empty());
        assert!(with(|bond| bond.mode = Fact::Known("active-backup".into())).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
