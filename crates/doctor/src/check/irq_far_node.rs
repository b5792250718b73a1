//! Interrupts served by processors of another socket's NUMA node than the card's.

use linerate_host::facts::Port;

use super::{Check, CheckRun, processors};
use crate::formula::{cpu, gbit, percent};
use crate::source::{ESNET_NIC, FEDEX, STACK};
use crate::{Finding, Host};

/// The share of interrupts on far nodes at or above which they are reported.
const MANY: f64 = 0.5;
const LEAST_INTERRUPTS: u64 = 10_000;

pub(super) const CHECK: Check = Check {
    name: "irq-far-node",
    about: "interrupts served by processors of another NUMA node",
    sources: &[ESNET_NIC, STACK, FEDEX],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let node = port.pci.known()?.numa_node.get()?;
    let of_node = host.facts.cpu.node(node)?.cpus.known()?;
    let far_nodes = host.facts.cpu.far_nodes(node)?.into_iter().filter_map(|far| far.cpus.known());
    let share = far(port, &far_nodes.flatten().copied().collect::<Vec<u32>>())?;
    // The card's node may have only isolated processors, which serve no interrupts.
    let cpus = host.facts.cpu.housekeeping();
    let cpus: Vec<u32> = cpus.known()?.iter().filter(|cpu| of_node.contains(cpu)).copied().collect();
    if cpus.is_empty() || share < MANY {
        return None;
    }
    let title = format!("{} of {}'s interrupts are served by a far NUMA node", percent(share), port.name);
    let (need, one) =
        (host.rate_of(port)?, cpu::connection(port.mtu.get()?, true).low * (1.0 - cpu::FAR_LOSS));
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let near = processors::spread(port.interrupts.known()?, &cpus);
    // Several queues share the port's rate, so far cores cost a fifth of their queues' part.
    let ceiling = one.max(need * (1.0 - cpu::FAR_LOSS * share));
    let finding = Finding::leaves(ceiling, need, title)
        .at(&port.name)
        .evidence(format!("the card belongs to node {node}, whose processors are {}", list.join(",")))
        .evidence(format!(
            "memory of another node costs a core a fifth of its rate: a connection keeps {} or more",
            gbit(one)
        ));
    Some(
        finding.remedied_or(near, "bind its interrupts to these processors").conflict(
            "irqbalance may move them back: it respects nodes only if the firmware reports them; interrupts that the kernel manages refuse the change (EIO)",
        ),
    )
}

/// Share of a port's interrupts served by these processors.
fn far(port: &Port, cpus: &[u32]) -> Option<f64> {
    let counts = port.interrupts.known()?.iter().filter_map(|irq| irq.counts.known()).flatten();
    let (mut all, mut far) = (0_u64, 0_u64);
    for (cpu, count) in counts {
        all = all.saturating_add(*count);
        far = far.saturating_add(if cpus.contains(cpu) { *count } else { 0 });
    }
    (all >= LEAST_INTERRUPTS).then(|| far as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn a_card_at_the_other_socket_is_found() {
        let found = found(&CHECK, &fixture("dual-socket-far-nic"));
        assert_eq!(lines(&found), ["irq-far-node enp129s0f0 note 16.8 Gbit/s"]);
        assert!(found[0].undo.as_deref().unwrap().starts_with("echo 0 > /proc/irq/60/"), "{found:?}");
        assert!(
            found[0]
                .fix
                .as_deref()
                .unwrap()
                .starts_with("echo 8 > /proc/irq/60/smp_affinity_list; echo 9 > /proc/irq/61/"),
            "{found:?}"
        );
    }

    /// If half of the queues are served far away, they lose a fifth; the port isn't reduced to the rate of one core.
    #[test]
    fn several_queues_lose_a_fifth_of_the_far_ones_part() {
        let fast = crate::testing::edited("dual-socket-far-nic", "enp129s0f0", |port| {
            port.speed_mbps = linerate_host::Fact::Known(100_000);
        });
        assert_eq!(lines(&found(&CHECK, &fast)), ["irq-far-node enp129s0f0 major 80.0 Gbit/s"]);
    }

    /// EPYC with two nodes for each socket (NPS2), or Xeon with sub-NUMA clusters.
    #[test]
    fn a_node_of_the_same_socket_is_not_far() {
        let mut host = fixture("dual-socket-far-nic");
        host.cpu.sockets = linerate_host::Fact::Known(1);
        assert!(found(&CHECK, &host).is_empty());
        host.cpu.sockets = linerate_host::Fact::Known(2);
        let linerate_host::Fact::Known(nodes) = &mut host.cpu.nodes else { panic!("no nodes") };
        nodes[1].distances = linerate_host::Fact::Known(vec![12, 10]);
        assert!(found(&CHECK, &host).is_empty());
    }

    #[test]
    fn isolated_processors_of_the_node_serve_none() {
        let with = |isolated: Vec<u32>| {
            let host = crate::testing::changed("dual-socket-far-nic", |facts| {
                facts.cpu.isolated = linerate_host::Fact::Known(isolated);
            });
            found(&CHECK, &host).pop()
        };
        assert!(with((8..16).collect()).is_none(), "none is left near the card");
        let two = with((8..14).collect()).unwrap();
        assert!(two.remedies.iter().all(|remedy| ["14", "15"].contains(&&*remedy.new)), "{two:?}");
    }

    #[test]
    fn near_ones_are_not() {
        for host in ["stock-10g", "bare-gen1-x4", "mlx5-25g-tuned", "e1000"] {
            assert!(found(&CHECK, &fixture(host)).is_empty(), "{host}");
        }
    }
}
