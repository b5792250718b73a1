//! Tests of `--log-file`, whose lines must always be complete, and of systemd's journal, both the real one
//! and a simulated one.

mod support;

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use linerate_testing::{has_all, is_root, skip};
use rustix::fs::XattrFlags;
use rustix::process::Signal;
use serde_json::Value;
use support::{PATIENCE, Running, directory, directory_with_attributes, run, start, within};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");
/// A file name that would look like the end of a run, if it could begin a line or end its quotation.
const FORGER: &str = "n\n2026-01-01T00:00:00.000Z [1] end: exit_code=0 \"x\" \u{1b}[2J\nMESSAGE=forged";
/// The paths of systemd's journal daemon, which isn't in PATH.
const JOURNALD: [&str; 2] = ["/lib/systemd/systemd-journald", "/usr/lib/systemd/systemd-journald"];

/// A script that starts a separate journal on its own /run, runs `"$@"` with its output in the journal, and
/// prints all entries of the program.
const REAL: &str = r#"
set -eu
mount -t tmpfs none /run
mkdir -p /run/log/journal
"$1" >/dev/null 2>&1 &
journald=$!
shift
for wait in $(seq 400); do
  if [ -S /run/systemd/journal/stdout ] && [ -S /run/systemd/journal/socket ]; then break; fi
  sleep 0.05
done
code=0
# The variable that the service manager sets, which systemd-cat leaves out.
systemd-cat --identifier=cat sh -c 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"' sh "$@" || code=$?
journalctl --sync
# By the identifiers: journald does not know the command of a process that has already ended.
journalctl --directory=/run/log/journal --output=json --all SYSLOG_IDENTIFIER=linerate SYSLOG_IDENTIFIER=cat
kill $journald
wait $journald || true
exit $code
"#;

fn make_tree(here: &Path) {
    fs::create_dir_all(here.join("tree")).unwrap();
    for (name, length) in [("a", 1000), ("b", 2000)] {
        fs::write(here.join("tree").join(name), vec![7; length]).unwrap();
    }
}

/// The lines of a log without their times. Checks that each line is complete and has a valid time.
#[track_caller]
fn lines(log: &Path) -> Vec<(u32, String)> {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.ends_with('\n'), "{text:?}");
    text.lines().map(parsed).collect()
}

#[track_caller]
fn parsed(line: &str) -> (u32, String) {
    let (time, rest) = line.split_once(" [").unwrap_or_else(|| panic!("{line:?}"));
    assert!(
        humantime::parse_rfc3339(time).is_ok() && time.len() == "2026-01-01T00:00:00.000Z".len(),
        "{line:?}"
    );
    let (pid, event) = rest.split_once("] ").unwrap_or_else(|| panic!("{line:?}"));
    let kinds = [
        "start: ",
        "problem: ",
        "loss: ",
        "difference: ",
        "destination: ",
        "note: ",
        "error: ",
        "summary: ",
        "end: ",
    ];
    assert!(kinds.iter().any(|kind| event.starts_with(kind)), "{line:?}");
    assert!(!line.contains(char::is_control), "{line:?}");
    (pid.parse().unwrap(), event.to_owned())
}

fn events(log: &Path) -> Vec<String> {
    lines(log).into_iter().map(|(_, event)| event).collect()
}

#[test]
fn each_run_adds_its_start_and_end_also_with_q_and_json() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    let log = here.path().join("log");
    run(here.path(), &["cp", "-q", "-r", "--log-file", "log", "tree", "copy"]).exits(0);
    let first = events(&log);
    assert_eq!(first.len(), 3, "{first:?}");
    assert_eq!(first[0], format!("start: linerate {} cp \"tree\" -> \"copy\"", env!("CARGO_PKG_VERSION")));
    assert!(first[1].starts_with("summary: 2 files, 3.00 kB in "), "{first:?}");
    assert!(first[2].starts_with("end: exit_code=0 files=2 bytes=3000 rate="), "{first:?}");
    assert!(first[2].contains(" failed=0 changed=0 not_kept=0 seconds="), "{first:?}");
    let json = run(here.path(), &["sync", "--json", "--log-file", "log", "tree", "copy"]).exits(0);
    assert!(json.err.is_empty() && json.out.lines().all(|line| line.starts_with('{')), "{json}");
    let both = events(&log);
    assert_eq!((both.len(), &both[..3]), (6, &first[..]));
    assert!(both[5].starts_with("end: exit_code=0 files="), "{both:?}");
    // Like logrotate, the test renames the log, and the next run makes a new one.
    fs::rename(&log, here.path().join("log.1")).unwrap();
    run(here.path(), &["verify", "--log-file", "log", "tree", "copy"]).exits(0);
    let last = events(&log).pop().unwrap();
    assert!(last.starts_with("end: exit_code=0 compared=3 bytes=3000 differ=0 missing=0 extra=0 "), "{last}");
}

#[test]
fn problems_differences_and_failures_have_their_lines() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    fs::write(here.path().join("tree").join(FORGER), "x").unwrap();
    run(here.path(), &["cp", "-r", "tree", "copy"]).exits(0);
    fs::remove_file(here.path().join("copy").join(FORGER)).unwrap();
    fs::write(here.path().join("copy/a"), "other").unwrap();
    run(here.path(), &["verify", "-q", "--log-file", "log", "tree", "copy"]).exits(3);
    let log = here.path().join("log");
    let found = events(&log);
    assert_eq!(found.len(), 5, "{found:?}");
    assert_eq!(found[1], "difference: differs \"a\" (contents)");
    let forged = r#"difference: missing "n\n2026-01-01T00:00:00.000Z [1] end: exit_code=0 \"x\" \u{1b}[2J\nMESSAGE=forged""#;
    assert_eq!(found[2], forged);
    assert!(found[4].starts_with("end: exit_code=3 compared=3 "), "{found:?}");
    fs::remove_file(&log).unwrap();
    run(here.path(), &["cp", "--log-file", "log", "tree/a", &format!("./{FORGER}"), "tree", "copy"]).exits(3);
    let found = events(&log);
    assert!(found.iter().any(|line| line.starts_with("problem: failed \"./n\\n2026-")), "{found:?}");
    assert!(
        found.iter().any(|line| line.starts_with("problem: skipped \"tree\": is a directory")),
        "{found:?}"
    );
    fs::remove_file(&log).unwrap();
    run(here.path(), &["cp", "-q", "--log-file", "log", "missing", "copy"]).exits(2);
    let found = events(&log);
    assert_eq!(found[2], "error: none of the sources can be copied");
    assert!(found[3].starts_with("end: exit_code=2 seconds="), "{found:?}");
}

#[test]
fn a_dry_run_says_so_and_claims_nothing() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    fs::create_dir(here.path().join("to")).unwrap();
    fs::write(here.path().join("to/extra"), "x").unwrap();
    for words in [&["sync", "-n", "--delete", "tree/", "to"][..], &["cp", "-n", "-r", "tree", "to"]] {
        drop(fs::remove_file(here.path().join("log")));
        run(here.path(), &[words, &["--log-file", "log"]].concat()).exits(0);
        let end = events(&here.path().join("log")).pop().unwrap();
        assert!(end.starts_with("end: exit_code=0 dry_run=1 "), "{end}");
        assert!(["files=", "bytes=", "rate=", "deleted="].iter().all(|name| !end.contains(name)), "{end}");
    }
}

#[test]
fn a_copy_that_goes_on_alone_has_no_log_here() {
    let here = directory("linerate-log-");
    let words = ["cp", "--detach", "--log-file", "log", "a:x", "b:y"];
    run(here.path(), &words).exits(2).says(&["--detach", "cannot be used with", "--log-file"]);
    assert!(!here.path().join("log").exists());
}

#[test]
fn a_shard_that_fails_has_its_lines_and_the_others_go_on() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    run(here.path(), &["fleet", "plan", "--shards", "2", "--into", "plan", "tree", "copy"]).exits(0);
    // Both shards fail: a file is where their destination belongs.
    fs::write(here.path().join("copy"), "x").unwrap();
    let failed = run(here.path(), &["fleet", "run", "--log-file", "log", "plan"]);
    assert_ne!(failed.code, Some(0), "{failed}");
    let found = events(&here.path().join("log"));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(found[0], format!("start: linerate {version} fleet run \"plan\""));
    for shard in ["shard 0", "shard 1"] {
        let is_its =
            |line: &&String| line.starts_with("error: ") && line.ends_with(&format!(" (in \"{shard}\")"));
        assert_eq!(found.iter().filter(is_its).count(), 1, "{found:?}");
    }
    assert!(found.last().unwrap().starts_with("end: exit_code="), "{found:?}");
}

#[test]
fn a_log_that_cannot_be_opened_ends_the_run_before_it_begins() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    let status = Command::new("mkfifo").arg(here.path().join("fifo")).status().unwrap();
    assert!(status.success());
    symlink("fifo", here.path().join("tofifo")).unwrap();
    let cases = [("fifo", "fifo"), ("tofifo", "fifo"), (".", "directory"), ("no/log", "No such file")];
    for (log, why) in cases {
        let refused = run(here.path(), &["cp", "-r", "--log-file", log, "tree", "copy"]).exits(2);
        refused.says(&[&format!("--log-file {log} can't be opened: "), why, "nothing was done"]);
        let refused = run(here.path(), &["cp", "-r", "--json", "--log-file", log, "tree", "copy"]).exits(2);
        let event: Value = serde_json::from_str(&refused.out).unwrap();
        assert_eq!((&event["type"], &event["exit"]), (&"failed".into(), &2.into()));
        run(here.path(), &["verify", "--log-file", log, "tree", "tree"]).exits(2);
    }
    assert!(!here.path().join("copy").exists());
    // A symbolic link of the same user is followed.
    symlink("real", here.path().join("own")).unwrap();
    run(here.path(), &["cp", "-r", "--log-file", "own", "tree", "copy"]).exits(0);
    assert_eq!(events(&here.path().join("real")).len(), 3);
}

#[test]
fn a_strangers_link_is_not_followed() {
    if !is_root("only root can make another user's link") {
        return;
    }
    let here = directory("linerate-log-");
    make_tree(here.path());
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(here.path().join("precious"), "kept").unwrap();
    symlink("precious", here.path().join("log")).unwrap();
    std::os::unix::fs::lchown(here.path().join("log"), Some(1234), Some(1234)).unwrap();
    run(here.path(), &["cp", "-r", "--log-file", "log", "tree", "copy"])
        .exits(2)
        .says(&["--log-file log can't be opened"]);
    assert_eq!(fs::read(here.path().join("precious")).unwrap(), b"kept");
    assert!(!here.path().join("copy").exists());
}

#[test]
fn a_full_disk_is_a_warning_and_the_copy_goes_on() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    let ended = run(here.path(), &["cp", "-q", "-r", "--log-file", "/dev/full", "tree", "copy"]).exits(0);
    assert_eq!(ended.err.matches("can't be written").count(), 1, "{ended}");
    assert!(
        ended.err.contains("No space left on device") && ended.err.contains("the run continues"),
        "{ended}"
    );
    run(here.path(), &["verify", "tree", "copy"]).exits(0);
}

#[test]
fn a_log_on_standard_error_is_between_its_other_lines() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    let words = "echo first >&2; exec \"$0\" cp -r --log-file /dev/stderr tree copy";
    let mut command = Command::new("sh");
    command.args(["-c", words, PROGRAM]).current_dir(here.path());
    let err = Running::start(command).end().exits(0).err;
    let kinds: Vec<_> =
        err.lines().skip(1).filter_map(|line| line.split_once("] ")?.1.split_once(": ")).collect();
    assert!(err.starts_with("first\n") && err.contains("\n2 files, 3.00 kB in "), "{err}");
    assert_eq!(kinds.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["start", "summary", "end"], "{err}");
    // A socket can't be opened by its name.
    let (mut near, far) = UnixStream::pair().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["cp", "-q", "--log-file", "/dev/fd/2", "tree/a", "b"]).current_dir(here.path());
    let status = command.stderr(Stdio::from(OwnedFd::from(far))).status().unwrap();
    drop(command);
    let mut lines = String::new();
    near.read_to_string(&mut lines).unwrap();
    assert!(status.success() && lines.contains("] start: ") && lines.contains("] end: "), "{lines}");
}

#[test]
fn a_run_that_fails_has_its_losses_too() {
    if !is_root("only root mounts a file system without extended attributes") || !has_all(&["unshare"]) {
        return;
    }
    let Some(here) = directory_with_attributes("linerate-log-") else { return };
    make_tree(here.path());
    for number in 0..20 {
        let file = here.path().join(format!("tree/{number}"));
        fs::write(&file, vec![7; 4_000_000]).unwrap();
        rustix::fs::setxattr(&file, "user.linerate", b"x", XattrFlags::empty()).unwrap();
    }
    fs::create_dir(here.path().join("to")).unwrap();
    let words = "mount -t ramfs none to && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", words, "sh", PROGRAM, "cp", "-a", "--json", "--bwlimit", "2000"]);
    command.args(["--log-file", "log", "tree", "to"]).current_dir(here.path());
    let mut running = Running::start(command);
    assert!(within(PATIENCE, || running.said().contains("not-kept") || running.has_ended()));
    running.signal(Signal::INT);
    drop(running.end().exits(130));
    let found = events(&here.path().join("log"));
    let [_, loss, error, end] = &found[..] else { panic!("{found:?}") };
    assert!(
        loss.starts_with("loss: ") && loss.contains("its extended attributes could not be kept: "),
        "{loss}"
    );
    assert!(loss.contains("\"to/tree/"), "{loss}");
    assert!(error.starts_with("error: ") && end.starts_with("end: exit_code=130 "), "{found:?}");
}

#[test]
fn two_runs_at_once_and_kills_leave_whole_lines() {
    let here = directory("linerate-log-");
    make_tree(here.path());
    for number in 0..400 {
        fs::write(here.path().join(format!("tree/{number:03}-{}", "x".repeat(180))), "x").unwrap();
    }
    fs::create_dir(here.path().join("empty")).unwrap();
    let verify = || start(here.path(), &["verify", "-q", "--log-file", "log", "tree", "empty"]);
    let [one, other] = [verify(), verify()];
    let pids = [one.pid(), other.pid()].map(|pid| u32::try_from(pid).unwrap());
    one.end().exits(3);
    other.end().exits(3);
    let log = here.path().join("log");
    let written = lines(&log);
    for pid in pids {
        let own = written.iter().filter(|(by, _)| *by == pid);
        assert_eq!(own.filter(|(_, event)| event.starts_with("difference: missing ")).count(), 402);
    }
    for least in [1, 50, 200] {
        fs::remove_file(&log).unwrap();
        let mut killed = verify();
        let is_under_way =
            || fs::read(&log).is_ok_and(|log| log.iter().filter(|it| **it == b'\n').count() >= least);
        assert!(within(PATIENCE, || is_under_way() || killed.has_ended()));
        killed.signal(Signal::KILL);
        drop(killed.end());
        assert!(lines(&log).len() >= least);
    }
}

/// The entries of a run in the simulated journal, and the run's standard error.
#[track_caller]
fn journaled(here: &Path, mode: &str, code: i32, words: &[&str]) -> (Vec<Value>, String) {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal/peer.py");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /run && exec python3 -B \"$@\"", "sh"]);
    command.arg(peer).args([mode, PROGRAM]).args(words).current_dir(here);
    let run = Running::start(command).end().exits(0);
    let mut printed: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = printed.pop().unwrap();
    assert_eq!(last["code"], code, "{run}");
    (printed, last["err"].as_str().unwrap().to_owned())
}

/// The values of a field, which may occur several times in an entry.
fn values<'a>(entry: &'a Value, name: &str) -> Vec<&'a str> {
    let fields = entry.as_array().unwrap().iter();
    fields.filter(|field| field[0] == name).map(|field| field[1].as_str().unwrap()).collect()
}

fn can_have_a_journal() -> bool {
    is_root("only root can have a /run of its own") && has_all(&["unshare", "python3"])
}

#[test]
fn the_journal_gets_fields_in_place_of_lines() {
    if !can_have_a_journal() {
        return;
    }
    let here = directory("linerate-log-");
    make_tree(here.path());
    let forger = format!("./{FORGER}");
    let words = ["cp", "--log-file", "log", "tree/a", &forger, "copy"];
    let (entries, err) = journaled(here.path(), "with", 3, &words);
    assert_eq!(err, "");
    let of = |kind: &str| entries.iter().find(|entry| values(entry, "LINERATE_EVENT") == [kind]).unwrap();
    for entry in &entries {
        assert_eq!(values(entry, "SYSLOG_IDENTIFIER"), ["linerate"]);
        assert_eq!(values(entry, "LINERATE_COMMAND"), ["cp"]);
        assert_eq!(values(entry, "LINERATE_DESTINATION"), ["copy"]);
        assert_eq!(values(entry, "LINERATE_SOURCE").len(), 2);
        assert_eq!(values(entry, "MESSAGE").len(), 1);
        assert!(!values(entry, "MESSAGE")[0].starts_with("linerate: "));
    }
    assert_eq!(values(of("start"), "PRIORITY"), ["6"]);
    let problem = of("problem");
    assert_eq!(
        (values(problem, "PRIORITY"), values(problem, "LINERATE_PROBLEM")),
        (vec!["3"], vec!["failed"])
    );
    let path = values(problem, "LINERATE_PATH");
    assert!(path.len() == 1 && path[0].starts_with("./n\\n2026-") && path[0].contains("\\u{1b}"), "{path:?}");
    // The line that counts what failed has no event of its own.
    assert_eq!(values(of("note"), "PRIORITY"), ["4"]);
    let end = of("end");
    assert_eq!(values(end, "MESSAGE_ID"), ["088bba36b4cd4bddbc21f0981480aa69"]);
    for (name, value) in [("EXIT_CODE", "3"), ("FILES", "1"), ("BYTES", "1000"), ("FAILED", "1")] {
        assert_eq!(values(end, &format!("LINERATE_{name}")), [value], "{end}");
    }
    assert_eq!(values(end, "PRIORITY"), ["4"]);
    assert!(values(end, "LINERATE_SECONDS")[0].parse::<f64>().is_ok());
    assert!(values(end, "LINERATE_RATE")[0].parse::<u64>().is_ok());
    assert_eq!(events(&here.path().join("log")).len(), 4, "the log has its own lines");
    // Every event is there once, and the failure of a run is its end.
    let (entries, err) = journaled(here.path(), "with", 2, &["cp", "-q", "missing", "copy"]);
    assert_eq!((entries.len(), err.as_str()), (2, ""));
    assert_eq!(values(&entries[1], "MESSAGE"), ["none of the sources can be copied"]);
    assert_eq!(values(&entries[1], "LINERATE_EXIT_CODE"), ["2"]);
    let (entries, err) = journaled(here.path(), "with", 0, &["cp", "-q", "-r", "tree", "other"]);
    assert_eq!((entries.len(), err.as_str()), (0, ""), "{entries:?}");
}

#[test]
fn without_a_journal_the_lines_are_standard_errors() {
    if !can_have_a_journal() {
        return;
    }
    let here = directory("linerate-log-");
    make_tree(here.path());
    for mode in ["without", "deaf"] {
        let (entries, err) = journaled(here.path(), mode, 3, &["cp", "tree/a", "missing", "copy"]);
        assert!(entries.is_empty(), "{entries:?}");
        assert!(err.contains("missing: can't be opened") && err.contains("1.00 kB in "), "{err}");
    }
}

#[test]
fn systemds_own_journal_takes_them() {
    if !can_have_a_journal() || !has_all(&["journalctl", "systemd-cat"]) {
        return;
    }
    let Some(journald) = JOURNALD.iter().find(|path| Path::new(path).exists()) else {
        return skip("systemd", "systemd isn't installed");
    };
    let here = directory("linerate-log-");
    make_tree(here.path());
    fs::write(here.path().join("tree").join(FORGER), "x").unwrap();
    run(here.path(), &["cp", "-r", "tree", "copy"]).exits(0);
    fs::remove_file(here.path().join("copy").join(FORGER)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", REAL, "sh", journald, PROGRAM, "verify", "tree", "copy"]);
    command.current_dir(here.path());
    let run = Running::start(command).end().exits(3);
    let entries: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = entries
        .iter()
        .map(|entry| entry["LINERATE_EVENT"].as_str().unwrap_or_else(|| panic!("{run}")))
        .collect();
    // Nothing came by standard output or standard error, so nothing is there twice.
    assert_eq!(kinds, ["start", "difference", "end"], "{run}");
    for entry in &entries {
        assert_eq!(
            (&entry["_TRANSPORT"], &entry["SYSLOG_IDENTIFIER"]),
            (&"journal".into(), &"linerate".into())
        );
        assert_eq!(
            (&entry["LINERATE_SOURCE"], &entry["LINERATE_DESTINATION"]),
            (&"tree".into(), &"copy".into())
        );
    }
    assert_eq!(entries[1]["LINERATE_DIFFERENCE"], "missing");
    assert!(entries[1]["LINERATE_PATH"].as_str().unwrap().starts_with("n\\n2026-"), "{run}");
    assert_eq!(
        (&entries[2]["LINERATE_EXIT_CODE"], &entries[2]["LINERATE_MISSING"]),
        (&"3".into(), &"1".into())
    );
}
