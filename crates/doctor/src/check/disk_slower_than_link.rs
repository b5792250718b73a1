//! The rate of rotating disks and memory cards, compared with the needed rate.

use linerate_host::facts::{BlockDevice, FileSystem};

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{BLOCK, ESNET_DISK};
use crate::{Finding, Host};

/// Sequential bytes a second of one rotating disk at its outer tracks: data sheets give 250 to 285 MB/s.
const ROTATING: f64 = 285e6;
/// Bytes a second of eMMC (HS400) and of SD cards (UHS-I) at most.
const CARD: f64 = 400e6;

pub(super) const CHECK: Check = Check {
    name: "disk-slower-than-link",
    about: "disks slower than the needed rate",
    sources: &[BLOCK, ESNET_DISK],
    run: CheckRun::Host(|host| file_systems(host).filter_map(|fs| of(host, fs)).collect()),
};

/// File systems of the paths that the user named, or of the host's usual ones.
pub(super) fn file_systems<'a>(host: &Host<'a>) -> impl Iterator<Item = &'a FileSystem> + use<'a> {
    host.facts.storage.file_systems.known().into_iter().flatten()
}

fn of(host: &Host<'_>, fs: &FileSystem) -> Option<Finding> {
    let device = fs.device.known()?;
    let (kind, each) = kind(host, device)?;
    let parts = writers(device);
    let most = each * parts as f64 * 8.0;
    if most >= host.rate() {
        return None;
    }
    let finding = Finding::leaves(most, host.rate(), format!("{} writes at most {}", fs.path, gbit(most)))
        .at(&fs.path)
        .evidence(format!(
            "{}{}: {parts} x {kind}, at most {} each",
            device.name,
            model(device),
            gbit(each * 8.0)
        ))
        .evidence(format!("needed: {}", gbit(host.rate())))
        .evidence("files are faster as long as the page cache holds them; many small files are slower")
        .fix(
            "use NVMe, or more disks in a RAID; \
        to measure the network alone, copy between file systems in memory (tmpfs)",
        )
        .conflict("judged by the kind of disk: nothing was read or written");
    Some(finding)
}

/// The number of disks whose rates add up when large files are written. A mirror writes everything to each disk; parity takes
/// the share of one or two disks.
fn writers(device: &BlockDevice) -> usize {
    let disks = device.made_of.known().map_or(1, Vec::len).max(1);
    match device.raid.known().map(String::as_str) {
        Some("raid1") => 1,
        Some("raid10") => disks.div_ceil(2),
        Some("raid4" | "raid5") => disks.saturating_sub(1).max(1),
        Some("raid6") => disks.saturating_sub(2).max(1),
        _ => disks,
    }
}

/// In a guest the kind is unknown: hypervisors report most disks as rotating.
fn kind(host: &Host<'_>, device: &BlockDevice) -> Option<(&'static str, f64)> {
    if device.name.starts_with("mmcblk") {
        return Some(("memory card", CARD));
    }
    let is_real = host.facts.machine.guest.get() == Some(false);
    (is_real && device.rotational.get()?).then_some(("rotating disk", ROTATING))
}

fn model(device: &BlockDevice) -> String {
    device.model.known().map_or_else(String::new, |model| format!(" ({model})"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::{Fact, Facts};

    /// A host with its first file system changed.
    pub fn with(name: &str, change: impl FnOnce(&mut FileSystem)) -> Facts {
        changed(name, |facts| {
            let Fact::Known(all) = &mut facts.storage.file_systems else { panic!("no file systems") };
            change(&mut all[0]);
        })
    }

    /// The same with its device changed.
    pub fn with_device(name: &str, change: impl FnOnce(&mut BlockDevice)) -> Facts {
        with(name, |fs| {
            let Fact::Known(device) = &mut fs.device else { panic!("no device") };
            change(device);
        })
    }

    #[test]
    fn disks_that_turn_are_slow_and_many_are_less_so() {
        let one = with_device("stock-10g", |device| device.rotational = Fact::Known(true));
        assert_eq!(lines(&found(&CHECK, &one)), ["disk-slower-than-link / critical 2.28 Gbit/s"]);
        let four = with_device("stock-10g", |device| {
            device.rotational = Fact::Known(true);
            device.made_of = Fact::Known(["sda", "sdb", "sdc", "sdd"].map(str::to_owned).to_vec());
        });
        assert_eq!(lines(&found(&CHECK, &four)), ["disk-slower-than-link / minor 9.12 Gbit/s"]);
    }

    #[test]
    fn fast_ones_and_guests_are_not_found() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("firecracker")).is_empty());
    }
}
