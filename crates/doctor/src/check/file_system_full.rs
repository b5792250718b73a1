//! Free space for the files that arrive.

use std::collections::BTreeSet;

use linerate_host::facts::FileSystem;

use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun, shell};
use crate::formula::{bytes, gbit, percent};
use crate::{Citation, Finding, Host, Severity};

/// Free share below which file systems search long for space and fragment files.
const LITTLE: f64 = 0.05;
/// Seconds of writing at the needed rate for which there should be space.
const SOON: f64 = 10.0;

pub(super) const CHECK: Check = Check {
    name: "file-system-full",
    about: "a file system that is nearly full",
    sources: &[Citation {
        name: "Linux, Documentation/filesystems/ext4/allocators.rst",
        url: "https://docs.kernel.org/filesystems/ext4/allocators.html",
    }],
    run: CheckRun::Host(run),
};

/// Examines each file system once: several paths may be in it.
fn run(host: &Host<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let first = |fs: &&FileSystem| fs.mount_point.known().is_none_or(|point| seen.insert(point.clone()));
    file_systems(host).filter(first).filter_map(|fs| of(host, fs)).collect()
}

fn of(host: &Host<'_>, fs: &FileSystem) -> Option<Finding> {
    let (total, free) = (fs.total.get()? as f64, fs.free.get()? as f64);
    let seconds = free * 8.0 / host.rate();
    if is_read_only(fs) || total <= 0.0 || (free / total >= LITTLE && seconds >= SOON) {
        return None;
    }
    // A user who writes at this rate for long enough to fill the file system knows the amount, so this is only a note.
    let severity = match free / total {
        _ if free < 1.0 => Severity::Critical,
        share if share < LITTLE => Severity::Minor,
        _ => Severity::Note,
    };
    let finding = Finding::new(
        severity,
        format!("{} would be full after {seconds:.0} s of writing at {}", fs.path, gbit(host.rate())),
    )
    .at(&fs.path)
    .evidence(format!("{} of {} are free ({})", bytes(free), bytes(total), percent(free / total)))
    .fix(format!(
        "free space: du -xh {0} | sort -h | tail; or write elsewhere",
        shell::word(fs.mount_point.known().unwrap_or(&fs.path))
    ));
    Some(finding)
}

/// True for a file system that is mounted read-only. Nobody writes to it, and an image is always full: composefs below
/// Fedora CoreOS and OpenShift, or a mounted ISO file.
fn is_read_only(fs: &FileSystem) -> bool {
    fs.options.known().is_some_and(|options| options.iter().any(|option| option == "ro"))
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with;
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;

    /// `/ ro,relatime - overlay composefs ro,lowerdir+=...` of OpenShift 4.19 (okd-project/okd, issue 2300).
    #[test]
    fn an_image_that_nobody_writes_to_is_not_full() {
        let image = with("stock-10g", |fs| {
            (fs.total, fs.free) = (Fact::Known(6_082_560), Fact::Known(0));
            fs.options = Fact::Known(vec!["ro".into(), "relatime".into()]);
        });
        assert!(found(&CHECK, &image).is_empty());
    }

    #[test]
    fn little_room_is_found() {
        let little = with("stock-10g", |fs| fs.free = Fact::Known(2_000_000_000));
        assert_eq!(lines(&found(&CHECK, &little)), ["file-system-full / minor -"]);
        let twice = crate::testing::changed("stock-10g", |facts| {
            let Fact::Known(all) = &mut facts.storage.file_systems else { panic!("none") };
            all[0].free = Fact::Known(2_000_000_000);
            all.push(FileSystem { path: "/home".into(), ..all[0].clone() });
        });
        assert_eq!(found(&CHECK, &twice).len(), 1, "one file system");
        let none = with("stock-10g", |fs| fs.free = Fact::Known(0));
        assert_eq!(lines(&found(&CHECK, &none)), ["file-system-full / critical -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        let half = with("stock-10g", |fs| {
            (fs.total, fs.free) = (Fact::Known(20_000_000_000), Fact::Known(10_000_000_000));
        });
        assert_eq!(lines(&found(&CHECK, &half)), ["file-system-full / note -"], "8 s at 10 Gbit/s");
    }
}
