//! Cores whose second threads are turned off.

use super::{Check, CheckRun};
use crate::source::{ESNET_100G, FEDEX};
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "smt-off",
    about: "cores whose second threads are turned off (SMT)",
    sources: &[
        FEDEX,
        ESNET_100G,
        Citation {
            name: "Linux, Documentation/ABI/testing/sysfs-devices-system-cpu: smt/control",
            url: "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-devices-system-cpu",
        },
        Citation {
            name: "Linux, Documentation/admin-guide/hw-vuln/l1tf.rst and mds.rst",
            url: "https://docs.kernel.org/admin-guide/hw-vuln/l1tf.html",
        },
    ],
    run: CheckRun::HostOne(of),
};

/// The rate in bits a second at or above which ESnet advises to turn second threads off.
const ADVISED_OFF: f64 = 40e9;

fn of(host: &Host<'_>) -> Option<Finding> {
    if host.rate() >= ADVISED_OFF {
        return None;
    }
    let smt = host.facts.cpu.smt.known().filter(|smt| *smt == "off" || *smt == "forceoff")?;
    let cores = host.facts.cpu.cores.get()?;
    // Usually somebody has turned them off on purpose, against attacks of one thread on another.
    let finding = Finding::new(Severity::Note, "the cores' second threads are turned off (SMT)").evidence(
        format!("smt/control is {smt}; {cores} cores; second threads make parallel streams faster"),
    );
    let finding = if smt == "off" {
        finding
            .fix("echo on > /sys/devices/system/cpu/smt/control")
            .undo("echo off > /sys/devices/system/cpu/smt/control")
    } else {
        finding.fix("remove nosmt=force from the kernel's command line")
    };
    Some(finding.conflict(
        "the FedEx study turns SMT on for eight streams at 10 Gbit/s; ESnet turns it off at 40 and 100 Gbit/s, where it found rates \
         inconsistent, with AMD's processors above all; \
         if guests or users aren't trusted, the kernel's guide turns it off against L1TF and MDS of Intel's processors",
    ))
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn off_is_found() {
        let mut host = fixture("stock-10g");
        host.cpu.smt = Fact::Known("off".into());
        assert_eq!(lines(&found(&CHECK, &host)), ["smt-off - note -"]);
        host.cpu.smt = Fact::Known("forceoff".into());
        host.cpu.cores = Fact::Known(32);
        assert_eq!(lines(&found(&CHECK, &host)), ["smt-off - note -"]);
    }

    /// ESnet's guide for 100 Gbit/s turns them off.
    #[test]
    fn off_on_a_fast_host_is_advised() {
        let mut host = fixture("esnet-dtn-100g");
        host.cpu.smt = Fact::Known("off".into());
        assert!(found(&CHECK, &host).is_empty());
    }

    #[test]
    fn on_or_impossible_is_not() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty());
    }
}
