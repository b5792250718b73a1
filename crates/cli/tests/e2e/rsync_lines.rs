//! Tests with rsync command lines, given to rsync and to `linerate rsync`: the trees, the output lines and
//! the exit codes must be equal.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use linerate_testing::has;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

use crate::archive::everything;
use crate::bed::{Case, args, case};
use crate::support::Run;
use crate::tree::{names, noise, set_time, temporaries, write};

/// Command lines for an empty destination.
const NEW: [&str; 50] = [
    "-aim --exclude=zz src/other DST/",
    "-lptR src/sub/b DST/",
    "-ai -r --files-from=list src/ DST/",
    "-av src/ DST/",
    "-avi src DST",
    "-rv src/ DST/",
    "-rt src DST",
    "-a --stats src/ DST",
    "-avn src/ DST",
    "-avni src DST",
    "src/a DST",
    "src/a DST/",
    "-a nothere DST",
    "-a src/ nothere/ DST",
    "-ai src/a src/sub/b DST/",
    "-ai --max-size=2 src/ DST",
    "-ai --min-size=4 src/ DST",
    "-ai --max-size=3-1 src/ DST",
    "-ri src/ DST",
    "-rpi src/ DST",
    "-i src DST",
    "-i src/a src DST/",
    "-rli --exclude=a src/ DST",
    "-ai --include=*/ --include=b --exclude=* src/ DST",
    "-aiF src/ DST",
    "-ai --no-l src/ DST",
    "-aAXi src/ DST",
    "-aSi --numeric-ids src/ DST",
    "-a --out-format=%n src/ DST",
    "-a --out-format=%i|%n%L|%% src DST",
    "-q src/a DST",
    "-xai src/ DST",
    "-azi --partial src/ DST",
    "-ai src/sub/ src/other/ DST",
    "--archive --itemize-changes -- src/ DST",
    "src/ -ai DST",
    "-rlptgoDi -E --no-inc-recursive src/ DST",
    "-aiR src/sub DST/",
    "-aR src/./sub src/./a DST/",
    "-aiR --no-implied-dirs src/sub/b DST/",
    "-rR src/sub/b src/other DST/",
    "-aim src/ DST/",
    "-aim --exclude=b --exclude=large src/ DST/",
    "-aim --include=*/ --include=zz --exclude=* src/ DST/",
    "-ai --chmod=Du=rwx,go=rx,Fu=rw,go=r src/ DST/",
    "-ri --chmod=ug=rw,o=,+X src/ DST/",
    "-ai --chmod=a+x,D700 src/ DST/",
    "-aiO src/ DST/",
    "-aiJ src/ DST/",
    "-aiR --chmod=F600 src/./sub/./b DST/",
];

/// Command lines for a destination that exists and differs.
const CHANGED: [&str; 50] = [
    "-avi --delete src/ DST/",
    "-av --delete src/ DST/",
    "-ai --delete src DST/",
    "-avn --delete src/ DST/",
    "-ai --delete --exclude=old src/ DST/",
    "-ai --delete --delete-excluded --exclude=old src/ DST/",
    "-aui src/ DST/",
    "-ai --existing src/ DST/",
    "-ai --ignore-existing src/ DST/",
    "-ai --existing --ignore-existing --delete src/ DST/",
    "-aIi src/ DST/",
    "-ai --size-only src/ DST/",
    "-aci src/ DST/",
    "-ri src/ DST/",
    "-rtiv src/ DST/",
    "-rptgoi src/ DST/",
    "-ai --delete --max-size=2 src/ DST/",
    "-ai --inplace src/ DST/",
    "-a --stats --delete src/ DST/",
    "-ai --delete --filter=P_x src/ DST/",
    "-ai --delete -f-_a src/ DST/",
    "-aiW src/ DST/",
    "-ai src/sub DST/",
    "-ai src/sub DST/sub",
    "-ai --del src/a src/sub DST",
    "-ai --delete-before src/ DST/",
    "-ai --delete-during --no-perms --no-owner --no-group src/ DST/",
    "-ai --no-t src/ DST/",
    "-Cai --delete src/ DST/",
    "-ai --exclude-from=patterns src/ DST/",
    "-ai --delete src/sub/ DST/sub/",
    "-rdi src/ DST/",
    "-aiO src/ DST/",
    "-aiJ src/ DST/",
    "-ai --modify-window=9999999 src/ DST/",
    "-ai -@-1 src/ DST/",
    "-aib src/ DST/",
    "-aib --delete src/ DST/",
    "-aib --suffix=.old --delete src/ DST/",
    "-ai --backup-dir=../kept --delete src/ DST/",
    "-aib --backup-dir=../kept --suffix=.1 src/ DST/",
    "-aib --backup-dir=../kept/by/day --delete src/ DST/",
    "-aib --info=backup --delete src/ DST/",
    "-ab --info=backup --backup-dir=../kept --delete src/ DST/",
    "-ai --force src/ DST/",
    "-ai --delete --ignore-errors src/ DST/",
    "-aR src/sub DST/",
    "-aim --delete src/ DST/",
    "-ai --chmod=Fo-r src/ DST/",
    "-ai --delete --max-delete=-1 src/ DST/",
];

pub fn make_source(top: &Path) {
    write(top.join("a"), "hi\n");
    write(top.join("sub/b"), "yo\n");
    write(top.join("sub/large"), noise(1, 300_000));
    write(top.join("other/zz"), "c");
    write(top.join("core"), "what -C leaves out");
    symlink("a", top.join("l")).unwrap();
    fs::hard_link(top.join("a"), top.join("sub/a too")).unwrap();
    rustix::fs::mknodat(CWD, top.join("p"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    let paths = crate::tree::names(top);
    let paths = paths.iter().rev().map(|path| top.join(path)).chain([top.to_owned()]);
    paths.for_each(|path| crate::archive::set_time(&path, 1_500_000_000, 7));
}

pub fn make_changed(top: &Path) {
    write(top.join("a"), "hi\n");
    write(top.join("sub/b"), "older\n");
    write(top.join("sub/old/y"), "x");
    write(top.join("x"), "extra");
    write(top.join("src/sub/q"), "q");
    symlink("zzz", top.join("l")).unwrap();
    for path in ["a", "sub/b"] {
        set_time(&top.join(path), Duration::from_secs(1_577_836_800));
    }
}

/// The words of a line; an underscore stands for a space within a word.
pub fn words(line: &str, destination: &str) -> Vec<OsString> {
    line.split(' ').map(|word| word.replace('_', " ").replace("DST", destination).into()).collect()
}

/// The lines of the output that scripts may read, in order. Numbers of bytes on the wire differ between
/// programs and are removed, as are lines that only rsync prints.
pub fn lines(text: &str) -> Vec<String> {
    let own = [
        "delta-transmission ",
        "total: matches=",
        "sent ",
        "total size is ",
        "File list ",
        "Matched data: ",
        "Total bytes ",
        "Total file size",
    ];
    let is_own = |line: &&str| own.iter().any(|own| line.starts_with(own));
    let lines = text.lines().filter(|line| !is_own(line)).map(|line| line.replace("theirs", "ours"));
    let is_apart = |line: &String| {
        line.contains("deleting ")
            || ["skipping ", "backed up ", "ignoring ", "not creating ", "cannot delete "]
                .iter()
                .any(|word| line.starts_with(word))
            || [" is newer", " exists", " is uptodate", "-size"].iter().any(|word| line.ends_with(word))
    };
    let (mut apart, lines): (Vec<_>, Vec<_>) = lines.partition(is_apart);
    apart.sort();
    // rsync reports some directories twice.
    apart.dedup_by(|one, other| one == other && one.starts_with("cannot delete "));
    [lines, apart].concat()
}

/// Runs both programs, each with its own destination; panics if their results differ.
pub fn assert_alike(case: &Case, line: &str, prepare: fn(&Path)) {
    assert_alike_in(case, line, prepare, lines);
}

/// Like [`assert_alike`], with the output as `read` extracts it.
pub fn assert_alike_in(case: &Case, line: &str, prepare: fn(&Path), read: fn(&str) -> Vec<String>) {
    let tops = ["ours", "theirs"].map(|name| case.near.join(name));
    for top in &tops {
        let _ = fs::remove_dir_all(top);
        let _ = fs::remove_file(top);
        prepare(top);
    }
    take_times(&tops[0], &tops[1]);
    let ours = case.start_with(args![case.bed.program(), "rsync"], words(line, "ours")).end();
    let theirs = case.start_with(args!["rsync"], words(line, "theirs")).end();
    assert_eq!(ours.code, theirs.code, "{line}: {ours}\n{theirs}");
    assert_eq!(read(&ours.out), read(&theirs.out), "{line}: {ours}");
    let [ours, theirs] =
        tops.map(|top| if top.is_dir() { shape(&top) } else { vec![format!("{:?}", fs::read(top).ok())] });
    let differing = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    assert!(ours == theirs, "{line}: {differing:#?}");
    assert_eq!(temporaries(&case.near), Vec::<OsString>::new(), "{line}");
}

/// Copies the modification times of all entries from one destination to the other, whose entries may be a
/// second older.
fn take_times(from: &Path, to: &Path) {
    if !from.is_dir() {
        return;
    }
    for name in names(from).into_iter().chain([OsString::from(".")]) {
        let meta = from.join(&name).symlink_metadata().expect("just listed");
        let last_access = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT as _ };
        let last_modification = Timespec { tv_sec: meta.mtime(), tv_nsec: meta.mtime_nsec() };
        let times = Timestamps { last_access, last_modification };
        rustix::fs::utimensat(CWD, to.join(&name), &times, AtFlags::SYMLINK_NOFOLLOW).expect("our own");
    }
}

/// A description of a tree without times, unless an option asks for times.
pub fn shape(top: &Path) -> Vec<String> {
    let found = everything(top).into_iter();
    found.map(|(path, found)| format!("{path:?} {:?}", found.without_recent_time())).collect()
}

#[test]
fn lines_for_a_new_destination_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("list"), "sub\nother/zz\n");
    NEW.iter().for_each(|line| assert_alike(&case, line, |_| ()));
}

#[test]
fn lines_for_a_changed_destination_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("patterns"), "b\n# c\nsub/old\n");
    CHANGED.iter().for_each(|line| assert_alike(&case, line, make_changed));
}

/// Command lines with other trees, of which rsync made `last` a day before.
const OTHERS: [&str; 10] = [
    "-aHi --compare-dest=../last src/ DST/",
    "-ai --link-dest=../last src/ DST/",
    "-aiH --link-dest=../last src/ DST/",
    "-ai --link-dest=../nowhere --link-dest=../last --delete src/ DST/",
    "-ai --copy-dest=../last src/ DST/",
    "-ai --compare-dest=../last src/ DST/",
    "-ai --link-dest=../last --chmod=F640 src/ DST/",
    "-ain --link-dest=../last src/ DST/",
    "-aci --link-dest=../last src/ DST/",
    "-ri --size-only --compare-dest=../last src/ DST/",
];

#[test]
fn lines_with_other_trees_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("src/same/file"), "unchanged, in a directory that changes");
    case.start_with(args!["rsync"], words("-aH src/ last/", "")).end().exits(0);
    write(case.near.join("src/sub/b"), "changed since\n");
    write(case.near.join("src/new"), "new");
    fs::set_permissions(case.near.join("src/same"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(case.near.join("src/other/zz"), fs::Permissions::from_mode(0o600)).unwrap();
    set_time(&case.near.join("src"), Duration::from_secs(1_577_836_800));
    for line in OTHERS {
        assert_alike(&case, line, |_| ());
        assert_alike(&case, line, |top| fs::create_dir(top).unwrap());
        if line.contains("--link-dest") && !line.contains("-ain") && !line.contains("--chmod") {
            let [last, ours] =
                ["last/a", "ours/a"].map(|file| fs::metadata(case.near.join(file)).unwrap().ino());
            assert_eq!(last, ours, "{line}");
        }
    }
}

/// Command lines for sources with links to a file, to a directory, out of the source, and to nothing.
const LINKS: [&str; 16] = [
    "-ri links/tree links/to_a_tree links/file DST/",
    "-ai links/to_a_tree links/out links/tree links/nowhere links/file DST/",
    "-lti links/to_a_tree DST",
    "-ri links/file links/out DST/",
    "-aik links/to_a_file links/to_a_tree DST/",
    "-aiL links/out links/to_a_tree DST/",
    "-ai links/to_a_tree/ DST/",
    "-aiL links/ DST/",
    "-rtLi links/ DST/",
    "-aik links/ DST/",
    "-av --safe-links links/ DST/",
    "-ai --copy-unsafe-links links/ DST/",
    "-ai --copy-unsafe-links -k links/ DST/",
    "-aiL --exclude=nowhere links/ DST/",
    "-ai --ignore-missing-args links/ missing DST/",
    "-a --mkpath links/ DST/above/below",
];

#[test]
fn lines_with_links_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    let top = case.near.join("links");
    write(top.join("file"), "contents");
    write(top.join("tree/deep/file"), noise(2, 100_000));
    symlink("file", top.join("tree/deep/link")).unwrap();
    write(case.near.join("beside"), "what is beside");
    for (target, name) in
        [("file", "to a file"), ("tree", "to a tree"), ("../beside", "out"), ("gone", "nowhere")]
    {
        symlink(target, top.join(name)).unwrap();
    }
    LINKS.iter().for_each(|line| assert_alike(&case, line, |_| ()));
}

#[test]
fn sources_are_removed_when_they_are_in_place() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    let left = |program: OsString, to: &str| {
        let from = format!("{to}-from");
        case.start_with(args!["rsync"], words(&format!("-aH src/ {from}/"), "")).end().exits(0);
        let rsync = program == "rsync";
        let program = if rsync { args!["rsync"] } else { args![program, "rsync"] };
        let line = format!("-aH --remove-source-files --exclude=core {from}/ {to}/");
        case.start_with(program, words(&line, "")).end().exits(0);
        [shape(&case.near.join(from)), shape(&case.near.join(to))]
    };
    let program = case.bed.program().into();
    assert_eq!(left(program, "ours"), left("rsync".into(), "theirs"));
    make_source(&case.near.join("whole"));
    fs::create_dir_all(case.near.join("full/a/way")).unwrap();
    let run = case
        .start_with(args![case.bed.program(), "rsync"], words("-a --remove-source-files whole/ full/", ""));
    run.end().exits(23).says(&["no source is removed, because not everything has arrived"]);
    assert!(case.near.join("whole/sub/b").exists());
}

/// Runs a line over ssh.
pub fn over_ssh(case: &Case, line: &str) -> Run {
    let shell = format!("ssh -F {}", case.bed.lab.ssh_config().display());
    let far = case.b("").into_string().unwrap();
    let line = line.replace("FAR", far.trim_end_matches('/'));
    case.start_with(args![case.bed.program(), "rsync", "-e", shell], words(&line, "")).end()
}

#[test]
fn lines_go_over_ssh_both_ways() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    let pushed = over_ssh(&case, "-aiH --delete src FAR/to/").exits(0);
    assert!(
        pushed.out.contains("<f+++++++++ src/core\n") && pushed.out.contains("cd+++++++++ src/sub/\n"),
        "{pushed}"
    );
    assert_eq!(everything(&case.near.join("src")), everything(&case.far.join("to/src")));
    let pulled = over_ssh(&case, "-aiH FAR/to/src/ back").exits(0);
    assert!(pulled.out.contains(">f+++++++++ sub/b\n"), "{pulled}");
    assert_eq!(everything(&case.near.join("src")), everything(&case.near.join("back")));
    let again = over_ssh(&case, "-aiH FAR/to/src/ back").exits(0);
    assert_eq!(again.out, "");
    let renamed = over_ssh(&case, "-a FAR/to/src/a FAR/to/src/sub/b new/").exits(0);
    assert_eq!((renamed.out.as_str(), fs::read(case.near.join("new/b")).unwrap()), ("", b"yo\n".to_vec()));
    over_ssh(&case, "-a nowhere.invalid:x there").exits(255);
    let day = |line| over_ssh(&case, line).exits(0).out;
    let made = format!("created directory {}\n", case.far.join("day1").display());
    assert_eq!(day("-ai --link-dest=../to/src src/ FAR/day1/"), made);
    let [first, next] = ["to/src/a", "day1/a"].map(|file| fs::metadata(case.far.join(file)).unwrap().ino());
    assert_eq!(first, next, "the far end links what it has");
    assert_eq!(
        day("-aiR --chmod=F600 FAR/to/./src/sub/b part/"),
        "created directory part\ncd+++++++++ src/\ncd+++++++++ src/sub/\n>f+++++++++ src/sub/b\n"
    );
    write(case.near.join("src/a"), "newer\n");
    day("-ab --backup-dir=../kept src/ FAR/day1/");
    assert_eq!(fs::read(case.far.join("kept/a")).unwrap(), b"hi\n");
}

#[test]
fn a_program_that_is_called_rsync_is_rsync_and_what_it_lacks_it_names() {
    let Some(case) = case() else { return };
    make_source(&case.near.join("src"));
    let link = case.near.join("rsync");
    symlink(case.bed.program(), &link).unwrap();
    let run = |words: &[&str]| case.start_with(args![&link], words.iter().map(Into::into).collect()).end();
    run(&["-aH", "src/", "copy"]).exits(0);
    assert_eq!(everything(&case.near.join("src")), everything(&case.near.join("copy")));
    for (words, said) in [
        (&["-aN", "src", "x"][..], "-N is not supported by linerate rsync: "),
        (&["-aR", "../x", "x"], "-R ../x: a component of the path is"),
        (&["-a", "--chmod=u+q", "src", "x"], "--chmod u+q: 'u+q' isn't a change of modes"),
        (&["-a", "--link-dest=/y", "--copy-dest=/z", "src", "x"], "can't be combined"),
        (&["-a", "--nonsense", "src", "x"], "--nonsense: unknown option"),
        (&["-a", "host::module", "x"], "this form is for rsync's daemon"),
        (&["-a", "rsync://host/module", "x"], "this form is for rsync's daemon"),
        (&["--delete", "src", "x"], "--delete does not work without --recursive"),
        (&["-a", "--max-size"], "--max-size needs a value"),
    ] {
        run(words).exits(1).says(&[said]);
        assert!(!case.near.join("x").exists(), "{words:?}");
    }
    let version = run(&["--version"]).exits(0);
    assert!(
        version.out.starts_with("rsync  version 3.5.0  protocol version 32 (its options, by linerate "),
        "{version}"
    );
}
