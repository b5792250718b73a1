//! Mounts on which every write waits for the disk.

use linerate_host::facts::FileSystem;

use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun, shell};
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "mount-sync",
    about: "a file system mounted so that each write, or each access, waits for the disk",
    sources: &[Citation {
        name: "mount(8): sync, dirsync, strictatime",
        url: "https://man7.org/linux/man-pages/man8/mount.8.html",
    }],
    run: CheckRun::Host(|host: &Host<'_>| file_systems(host).filter_map(of).collect()),
};

fn of(fs: &FileSystem) -> Option<Finding> {
    let options = fs.options.known()?;
    let has = |name: &str| options.iter().any(|option| option == name);
    let (option, severity, instead) = match () {
        () if has("sync") => ("sync", Severity::Major, Some("async")),
        // mount(8) has no option that removes dirsync.
        () if has("dirsync") => ("dirsync", Severity::Minor, None),
        () if has("strictatime") => ("strictatime", Severity::Note, Some("relatime")),
        () => return None,
    };
    if has("noac") {
        return Some(coherent(fs, options));
    }
    let point = shell::word(fs.mount_point.known().unwrap_or(&fs.path));
    let finding = Finding::new(severity, format!("{} is mounted with {option}", fs.path))
        .at(&fs.path)
        .evidence(format!("options: {}", options.join(",")))
        .conflict(
            "sync is for disks that are pulled out without unmounting; \
             linerate itself syncs files before it reports success",
        );
    Some(match instead {
        Some(instead) => finding
            .fix(format!("mount -o remount,{instead} {point}"))
            .undo(format!("mount -o remount,{option} {point}")),
        None => finding.fix(format!(
            "remove {option} from /etc/fstab, and mount the file system anew: a remount keeps it"
        )),
    })
}

/// NFS's noac means sync, and a remount keeps it (nfs_reconfigure() in fs/nfs/super.c).
fn coherent(fs: &FileSystem, options: &[String]) -> Finding {
    Finding::new(
        Severity::Note,
        format!("{} is mounted with noac, which makes each write wait for the server", fs.path),
    )
    .at(&fs.path)
    .evidence(format!("options: {}", options.join(",")))
    .fix("unmount it and mount it again without noac (a remount keeps noac), unless clients must see one another's changes to these files immediately")
    .conflict(
        "databases of several clients ask for noac: without it, one client sees another one's changes late",
    )
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with;
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn sync_is_costly_and_the_usual_options_are_not() {
        let of = |option: &str| {
            let facts = with("stock-10g", |fs| fs.options = Fact::Known(vec!["rw".into(), option.into()]));
            lines(&found(&CHECK, &facts))
        };
        assert_eq!(of("sync"), ["mount-sync / major -"]);
        assert_eq!(of("strictatime"), ["mount-sync / note -"]);
        assert!(of("async").is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
