//! The interrupts of a device: which processors serve them, and how often (/proc/interrupts and /proc/irq).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{MOST_CPUS, cpu_list, or_odd};
use crate::root::Root;

/// One interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Irq {
    /// The interrupt's number.
    pub number: u32,
    /// The driver's name for the interrupt, such as `eth0-TxRx-0`; not applicable while no driver uses it.
    pub name: Fact<String>,
    /// The processors that may serve the interrupt.
    pub affinity: Fact<Vec<u32>>,
    /// The processors that serve the interrupt now.
    pub effective: Fact<Vec<u32>>,
    /// The number of times since boot that each processor served the interrupt, without processors that never served
    /// it.
    pub counts: Fact<BTreeMap<u32, u64>>,
}

impl Irq {
    /// The number of times since boot that any processor served the interrupt.
    pub fn total(&self) -> Fact<u64> {
        self.counts.as_ref().map(|counts| counts.values().sum())
    }
}

/// The contents of /proc/interrupts, by the numbers of the interrupts.
pub(super) struct InterruptTable(Fact<BTreeMap<u32, InterruptLine>>);

#[derive(Clone, Default)]
struct InterruptLine {
    names: String,
    counts: BTreeMap<u32, u64>,
}

impl InterruptTable {
    pub(super) fn read(root: &Root) -> Self {
        let path = "proc/interrupts";
        Self(root.needed(path).and_then(|text| or_odd(path, &text, parse(&text))))
    }

    /// The interrupts of a PCI device: its message-signaled interrupts (MSI). If it has none, the interrupt of its pin,
    /// if that interrupt belongs to the port `port`.
    pub(super) fn of(&self, root: &Root, address: &str, port: &str) -> Fact<Vec<Irq>> {
        let dir = format!("sys/bus/pci/devices/{address}");
        let numbers = root.names(&format!("{dir}/msi_irqs")).map(|names| {
            let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        });
        let numbers = numbers.or_else(|| self.on_pin(root, &dir, port));
        numbers.map(|numbers| numbers.into_iter().map(|number| self.irq(root, number)).collect())
    }

    fn on_pin(&self, root: &Root, dir: &str, port: &str) -> Fact<Vec<u32>> {
        let number: Fact<u32> = super::read::number(root, &format!("{dir}/irq"));
        number.and_then(|number| {
            self.0.as_ref().and_then(|lines| match lines.get(&number) {
                Some(line) if line.is_on_pin_of(port) => Fact::Known(vec![number]),
                _ => Fact::NotApplicable,
            })
        })
    }

    fn irq(&self, root: &Root, number: u32) -> Irq {
        let dir = format!("proc/irq/{number}");
        let line = self.0.as_ref().and_then(|lines| match lines.get(&number) {
            Some(line) => Fact::Known(line.clone()),
            None => Fact::NotApplicable,
        });
        Irq {
            number,
            affinity: cpu_list(root, &format!("{dir}/smp_affinity_list")),
            effective: cpu_list(root, &format!("{dir}/effective_affinity_list")),
            name: line.clone().and_then(|line| line.name()),
            counts: line.map(|line| line.counts),
        }
    }
}

impl InterruptLine {
    /// The driver's name, which comes after the chip and the pin: `PCI-MSI 524288-edge   eth0-TxRx-0`.
    fn name(&self) -> Fact<String> {
        let mut words = self.names.split_whitespace().skip(1);
        let pin = words.next().unwrap_or_default();
        // On Arm, the kernel writes the pin and its trigger as two words.
        let rest: Vec<&str> = if pin.contains('-') { words.collect() } else { words.skip(1).collect() };
        if rest.is_empty() { Fact::NotApplicable } else { Fact::Known(rest.join(" ")) }
    }

    fn is_on_pin_of(&self, port: &str) -> bool {
        let is_message = self.names.contains("MSI");
        !is_message
            && self.name().known().is_some_and(|names| names.split([',', ' ']).any(|name| name == port))
    }
}

/// Parses the text of /proc/interrupts, whose heading names the processors to which the columns belong.
fn parse(text: &str) -> Option<BTreeMap<u32, InterruptLine>> {
    let mut lines = text.lines();
    let number = |word: &str| word.strip_prefix("CPU")?.parse().ok().filter(|n: &u32| *n < MOST_CPUS);
    let cpus = lines.next()?.split_whitespace().map(number).collect::<Option<Vec<u32>>>()?;
    let is_heading = !cpus.is_empty();
    is_heading.then(|| lines.filter_map(|line| row(line, &cpus)).collect())
}

fn row(line: &str, cpus: &[u32]) -> Option<(u32, InterruptLine)> {
    let (number, rest) = line.split_once(':')?;
    let mut words = rest.split_whitespace();
    let counts =
        words.by_ref().take(cpus.len()).map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let counts = cpus.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect();
    Some((number.trim().parse().ok()?, InterruptLine { names: words.collect::<Vec<_>>().join(" "), counts }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU2\n 22: 5 0 IO-APIC 22-fasteoi   uhci_hcd:usb1, eth0\n \
        28:  0 14 PCI-MSIX-0000:00:01.0   0-edge      virtio0-input.0\n 30: 1 1 GICv3  27 Level     timer x\n \
        31: 0 0 PCI-MSI 9-edge\nLOC: 10 20   Local timer interrupts\nERR: 3\n";

    #[test]
    fn lines_are_found_by_number() {
        let lines = parse(TEXT).unwrap();
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), [22, 28, 30, 31]);
        let headless = TEXT.split_once('\n').unwrap().1;
        assert!(parse(headless).is_none() && parse("").is_none() && parse("x y\n").is_none());
        assert_eq!(lines[&28].counts, BTreeMap::from([(2, 14)]));
        assert_eq!(lines[&28].name(), Fact::Known("virtio0-input.0".into()));
        assert_eq!(lines[&30].name(), Fact::Known("timer x".into()));
        assert_eq!(lines[&31].name(), Fact::NotApplicable);
        assert!(lines[&22].is_on_pin_of("eth0") && !lines[&22].is_on_pin_of("eth1"));
    }
}
