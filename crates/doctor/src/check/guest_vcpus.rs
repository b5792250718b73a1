//! A guest whose only processor does all the work.

use super::{Check, CheckRun};
use crate::source::FEDEX;
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "guest-vcpus",
    about: "a guest with one processor",
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
    if !host.is_guest() || processors != 1 {
        return None;
    }
    let finding = Finding::new(Severity::Note, "the guest's only processor receives, decrypts and writes")
        .evidence("1 virtual processor; in the papers, two processors were faster than one")
        .fix("give the guest a second processor")
        .undo("one processor")
        .conflict("unused processors cost the hypervisor scheduling time");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn one_is_noted() {
        assert_eq!(lines(&found(&CHECK, &fixture("e1000"))), ["guest-vcpus - note -"]);
    }

    #[test]
    fn more_and_real_hosts_are_not() {
        assert!(found(&CHECK, &fixture("ena")).is_empty(), "eight of a cloud");
        assert!(found(&CHECK, &fixture("vmxnet3")).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
