//! The rate at which processors receive from a port, and commands for ports and their interrupts.

use linerate_host::facts::{Irq, Pause, Port};

use super::shell;
use crate::finding::Way;
use crate::formula::{cpu, gbit};
use crate::remedy::{Remedy, Setting};
use crate::{Finding, Host};

/// The number of connections of a usual transfer.
pub const STREAMS: f64 = 8.0;

/// The least bits a second that `cores` cores receive from a port: interrupts, the protocol and copying. `None`
/// if the port's MTU is unknown.
pub fn received(port: &Port, cores: u32) -> Option<f64> {
    let aggregated =
        port.offload("rx-gro").get() != Some(false) || port.offload("rx-lro").get() == Some(true);
    Some(cpu::connection(port.mtu.get()?, aggregated).low * f64::from(cores))
}

/// A finding if `cores` cores receive less than twice the needed rate: they also copy and encrypt.
pub fn short_of(port: &Port, cores: u32, need: f64, title: &str) -> Option<Finding> {
    let (ceiling, mtu) = (received(port, cores)?, port.mtu.get()?);
    if ceiling >= need * 2.0 {
        return None;
    }
    let name = if cores == 1 { "core receives" } else { "cores receive" };
    let evidence = format!(
        "{cores} {name} {} or more with packets of {mtu} bytes; needed: {}",
        gbit(ceiling),
        gbit(need)
    );
    Some(Finding::leaves(ceiling, need, title).only(Way::Receives).at(&port.name).evidence(evidence))
}

/// A mask as the kernel reads it: words of 32 bits, the highest first.
pub fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let word =
        |at: u32| cpus.iter().filter(|cpu| *cpu / 32 == at).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
    let parts: Vec<String> = (0..words).rev().map(|at| format!("{:x}", word(at))).collect();
    parts.join(",")
}

/// The change that binds an interrupt to these processors; none if its present ones are unknown or the same.
pub fn bind(irq: &Irq, cpus: &[u32]) -> Option<Remedy> {
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let setting = Setting::IrqAffinity { irq: irq.number };
    Remedy::of(setting, list(irq.affinity.known()?), list(cpus))
}

/// The most interrupts that a fix binds.
const NAMED: usize = 64;

/// The changes that bind each interrupt to one of these processors in turn. Each interrupt gets one processor: before
/// Linux 5.8, arm64's interrupts all go to the first processor of a list (its_set_affinity() in
/// drivers/irqchip/irq-gic-v3-its.c).
pub fn spread(irqs: &[Irq], cpus: &[u32]) -> Vec<Remedy> {
    let some = irqs.iter().filter(|irq| irq.name.known().is_some()).take(NAMED);
    some.zip(cpus.iter().cycle()).filter_map(|(irq, cpu)| bind(irq, &[*cpu])).collect()
}

/// The processors of the list that are near the port's card; all of them if it isn't known which are near.
pub fn near(port: &Port, cpus: &[u32]) -> Vec<u32> {
    // The kernel may also list processors that the slot's node could have.
    let local = port.pci.known().and_then(|pci| pci.local_cpus.known()).into_iter().flatten();
    let local: Vec<u32> = local.filter(|cpu| cpus.contains(cpu)).copied().collect();
    if local.is_empty() { cpus.to_vec() } else { local }
}

/// The modes of XDP in which the driver itself runs a program: alone, and beside another mode (XDP_ATTACHED_DRV and
/// XDP_ATTACHED_MULTI).
const BY_DRIVER: [u32; 2] = [1, 4];
/// Drivers that refuse other numbers of queues while they run an XDP program: virtnet_set_channels() in
/// drivers/net/virtio_net.c; ena refuses more than half of its queues.
const REFUSING: [&str; 2] = ["virtio_net", "ena"];

/// True if the driver refuses more queues because it runs an XDP program.
pub fn refuses_queues(port: &Port) -> bool {
    let mode = port.layer.known().and_then(|layer| layer.xdp);
    mode.is_some_and(|mode| BY_DRIVER.contains(&mode))
        && port.driver.known().is_some_and(|driver| REFUSING.contains(&driver.as_str()))
}

/// The advice where a driver refuses more queues.
pub const WITH_XDP: &str = "the driver refuses other numbers of queues while it runs an XDP program: set the queues before the program is loaded";

/// A caution about the indirection table of a port that gets more queues: the facts don't show whether somebody has set
/// the table.
pub fn kept_table(port: &Port) -> String {
    format!(
        "the indirection table then names the new queues too, unless ethtool -X has set the table: if ethtool -x doesn't show them, \
         ethtool -X {} default",
        shell::word(&port.name)
    )
}

/// The online processors to which the kernel may give work of its own; it gives none to isolated ones (`isolcpus=`,
/// `nohz_full=`). `None` if there is only one: then somebody keeps the host's interrupts on this processor on purpose.
pub fn housekeepers(host: &Host<'_>) -> Option<Vec<u32>> {
    host.facts.cpu.housekeeping().known().filter(|cpus| cpus.len() > 1).cloned()
}

/// Drivers of Marvell's Octeon. ethtool writes their names with hyphens, /sys with underscores.
const OCTEON: [&str; 6] =
    ["rvu-nicpf", "rvu-nicvf", "rvu_nicpf", "rvu_nicvf", "octeontx2-nicpf", "octeontx2-nicvf"];

/// True for a port of Marvell's Octeon.
pub fn is_octeon(port: &Port) -> bool {
    port.driver.known().is_some_and(|driver| OCTEON.contains(&driver.as_str()))
}

/// The command that restores the present setting of pause frames.
pub fn pauses_as_now(port: &Port, pause: &Pause) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    format!("ethtool -A {} rx {} tx {}", port.name, word(pause.rx), word(pause.tx))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel reads it: no more than eight digits without a comma.
    #[test]
    fn masks_of_many_processors_are_words_with_commas() {
        assert_eq!((mask(&[0]), mask(&[31]), mask(&[0, 1])), ("1".into(), "80000000".into(), "3".into()));
        assert_eq!((mask(&[32]), mask(&[70])), ("1,0".into(), "40,0,0".into()));
    }
}
