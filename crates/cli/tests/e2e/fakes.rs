//! Tests of `--fake-super`: rsync and linerate can read the metadata that the other program stored, on this
//! host and over ssh, as root and as an ordinary user.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use linerate_testing::has;
use rustix::fs::XattrFlags;
use rustix::process::Signal;

use crate::archive::{assert_same, make_everything, set_time};
use crate::bed::{Case, NOBODY, args, case_with_attributes};
use crate::rsync_lines::{over_ssh, words};
use crate::support::{PATIENCE, Run, within};
use crate::tree::{names, noise, temporaries, write};

/// The rsync options that keep all metadata.
const ALL: &str = "-aHAXi --numeric-ids";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Program {
    Ours,
    Theirs,
}

const BOTH: [Program; 2] = [Program::Ours, Program::Theirs];

impl Program {
    #[track_caller]
    fn run(self, case: &Case, line: &str) -> Run {
        let program = match self {
            Self::Ours => args![case.bed.program(), "rsync"],
            Self::Theirs => args!["rsync"],
        };
        case.start_with(program, words(line, "")).end()
    }
}

/// Makes entries of all kinds, without holes and large numbers of similar entries.
fn make_all(top: &Path) {
    make_everything(top, 3);
    ["deep", "holes", "odd"].iter().for_each(|name| fs::remove_dir_all(top.join(name)).unwrap());
    make_old(top);
}

/// Sets old modification times, because rsync doesn't set a time that is in the same second.
fn make_old(top: &Path) {
    for name in names(top).into_iter().rev().chain([OsString::new()]) {
        set_time(&top.join(name), 1_500_000_000, 7);
    }
}

fn attribute(path: &Path, name: &str) -> Option<String> {
    let mut value = [0; 300];
    let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).ok()?;
    Some(String::from_utf8_lossy(&value[..length]).into_owned())
}

/// Checks that all entries are files and directories of this owner without permissions for others, as any
/// user can create.
fn assert_ordinary(top: &Path, owner: u32) {
    for path in names(top).into_iter().map(|name| top.join(name)).chain([top.to_owned()]) {
        let meta = path.symlink_metadata().unwrap();
        let is_plain = meta.is_file() || meta.is_dir();
        let needed = if meta.is_dir() { 0o700 } else { 0o600 };
        let shown = path.display();
        assert!(is_plain && meta.uid() == owner, "{shown}: {meta:?}");
        assert_eq!((meta.mode() & 0o7000, meta.mode() & needed), (0, needed), "{shown}");
    }
}

#[test]
fn each_reads_what_the_other_has_stored() {
    let Some(case) = case_with_attributes().filter(|_| has("rsync")) else { return };
    make_all(&case.near.join("src"));
    for maker in BOTH {
        maker.run(&case, &format!("{ALL} -M--fake-super src/ {maker:?}/")).exits(0);
        assert_ordinary(&case.near.join(format!("{maker:?}")), 0);
    }
    assert_same(&case.near.join("Ours"), &case.near.join("Theirs"));
    for (path, says) in [
        ("special/null", "20760 1,3 5:6"),
        ("special/disk", "60640 259,70000 0:0"),
        ("link", "120777 0,0 77:88"),
        ("small", "104755 0,0 2000:2"),
        ("empty directory", "41777 0,0 0:0"),
    ] {
        let found = attribute(&case.near.join("Ours").join(path), "user.rsync.%stat");
        assert_eq!(found.as_deref(), Some(says), "{path}");
    }
    assert_eq!(fs::read(case.near.join("Ours/link")).unwrap(), b"small");
    assert!(attribute(&case.near.join("Ours/edge"), "user.rsync.security.capability").is_some());
    assert!(attribute(&case.near.join("Ours/edge"), "security.capability").is_none());
    for (maker, reader) in BOTH.into_iter().flat_map(|maker| BOTH.map(|reader| (maker, reader))) {
        let again = reader.run(&case, &format!("{ALL} -M--fake-super src/ {maker:?}/")).exits(0);
        assert_eq!(again.out, "", "{maker:?}, {reader:?}");
        let back = format!("back-{maker:?}-{reader:?}");
        let read = format!("{ALL} --fake-super -M--super {maker:?}/ {back}/");
        reader.run(&case, &read).exits(0);
        assert_same(&case.near.join("src"), &case.near.join(&back));
        // rsync itself tells of the stored attributes each time.
        let again = reader.run(&case, &read).exits(0);
        assert!(again.out.is_empty() || reader == Program::Theirs, "{again}");
    }
}

/// Changes all kinds of stored metadata.
fn change(top: &Path) {
    for path in ["special/null", "special/fifo", "special/disk", "empty directory/new", "link"] {
        let _ = fs::remove_file(top.join(path));
    }
    write(top.join("special/null"), "a file now");
    write(top.join("empty directory/new"), "x");
    rustix::fs::symlinkat("elsewhere", rustix::fs::CWD, top.join("special/disk")).unwrap();
    rustix::fs::symlinkat("edge", rustix::fs::CWD, top.join("link")).unwrap();
    let device = rustix::fs::makedev(9, 8);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        top.join("special/fifo"),
        rustix::fs::FileType::CharacterDevice,
        mode,
        device,
    )
    .unwrap();
    chown(top.join("a/b"), Some(71), Some(72)).unwrap();
    fs::set_permissions(top.join("a/b"), PermissionsExt::from_mode(0o500)).unwrap();
    chown(top.join("large"), Some(73), Some(74)).unwrap();
    fs::set_permissions(top.join("large"), PermissionsExt::from_mode(0o6555)).unwrap();
    rustix::fs::lremovexattr(top.join("small"), "trusted.secret").unwrap();
    rustix::fs::lsetxattr(top.join("a"), "trusted.new", b"new", XattrFlags::empty()).unwrap();
    rustix::fs::lremovexattr(top.join("empty directory"), "system.posix_acl_default").unwrap();
    rustix::fs::lremovexattr(top.join("a/b/file"), "system.posix_acl_access").unwrap();
    make_old(top);
}

#[test]
fn changes_are_reported_and_stored_as_rsync_does() {
    let Some(case) = case_with_attributes().filter(|_| has("rsync")) else { return };
    make_all(&case.near.join("src"));
    // Of further names rsync tells when the first one changes.
    for name in ["another small", "a/b/a third small", "a/chunked", "a/link", "a/fifo"] {
        fs::remove_file(case.near.join("src").join(name)).unwrap();
    }
    // rsync compares the attributes of a link that it has made anew.
    rustix::fs::lremovexattr(case.near.join("src/link"), "trusted.link").unwrap();
    let line = |program: Program| format!("-aAXi --delete -M--fake-super src/ {program:?}/");
    BOTH.iter().for_each(|program| drop(program.run(&case, &line(*program)).exits(0)));
    change(&case.near.join("src"));
    let [ours, theirs] = BOTH.map(|program| {
        let run = program.run(&case, &line(program)).exits(0);
        let mut lines: Vec<_> = run.out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    assert_eq!(ours, theirs);
    // rsync leaves an ACL's mask as it was.
    for reader in BOTH {
        reader.run(&case, &format!("-aAXi --fake-super -M--super Ours/ back-{reader:?}/")).exits(0);
        assert_same(&case.near.join("src"), &case.near.join(format!("back-{reader:?}")));
    }
    // Without owners and permissions what was stored stays.
    write(case.near.join("src/large"), "shorter");
    for program in BOTH {
        program.run(&case, &format!("-rtlX -M--fake-super src/ {program:?}/")).exits(0);
        let large = case.near.join(format!("{program:?}/large"));
        assert_eq!(fs::read(&large).unwrap(), b"shorter");
    }
    let kept = attribute(&case.near.join("Ours/large"), "user.rsync.%stat");
    assert_eq!(kept.as_deref(), Some("106555 0,0 0:0"));
}

/// A remote shell whose far end is an ordinary user with the far directory.
fn far_nobody(case: &Case) -> String {
    chown(&case.far, Some(NOBODY), Some(NOBODY)).unwrap();
    let shell = case.aside("bin").join("nobody");
    let ssh = format!("ssh -F {}", case.bed.lab.ssh_config().display());
    fs::write(&shell, format!("SSH='{ssh}'\n{}\n", case.as_far_nobody())).unwrap();
    format!("sh {}", shell.display())
}

#[test]
fn an_ordinary_user_holds_what_only_root_could_make() {
    let Some(case) = case_with_attributes() else { return };
    let shell = far_nobody(&case);
    make_all(&case.near.join("src"));
    let run = |line: &str| {
        let far = case.b("to").into_string().unwrap();
        let mut all = args![case.bed.program(), "rsync", "-e", &shell];
        all.extend(line.split(' ').map(|word| OsString::from(word.replace("FAR", &far))));
        case.start_with(all, args![]).end()
    };
    run(&format!("{ALL} -M--fake-super src/ FAR")).exits(0);
    assert_ordinary(&case.far.join("to"), NOBODY);
    assert_eq!(run(&format!("{ALL} -M--fake-super src/ FAR")).exits(0).out, "");
    run(&format!("{ALL} -M--fake-super FAR/ back")).exits(0);
    assert_same(&case.near.join("src"), &case.near.join("back"));
    assert_eq!(run(&format!("{ALL} -M--fake-super FAR/ back")).exits(0).out, "");
    // An ordinary user here, too; the far one sends what it has as it is.
    run("-aHAXXi --numeric-ids FAR/ raw").exits(0);
    Program::Ours.run(&case, &format!("{ALL} --fake-super -M--super raw/ again")).exits(0);
    assert_same(&case.near.join("src"), &case.near.join("again"));
    assert_eq!(temporaries(&case.far), Vec::<OsString>::new());
}

#[test]
fn root_s_far_end_fakes_where_it_is_asked_to() {
    let Some(case) = case_with_attributes() else { return };
    make_all(&case.near.join("src"));
    over_ssh(&case, &format!("{ALL} -M--fake-super src/ FAR/to")).exits(0);
    assert_ordinary(&case.far.join("to"), 0);
    over_ssh(&case, &format!("{ALL} --fake-super FAR/to/ plain")).exits(0);
    assert!(case.near.join("plain/special/null").is_file() && !case.near.join("plain/link").is_symlink());
    over_ssh(&case, &format!("{ALL} -M--fake-super FAR/to/ back")).exits(0);
    assert_same(&case.near.join("src"), &case.near.join("back"));
    assert!(case.near.join("back/special/null").metadata().unwrap().file_type().is_char_device());
}

#[test]
fn sync_and_cp_store_and_read_too() {
    let Some(case) = case_with_attributes() else { return };
    make_all(&case.near.join("src"));
    let far = || case.b("to");
    let sync = |args: Vec<OsString>| case.sync(args).exits(0);
    sync(args!["--archive", "--verify", "--fake-super=dst", "src", far()]);
    assert_ordinary(&case.far.join("to"), 0);
    let again = sync(args!["--archive", "--itemize-changes", "--fake-super=dst", "src", far()]);
    assert!(!again.out.contains("special") && !again.out.contains("small"), "{again}");
    sync(args!["--archive", "--verify", "--fake-super=both", far(), "copy"]);
    assert_ordinary(&case.near.join("copy"), 0);
    case.cp(args!["-a", "--fake-super=src", "copy", "back"]).exits(0);
    assert_same(&case.near.join("src"), &case.near.join("back"));
    case.cp(args!["-a", "--fake-super=far", "copy", "x"]).exits(2).says(&["src", "dst", "both"]);
}

#[test]
fn what_says_nothing_is_reported_and_not_sent() {
    let Some(case) = case_with_attributes() else { return };
    for (name, value) in [
        ("bad", &b"nonsense"[..]),
        ("directory", b"40755 0,0 0:0"),
        ("long", &[b'1'; 400]),
        ("good", b"20600 1,3 0:0"),
    ] {
        write(case.near.join("src").join(name), "x");
        let path = case.near.join("src").join(name);
        rustix::fs::lsetxattr(path, "user.rsync.%stat", value, XattrFlags::empty()).unwrap();
    }
    write(case.near.join("src/link"), vec![b'a'; 5000]);
    let says = b"120777 0,0 0:0";
    rustix::fs::lsetxattr(case.near.join("src/link"), "user.rsync.%stat", says, XattrFlags::empty()).unwrap();
    let run = Program::Ours.run(&case, "-ai --fake-super -M--super src/ to/").exits(23);
    run.says(&["bad", "directory", "long", "user.rsync.%stat", "link", "File name too long"]);
    assert_eq!(names(&case.near.join("to")), ["good"]);
    assert!(case.near.join("to/good").metadata().unwrap().file_type().is_char_device());
    // Where it is to be stored, it is replaced, also if nothing else differs.
    write(case.near.join("fixed/good"), "x");
    Program::Ours.run(&case, "-a fixed/ damaged/").exits(0);
    let damaged = case.near.join("damaged/good");
    rustix::fs::lsetxattr(&damaged, "user.rsync.%stat", b"nonsense", XattrFlags::empty()).unwrap();
    Program::Ours.run(&case, "-ai -M--fake-super fixed/ damaged/").exits(0);
    assert_eq!(attribute(&damaged, "user.rsync.%stat"), None);
    for (name, kind) in [("bad", "a file"), ("directory", "b")] {
        write(case.near.join("new").join(name), kind);
    }
    Program::Ours.run(&case, "-ai -M--fake-super new/ src/").exits(0);
    assert_eq!(fs::read(case.near.join("src/bad")).unwrap(), b"a file");
    assert_eq!(attribute(&case.near.join("src/bad"), "user.rsync.%stat"), None);
}

#[test]
fn a_killed_run_is_gone_on_from() {
    let Some(case) = case_with_attributes() else { return };
    let shell = far_nobody(&case);
    let source = case.near.join("src");
    make_all(&source);
    write(source.join("z/late"), noise(7, 30 << 20));
    for number in 0..12 {
        let path = source.join(format!("z/{number}"));
        write(path.clone(), noise(100 + number, 2 << 20));
        chown(path, Some(5000), Some(6000)).unwrap();
    }
    let line = |slow: bool| {
        let mut words = args!["--archive", "--fake-super=dst", "--verify", "--rsh", &shell];
        words.extend(if slow { args!["--bwlimit", "8m"] } else { args![] });
        words.extend(args!["src", case.b("to")]);
        words
    };
    for signal in [Signal::KILL, Signal::INT] {
        let running = case.start_with(args![case.bed.program(), "sync"], line(true));
        let landed = || fs::read_dir(case.far.join("to/z")).map_or(0, Iterator::count) > 2;
        assert!(within(PATIENCE, landed), "it never got under way: {}", running.end());
        running.signal(signal);
        running.end();
        // What has its name is whole, with what it stands for.
        let is_named = |name: &OsString| !name.to_string_lossy().starts_with(".linerate");
        for name in names(&case.far.join("to/z")).into_iter().filter(is_named) {
            let there = case.far.join("to/z").join(&name);
            assert_eq!(fs::read(&there).unwrap(), fs::read(source.join("z").join(&name)).unwrap());
            if name != "late" {
                let said = attribute(&there, "user.rsync.%stat");
                assert_eq!(said.as_deref(), Some("100644 0,0 5000:6000"), "{name:?}");
            }
            fs::remove_file(there).unwrap();
        }
    }
    case.start_with(args![case.bed.program(), "sync"], line(false)).end().exits(0);
    assert_ordinary(&case.far.join("to"), NOBODY);
    assert_eq!(temporaries(&case.far), Vec::<OsString>::new());
    let back = args!["--archive", "--fake-super=src", "--rsh", &shell, case.b("to"), "back"];
    case.start_with(args![case.bed.program(), "sync"], back).end().exits(0);
    assert_same(&source, &case.near.join("back"));
}

/// Command lines for which other options or entries conflict with `--fake-super`: other trees, backups, and
/// temporary directories.
const LINES: [&str; 9] = [
    "-aAXi -M--fake-super --inplace src/ DST/",
    "-aAXi -M--fake-super --backup src/ DST/",
    "-aXi -M--fake-super --temp-dir=/tmp src/ DST/",
    "-aAXi -M--fake-super --delay-updates src/ DST/",
    "-aAXi -M--fake-super --link-dest=../other src/ DST/",
    "-aAXi -M--fake-super --copy-dest=../other src/ DST/",
    "-aAXi -M--fake-super --compare-dest=../other src/ DST/",
    "-aAXi -M--fake-super --chown=5:6 --chmod=Fu+s src/ DST/",
    "-aAXi -M--fake-super --safe-links --munge-links src/ DST/",
];

#[test]
fn other_options_store_the_same_as_with_rsync() {
    let Some(case) = case_with_attributes().filter(|_| has("rsync")) else { return };
    make_all(&case.near.join("src"));
    // rsync forgets these where another tree has the file.
    for (path, name) in [("special/fifo", "trusted.fifo"), ("link", "trusted.link")] {
        rustix::fs::lremovexattr(case.near.join("src").join(path), name).unwrap();
    }
    Program::Theirs.run(&case, "-aAX -M--fake-super src/ other/").exits(0);
    write(case.near.join("src/edge"), "newer");
    fs::remove_file(case.near.join("src/special/null")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        case.near.join("src/special/null"),
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 5),
    )
    .unwrap();
    for line in LINES {
        crate::rsync_lines::assert_alike(&case, line, |_| ());
    }
}
