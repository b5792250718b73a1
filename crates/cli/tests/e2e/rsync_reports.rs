//! Tests of what `linerate rsync` reports about entries, compared with rsync: each reported file was sent, a directory
//! that several sources have isn't reported again, and no directory is reported that isn't made or not deleted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use linerate_testing::has;

use crate::archive::set_time;
use crate::bed::{Case, args, case};
use crate::mounts::Mounted;
use crate::rsync_lines::{assert_alike, lines, over_ssh, words};
use crate::support::Run;
use crate::tree::{noise, write};

const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Makes two sources whose directories have the same names and different metadata.
fn make_two(top: &Path) {
    for (name, mode, time) in [("a", 0o755, 1_600_000_000), ("c", 0o2750, 1_500_000_000)] {
        for path in [format!("{name}/f"), format!("{name}/sub/{name}"), format!("p{name}/x/sub/{name}")] {
            write(top.join(path), name);
        }
        for path in ["", "sub"].map(|path| top.join(name).join(path)) {
            set_mode(&path, mode);
            set_time(&path, time, 0);
        }
        for path in ["x/sub", "x"].map(|path| top.join(format!("p{name}")).join(path)) {
            set_mode(&path, mode);
            set_time(&path, time, 0);
        }
    }
}

#[test]
fn the_first_of_several_sources_gives_a_directory_its_metadata() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_two(&case.near);
    make_two(&case.far);
    for line in ["-ai a/ c/ DST", "-ai pa/x pc/x DST", "-ain a/ c/ DST", "-ri a/ c/ DST"] {
        assert_alike(&case, line, |_| ());
        let again = case.start_with(args![case.bed.program(), "rsync"], words(line, "ours")).end().exits(0);
        assert!(line.contains("-ain") || line.contains("-ri") || again.out.is_empty(), "{line}: {again}");
    }
    let metadata = |path: &Path| fs::metadata(path).map(|meta| (meta.mode() & 0o7777, meta.mtime())).unwrap();
    for (line, top) in [
        ("-ai a/ c/ FAR/to", case.far.join("to")),
        ("-ai FAR/a/ FAR/c/ back", case.near.join("back")),
        ("-ai pa/x pc/x FAR/tops", case.far.join("tops/x")),
    ] {
        over_ssh(&case, line).exits(0);
        assert_eq!(metadata(&top), (0o755, 1_600_000_000), "{line}");
        assert_eq!(metadata(&top.join("sub")), (0o755, 1_600_000_000), "{line}");
        assert_eq!(over_ssh(&case, line).exits(0).out, "", "{line}");
    }
}

#[test]
fn sources_that_the_rules_leave_out_are_no_fault() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_two(&case.near);
    make_two(&case.far);
    for line in ["-ai --exclude=* a DST", "-av --exclude=* a c DST"] {
        assert_alike(&case, line, |_| ());
    }
    for line in ["-ai --exclude=* a FAR/to", "-ai --exclude=* FAR/a back"] {
        assert_eq!(over_ssh(&case, line).exits(0).out, "", "{line}");
    }
}

/// Runs both programs as an ordinary user, each with its own destination.
pub fn as_nobody(case: &Case, line: &str) -> [Run; 2] {
    let programs = [args![case.bed.program(), "rsync"], args!["rsync"]];
    let tops = ["ours", "theirs"];
    let both = programs.into_iter().zip(tops).map(|(program, top)| {
        let mut all = args!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        all.extend::<Vec<OsString>>(program);
        case.start_with(all, words(line, top)).end()
    });
    both.collect::<Vec<_>>().try_into().unwrap_or_else(|_| unreachable!())
}

#[test]
fn a_file_that_cannot_be_read_is_not_reported_as_sent() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for (seed, name) in (1..).zip(["0large", "a", "b", "sub/c", "sub/d", "z"]) {
        let size = if name == "0large" { 3_000_000 } else { 100 };
        write(case.near.join("src").join(name), noise(seed, size));
        set_mode(&case.near.join("src").join(name), if seed % 2 == 1 { 0o600 } else { 0o644 });
    }
    set_mode(&case.near, 0o777);
    for line in [
        "-ai src/ DST/",
        "-a --out-format=%o_%n src/ DST/",
        "-av src/ DST/",
        "-rli --delay-updates src/ DST/",
        "-ain src/ DST/",
    ] {
        for top in ["ours", "theirs"].map(|name| case.near.join(name)) {
            let _ = fs::remove_dir_all(&top);
            fs::create_dir(&top).unwrap();
            chown(&top, Some(NOBODY), Some(NOBODY)).unwrap();
            set_time(&top, 1_500_000_000, 0);
        }
        for _ in 0..2 {
            let [ours, theirs] = as_nobody(&case, line);
            assert_eq!((ours.code, lines(&ours.out)), (theirs.code, lines(&theirs.out)), "{line}: {ours}");
        }
    }
    let [ours, theirs] = as_nobody(&case, "-a --stats --log-file=DST/log src/ DST/new");
    let counted = |run: &Run| {
        let is_counted = |line: &&str| line.starts_with("Number of ") || line.starts_with("Total file");
        run.out.lines().filter(is_counted).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(counted(&ours), counted(&theirs), "{ours}");
    let log = fs::read_to_string(case.near.join("ours/log")).unwrap();
    assert!(log.contains(">f+++++++++ sub/c") && !log.contains("f+++++++++ b"), "{log}");
}

#[test]
fn what_the_far_end_does_not_send_or_take_is_not_reported() {
    let Some(case) = case() else { return };
    let shell = case.as_far_nobody();
    let by = |line: &str| {
        let script = case.near.join("shell");
        let ssh = format!("ssh -F {}", case.bed.lab.ssh_config().display());
        write(script.clone(), format!("SSH='{ssh}'\n{shell}\n"));
        let far = case.b("").into_string().unwrap();
        let line = line.replace("FAR", far.trim_end_matches('/'));
        let program = args![case.bed.program(), "rsync", "-e", format!("sh {}", script.display())];
        case.start_with(program, words(&line, "")).end()
    };
    for (name, mode) in [("a", 0o644), ("b", 0o600), ("c", 0o644)] {
        write(case.far.join("src").join(name), name);
        set_mode(&case.far.join("src").join(name), mode);
    }
    set_mode(&case.far, 0o755);
    let pulled = by("-ai FAR/src/ to/").exits(23);
    assert_eq!(pulled.out, "created directory to\ncd+++++++++ ./\n>f+++++++++ a\n>f+++++++++ c\n");
    let pulled = by("-ai FAR/src/ to/").exits(23);
    assert_eq!(pulled.out, "");
    let pushed = by("-ai to/a FAR/there/").exits(11);
    assert_eq!(pushed.out, "", "no directory is made");
}

#[test]
fn each_run_to_a_full_destination_brings_a_file_that_fits() {
    let Some(case) = case() else { return };
    for (number, size) in [(1, 400_000), (2, 40_000)] {
        for file in 0..10 {
            write(case.near.join(format!("src {number}/{file}")), noise(number * 100 + file, size));
        }
    }
    fs::create_dir(case.near.join("full")).unwrap();
    for (line, room, least) in [
        ("-ai src_1/ full/", "500k", 1),
        ("-ai src_2/ full/", "64k", 1),
        ("-ai src_2/ full/", "260k", 4),
        ("-ai --inplace src_2/ full/", "260k", 4),
    ] {
        let Some(_small) = Mounted::memory(&case.near.join("full"), room) else { return };
        let run = case.start_with(args![case.bed.program(), "rsync"], words(line, "")).end().exits(11);
        let found = |_: &Run| fs::read_dir(case.near.join("full")).unwrap().flatten();
        let whole = |run: &Run| {
            let is_whole = |name: &OsString| {
                let source = if line.contains("src_1") { "src 1" } else { "src 2" };
                fs::read(case.near.join(source).join(name)).ok()
                    == fs::read(case.near.join("full").join(name)).ok()
            };
            let names = found(run).map(|entry| entry.file_name());
            names.filter(|name| !name.as_encoded_bytes().starts_with(b".")).filter(is_whole).count()
        };
        assert!(whole(&run) >= least, "{line} {room}: {} of {least}; {run}", whole(&run));
        let again = case.start_with(args![case.bed.program(), "rsync"], words(line, "")).end().exits(11);
        assert!(whole(&again) >= whole(&run), "{line} {room}: {again}");
    }
}

/// Command lines for a missing destination.
const MADE: [&str; 13] = [
    "-ai src/ DST",
    "-ai src DST/",
    "-ai empty/ DST",
    "-aim empty/ DST/",
    "-ai -T nowhere src/ DST/",
    "-ai empty/ DST/",
    "-ain empty/ DST",
    "-ai --exclude=* src/ DST",
    "-ai src/f DST/",
    "-ai src/f DST",
    "-ai src/f missing DST",
    "-ai --ignore-missing-args missing src/f DST",
    "-aim src/ DST",
];

#[test]
fn a_destination_is_reported_as_made_as_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "f");
    fs::create_dir(case.near.join("empty")).unwrap();
    MADE.iter().for_each(|line| assert_alike(&case, line, |_| ()));
    symlink("nowhere", case.near.join("link")).unwrap();
    for line in [
        "-ai src/ link",
        "-ai src/f link/",
        "-ai src/ no/where",
        "-avi --relative src/./f no/where/",
        "-ai src/ FAR/no/where",
        "-ai FAR/nothing there",
        "-ai nothing there",
    ] {
        let run = over_ssh(&case, line);
        assert!(run.code != Some(0) && !run.out.contains("created"), "{line}: {run}");
    }
    assert_eq!(fs::read_link(case.near.join("link")).unwrap(), Path::new("nowhere"));
    let Some(_fixed) = Mounted::read_only(&case.near.join("empty")) else { return };
    for line in ["-ai src/ empty/new", "-ai src/f empty/new/"] {
        let run = case.start_with(args![case.bed.program(), "rsync"], words(line, "")).end();
        assert!(run.code != Some(0) && run.out.is_empty(), "{line}: {run}");
    }
}

/// Command lines that don't delete a directory.
const STAYING: [&str; 9] = [
    "-ai --delete -fP_keep src/ DST/",
    "-a --delete -fP_keep src/ DST/",
    "-aq --delete -fP_keep src/ DST/",
    "-aib --delete src/ DST/",
    "-ai --delete --exclude=keep src/ DST/",
    "-ai --delete --max-delete=0 src/ DST/",
    "-aib --backup-dir=old/backups --delete -fP_keep src/ DST/",
    "-ai --force -fP_keep src/ DST/",
    "-ai src/ DST/",
];

fn make_old(top: &Path) {
    write(top.join("old/keep"), "kept");
    write(top.join("other/old/keep"), "kept");
    write(top.join("way/keep"), "kept");
}

#[test]
fn a_directory_that_stays_is_reported_as_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "f");
    write(case.near.join("src/way"), "where there is a directory");
    for line in STAYING {
        assert_alike(&case, line, make_old);
    }
    let line = "-aib --backup-dir=bk/2 --delete src/ bk";
    write(case.near.join("bk/bk/file"), "moved to the backups");
    let backed = case.start_with(args![case.bed.program(), "rsync"], words(line, "")).end().exits(0);
    assert_eq!(
        (backed.err.as_str(), backed.out.contains("cannot delete non-empty directory: bk")),
        ("", true)
    );
    assert_eq!(fs::read_to_string(case.near.join("bk/bk/2/bk/file")).unwrap(), "moved to the backups");
}

#[test]
fn a_directory_that_its_owner_may_not_read_is_not_deleted() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    write(case.near.join("src/f"), "f");
    for top in ["ours", "theirs"].map(|name| case.near.join(name)) {
        for (name, mode) in [("closed", 0o000), ("fixed", 0o500)] {
            write(top.join(name).join("file"), name);
            set_mode(&top.join(name), mode);
            chown(top.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        chown(&top, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    set_mode(&case.near, 0o755);
    let [ours, theirs] = as_nobody(&case, "-rti --delete src/ DST/");
    assert_eq!((ours.code, lines(&ours.out)), (theirs.code, lines(&theirs.out)), "{ours}");
    for top in ["ours", "theirs"].map(|name| case.near.join(name)) {
        assert!(top.join("closed/file").exists() && !top.join("fixed").exists(), "{top:?}");
    }
}

/// Command lines with another tree that has the same contents and other metadata.
const ELSEWHERE: [&str; 9] = [
    "-ai --no-t --link-dest=../last src/ DST/",
    "-ai --link-dest=../last src/ DST/",
    "-ai -J --link-dest=../last src/ DST/",
    "-ai --no-t --copy-dest=../last src/ DST/",
    "-ai --copy-dest=../last src/ DST/",
    "-ai --no-t -c --copy-dest=../last src/ DST/",
    "-ai --no-t --compare-dest=../last src/ DST/",
    "-ai --compare-dest=../last src/ DST/",
    "-aii --no-t --compare-dest=../last src/ DST/",
];

#[test]
fn entries_made_with_another_tree_s_contents_are_reported_as_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    for top in ["src", "last"].map(|name| case.near.join(name)) {
        write(top.join("file"), "contents");
        write(top.join("other"), "contents");
        symlink("target", top.join("link")).unwrap();
        symlink("target", top.join("owned")).unwrap();
        for name in ["file", "other", "link", "owned", ""] {
            set_time(&top.join(name), 1_500_000_000, 0);
        }
    }
    set_mode(&case.near.join("src/file"), 0o600);
    std::os::unix::fs::lchown(case.near.join("last/owned"), Some(1), Some(1)).unwrap();
    set_time(&case.near.join("last/link"), 1_400_000_000, 0);
    set_time(&case.near.join("last/owned"), 1_500_000_000, 0);
    ELSEWHERE.iter().for_each(|line| assert_alike(&case, line, |_| ()));
}
