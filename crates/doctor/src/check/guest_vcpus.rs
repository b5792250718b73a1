//! The number of a guest's processors: one is too few, and many don't help one transfer.

use super::{Check, CheckRun};
use crate::source::FEDEX;
use crate::{Citation, Finding, Host, Severity};

/// The number of processors of the papers' single guest.
const MANY: u32 = 8;

pub(super) const CHECK: Check = Check {
    name: "guest-vcpus",
    about: "a guest with one processor, or with so many that several smaller guests would do more",
    sources: &[
        FEDEX,
        Citation {
            name: "VMware, Performance best practices for vSphere: virtual CPU considerations",
            url: "https://www.vmware.com/docs/vsphere-esxi-vcenter-server-80-performance-best-practices",
        },
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let processors = host.facts.cpu.threads().get()?;
    host.facts.machine.guest.get().filter(|guest| *guest)?;
    let finding = match processors {
        1 => Finding::new(Severity::Note, "the guest's only processor receives, decrypts and writes")
            .evidence("1 virtual processor; in the papers two were faster than one")
            .fix("give the guest a second processor")
            .undo("one processor"),
        many if many >= MANY => {
            Finding::new(Severity::Note, "several smaller guests may do more than this one")
                .evidence(format!(
                    "{many} virtual processors; \
                 in the papers one guest with 8 was slower than the bare host, \
                 and eight guests with 1 each were as fast"
                ))
                .fix(
                    "for the highest total, use several guests with one or two processors, \
                 each with its part of the work",
                )
                .undo("one guest")
        }
        _ => return None,
    };
    Some(finding.conflict(
        "unused processors cost the hypervisor scheduling time; \
         with several queues, one guest does better today than in the papers",
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
