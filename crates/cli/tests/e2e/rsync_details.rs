//! Tests of rsync's options about owners, links, times and disk space, with rsync and with `linerate rsync`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use linerate_testing::has;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use crate::archive::{acl, set_time};
use crate::bed::{Case, args, case, case_with_attributes};
use crate::rsync_lines::{assert_alike, lines, make_source, over_ssh, shape, words};
use crate::tree::write;

/// Command lines that map owners and groups.
const OWNERS: [&str; 17] = [
    "-ai --chown=daemon:bin src/ DST/",
    "-ai --chown=7 src/ DST/",
    "-ri --chown=:8 src/ DST/",
    "-ai --chown=7: src/ DST/",
    "-ai --usermap=0-5:mail,*:6 src/ DST/",
    "-ai --usermap=:5,root:7,d*:9,[w]ww-data:11 --groupmap=*:games src/ DST/",
    "-ai --numeric-ids --usermap=root:5,:6 src/ DST/",
    "-ai --numeric-ids --chown=3:4 src/ DST/",
    "-a --no-o --chown=7:8 src/ DST/",
    "-a --chown=7:8 --no-o src/ DST/",
    "-ai --chown=nosuch:nosuch src/ DST/",
    "-ai --usermap=root:nosuch,*:3 src/ DST/",
    "-ai --groupmap=4000-5000:9,1:2 src/ DST/",
    "-aAXi --chown=7:8 src/ DST/",
    "-ain --chown=7:8 src/ DST/",
    "-ai --usermap=a:b --chown=x src/ DST/",
    "-ai --usermap=0-5x:1 src/ DST/",
];

fn make_owned(top: &Path) {
    make_source(top);
    for (path, owner) in [("a", 1), ("core", 4242), ("sub/b", 12), ("sub/large", 33), ("other/zz", 5)] {
        chown(top.join(path), Some(owner), Some(owner)).unwrap();
    }
    lchown(top.join("l"), Some(33), Some(4242)).unwrap();
}

#[test]
fn owners_and_groups_are_mapped_as_rsync_maps_them() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_owned(&case.near.join("src"));
    for line in OWNERS {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, make_owned);
    }
}

#[test]
fn the_receiver_knows_whom_a_name_means() {
    let Some(case) = case() else { return };
    make_owned(&case.near.join("src"));
    let owner = |path: &Path| fs::symlink_metadata(path).map(|meta| (meta.uid(), meta.gid())).unwrap();
    let pushed = over_ssh(&case, "-ai --chown=daemon:nosuch src/ FAR/to/").exits(0);
    pushed.says(&["Unknown --groupmap name on receiver: nosuch"]);
    assert_eq!(owner(&case.far.join("to/core")), (1, 4242));
    over_ssh(&case, "-ai --usermap=*:daemon,0:7 --groupmap=4242:9 src/ FAR/to/").exits(0);
    assert_eq!(owner(&case.far.join("to/l")), (1, 9));
    let again = over_ssh(&case, "-ai --usermap=*:daemon --groupmap=4242:9 src/ FAR/to/").exits(0);
    assert_eq!(again.out, "");
    over_ssh(&case, "-ai --chown=3:4 FAR/to/ back/").exits(0);
    assert_eq!(owner(&case.near.join("back/l")), (3, 4));
    let program = case.bed.program();
    let native = case.start_with(args![&program, "sync", "--chown=7:8", "src"], args!["native"]);
    native.end().exits(0);
    assert_eq!(owner(&case.near.join("native/sub/b")), (7, 8));
    let native = case.start_with(args![program, "cp", "-a", "--usermap=33:3", "src"], args!["copied"]);
    native.end().exits(0);
    assert_eq!(owner(&case.near.join("copied/sub/large")).0, 3);
}

/// Command lines with options that may differ between the two ends.
const OTHERS: [&str; 21] = [
    "-aiU src/ DST/",
    "-rUi src/ DST/",
    "-aiUU src/ DST/",
    "-aiU --no-atimes src/ DST/",
    "-ai --open-noatime src/ DST/",
    "-ai --munge-links src/ DST/",
    "-ai -M--munge-links src/ DST/",
    "-ai --munge-links -M--munge-links src/ DST/",
    "-a --out-format=%n%L -M--munge-links src/ DST/",
    "-ai --drop-D src/ DST/",
    "-a -M--drop-D src/ DST/",
    "-a --drop-D --no-drop-D src/ DST/",
    "-ai --preallocate src/ DST/",
    "-aiS --preallocate src/ DST/",
    "-ai --preallocate --inplace src/ DST/",
    "-ai --super src/ DST/",
    "-ai --no-super src/ DST/",
    "-aAXi --no-super src/ DST/",
    "-ai -M--no-super src/ DST/",
    "-aU -M--preallocate src/ DST/",
    "-a -Mnonsense src/ DST/",
];

fn make_read(top: &Path) {
    make_source(top);
    symlink("/rsyncd-munged/gone", top.join("munged")).unwrap();
    rustix::fs::mknodat(
        CWD,
        top.join("null"),
        FileType::CharacterDevice,
        Mode::RUSR,
        rustix::fs::makedev(1, 3),
    )
    .unwrap();
    // Times of files made within one second would be alike or not by chance.
    for path in ["munged", "null", "."] {
        set_time(&top.join(path), 1_500_000_000, 7);
    }
    chown(top.join("core"), Some(4242), Some(4242)).unwrap();
    for (number, path) in ["a", "core", "sub/large", "sub/b"].into_iter().enumerate() {
        // So late that reading them once more changes nothing.
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        set_accessed(&top.join(path), now / 7200 * 7200 + 14400 + number as i64);
    }
}

fn set_accessed(path: &Path, seconds: i64) {
    let omitted = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT as _ };
    let last_access = Timespec { tv_sec: seconds, tv_nsec: 5 };
    let times = Timestamps { last_access, last_modification: omitted };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn make_read_and_changed(top: &Path) {
    make_read(top);
    write(top.join("sub/b"), "old");
    set_accessed(&top.join("core"), 1_600_000_000);
    fs::remove_file(top.join("l")).unwrap();
    symlink("elsewhere", top.join("l")).unwrap();
}

#[test]
fn options_that_each_end_has_for_itself_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for line in OTHERS {
        let source = case.near.join("src");
        let _ = fs::remove_dir_all(&source);
        make_read(&source);
        assert_alike(&case, line, |_| ());
        make_again(&source);
        assert_alike(&case, line, make_read_and_changed);
    }
}

fn make_again(source: &Path) {
    fs::remove_dir_all(source).unwrap();
    make_read(source);
}

/// The access time and the number of allocated blocks of each file.
fn accessed_and_blocks(top: &Path) -> Vec<(i64, u64)> {
    let meta = |path| fs::symlink_metadata(top.join(path)).unwrap();
    ["core", "sub/b", "sub/large"].into_iter().map(|path| (meta(path).atime(), meta(path).blocks())).collect()
}

#[test]
fn times_of_access_and_room_are_what_they_are_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let source = case.near.join("src");
    make_read(&source);
    fs::write(source.join("core"), vec![0; 3 << 20]).unwrap();
    set_accessed(&source.join("core"), 1_700_000_001);
    let before = accessed_and_blocks(&source);
    let each = |options: &str| {
        let runs = [("ours", args![case.bed.program(), "rsync"]), ("theirs", args!["rsync"])];
        runs.map(|(to, program)| {
            let _ = fs::remove_dir_all(case.near.join(to));
            case.start_with(program, words(&format!("{options} src/ {to}/"), "")).end().exits(0);
            accessed_and_blocks(&case.near.join(to))
        })
    };
    let both = |options: &str| {
        let [ours, theirs] = each(options);
        assert_eq!(ours, theirs, "{options}");
        ours
    };
    let kept = both("-aUU");
    assert_eq!(accessed_and_blocks(&source), before, "reading left the times as they were");
    assert_eq!(
        kept.iter().map(|of| of.0).collect::<Vec<_>>(),
        before.iter().map(|of| of.0).collect::<Vec<_>>()
    );
    both("-aUU --preallocate");
    // rsync leaves the room of zeros at a file's end.
    let [ours, theirs] = each("-aUUS --preallocate");
    let is_alike = |(ours, theirs): (&(i64, u64), &(i64, u64))| ours.0 == theirs.0 && ours.1 <= theirs.1;
    assert!(ours.iter().zip(&theirs).all(is_alike), "{ours:?} {theirs:?}");
    over_ssh(&case, "-aUU src/ FAR/to/").exits(0);
    assert_eq!(accessed_and_blocks(&case.far.join("to"))[0].0, before[0].0);
    set_accessed(&case.far.join("to/core"), 7);
    let pulled = over_ssh(&case, "-aiUU FAR/to/ src/").exits(0);
    assert_eq!(pulled.out, ".f......u.. core\n");
    assert_eq!(accessed_and_blocks(&source)[0].0, 7);
}

#[test]
fn links_are_munged_where_the_end_says_so() {
    let Some(case) = case() else { return };
    make_read(&case.near.join("src"));
    let target = |path: &Path| fs::read_link(path).unwrap().into_os_string().into_string().unwrap();
    over_ssh(&case, "-a -M--munge-links src/ FAR/to/").exits(0);
    assert_eq!(target(&case.far.join("to/l")), "/rsyncd-munged/a");
    assert_eq!(over_ssh(&case, "-ai -M--munge-links FAR/to/ src/").exits(0).out, "");
    over_ssh(&case, "-a --munge-links FAR/to/ back/").exits(0);
    assert_eq!(target(&case.near.join("back/l")), "/rsyncd-munged//rsyncd-munged/a");
    over_ssh(&case, "-a --munge-links src/ FAR/plain/").exits(0);
    assert_eq!(target(&case.far.join("plain/munged")), "gone");
    assert_eq!(shape(&case.near.join("src")).len(), shape(&case.far.join("plain")).len());
    assert_restricted(&case);
}

/// A restricted login follows no links at the destination.
fn assert_restricted(case: &Case) {
    let agent = format!("{} agent --below {}", case.bed.program().display(), case.far.display());
    let shell = case.near.join("restricted.sh");
    linerate_testing::write_script(&shell, &format!("#!/bin/sh\nexec {agent}\n"));
    let line = format!("-aK -e {} src/ x:plain/", shell.display());
    let run = case.start_with(args![case.bed.program(), "rsync"], words(&line, "")).end();
    assert_ne!(run.code, Some(0), "{run}");
    run.says(&["this login may not have symbolic links followed"]);
}

/// Options that have no visible effect except that wrong values are refused.
const CHECKED: [&str; 44] = [
    "--checksum-choice=md5",
    "-c --cc=xxh64",
    "--cc=auto,md5",
    "--cc=none",
    "-c --cc=none",
    "--cc=nonsense",
    "-B 2048 --no-W",
    "-B 131073",
    "--block-size=x",
    "--checksum-seed=5",
    "--checksum-seed=x",
    "--outbuf=L",
    "--outbuf=None",
    "--outbuf=x",
    "--stderr=errors",
    "--stderr=client",
    "--stderr=a",
    "--stderr=x",
    "--msgs2stderr",
    "--msgs2stderr --no-msgs2stderr",
    "--max-alloc=1g",
    "--max-alloc=0",
    "--max-alloc=1k",
    "--blocking-io",
    "--no-blocking-io",
    "--qsort",
    "--no-qsort",
    "-s",
    "--no-s",
    "--secluded-args",
    "--protect-args",
    "--trust-sender",
    "--no-trust-sender",
    "--fsync",
    "--no-fsync",
    "--inc-recursive",
    "--no-i-r",
    "--motd",
    "--no-motd",
    "--address=1.2.3.4",
    "--port=1",
    "--sockopts=x",
    "--early-input=x",
    "--contimeout=5",
];

#[test]
fn options_of_which_nothing_is_seen_are_right_or_wrong_as_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    for option in CHECKED {
        assert_alike(&case, &format!("-ai {option} src/ DST/"), |_| ());
    }
    let said =
        |program, to| case.start_with(program, words(&format!("-ai --stderr=all src/ {to}/"), "")).end();
    let ours = said(args![case.bed.program(), "rsync"], "aside").exits(0);
    let theirs = said(args!["rsync"], "beside").exits(0);
    assert_eq!((ours.out.as_str(), lines(&ours.err)), ("", lines(&theirs.err.replace("beside", "aside"))));
    assert!(ours.err.contains(">f+++++++++ sub/large\n"));
}

#[test]
fn names_reach_the_far_end_as_they_are() {
    let Some(case) = case() else { return };
    for name in ["one name", "$(id)", "a;b", "x1"] {
        write(case.far.join("odd").join(name), name);
    }
    let shell = format!("ssh -F {}", case.bed.lab.ssh_config().display());
    let far = case.b("odd").into_string().unwrap();
    for (name, found) in [("one name", 1), ("$(id)", 1), ("a;b", 1), ("[ox]*", 2)] {
        let program = args![case.bed.program(), "rsync", "-s", "-e", &shell, "-r"];
        case.start_with(program, args![format!("{far}/{name}"), format!("to-{found}{}/", name.len())])
            .end()
            .exits(0);
        let to = case.near.join(format!("to-{found}{}", name.len()));
        assert_eq!(fs::read_dir(to).unwrap().count(), found, "{name}");
    }
}

/// Command lines that keep the permission to execute as at the sender, independent of other mode bits.
const EXECUTABLE: [&str; 6] = [
    "-riE src/ DST/",
    "-rtiE src/ DST/",
    "-rtiEI src/ DST/",
    "-rtiE --inplace src/ DST/",
    "-rtinE src/ DST/",
    "-rtiEp src/ DST/",
];

fn make_modes(top: &Path) {
    for (name, mode) in [("a", 0o600), ("b", 0o644), ("c", 0o711), ("d", 0o4755), ("e", 0o440)] {
        write(top.join(name), name);
        set_time(&top.join(name), 1_500_000_000, 7);
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn files_may_be_executed_as_at_the_sender() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let src = case.near.join("src");
    make_modes(&src);
    for (name, mode) in [("a", 0o700), ("b", 0o1601), ("c", 0o644), ("d", 0o600), ("e", 0o555)] {
        fs::set_permissions(src.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for line in EXECUTABLE {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, make_modes);
        // With other contents, too.
        assert_alike(&case, line, |top| {
            make_modes(top);
            ["a", "c"].iter().for_each(|name| write(top.join(name), "older"));
        });
    }
    make_modes(&case.far.join("to"));
    assert_eq!(over_ssh(&case, "-rtiE src/ FAR/to/").exits(0).out.lines().count(), 6);
    assert_eq!(fs::metadata(case.far.join("to/b")).unwrap().mode() & 0o7777, 0o755);
}

/// Command lines that create entries in a directory with a default ACL.
const INHERITING: [&str; 8] = [
    "-ri src/ DST/",
    "-ri src DST/new",
    "-riE src/ DST/",
    "-rpi src/ DST/",
    "-rAi src/ DST/",
    "-ri --chmod=a=rwx src/ DST/",
    "-riR src/./sub/b DST/",
    "-ri src/a DST/other",
];

#[test]
fn a_default_acl_says_what_new_things_permit() {
    let Some(case) = case_with_attributes().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    for (path, mode) in [("a", 0o777), ("sub", 0o777), ("sub/b", 0o666), ("other", 0o700)] {
        fs::set_permissions(case.near.join("src").join(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    for line in INHERITING {
        assert_alike(&case, line, |top| inheriting(top, 7));
        assert_alike(&case, line, |top| inheriting(top, 5));
        assert_alike(&case, line, |top| inheriting(top, 0));
    }
    let open = case.near.join("ours");
    inheriting(&fs::remove_dir_all(&open).map(|()| open.clone()).unwrap(), 7);
    over_ssh(&case, "-r src/ ours/").exits(0);
    assert_eq!(fs::metadata(open.join("sub")).unwrap().mode() & 0o777, 0o770);
}

fn inheriting(top: &Path, permissions: u8) {
    fs::create_dir(top).unwrap();
    let value = acl(permissions);
    rustix::fs::lsetxattr(top, "system.posix_acl_default", &value, XattrFlags::empty()).unwrap();
}

/// Command lines whose destination is a device, a FIFO or a socket.
const ONTO_SPECIALS: [&str; 6] = [
    "-Di nodes/one DST",
    "-ai nodes/one DST",
    "-ai nodes/pipe DST",
    "-ai src/a DST",
    "-ai --existing src/a DST",
    "-ai --ignore-existing nodes/one DST",
];

#[test]
fn what_a_device_s_name_gets_replaces_the_device() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    fs::create_dir(case.near.join("nodes")).unwrap();
    make_node(&case.near.join("nodes/one"), FileType::BlockDevice, 73);
    make_node(&case.near.join("nodes/pipe"), FileType::Fifo, 0);
    for name in ["one", "pipe"] {
        set_time(&case.near.join("nodes").join(name), 1_500_000_000, 0);
    }
    let there = |top: &Path| {
        let meta = fs::symlink_metadata(top).unwrap();
        (meta.mode(), meta.rdev(), meta.len(), meta.mtime() == 1_500_000_000)
    };
    let olds = [(FileType::BlockDevice, 73), (FileType::BlockDevice, 69), (FileType::Fifo, 0)];
    for (line, (kind, minor)) in ONTO_SPECIALS.iter().flat_map(|line| olds.map(|old| (line, old))) {
        let [ours, theirs] = ["ours", "theirs"].map(|name| {
            let top = case.near.join(name);
            let _ = fs::remove_file(&top);
            make_node(&top, kind, minor);
            let own = args![case.bed.program(), "rsync"];
            let program = if name == "ours" { own } else { args!["rsync"] };
            let run = case.start_with(program, words(line, name)).end();
            (run.code, lines(&run.out), there(&top))
        });
        assert_eq!(ours, theirs, "{line} onto {kind:?} {minor}");
    }
}

fn make_node(path: &Path, kind: FileType, minor: u32) {
    let device = if minor == 0 { 0 } else { rustix::fs::makedev(42, minor) };
    rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device).unwrap();
}

#[test]
fn protocol_changes_nothing() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    over_ssh(&case, "-a --protocol=28 src/ FAR/to/").exits(0);
    assert_eq!(over_ssh(&case, "-ai --protocol 31 FAR/to/ src/").exits(0).out, "");
    over_ssh(&case, "-a src/ to/ --protocol").exits(1).says(&["--protocol needs a value"]);
}

/// Command lines for trees with symbolic and hard links, all of which rsync counts.
const COUNTED: [&str; 8] = ["-r", "-a", "-aH", "-rn", "-rH", "-aHn", "-a --safe-links", "--list-only -r"];

#[test]
fn sizes_are_those_of_links_and_of_each_name_too() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let source = case.near.join("src");
    make_source(&source);
    fs::hard_link(source.join("a"), source.join("again")).unwrap();
    symlink("a target of some length", source.join("long")).unwrap();
    fs::hard_link(source.join("long"), source.join("longer")).unwrap();
    make_node(&source.join("pipe"), FileType::Fifo, 0);
    fs::hard_link(source.join("pipe"), source.join("same pipe")).unwrap();
    let size = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("Total file size: ")).unwrap().to_owned();
        let last = text.lines().find(|line| line.starts_with("total size is ")).unwrap();
        (line, last.split("  ").next().unwrap().to_owned())
    };
    for options in COUNTED {
        let line = |to: &str| words(&format!("{options} --stats src/ {to}/"), "");
        let ours = case.start_with(args![case.bed.program(), "rsync"], line("ours")).end().exits(0);
        let theirs = case.start_with(args!["rsync"], line("theirs")).end().exits(0);
        assert_eq!(size(&ours.out), size(&theirs.out), "{options}");
        let pushed = over_ssh(&case, &format!("{options} --stats src/ FAR/{}/", options.len())).exits(0);
        assert_eq!(size(&pushed.out), size(&theirs.out), "{options}");
        for name in ["ours", "theirs"] {
            let _ = fs::remove_dir_all(case.near.join(name));
        }
    }
    over_ssh(&case, "-aH src/ FAR/to/").exits(0);
    for options in COUNTED {
        let theirs = words(&format!("{options} --stats {}/ theirs/", case.far.join("to").display()), "");
        let theirs = case.start_with(args!["rsync"], theirs).end().exits(0);
        let pulled = over_ssh(&case, &format!("{options} --stats FAR/to/ ours/")).exits(0);
        assert_eq!(size(&pulled.out), size(&theirs.out), "{options}");
    }
}
