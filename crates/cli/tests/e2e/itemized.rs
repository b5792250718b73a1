//! Tests of the lines of `linerate sync` about single entries, compared with rsync, and of unusual names,
//! modes and directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use linerate_testing::{has, has_all};

use crate::bed::{Case, NOBODY, args, case};
use crate::tree::{noise, temporaries, write};

/// The lines that `rsync -aHi` prints for the same source and destination, sorted, with the arrow for
/// sending.
fn rsyncs_lines(case: &Case, from: &str, to: &Path) -> Vec<String> {
    let run = Command::new("rsync").args(["-aHin", from]).arg(to).current_dir(&case.near).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let lines = lines(&String::from_utf8(run.stdout).unwrap().replace(">f", "<f"));
    lines.into_iter().filter(|line| !line.starts_with("created ")).collect()
}

fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_file_as_source_is_called_by_its_name_as_with_rsync() {
    let Some(case) = case() else { return };
    if !has("rsync") {
        return;
    }
    write(case.near.join("sub/one"), "x");
    let rsyncs = rsyncs_lines(&case, "sub/one", &case.far.join("two"));
    assert_eq!(rsyncs, ["<f+++++++++ one"]);
    for option in ["--dry-run", "--itemize-changes"] {
        assert_eq!(
            lines(&case.sync(args![option, "sub/one", case.b("two")]).exits(0).out),
            rsyncs,
            "{option}"
        );
    }
    let back = case.sync(args!["--itemize-changes", case.b("two"), "three"]).exits(0);
    assert_eq!(back.out, ">f+++++++++ two\n");
}

#[test]
fn further_names_have_the_kind_of_the_first_as_with_rsync() {
    let Some(case) = case() else { return };
    if !has_all(&["rsync", "mknod"]) {
        return;
    }
    let here = case.near.join("tree");
    write(here.join("file"), "x");
    std::os::unix::fs::symlink("file", here.join("link")).unwrap();
    let make = "mknod null c 1 3; mkfifo fifo; for f in file link null fifo; do ln -P $f $f.again; done";
    assert!(Command::new("sh").args(["-ec", make]).current_dir(&here).status().unwrap().success());
    let kinds = |lines: &[String]| {
        let mut kinds: Vec<_> = lines.iter().map(|line| line[..3].to_owned()).collect();
        kinds.sort();
        kinds
    };
    let rsyncs = rsyncs_lines(&case, "tree/", &case.far.join("copy"));
    let ours = lines(&case.sync(args!["--itemize-changes", "tree", case.b("copy")]).exits(0).out);
    assert_eq!(kinds(&ours), kinds(&rsyncs), "{ours:?}\n{rsyncs:?}");
    assert!(ours.iter().any(|line| line.starts_with("hD")), "{ours:?}");
}

#[test]
fn names_that_only_begin_like_our_own_are_the_users() {
    let Some(case) = case() else { return };
    let (here, there) = (case.near.join("tree"), case.far.join("copy"));
    let names = [".linerate.txt", ".linerate.dir/x", ".linerate.journal.mine", ".linerate.0123456789abcdef"];
    let (temporary, journal) =
        (".linerate.0123456789abcdef.1", ".linerate.journal.0123456789abcdef0123456789abcdef");
    names.iter().for_each(|name| write(here.join(name), name));
    case.sync(args!["tree", case.b("copy")]).exits(0);
    names.iter().for_each(|name| assert!(there.join(name).is_file(), "{name}"));
    [temporary, journal].iter().for_each(|name| write(there.join(name), "x"));
    let listed = case.clean(args!["-n", case.b("")]).out;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    fs::remove_dir_all(&here).unwrap();
    write(here.join("kept"), "x");
    case.sync(args!["--delete", "tree", case.b("copy")]).exits(0);
    let mut left = crate::tree::names(&there);
    left.sort();
    assert_eq!(left, [temporary, journal, "kept"], "others may be at work there");
    [temporary, journal].iter().for_each(|name| write(here.join(name), "x"));
    let run = case.sync(args!["tree", case.b("copy")]).exits(3);
    assert_eq!(run.err.matches("reserved for linerate's temporary files").count(), 2, "{run}");
}

/// Mode bits that would give different rights than at the source are reported once; bits on the user's own
/// files are kept.
#[test]
fn an_ordinary_users_setuid_and_setgid_bits_are_kept_or_said_once() {
    let Some(case) = case() else { return };
    let there = case.far.join("tree");
    for (name, owner, mode) in
        [("own", NOBODY, 0o6755), ("roots", 0, 0o4755), ("own g/x", NOBODY, 0o644), ("roots g/x", 0, 0o644)]
    {
        write(there.join(name), name);
        chown(there.join(name), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(there.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    for (name, owner) in [("own g", NOBODY), ("roots g", 0)] {
        chown(there.join(name), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(there.join(name), PermissionsExt::from_mode(0o2755)).unwrap();
    }
    let sync = || case.sync_as_nobody(args!["--itemize-changes", case.b("tree"), "copy"]);
    let run = sync().exits(3);
    assert_eq!(run.err.matches("setuid or setgid bit").count(), 1, "two entries in one line: {run}");
    let mode = |name: &str| case.near.join("copy").join(name).metadata().unwrap().mode() & 0o7777;
    assert_eq!(["own", "roots", "own g", "roots g"].map(mode), [0o6755, 0o755, 0o2755, 0o755]);
    let run = sync().exits(0);
    assert_eq!(run.out, "", "{run}");
    // What lands in a directory is no reason to say it again.
    write(there.join("roots g/y"), "y");
    sync().exits(0);
    assert_eq!(mode("roots g"), 0o755);
}

#[test]
fn a_closed_directory_of_ones_own_is_cleaned() {
    let Some(case) = case() else { return };
    let (there, here) = (case.far.join("tree"), case.near.join("copy"));
    write(there.join("closed/kept"), "x");
    write(here.join("closed/kept"), "x");
    write(here.join("closed/full/y"), "x");
    for path in ["", "closed", "closed/kept", "closed/full", "closed/full/y"] {
        chown(here.join(path), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for (options, mode) in [(args!["--no-perms"], 0), (args![], 0o755)] {
        fs::set_permissions(here.join("closed"), PermissionsExt::from_mode(0o0)).unwrap();
        write(here.join("closed/surplus"), "x");
        let more = args!["--delete", case.b("tree"), "copy"];
        case.sync_as_nobody([options, more].concat()).exits(0);
        assert_eq!(fs::read_dir(here.join("closed")).unwrap().count(), 1, "kept alone");
        assert_eq!(here.join("closed").metadata().unwrap().mode() & 0o7777, mode);
    }
}

/// Some file systems in user space set a time that they should leave unchanged.
#[test]
fn no_time_is_left_to_the_file_system_to_omit() {
    let Some(case) = case() else { return };
    if !has("strace") {
        return;
    }
    write(case.far.join("tree/parts"), noise(1, 20 << 20));
    write(case.far.join("tree/sub/small"), "x");
    let trace = case.aside("trace").join("calls");
    let mut words = args!["strace", "-f", "-e", "trace=utimensat,unlinkat", "-o", &trace, case.bed.program()];
    words.extend(args!["cp", "-rp", "-F", case.bed.lab.ssh_config(), case.b("tree"), "copy"]);
    case.start_with(words, Vec::new()).end().exits(0);
    let calls = fs::read_to_string(trace).unwrap();
    let removed = calls.find(".linerate.journal.").expect("a journal was there");
    assert!(calls[removed..].contains("utimensat("), "the directory keeps its time: {calls}");
    assert!(!calls.contains("UTIME_OMIT"), "{calls}");
    assert_eq!(temporaries(&case.near).len(), 0);
}

/// The user's ignore patterns for cvs are tested in the order of the command line, with `-C`, with
/// `--delete-excluded`, and with patterns that cancel cvs's own.
#[test]
fn the_users_words_for_cvs_count_as_with_rsync() {
    let Some(case) = case() else { return };
    if !has("rsync") {
        return;
    }
    let (here, home) = (case.near.join("tree"), case.aside("home"));
    write(home.join(".cvsignore"), "home-cvs\n*.home");
    let names = ["a.o", "a.junk", "home-cvs", "b.home", "kept", "x", "sub/a.junk", "sub/kept"];
    names.iter().for_each(|name| write(here.join(name), name));
    let seed = |to: &Path| {
        let _ = fs::remove_dir_all(to);
        names.iter().for_each(|name| write(to.join(name), name));
        write(to.join("gone"), "x");
    };
    let (ours, theirs) = (case.far.join("copy"), case.aside("rsynced"));
    for words in ["*.junk", "! *.junk", ""] {
        for rules in [
            &["--filter=-C"][..],
            &["--filter=:C", "--filter=-C"],
            &["--exclude=x", "--filter=-C"],
            &["--filter=-Cr"],
            &["--filter=-Cs"],
            &["-C"],
            &["--filter=-C", "--include=a.o", "-C"],
        ] {
            for delete in [&[][..], &["--delete"], &["--delete", "--delete-excluded"]] {
                [&ours, &theirs].iter().for_each(|to| seed(to));
                fs::remove_file(here.join("kept")).unwrap();
                let options = [rules, delete].concat();
                let mut rsync = Command::new("rsync");
                rsync.arg("-a").args(&options).args(["tree/", "../rsynced/"]).current_dir(&case.near);
                let run = rsync.env("HOME", &home).env("CVSIGNORE", words).output().unwrap();
                assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
                let mut line = args!["env", format!("HOME={}", home.display()), format!("CVSIGNORE={words}")];
                line.extend(args![case.bed.program(), "sync", "-F", case.bed.lab.ssh_config()]);
                line.extend(options.iter().map(Into::into));
                case.start_with(line, args!["tree", case.b("copy")]).end().exits(0);
                write(here.join("kept"), "kept");
                let there = |to: &Path| crate::tree::shape(to).into_keys().collect::<Vec<_>>();
                assert_eq!(there(&ours), there(&theirs), "{words:?} {options:?}");
            }
        }
    }
}
