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
/// Types of file systems that a program provides (FUSE), without `fuse.`. Only the start of a type must match: `s3fs`
/// matches `fuse.s3fs-fuse`.
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
/// Types whose files are on the host of this guest.
const OF_HOSTS: [&str; 3] = ["9p", "virtiofs", "vboxsf"];

/// Parts of the names of clouds' servers, none of which has NFS 4.2, and whether they accept several connections for
/// one mount.
const CLOUDS: [(&str, bool); 2] = [(".efs.", false), (".file.core.windows.net:", true)];
/// The largest request of Linux's client, in bytes (nfs(5)).
const LARGEST: u64 = 1 << 20;

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
    let (mut finding, mut options) = if is_nfs { nfs(finding, fs) } else { (finding, Vec::new()) };
    let takes_several = CLOUDS.iter().all(|(cloud, takes)| *takes || !source.contains(cloud));
    if is_nfs && !several && takes_several {
        options.push("nconnect=8 (Linux 5.3)".to_owned());
        finding = finding.conflict("mounts of one server share their connections, and the first mount decides how many (nfs_match_client() in fs/nfs/client.c)");
    }
    let elsewhere = "copy from or to the server itself";
    Some(finding.fix(if options.is_empty() {
        elsewhere.to_owned()
    } else {
        format!("{elsewhere}; or add {} to the options of all mounts of this server, and unmount all of them first", options.join(", "))
    }))
}

/// Adds evidence on the size of requests and on the version; returns the options that raise them if the server allows
/// it.
fn nfs(mut finding: Finding, fs: &FileSystem) -> (Finding, Vec<String>) {
    let options = fs.options.known().map(Vec::as_slice).unwrap_or_default();
    let value = |key: &str| options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
    let mut better = Vec::new();
    for key in ["rsize", "wsize"] {
        if let Some(size) =
            value(key).and_then(|size| size.parse::<u64>().ok()).filter(|size| *size < LARGEST)
        {
            finding = finding.evidence(format!(
                "{key} is {size}: a request can carry up to {LARGEST} if the server allows it"
            ));
            better.push(format!("{key}={LARGEST}"));
        }
    }
    // Version 3 is another protocol, with other locks and names of users: the doctor doesn't propose to replace version
    // 3.
    if let Some(version) = value("vers").filter(|version| ["4", "4.0", "4.1"].contains(version)) {
        finding = finding
            .evidence(format!("version {version}: before 4.2, a copy within the server crosses the network"));
        let source = fs.source.known().map_or("", String::as_str);
        if !CLOUDS.iter().any(|(cloud, _)| source.contains(cloud)) {
            better.push("vers=4.2 (if the server has it)".to_owned());
        }
    }
    (finding, better)
}

/// The finding about files on the host that runs this guest: no network is involved, but each call leaves the guest.
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
        let small = with("stock-10g", |fs| {
            fs.kind = Fact::Known("nfs".into());
            let options = ["rw", "vers=3", "rsize=32768", "wsize=1048576", "nconnect=4"];
            fs.options = Fact::Known(options.map(str::to_owned).to_vec());
        });
        assert!(
            found(&CHECK, &small)[0].fix.as_ref().unwrap().contains("or add rsize=1048576 to"),
            "{small:?}"
        );
        let of = |source: &str, version: &str| {
            let nfs = with("stock-10g", |fs| {
                (fs.kind, fs.source) = (Fact::Known("nfs4".into()), Fact::Known(source.into()));
                fs.options = Fact::Known(vec![format!("vers={version}")]);
            });
            found(&CHECK, &nfs).remove(0).fix.unwrap()
        };
        assert!(of("s:/x", "4.1").contains("add vers=4.2 (if the server has it), nconnect=8 "));
        assert!(!of("s:/x", "3").contains("4.2"), "another protocol");
        assert!(!of("a.file.core.windows.net:/a/x", "4.1").contains("4.2"));
        assert_eq!(of("fs-1.efs.eu-west-1.amazonaws.com:/", "4.1"), "copy from or to the server itself");
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
