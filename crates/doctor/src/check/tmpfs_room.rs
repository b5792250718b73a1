//! File systems in memory that promise more space than there is memory.

use linerate_host::facts::FileSystem;

use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun, shell};
use crate::formula::bytes;
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "tmpfs-room",
    about: "a file system in memory with more free space than available memory",
    sources: &[Citation {
        name: "Linux, Documentation/filesystems/tmpfs.rst",
        url: "https://docs.kernel.org/filesystems/tmpfs.html",
    }],
    run: CheckRun::Host(|host| file_systems(host).filter_map(|fs| of(host, fs)).collect()),
};

fn of(host: &Host<'_>, fs: &FileSystem) -> Option<Finding> {
    let (total, free, available) = (fs.total.get()?, fs.free.get()?, host.facts.memory.available.get()?);
    if !["tmpfs", "ramfs"].contains(&fs.kind.known()?.as_str()) || free <= available {
        return None;
    }
    // The present contents stay: the kernel refuses a smaller size (shmem_reconfigure() in mm/shmem.c).
    let size = total.saturating_sub(free) + available / 2;
    let set = |size: u64| {
        format!(
            "mount -o remount,size={}M {}",
            size >> 20,
            shell::word(fs.mount_point.known().unwrap_or(&fs.path))
        )
    };
    let finding =
        Finding::new(Severity::Minor, format!("{} promises more space than there is memory", fs.path))
            .at(&fs.path)
            .evidence(format!(
                "{} free in the file system, {} of memory available",
                bytes(free as f64),
                bytes(available as f64)
            ))
            .evidence("the excess goes to swap space, or makes the kernel kill programs")
            .fix(set(size))
            .undo(set(total));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with;
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn too_much_promised_is_found() {
        let tmpfs = |free: u64| {
            with("stock-10g", |fs| (fs.kind, fs.free) = (Fact::Known("tmpfs".into()), Fact::Known(free)))
        };
        assert_eq!(lines(&found(&CHECK, &tmpfs(100 << 30))), ["tmpfs-room / minor -"]);
        assert!(found(&CHECK, &tmpfs(10 << 30)).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty(), "ext4");
    }
}
