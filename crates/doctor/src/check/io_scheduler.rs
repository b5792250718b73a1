//! The scheduler that orders a disk's requests.

use std::collections::BTreeSet;

use linerate_host::facts::{BlockDevice, FileSystem};

use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun, shell};
use crate::source::{BLOCK, ESNET_DISK, SCHEDULERS};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "io-scheduler",
    about: "a scheduler that costs processor time on a fast disk, or no scheduler on a rotating one",
    sources: &[SCHEDULERS, BLOCK, ESNET_DISK],
    run: CheckRun::Host(run),
};

/// Examines each device once: several file systems may share it.
fn run(host: &Host<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let devices = file_systems(host).filter_map(device).filter(|device| seen.insert(&device.name));
    let is_guest = !host.is_physical();
    devices.filter_map(|device| of(device, is_guest)).collect()
}

fn device(fs: &FileSystem) -> Option<&BlockDevice> {
    fs.device.known()
}

fn of(device: &BlockDevice, is_guest: bool) -> Option<Finding> {
    // Before Linux 6.10, only mq-deadline keeps the writes of a zone in order.
    if device.zoned.known().is_some_and(|model| model != "none") {
        return None;
    }
    let (now, turns) = (device.scheduler.known()?.as_str(), device.rotational.get()?);
    // In a guest the hypervisor orders the requests anyway.
    let is_fast = device.name.starts_with("nvme") || is_guest || !turns;
    let better = match (is_fast, now) {
        (true, "bfq" | "cfq") => ["none", "noop"],
        (true, "mq-deadline" | "kyber" | "deadline") if device.name.starts_with("nvme") => ["none", "noop"],
        (false, "none" | "noop") => ["mq-deadline", "deadline"],
        _ => return None,
    };
    // Before Linux 5.0, disks without queues of their own have other schedulers; mq-deadline may also be a module.
    let offered = device.schedulers.known();
    let better =
        better.into_iter().find(|name| offered.is_none_or(|all| all.iter().any(|other| other == name)))?;
    let file = format!("/sys/block/{}/queue/scheduler", device.name);
    let severity = if matches!(now, "bfq" | "cfq") { Severity::Minor } else { Severity::Note };
    let finding = Finding::new(severity, format!("the I/O scheduler of {} is {now}", device.name))
        .at(&device.name)
        .evidence(format!(
            "scheduler {now}; the disk {}",
            if turns { "reports that it rotates" } else { "doesn't rotate" }
        ))
        .fix(format!("echo {better} > {}", shell::word(&file)))
        .undo(format!("echo {} > {}", shell::word(now), shell::word(&file)))
        .conflict(
            "bfq is fairer if several programs use one slow disk; ESnet sets deadline or none; \
             distributions differ",
        );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with_device;
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;

    fn by(scheduler: &str, turns: bool) -> Vec<String> {
        let facts = with_device("stock-10g", |device| {
            (device.scheduler, device.rotational) = (Fact::Known(scheduler.into()), Fact::Known(turns));
            device.name = if turns { "sda" } else { "nvme0n1" }.into();
        });
        lines(&found(&CHECK, &facts))
    }

    #[test]
    fn what_doesnt_fit_is_found() {
        assert_eq!(by("bfq", false), ["io-scheduler nvme0n1 minor -"]);
        assert_eq!(by("mq-deadline", false), ["io-scheduler nvme0n1 note -"]);
        assert_eq!(by("none", true), ["io-scheduler sda note -"]);
    }

    #[test]
    fn a_disk_with_several_file_systems_is_found_once() {
        let mut facts = with_device("stock-10g", |device| {
            (device.scheduler, device.rotational) = (Fact::Known("bfq".into()), Fact::Known(false));
            device.name = "sda".into();
        });
        let Fact::Known(all) = &mut facts.storage.file_systems else { panic!("no file systems") };
        let mut other = all[0].clone();
        if let Fact::Known(device) = &mut other.device {
            device.name = "sdb".into();
        }
        *all = vec![all[0].clone(), other, all[0].clone()];
        assert_eq!(lines(&found(&CHECK, &facts)), ["io-scheduler sda minor -", "io-scheduler sdb minor -"]);
    }

    #[test]
    fn only_what_the_kernel_offers_is_proposed() {
        let fix = |now: &str, turns, offered: &[&str]| {
            let facts = with_device("stock-10g", |device| {
                (device.scheduler, device.rotational) = (Fact::Known(now.into()), Fact::Known(turns));
                device.schedulers = Fact::Known(offered.iter().map(|name| (*name).to_owned()).collect());
                device.name = "sda".into();
            });
            found(&CHECK, &facts).first().map(|finding| finding.fix.clone().unwrap())
        };
        let old = ["noop", "deadline", "cfq"];
        assert_eq!(fix("cfq", false, &old).unwrap(), "echo noop > /sys/block/sda/queue/scheduler");
        assert_eq!(fix("noop", true, &old).unwrap(), "echo deadline > /sys/block/sda/queue/scheduler");
        assert_eq!(fix("none", true, &["none"]), None, "nothing better is there");
    }

    #[test]
    fn a_zoned_disk_keeps_its_scheduler() {
        let zoned = |model: &str| {
            let facts = with_device("stock-10g", |device| {
                (device.scheduler, device.rotational) =
                    (Fact::Known("mq-deadline".into()), Fact::Known(false));
                (device.name, device.zoned) = ("nvme0n1".into(), Fact::Known(model.into()));
            });
            lines(&found(&CHECK, &facts)).len()
        };
        assert_eq!((zoned("host-managed"), zoned("none")), (0, 1));
    }

    #[test]
    fn what_fits_is_not() {
        assert!(by("mq-deadline", true).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("firecracker")).is_empty(), "a guest's");
    }
}
