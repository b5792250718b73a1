//! Tests of another local user with write access to the destination, who replaces entries with links while
//! files are received.
//!
//! Beside the destination there is a tree with all names of the destination. It must stay unchanged, wherever
//! the links lead: its contents, modes, owners, times and names. `LINERATE_TEST_RACE_SECONDS=60` sets the
//! duration of each race, as for a release; `LINERATE_TEST_PROGRAM` selects another binary.

#[path = "../support/mod.rs"]
mod support;

mod racer;
mod tree;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{Run, Running, directory};
use crate::tree::{Canary, count, make_original};

/// The default duration of a race in seconds, which is enough for thousands of replacements.
const SECONDS: u64 = 3;
/// The number of entries of the source; each run receives all of them, except those that a replacement
/// prevented.
const ENTRIES: u64 = 10_000;

/// The system call number of openat2(2), which is the same on every architecture.
const OPENAT2: i64 = 437;

/// A lock for races, which need two processors each: they run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn what_is_pushed_stays_below_its_destination() {
    race(&["cp", "-r", "tree", "far:dest/"], Kernel::Whole);
}

#[test]
fn so_does_what_is_pulled_where_the_kernel_lacks_openat2() {
    race(&["cp", "-r", "far:tree", "dest/"], Kernel::WithoutOpenat2);
}

#[test]
fn so_does_what_is_pushed_where_the_kernel_lacks_openat2() {
    race(&["cp", "-r", "--streams", "4", "tree", "far:dest/"], Kernel::WithoutOpenat2);
}

#[test]
fn so_does_an_archive_with_owners_modes_and_times() {
    if knows("cp", "--archive") {
        race(&["cp", "-a", "tree", "far:dest/"], Kernel::Whole);
        race(&["cp", "-a", "tree", "far:dest/"], Kernel::WithoutOpenat2);
    }
}

#[test]
fn so_does_what_a_sync_replaces_and_deletes() {
    if knows("sync", "--delete") {
        race(&["sync", "--delete", "tree", "far:dest"], Kernel::Whole);
        race(&["sync", "--delete", "--inplace", "tree", "far:dest"], Kernel::WithoutOpenat2);
    } else {
        race(&["sync", "tree", "far:dest"], Kernel::Whole);
    }
}

#[test]
#[ignore = "the other process of a race; it is started by the tests"]
fn racer_process() {
    racer::run();
}

#[test]
#[ignore = "runs a command without openat2; it is started by the tests"]
fn without_openat2_process() {
    let Ok(words) = std::env::var("LINERATE_WITHOUT_OPENAT2") else { return };
    let words: Vec<&str> = words.split('\n').collect();
    deny_openat2();
    panic!("{}: {}", words[0], Command::new(words[0]).args(&words[1..]).exec());
}

/// Whether openat2(2) is available.
#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    Whole,
    WithoutOpenat2,
}

/// The directories of a race: `tree` and the destination in `in`, and the tree that must stay unchanged in
/// `outside`.
struct Track {
    top: TempDir,
}

/// Runs the program repeatedly while the racer replaces entries below `dest`.
#[track_caller]
fn race(args: &[&str], kernel: Kernel) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let track = Track::new();
    let canary = Canary::make(&track.at("outside"));
    let racer = racer::start(track.top.path());
    let seconds = std::env::var("LINERATE_TEST_RACE_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(SECONDS));
    let (mut landed, mut runs) = (0, 0);
    while Instant::now() < end || runs < 2 {
        // Every other run finds what the one before it left: it replaces, and deletes.
        if runs % 2 == 0 {
            landed += track.fresh_destination();
        } else {
            tree::add_extras(&track.at("in/dest"));
        }
        let run = track.linerate(args, kernel);
        assert!(matches!(run.code, Some(0..=5)), "{args:?}: {run}");
        assert!(!run.err.contains("panicked"), "{run}");
        canary.assert_untouched(&format!("{args:?} after run {runs}: {run}"));
        runs += 1;
    }
    drop(racer);
    landed += track.fresh_destination();
    let swaps = racer::swaps(track.top.path());
    println!("{args:?}: {runs} runs, {landed} entries landed, {swaps} swaps, nothing written outside");
    assert!(swaps > 1000, "the racer made only {swaps} swaps");
    assert!(landed > ENTRIES / 2, "only {landed} entries landed in {runs} runs");
    canary.assert_untouched("at the end");
}

impl Track {
    fn new() -> Self {
        let top = directory("linerate-races-");
        for name in ["in", "in/dest", "aside", "bin", "home", "trash"] {
            fs::create_dir(top.path().join(name)).expect("writable");
        }
        make_original(&top.path().join("in/tree"), ENTRIES);
        // As ssh does, it gives the far shell one line; the far host is this one.
        let shell = top.path().join("bin/rsh");
        linerate_testing::write_script(&shell, "#!/bin/sh\nfor line; do :; done\nexec sh -c \"$line\"\n");
        symlink(program(), top.path().join("bin/linerate")).expect("writable");
        Self { top }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.path().join(path)
    }

    /// Replaces the destination with an empty one; returns the number of entries of the old one.
    fn fresh_destination(&self) -> u64 {
        let trash = self.at("trash/dest");
        fs::rename(self.at("in/dest"), &trash).expect("the racer doesn't touch the top");
        fs::create_dir(self.at("in/dest")).expect("writable");
        let landed = count(&trash);
        // The racer may still be in one of its directories, and put something in.
        let emptied = support::within(Duration::from_secs(20), || fs::remove_dir_all(&trash).is_ok());
        assert!(emptied, "{}", trash.display());
        landed
    }

    fn linerate(&self, args: &[&str], kernel: Kernel) -> Run {
        let rsh = self.at("bin/rsh").display().to_string();
        // `DEST/..` has the sources land beside the destination, under a name that is the destination's.
        let paths = args[1..].iter().map(|word| word.replace("DEST", "dest"));
        let paths = paths.map(|word| word.replace("far:", &format!("far:{}/", self.at("in").display())));
        let mut words = vec![program().display().to_string(), args[0].to_owned(), "--rsh".into(), rsh];
        words.extend(paths);
        let mut command = match kernel {
            Kernel::Whole => Command::new(&words[0]),
            Kernel::WithoutOpenat2 => this_test("without_openat2_process"),
        };
        match kernel {
            Kernel::Whole => command.args(&words[1..]),
            Kernel::WithoutOpenat2 => command.env("LINERATE_WITHOUT_OPENAT2", words.join("\n")),
        };
        let mut path = self.at("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(self.at("in")).env("HOME", self.at("home")).env("PATH", path);
        command.env_remove("XDG_CACHE_HOME").env_remove("SSH_CONNECTION");
        Running::start(command).end()
    }
}

fn program() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_linerate").into();
    std::env::var_os("LINERATE_TEST_PROGRAM").unwrap_or_else(built).into()
}

/// Runs this test program for one of its ignored tests.
fn this_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args([name, "--exact", "--ignored", "--nocapture"]);
    command
}

/// Whether the program has the option; if not, prints that the race is skipped.
fn knows(command: &str, option: &str) -> bool {
    let help = Command::new(program()).args([command, "--help"]).output().expect("it runs");
    let known = String::from_utf8_lossy(&help.stdout).contains(option);
    if !known {
        eprintln!("not raced: this program has no 'linerate {command} {option}'");
    }
    known
}

/// Makes the kernel refuse openat2(2), in this process and its children, as kernels without it do.
fn deny_openat2() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let arch = std::env::consts::ARCH.try_into().expect("an architecture that linerate is built for");
    let rules = [(OPENAT2, Vec::new())].into();
    let answer = SeccompAction::Errno(38);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("it can be compiled");
    seccompiler::apply_filter(&program).expect("the kernel takes filters");
}

#[test]
fn the_filter_denies_openat2() {
    let mut command = this_test("tells_of_openat2_process");
    let reported = |command: Command| Running::start(command).end().exits(0).out;
    command.env("LINERATE_TELL", "1");
    assert!(reported(command).contains("openat2 is there"));
    let mut command = this_test("tells_of_openat2_process");
    command.env("LINERATE_TELL", "2");
    assert!(reported(command).contains("openat2 isn't there"));
}

#[test]
#[ignore = "tells whether openat2 is there; it is started by a test"]
fn tells_of_openat2_process() {
    let Ok(kernel) = std::env::var("LINERATE_TELL") else { return };
    if kernel == "2" {
        deny_openat2();
    }
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let opened = openat2(CWD, Path::new("/"), OFlags::PATH, Mode::empty(), ResolveFlags::empty());
    println!("openat2 {} there", if opened.is_ok() { "is" } else { "isn't" });
}
