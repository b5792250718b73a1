//! How many processors a guest has: one is short, many don't help one transfer.

use super::{Check, Run};
use crate::source::FEDEX;
use crate::{Finding, Host, Severity, Source};

/// As many as the papers' one guest had.
const MANY: u32 = 8;

pub(super) const CHECK: Check = Check {
    name: "guest-vcpus",
    about: "a guest with one processor, or with so many that several guests would do more",
    sources: &[
        FEDEX,
        Source {
            name: "VMware, Performance best practices for vSphere: virtual CPU considerations",
            url: "https://www.vmware.com/docs/vsphere-esxi-vcenter-server-80-performance-best-practices",
        },
    ],
    run: Run::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let processors = host.facts.cpu.threads().get()?;
    host.facts.machine.guest.get().filter(|guest| *guest)?;
    let finding = match processors {
        1 => Finding::new(Severity::Note, "one processor receives, decrypts and writes")
            .evidence("1 virtual processor; the papers found that two beat one")
            .fix("give the guest a second processor")
            .undo("one processor"),
        many if many >= MANY => Finding::new(Severity::Note, "several guests may do more than this one")
            .evidence(format!(
                "{many} virtual processors; the papers' one guest with 8 was short of the bare host, eight with 1 each had its rate"
            ))
            .fix(
                "for the most in all: several guests with one or two processors, each with its part of the work",
            )
            .undo("one guest"),
        _ => return None,
    };
    Some(finding.conflict(
        "more processors than a guest uses cost the hypervisor's scheduling; with several queues today one guest does better than in the papers",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn one_and_many_are_noted() {
        assert_eq!(lines(&found(&CHECK, &fixture("e1000"))), ["guest-vcpus - note -"]);
        assert_eq!(lines(&found(&CHECK, &fixture("ena"))), ["guest-vcpus - note -"]);
    }

    #[test]
    fn a_few_and_real_hosts_are_not() {
        assert!(found(&CHECK, &fixture("vmxnet3")).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
