//! Tests of file systems that are mounted below the destination: errors of such a file system only affect the
//! entries in it.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use linerate_testing::{has, skip};
use rustix::fs::XattrFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount};

use crate::archive::acl;
use crate::bed::{args, case, case_with_attributes};
use crate::tree::{assert_alike, noise, temporaries, write};

/// A mount made by a test, which is unmounted on drop.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a file system in memory with this size. If that is impossible, prints the reason and returns
    /// `None`.
    pub fn memory(path: &Path, size: &str) -> Option<Self> {
        let options = CString::new(format!("size={size}")).expect("no zero byte");
        Self::of(path, || mount("tmpfs", path, "tmpfs", MountFlags::empty(), Some(options.as_c_str())))
    }

    /// Mounts the directory `from` at a second path.
    pub fn bound(from: &Path, path: &Path) -> Option<Self> {
        Self::of(path, || mount_bind(from, path))
    }

    /// Mounts the directory `path` read-only at its own path.
    pub fn read_only(path: &Path) -> Option<Self> {
        let bound = Self::bound(path, path)?;
        let flags = MountFlags::BIND | MountFlags::RDONLY;
        mount_remount(path, flags, "").expect("what was mounted can be mounted anew");
        Some(bound)
    }

    /// Makes a file system in the file `image` with this command, and mounts it.
    pub fn image(image: &Path, size: u64, make: &[&str], path: &Path) -> Option<Self> {
        fs::File::create(image).expect("writable").set_len(size).expect("sparse");
        let made = Command::new(make[0]).args(&make[1..]).arg(image).output().expect("it is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mounted =
            Command::new("mount").args([OsStr::new("-o"), OsStr::new("loop")]).arg(image).arg(path).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self(path.to_owned()));
        }
        skip("loop-devices", "no file system in a file can be mounted here");
        None
    }

    /// Mounts the directory `from` at a second path with bindfs, which doesn't support unnamed files.
    pub fn in_user_space(from: &Path, path: &Path) -> Option<Self> {
        let bindfs = linerate_testing::program_path("bindfs")?;
        let mounted = Command::new(bindfs).arg(from).arg(path).output().expect("it is installed");
        if mounted.status.success() {
            return Some(Self(path.to_owned()));
        }
        skip("fuse", format_args!("bindfs can't mount: {}", String::from_utf8_lossy(&mounted.stderr)));
        None
    }

    fn of(path: &Path, mount: impl Fn() -> rustix::io::Result<()>) -> Option<Self> {
        match mount() {
            Ok(()) => Some(Self(path.to_owned())),
            Err(error) => {
                skip("mount", format_args!("no file system can be mounted here: {error}"));
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Makes a few files in and below `etc`: small files, a file that is sent in one piece, and a file that is
/// sent in parts.
fn make_tree(top: &Path) {
    for (seed, name) in (1..).zip(["etc", "usr", "var/lib"]) {
        write(top.join(name).join("small"), noise(seed, 3000));
        write(top.join(name).join("one piece"), noise(seed, 3 << 20));
        write(top.join(name).join("parts"), noise(seed, 20 << 20));
        std::os::unix::fs::symlink("small", top.join(name).join("link")).unwrap();
    }
    write(top.join("etc/new/deeper/file"), "x");
}

const BELOW: &str = "on another file system that is mounted below the destination";

#[test]
fn a_read_only_mount_below_the_destination_is_the_fault_of_what_is_in_it() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    for top in [&there, &case.near.join("pulled")] {
        fs::create_dir_all(top.join("etc")).unwrap();
        let Some(mounted) = Mounted::read_only(&top.join("etc")) else { return };
        for _ in 0..2 {
            let run = match top == &there {
                true => case.cp(args!["-r", "tree/.", case.b("copy")]),
                false => case.sync(args![case.b("copy"), "pulled"]),
            };
            let run = run.exits(3).says(&[
                "Read-only file system",
                BELOW,
                "/etc/small: ",
                "/etc/parts: ",
                "/etc/new: ",
            ]);
            assert!(!run.err.contains("run the same command again"), "{run}");
            assert_alike(&here.join("usr"), &top.join("usr"));
            assert_alike(&here.join("var"), &top.join("var"));
            assert_eq!(temporaries(top).len(), 0, "the journal is gone as well");
        }
        if has("rsync") {
            let run = Command::new("rsync").arg("-a").arg(here.join(".")).arg(top).output().unwrap();
            assert_eq!(run.status.code(), Some(23), "rsync goes on, too");
        }
        drop(mounted);
        case.cp(args!["-r", "tree/.", case.b("copy")]).exits(0);
    }
    case.sync(args![case.b("copy"), "pulled"]).exits(0);
    assert_alike(&here, &case.near.join("pulled"));
}

#[test]
fn a_full_mount_below_the_destination_is_the_fault_of_what_is_in_it() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    fs::create_dir_all(there.join("etc")).unwrap();
    let Some(small) = Mounted::memory(&there.join("etc"), "1m") else { return };
    for _ in 0..2 {
        let run = case.sync(args!["tree", case.b("copy")]).exits(3);
        run.says(&["No space left", BELOW, "/etc/one piece: ", "/etc/parts: "]);
        assert_alike(&here.join("usr"), &there.join("usr"));
        assert_alike(&here.join("var"), &there.join("var"));
        assert_eq!(temporaries(&there).len(), 0);
    }
    drop(small);
    case.sync(args!["tree", case.b("copy")]).exits(0);
    assert_alike(&here, &there);
}

#[test]
fn a_file_that_is_a_mount_itself_and_full_is_its_own_fault_alone() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    let (aside, mounted) = (case.aside("small"), there.join("etc/parts"));
    let Some(_small) = Mounted::memory(&aside, "1m") else { return };
    write(aside.join("file"), "x");
    write(mounted.clone(), "");
    let Some(_bound) = Mounted::bound(&aside.join("file"), &mounted) else { return };
    let run = case.sync(args!["--inplace", "tree", case.b("copy")]).exits(3);
    run.says(&["No space left", BELOW, "/etc/parts: "]);
    for name in ["etc/small", "etc/one piece", "usr/parts", "var/lib/parts"] {
        assert_eq!(fs::read(here.join(name)).unwrap(), fs::read(there.join(name)).unwrap(), "{name}");
    }
}

/// The file system accepts the bytes, but its storage is full; only a sync reports the error.
#[test]
fn a_mount_whose_storage_loses_data_is_the_fault_of_what_is_in_it() {
    let Some(case) = case() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    make_tree(&here);
    fs::create_dir_all(there.join("etc")).unwrap();
    let backing = case.aside("backing");
    let Some(_backing) = Mounted::memory(&backing, "4m") else { return };
    let make = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-N", "64"];
    let Some(_lossy) = Mounted::image(&backing.join("image"), 64 << 20, &make, &there.join("etc")) else {
        return;
    };
    let run = case.cp(args!["-r", "tree/.", case.b("copy")]).exits(3);
    run.says(&["stable storage failed", BELOW, "/etc/parts: "]);
    assert!(!there.join("etc/parts").exists(), "it isn't whole");
    assert_alike(&here.join("usr"), &there.join("usr"));
    assert_alike(&here.join("var"), &there.join("var"));
}

#[test]
fn an_acl_on_xfs_is_kept_once() {
    let Some(case) = case_with_attributes() else { return };
    if !has("mkfs.xfs") {
        return;
    }
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    for name in ["file", "directory/x"] {
        write(here.join(name), "x");
    }
    fs::create_dir(&there).unwrap();
    let image = case.aside("image").join("xfs");
    let Some(_xfs) = Mounted::image(&image, 320 << 20, &["mkfs.xfs", "-q"], &there) else { return };
    for (name, kind) in [("file", "access"), ("directory", "default")] {
        let (path, name) = (here.join(name), format!("system.posix_acl_{kind}"));
        if let Err(error) = rustix::fs::setxattr(path, name, &acl(7), XattrFlags::empty()) {
            return skip("xattrs", format_args!("no ACL can be set here: {error}"));
        }
    }
    case.sync(args!["tree", case.b("copy")]).exits(0);
    let seen = rustix::fs::getxattr(there.join("file"), "trusted.SGI_ACL_FILE", &mut [0_u8; 1000][..]);
    assert!(seen.is_ok(), "XFS shows it twice");
    let again = case.sync(args!["--itemize-changes", "tree", case.b("copy")]).exits(0);
    assert_eq!(again.out, "");
    let words = args![case.bed.program(), "verify", "-a", "-F", case.bed.lab.ssh_config()];
    case.start_with(words, args!["tree", case.b("copy")]).end().exits(0);
    case.sync(args![case.b("copy"), "back"]).exits(0);
    let junk =
        rustix::fs::getxattr(case.near.join("back/file"), "trusted.SGI_ACL_FILE", &mut [0_u8; 1000][..]);
    assert!(junk.is_err(), "it means nothing elsewhere");
    assert_alike(&here, &case.near.join("back"));
}

#[test]
fn a_further_name_on_another_file_system_becomes_a_copy() {
    let Some(case) = case_with_attributes() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    write(here.join("a/file"), noise(1, 200_000));
    rustix::fs::setxattr(here.join("a/file"), "trusted.note", b"x", XattrFlags::empty()).unwrap();
    std::os::unix::fs::symlink("file", here.join("a/link")).unwrap();
    std::os::unix::fs::chown(here.join("a/file"), Some(4242), Some(4243)).unwrap();
    fs::set_permissions(here.join("a/file"), PermissionsExt::from_mode(0o4750)).unwrap();
    assert!(Command::new("mkfifo").arg(here.join("a/fifo")).status().unwrap().success());
    for directory in ["b", "c"] {
        fs::create_dir(here.join(directory)).unwrap();
        for name in ["file", "link", "fifo"] {
            fs::hard_link(here.join("a").join(name), here.join(directory).join(name)).unwrap();
        }
    }
    fs::create_dir_all(there.join("b")).unwrap();
    let Some(_other) = Mounted::memory(&there.join("b"), "8m") else { return };
    for options in [args![], args!["--verify"]] {
        case.sync([options, args!["tree", case.b("copy")]].concat()).exits(0);
        let seen = |top: &Path| {
            let of = |name: &str| {
                let meta = top.join(name).symlink_metadata().unwrap();
                (meta.mode(), meta.uid(), meta.gid(), meta.size(), meta.mtime(), meta.mtime_nsec())
            };
            ["a/file", "b/file", "c/file", "a/link", "b/link", "b/fifo"].map(of)
        };
        assert_eq!(seen(&there), seen(&here));
        assert_eq!(fs::read(there.join("b/file")).unwrap(), noise(1, 200_000));
        let mut value = [0_u8; 9];
        assert_eq!(rustix::fs::getxattr(there.join("b/file"), "trusted.note", &mut value[..]), Ok(1));
        let inode = |name: &str| there.join(name).metadata().unwrap().ino();
        assert_ne!(inode("a/file"), inode("b/file"));
    }
}

#[test]
fn a_directory_in_user_space_keeps_its_time_when_its_journal_goes() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.near.join("there"));
    for number in 0..40 {
        write(here.join(number.to_string()), noise(number, 3000));
    }
    let time = UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    fs::File::open(&here).unwrap().set_modified(time).unwrap();
    fs::create_dir(&there).unwrap();
    let Some(mounted) = Mounted::in_user_space(&case.aside("below"), &there) else { return };
    for name in ["a", "b", "c"] {
        // Into one that is there, in which the journal then lies.
        fs::create_dir(there.join(name)).unwrap();
        case.sync(args![&here, there.join(name)]).exits(0);
        // Longer than FUSE remembers a time.
        std::thread::sleep(Duration::from_millis(1100));
        assert_eq!(there.join(name).metadata().unwrap().modified().unwrap(), time, "{name}");
    }
    drop(mounted);
}
