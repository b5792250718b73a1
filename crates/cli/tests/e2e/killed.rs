//! Ends that are killed, interrupted or cut off in the middle of a transfer: what is under a real name is whole, and
//! no process stays.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_lab::End;
use rustix::process::Signal;

use crate::bed::{Case, NOBODY, args, case, case_with_link};
use crate::support::{PATIENCE, Run, Running, send, within};
use crate::tree::{assert_alike, assert_real_names_are_whole, names, noise, temporaries, write};

/// How long an end may take to notice that the other is gone, on a busy machine.
const SOON: Duration = Duration::from_secs(8);

/// Which way the files go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// From here.
    Push,
    /// To here.
    Pull,
}

/// A transfer of which a part has landed.
pub struct Midway<'a> {
    case: &'a Case,
    /// The client.
    pub running: Running,
    source: PathBuf,
    destination: PathBuf,
}

impl<'a> Midway<'a> {
    /// Starts one.
    pub fn begin(case: &'a Case, way: Way) -> Self {
        let (source, destination) = match way {
            Way::Push => (case.near.join("tree"), case.far.join("to")),
            Way::Pull => (case.far.join("tree"), case.near.join("to")),
        };
        make_slow(&source);
        let running = case.start_by(&case.marked(), arguments(case, way, true));
        let midway = Self { case, running, source, destination };
        assert!(within(PATIENCE, || midway.is_midway()), "it never got under way: {}", midway.running.end());
        midway
    }

    fn is_midway(&self) -> bool {
        let landed = names(&self.destination).len() - temporaries(&self.destination).len();
        landed > 2 && !self.case.far_processes().is_empty()
    }

    /// The client's end; that of all others follows within seconds.
    pub fn end(self) -> (Run, PathBuf, PathBuf) {
        let run = self.running.end_within(SOON);
        let gone =
            within(SOON, || self.case.far_processes().is_empty() && self.case.near_processes().is_empty());
        assert!(
            gone,
            "left: far {:?}, near {:?}\n{}",
            self.case.far_processes(),
            self.case.near_processes(),
            run.err
        );
        assert!(!run.err.contains("panicked"), "{run}");
        (run, self.source, self.destination)
    }
}

fn arguments(case: &Case, way: Way, slow: bool) -> Vec<std::ffi::OsString> {
    let mut list = if slow { args!["--bwlimit", "8m"] } else { args![] };
    list.extend(match way {
        Way::Push => args!["-r", "tree", case.b("to")],
        Way::Pull => args!["-r", case.b("tree"), "to"],
    });
    list
}

/// Eight seconds at the rate of these tests, whatever comes first: chunks on several streams, whole files, and small ones.
fn make_slow(top: &Path) {
    write(top.join("chunked"), noise(1, 40 << 20));
    for number in 0..12 {
        write(top.join(format!("large {number}")), noise(100 + number, 2 << 20));
        write(top.join(format!("small/{number}")), noise(200 + number, 5000));
    }
}

/// Nothing that is half there has its real name; the same command brings the rest, and leaves nothing else.
pub fn goes_on(case: &Case, way: Way, source: &Path, destination: &Path) {
    assert_real_names_are_whole(source, destination);
    case.cp(arguments(case, way, false)).exits(0);
    assert_alike(source, destination);
    let beside = destination.parent().expect("it has one");
    assert_eq!(temporaries(beside), Vec::<std::ffi::OsString>::new(), "left behind");
}

#[test]
fn a_killed_client_is_gone_on_from() {
    let Some(case) = case() else { return };
    let midway = Midway::begin(&case, Way::Push);
    midway.running.signal(Signal::KILL);
    let (run, source, destination) = midway.end();
    assert_eq!(run.signal, Some(9));
    goes_on(&case, Way::Push, &source, &destination);
}

#[test]
fn a_killed_receiving_client_leaves_no_half_file_under_a_real_name() {
    let Some(case) = case() else { return };
    let midway = Midway::begin(&case, Way::Pull);
    midway.running.signal(Signal::KILL);
    let (run, source, destination) = midway.end();
    assert_eq!(run.signal, Some(9));
    goes_on(&case, Way::Pull, &source, &destination);
}

/// Either connection may be the first whose end is seen.
fn is_lost(run: Run) {
    let run = run.exits(5).says(&["run the same command again"]);
    assert!(run.err.contains("closed") || run.err.contains("the data connection failed"), "{run}");
}

#[test]
fn a_killed_agent_is_exit_5() {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case() else { return };
        let midway = Midway::begin(&case, way);
        case.far_processes().into_iter().for_each(|pid| send(pid, Signal::KILL));
        let (run, source, destination) = midway.end();
        is_lost(run);
        goes_on(&case, way, &source, &destination);
    }
}

#[test]
fn a_killed_ssh_is_exit_5_and_is_gone_on_from() {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case() else { return };
        let midway = Midway::begin(&case, way);
        let client = midway.running.pid();
        let shells: Vec<i32> = case.near_processes().into_iter().filter(|pid| *pid != client).collect();
        assert_eq!(shells.len(), 1, "one login for each transfer");
        send(shells[0], Signal::KILL);
        let (run, source, destination) = midway.end();
        is_lost(run);
        goes_on(&case, way, &source, &destination);
    }
}

/// Ends a transfer by `interrupt`; it must be exit 130 and can be gone on from, whichever end wrote.
fn interrupted(interrupt: impl Fn(&Running)) {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case() else { return };
        let midway = Midway::begin(&case, way);
        interrupt(&midway.running);
        let (run, source, destination) = midway.end();
        run.exits(130).says(&["interrupted", "run the same command again"]);
        goes_on(&case, way, &source, &destination);
    }
}

#[test]
fn ctrl_c_is_exit_130_and_is_gone_on_from() {
    interrupted(|running| running.signal_group(Signal::INT));
}

#[test]
fn an_interrupt_of_the_client_alone_is_exit_130_and_is_gone_on_from() {
    interrupted(|running| running.signal(Signal::INT));
}

#[test]
fn a_termination_is_exit_130_and_is_gone_on_from() {
    interrupted(|running| running.signal(Signal::TERM));
    interrupted(|running| running.signal_group(Signal::TERM));
}

#[test]
fn a_terminal_that_closes_is_exit_130_and_is_gone_on_from() {
    interrupted(|running| running.signal_group(Signal::HUP));
}

#[test]
fn a_link_that_is_cut_can_be_waited_for() {
    let Some(case) = case_with_link("10gbit") else { return };
    let midway = Midway::begin(&case, Way::Push);
    set_link(&case, "down");
    std::thread::sleep(Duration::from_secs(1));
    assert_real_names_are_whole(&midway.source, &midway.destination);
    set_link(&case, "up");
    let Midway { running, source, destination, .. } = midway;
    running.end().exits(0);
    assert_alike(&source, &destination);
}

#[test]
fn behind_a_cut_link_the_client_can_be_interrupted() {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case_with_link("10gbit") else { return };
        let midway = Midway::begin(&case, way);
        set_link(&case, "down");
        std::thread::sleep(Duration::from_millis(500));
        midway.running.signal(Signal::INT);
        let Midway { running, source, destination, .. } = midway;
        running.end_within(SOON).exits(130);
        assert_real_names_are_whole(&source, &destination);
        // The far end learns of it when the link is back.
        set_link(&case, "up");
        assert!(within(PATIENCE, || case.far_processes().is_empty()), "the far end stays");
        goes_on(&case, way, &source, &destination);
    }
}

/// Takes the link down or up.
pub fn set_link(case: &Case, state: &str) {
    let host = case.bed.lab.host(End::B);
    let done =
        Command::new("ip").args(["-n", &host.namespace, "link", "set", &host.interface, state]).status();
    assert!(done.is_ok_and(|status| status.success()));
}

/// A directory of an ordinary user's, to which it gives itself access while files land in it.
#[test]
fn a_directory_that_was_opened_is_closed_again_after_a_kill_and_a_rerun() {
    let Some(case) = case() else { return };
    let (source, destination) = (case.far.join("tree"), case.near.join("tree"));
    for number in 0..12 {
        write(source.join(format!("{number}")), noise(number, 1 << 20));
    }
    fs::create_dir(&destination).expect("writable");
    fs::set_permissions(&destination, PermissionsExt::from_mode(0o500)).expect("our own");
    chown(&destination, Some(NOBODY), Some(NOBODY)).expect("root may");
    let mode = || fs::metadata(&destination).expect("it is there").mode() & 0o7777;
    let pull = |more: Vec<OsString>| [args!["-r"], more, args![case.b("tree"), "."]].concat();
    let running = case.start_as_nobody(pull(args!["--bwlimit", "3m"]));
    assert!(within(PATIENCE, || mode() == 0o700), "it never got under way: {}", running.end());
    running.signal(Signal::KILL);
    drop(running.end());
    assert_eq!(mode(), 0o700);
    case.cp_as_nobody(pull(Vec::new())).exits(0);
    assert_eq!(mode(), 0o500);
    assert_alike(&source, &destination);
}
