//! An IOMMU that removes the mapping of each buffer at once.

use super::{Check, CheckRun};
use crate::formula::buffer::kernel;
use crate::source::PARAMETERS;
use crate::{Citation, Finding, Host, Severity};

/// Below this rate a core has enough time to remove mappings at once: a core becomes full at about 10 Gbit/s
/// (`queues-vs-cores`).
const LEAST_RATE: f64 = 10e9;

/// From this version on, the type `DMA-FQ` distinguishes lazy mappings from strict ones; in earlier versions both are
/// `DMA`.
const SHOWS_MODE: (u32, u32) = (5, 15);

pub(super) const CHECK: Check = Check {
    name: "iommu-strict",
    about: "an IOMMU that removes the mapping of each buffer at once",
    sources: &[
        PARAMETERS,
        Citation {
            name: "Linux, Documentation/ABI/testing/sysfs-kernel-iommu_groups",
            url: "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-kernel-iommu_groups",
        },
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    // A guest doesn't see the hypervisor's IOMMU.
    if host.is_guest() {
        return None;
    }
    kernel(host.facts).filter(|version| *version >= SHOWS_MODE)?;
    let is_strict = |iommu: &str| iommu == "DMA";
    let ports: Vec<&str> = host
        .hardware()
        .filter(|port| host.rate_of(port).is_some_and(|rate| rate >= LEAST_RATE))
        .filter(|port| {
            port.pci.known().and_then(|pci| pci.iommu.known()).is_some_and(|iommu| is_strict(iommu))
        })
        .map(|port| port.name.as_str())
        .collect();
    let first = *ports.first()?;
    let finding = Finding::new(Severity::Note, format!("the IOMMU is strict for {}", ports.join(", ")))
        .at(first)
        .evidence("iommu_group/type is DMA: the kernel unmaps each buffer, and waits for the end of the unmapping, before it uses the buffer again")
        .evidence("drivers that recycle their pages pay less; the cost wasn't measured")
        .fix("start the kernel with iommu.strict=0: the kernel then removes mappings later, many at a time; or with iommu.passthrough=1 (on x86 also iommu=pt)")
        .conflict(
            "strict mappings keep a broken or hostile device away from freed memory; passthrough opens all memory to it",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines, port_of};
    use linerate_host::Fact;

    fn with(iommu: &str, guest: bool) -> Vec<String> {
        let mut facts = edited("bare-gen1-x4", "eth2", |port| {
            let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
            pci.iommu = Fact::Known(iommu.into());
        });
        facts.machine.guest = Fact::Known(guest);
        facts.kernel = Fact::Known("6.1.0-18-amd64".into());
        lines(&found(&CHECK, &facts))
    }

    #[test]
    fn strict_mappings_are_found_on_a_host_and_not_in_a_guest() {
        assert_eq!(with("DMA", false), ["iommu-strict eth2 note -"]);
        assert!(with("DMA", true).is_empty());
        assert!(with("DMA-FQ", false).is_empty() && with("identity", false).is_empty());
    }

    #[test]
    fn older_kernels_dont_tell_lazy_mappings_from_strict_ones() {
        let by = |release: &str| {
            let mut facts = edited("bare-gen1-x4", "eth2", |port| {
                let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
                pci.iommu = Fact::Known("DMA".into());
            });
            facts.kernel = Fact::Known(release.into());
            found(&CHECK, &facts).len()
        };
        assert_eq!(
            [by("5.4.0-150-generic"), by("5.14.0-427.el9.x86_64"), by("5.15.0-100-generic")],
            [0, 0, 1]
        );
    }

    #[test]
    fn slow_ports_and_hosts_without_an_iommu_are_not() {
        assert!(found(&CHECK, &fixture("bare-gen1-x4")).is_empty());
        let mut slow = fixture("bare-gen1-x4");
        slow.kernel = Fact::Known("6.1.0-18-amd64".into());
        let port = port_of(&mut slow, "eth2");
        port.speed_mbps = Fact::Known(1000);
        let Fact::Known(pci) = &mut port.pci else { panic!("no device") };
        pci.iommu = Fact::Known("DMA".into());
        assert!(found(&CHECK, &slow).is_empty());
    }
}
