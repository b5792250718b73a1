//! rsync's own command lines, given to rsync and to `linerate rsync`: the same tree, the same lines, the same exit code.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use linerate_testing::has;
use rustix::fs::{CWD, FileType, Mode};

use crate::archive::everything;
use crate::bed::{Case, args, case};
use crate::support::Run;
use crate::tree::{noise, set_time, temporaries, write};

/// Lines for an empty destination.
const NEW: [&str; 34] = [
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
];

/// Lines for a destination that is there, and differs.
const CHANGED: [&str; 32] = [
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
];

fn make_source(top: &Path) {
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

fn make_changed(top: &Path) {
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

/// An underscore is a space within a word.
fn words(line: &str, destination: &str) -> Vec<OsString> {
    line.split(' ').map(|word| word.replace('_', " ").replace("DST", destination).into()).collect()
}

/// What scripts read of the output, in its order: sums of bytes on the wire are each program's own. rsync deletes as it goes, and
/// reads all names before it copies.
fn lines(text: &str) -> Vec<String> {
    let own = ["sent ", "total size is ", "File list ", "Total bytes ", "Total file size"];
    let is_own = |line: &&str| own.iter().any(|own| line.starts_with(own));
    let lines = text.lines().filter(|line| !is_own(line)).map(|line| line.replace("theirs", "ours"));
    let (mut apart, lines): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.contains("deleting ") || line.starts_with("skipping "));
    apart.sort();
    [lines, apart].concat()
}

/// Both, with their own destinations; panics where they differ.
fn assert_alike(case: &Case, line: &str, prepare: fn(&Path)) {
    let tops = ["ours", "theirs"].map(|name| case.near.join(name));
    for top in &tops {
        let _ = fs::remove_dir_all(top);
        let _ = fs::remove_file(top);
        prepare(top);
    }
    let ours = case.start_with(args![case.bed.program(), "rsync"], words(line, "ours")).end();
    let theirs = case.start_with(args!["rsync"], words(line, "theirs")).end();
    assert_eq!(ours.code, theirs.code, "{line}: {ours}\n{theirs}");
    assert_eq!(lines(&ours.out), lines(&theirs.out), "{line}: {ours}");
    let [ours, theirs] =
        tops.map(|top| if top.is_dir() { shape(&top) } else { vec![format!("{:?}", fs::read(top).ok())] });
    assert_eq!(ours, theirs, "{line}");
    assert_eq!(temporaries(&case.near), Vec::<OsString>::new(), "{line}");
}

/// Everything but the times that no option asked for, which are those of the transfer.
fn shape(top: &Path) -> Vec<String> {
    let found = everything(top).into_iter();
    found.map(|(path, found)| format!("{path:?} {:?}", found.without_recent_time())).collect()
}

#[test]
fn lines_for_a_new_destination_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    NEW.iter().for_each(|line| assert_alike(&case, line, |_| ()));
}

#[test]
fn lines_for_a_changed_destination_do_what_they_do_with_rsync() {
    let Some(case) = case().filter(|_| has("rsync")) else { return };
    make_source(&case.near.join("src"));
    write(case.near.join("patterns"), "b\n# c\nsub/old\n");
    CHANGED.iter().for_each(|line| assert_alike(&case, line, make_changed));
}

/// The same over ssh.
fn over_ssh(case: &Case, line: &str) -> Run {
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
    over_ssh(&case, "-a nowhere.invalid:x there").exits(12);
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
        (&["-aR", "src", "x"][..], "-R is not supported by linerate rsync: "),
        (&["-a", "--link-dest=/y", "src", "x"], "--link-dest is not supported by linerate rsync: "),
        (&["-a", "--nonsense", "src", "x"], "--nonsense: unknown option"),
        (&["-a", "host::module", "x"], "it is for rsync's daemon"),
        (&["-a", "rsync://host/module", "x"], "it is for rsync's daemon"),
        (&["-a", "--exclude=/src/a", "src", "x"], "a rule that begins with '/'"),
        (&["-a", "src"], "a list of one path alone is not supported"),
        (&["--delete", "src", "x"], "--delete does not work without --recursive"),
        (&["-a", "--max-size"], "--max-size needs a value"),
        (&["-a", "--out-format=%M", "src", "x"], "--out-format: %M is not supported"),
    ] {
        run(words).exits(1).says(&[said]);
        assert!(!case.near.join("x").exists(), "{words:?}");
    }
    let version = run(&["--version"]).exits(0);
    assert!(version.out.starts_with("linerate ") && version.out.contains(" as rsync"), "{version}");
}
