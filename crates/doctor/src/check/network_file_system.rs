//! Files on another host, which cross a network before they are sent.

use linerate_host::facts::FileSystem;

use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun};
use crate::{Citation, Finding, Host, Severity};

/// File system types whose files are on other hosts.
const KINDS: [&str; 15] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "glusterfs",
    "lustre",
    "afs",
    "beegfs",
    "gpfs",
    "wekafs",
    "gfs2",
    "ocfs2",
    "orangefs",
    "coda",
];
/// Those by programs of their own (FUSE), without `fuse.`; their types may go on, as `fuse.s3fs-fuse`.
const PROGRAMS: [&str; 14] = [
    "sshfs",
    "glusterfs",
    "s3fs",
    "gcsfuse",
    "juicefs",
    "ceph",
    "rclone",
    "mfs",
    "goofys",
    "mount-s3",
    "blobfuse",
    "davfs",
    "curlftpfs",
    "seaweedfs",
];
/// Those that are on the host of this guest.
const OF_HOSTS: [&str; 3] = ["9p", "virtiofs", "vboxsf"];

pub(super) const CHECK: Check = Check {
    name: "network-file-system",
    about: "a path whose files are on another host",
    sources: &[Citation {
        name: "nfs(5): nconnect, rsize, wsize",
        url: "https://man7.org/linux/man-pages/man5/nfs.5.html",
    }],
    run: CheckRun::Host(|host: &Host<'_>| file_systems(host).filter_map(of).collect()),
};

fn of(fs: &FileSystem) -> Option<Finding> {
    let kind = fs.kind.known()?;
    if OF_HOSTS.contains(&kind.as_str()) {
        return Some(shared(fs, kind));
    }
    let by_program = kind.strip_prefix("fuse.").unwrap_or(kind);
    let is_far = KINDS.contains(&kind.as_str()) || PROGRAMS.iter().any(|name| by_program.starts_with(name));
    let kind = is_far.then_some(kind)?;
    let source = fs.source.known().map_or("?", String::as_str);
    let is_nfs = kind.starts_with("nfs");
    let several =
        fs.options.known().is_some_and(|all| all.iter().any(|option| option.starts_with("nconnect=")));
    let finding = Finding::new(Severity::Note, format!("{} is on another host", fs.path))
        .at(&fs.path)
        .evidence(format!(
            "{kind} from {source}{}",
            if is_nfs && !several { ", over one connection" } else { "" }
        ))
        .evidence("each byte crosses the network twice, and each file waits for the server's answers");
    let elsewhere = "copy from or to the server itself";
    Some(finding.fix(if is_nfs && !several {
        format!("{elsewhere}; or nconnect=8 among its mount options, from the next mount on (Linux 5.3)")
    } else {
        elsewhere.to_owned()
    }))
}

/// The host that runs this guest has the files: no network is involved, but each call leaves the guest.
fn shared(fs: &FileSystem, kind: &str) -> Finding {
    Finding::new(Severity::Note, format!("{} is a directory of the host that runs this guest", fs.path))
        .at(&fs.path)
        .evidence(format!("{kind}: each call waits for the host"))
        .fix("copy from or to that host itself, or use a virtual disk")
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with;
    use super::*;
    use crate::testing::{fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn nfs_is_noted_and_a_disk_is_not() {
        let nfs = with("stock-10g", |fs| {
            (fs.kind, fs.source) = (Fact::Known("nfs4".into()), Fact::Known("s:/x".into()))
        });
        let findings = found(&CHECK, &nfs);
        assert_eq!(lines(&findings), ["network-file-system / note -"]);
        assert!(findings[0].evidence[0].ends_with("one connection"));
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        for kind in ["fuse.s3fs", "fuse.juicefs", "beegfs", "gpfs"] {
            let far = found(&CHECK, &with("stock-10g", |fs| fs.kind = Fact::Known(kind.into())));
            assert!(far[0].title.ends_with("on another host"), "{kind}");
        }
        let shared = found(&CHECK, &with("stock-10g", |fs| fs.kind = Fact::Known("virtiofs".into())));
        assert!(!shared[0].evidence[0].contains("network"), "{shared:?}");
        assert!(
            found(&CHECK, &with("stock-10g", |fs| fs.kind = Fact::Known("fuse.ntfs-3g".into()))).is_empty()
        );
    }
}
