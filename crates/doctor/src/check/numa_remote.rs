//! The NUMA node of a card, and the cost for programs on other nodes.

use linerate_host::facts::{Node, Port};

use super::{Check, CheckRun};
use crate::formula::{cpu, gbit};
use crate::source::{ESNET_NIC, FEDEX, STACK};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "numa-remote",
    about: "a card at one of several NUMA nodes: programs are faster on that node",
    sources: &[FEDEX, ESNET_NIC, STACK],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let nodes = host.facts.cpu.nodes.known()?;
    let node = port.pci.known()?.numa_node.get()?;
    let own = host.facts.cpu.node(node)?;
    let far_nodes = host.facts.cpu.far_nodes(node).filter(|far| !far.is_empty())?;
    if own.cpus.known()?.is_empty() {
        return Some(without_processors(port, node));
    }
    let one = cpu::connection(port.mtu.get()?, true).low;
    let need = host.rate_of(port)?;
    let title = format!(
        "{} is at one of {} NUMA nodes ({node}): programs on nodes of other sockets lose a fifth of their rate",
        port.name,
        nodes.len()
    );
    let far = one * (1.0 - cpu::FAR_LOSS);
    let cores = far_cores(host, &far_nodes)?;
    let all = far * f64::from(cores);
    // Each connection can have a core of its own. If the far cores together are fast enough, nothing is lost.
    let severity = if all < need { Severity::Minor } else { Severity::Note };
    let finding = Finding::new(severity, title)
        .at(&port.name)
        .evidence(format!("a connection on a far core reaches {} or more; needed: {}", gbit(far), gbit(need)))
        .evidence(format!("one connection on each of the {cores} far cores: {} or more", gbit(all)))
        .fix(format!("numactl --cpunodebind={node} --preferred={node} linerate cp ..."));
    Some(finding.conflict(
        "binding to one node leaves the processors of the other nodes idle: \
         several streams may be faster on all nodes",
    ))
}

/// The number of cores at these nodes.
fn far_cores(host: &Host<'_>, far: &[&Node]) -> Option<u32> {
    let cpus = far.iter().map(|node| node.cpus.known().cloned()).collect::<Option<Vec<_>>>()?.concat();
    host.facts.cpu.cores_of(&cpus)
}

fn without_processors(port: &Port, node: u32) -> Finding {
    Finding::new(
        Severity::Minor,
        format!("{} is at NUMA node {node}, which has no online processor", port.name),
    )
    .at(&port.name)
    .evidence("all processors that serve its interrupts belong to other nodes")
    .fix("move the card to a slot of a socket with processors, or bring the node's processors online")
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn two_sockets_are_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("dual-socket-far-nic"))), ["numa-remote enp129s0f0 note -"]);
        let mut empty = fixture("dual-socket-far-nic");
        let Fact::Known(nodes) = &mut empty.cpu.nodes else { panic!("no nodes") };
        nodes[1].cpus = Fact::Known(Vec::new());
        assert_eq!(lines(&found(&CHECK, &empty)), ["numa-remote enp129s0f0 minor -"]);
    }

    /// Nothing more can be set on a host with two sockets: the user chooses where a program runs.
    #[test]
    fn far_cores_cost_only_if_they_are_too_few_together() {
        let mut fast = fixture("dual-socket-far-nic");
        crate::testing::port_of(&mut fast, "enp129s0f0").speed_mbps = Fact::Known(100_000);
        assert_eq!(lines(&found(&CHECK, &fast)), ["numa-remote enp129s0f0 note -"]);
        let Fact::Known(nodes) = &mut fast.cpu.nodes else { panic!("no nodes") };
        let Fact::Known(cpus) = &mut nodes[0].cpus else { panic!("no processors") };
        cpus.truncate(2);
        assert_eq!(lines(&found(&CHECK, &fast)), ["numa-remote enp129s0f0 minor -"]);
    }

    #[test]
    fn one_node_has_no_far_one() {
        let mut one_socket = fixture("dual-socket-far-nic");
        one_socket.cpu.sockets = Fact::Known(1);
        assert!(found(&CHECK, &one_socket).is_empty(), "two nodes of one socket");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("ena")).is_empty());
    }
}
