//! Read-ahead of rotating disks, and of arrays.

use linerate_host::facts::FileSystem;

use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun, shell};
use crate::formula::bytes;
use crate::source::{BLOCK, ESNET_DISK};
use crate::{Finding, Host, Severity};

/// Bytes of read-ahead for each disk: as many as pass under its head in about ten milliseconds.
const EACH: u64 = 2 << 20;

pub(super) const CHECK: Check = Check {
    name: "read-ahead",
    about: "a small read-ahead of a RAID or a rotating disk",
    sources: &[ESNET_DISK, BLOCK],
    run: CheckRun::Host(|host| file_systems(host).filter_map(|fs| of(host, fs)).collect()),
};

fn of(host: &Host<'_>, fs: &FileSystem) -> Option<Finding> {
    let device = fs.device.known()?;
    let (ahead, turns) = (device.read_ahead.get()?, device.rotational.get()?);
    let disks = device.made_of.known().map_or(1, Vec::len).max(1) as u64;
    let wanted = EACH * disks;
    let is_raid = device.name.starts_with("md") && disks > 1;
    if !host.is_physical() || !(turns || is_raid) || ahead.saturating_mul(2) > wanted {
        return None;
    }
    let finding = Finding::new(
        Severity::Note,
        format!("only {} are read ahead from {}", bytes(ahead as f64), device.name),
    )
    .at(&fs.path)
    .evidence(format!(
        "{disks} {}disks: read-ahead of {} keeps all of them busy",
        if turns { "rotating " } else { "" },
        bytes(wanted as f64)
    ))
    .fix(format!("blockdev --setra {} /dev/{}", wanted / 512, shell::word(&device.name)))
    .undo(format!("blockdev --setra {} /dev/{}", ahead / 512, shell::word(&device.name)))
    .conflict("with many files at once, or small ones, much of the data read ahead is discarded");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with_device;
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn a_disk_that_turns_wants_more() {
        let turns = with_device("stock-10g", |device| device.rotational = Fact::Known(true));
        assert_eq!(lines(&found(&CHECK, &turns)), ["read-ahead / note -"]);
        let more = with_device("stock-10g", |device| {
            (device.rotational, device.read_ahead) = (Fact::Known(true), Fact::Known(4 << 20))
        });
        assert!(found(&CHECK, &more).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
