//! Tests in which an end is killed, interrupted or cut off during a transfer: files under their final names
//! must be complete, and no process may remain.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use linerate_lab::End;
use rustix::process::Signal;

use crate::bed::{Case, NOBODY, args, case, case_with_own_link};
use crate::mounts::Mounted;
use crate::support::{PATIENCE, Run, Running, send, within};
use crate::tree::{assert_alike, assert_real_names_are_whole, names, noise, temporaries, write};

/// The longest time that an end may need to notice that the other end is gone, on a busy machine.
const SOON: Duration = Duration::from_secs(8);

/// The direction of the transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// From this host to the far host.
    Push,
    /// From the far host to this host.
    Pull,
}

/// A transfer of which a part has arrived.
pub struct Midway<'a> {
    case: &'a Case,
    /// The running client.
    pub running: Running,
    source: PathBuf,
    destination: PathBuf,
}

impl<'a> Midway<'a> {
    /// Starts a transfer, and waits until a part has arrived.
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

    /// Waits for the end of the client; all other processes must end within seconds.
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

/// Makes files that take eight seconds at the rate of these tests: a file that is sent in chunks on several
/// streams, whole files, and small files.
fn make_slow(top: &Path) {
    write(top.join("chunked"), noise(1, 40 << 20));
    for number in 0..12 {
        write(top.join(format!("large {number}")), noise(100 + number, 2 << 20));
        write(top.join(format!("small/{number}")), noise(200 + number, 5000));
    }
}

/// Checks that no incomplete file has its final name, and that the same command completes the copy and leaves
/// no other files.
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

/// Checks the error of a lost connection. Either connection may be the first whose end is noticed.
fn is_lost(run: Run) {
    let run = run.exits(5).says(&["run the same command again"]);
    assert!(run.err.contains("closed") || run.err.contains("the data connection failed"), "{run}");
}

/// Ctrl-Z and fg, or a host that sleeps, for longer than several signs of life.
#[test]
fn an_end_that_is_stopped_and_continues_goes_on() {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case() else { return };
        let Midway { running, source, destination, .. } = Midway::begin(&case, way);
        let stopped = if way == Way::Push { case.near_processes() } else { case.far_processes() };
        stopped.iter().for_each(|pid| send(*pid, Signal::STOP));
        sleep(Duration::from_secs(6));
        stopped.iter().for_each(|pid| send(*pid, Signal::CONT));
        let run = running.end().exits(0);
        assert!(!run.err.contains("data connection"), "{run}");
        assert_alike(&source, &destination);
    }
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

/// Stops a transfer by `interrupt`. The exit code must be 130, and the transfer must be resumable, whichever
/// end received.
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
    let Some(case) = case_with_own_link("10gbit") else { return };
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
        let Some(case) = case_with_own_link("10gbit") else { return };
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

/// Sets the link up or down.
pub fn set_link(case: &Case, state: &str) {
    let host = case.bed.lab.host(End::B);
    let done =
        Command::new("ip").args(["-n", &host.namespace, "link", "set", &host.interface, state]).status();
    assert!(done.is_ok_and(|status| status.success()));
}

/// The test covers a directory of an ordinary user, who gives themselves access while files are received into
/// it.
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

/// Kills the receiver as soon as a temporary file exists, three times, then runs the command to its end.
fn kill_early(case: &Case, way: Way, command: &[&str], make: impl Fn(&Path)) {
    let (near, far) = ((&case.near, args!["tree"]), (&case.far, args![case.b("tree")]));
    let ((source, from), (top, to)) = match way {
        Way::Push => (near, (&case.far, args![case.b("to")])),
        Way::Pull => (far, (&case.near, args!["to"])),
    };
    make(source);
    let words = |more: Vec<OsString>| {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let shell = case.aside("bin").join("marked");
        let ssh = format!("ssh -F {}", case.bed.lab.ssh_config().display());
        fs::write(&shell, format!("SSH='{ssh}'\n{}\n", case.marked())).unwrap();
        let rsh = args!["--rsh", format!("sh '{}'", shell.display())];
        [args![case.bed.program()], command, rsh, more, from.clone(), to.clone()].concat()
    };
    let left =
        || temporaries(top).into_iter().filter(|path| !path.to_string_lossy().contains("journal")).count();
    for kills in 1..=3 {
        let running = case.start_with(words(args!["--bwlimit", "2m"]), Vec::new());
        assert!(within(PATIENCE, || left() >= kills), "nothing of it has a name: {}", running.end());
        let receivers = if way == Way::Pull { vec![running.pid()] } else { case.far_processes() };
        receivers.into_iter().for_each(|pid| send(pid, Signal::KILL));
        running.end_within(SOON);
        assert!(within(SOON, || case.far_processes().is_empty() && case.near_processes().is_empty()));
    }
    case.start_with(words(Vec::new()), Vec::new()).end().exits(0);
    assert_alike(&source.join("tree"), &top.join("to"));
    assert_eq!(temporaries(top), Vec::<OsString>::new(), "{way:?} {command:?}");
}

/// Before the first chunk of a large file has arrived, the journal has no record of the file.
#[test]
fn a_kill_before_the_first_chunk_leaves_nothing_that_a_rerun_does_not_remove() {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case() else { return };
        kill_early(&case, way, &["cp", "-r"], |top| write(top.join("tree/large"), noise(1, 60 << 20)));
        let Some(case) = crate::bed::case() else { return };
        kill_early(&case, way, &["cp"], |top| write(top.join("tree"), noise(1, 60 << 20)));
    }
}

/// A file that is filled from an older version isn't recorded in the journal.
#[test]
fn a_kill_of_a_sync_over_an_older_version_leaves_nothing_that_a_rerun_does_not_remove() {
    for way in [Way::Push, Way::Pull] {
        let Some(case) = case() else { return };
        let to = if way == Way::Push { case.far.join("to") } else { case.near.join("to") };
        write(to.join("large"), noise(7, 40 << 20));
        kill_early(&case, way, &["sync"], |top| write(top.join("tree/large"), noise(1, 40 << 20)));
    }
}

/// On a file system without unnamed files, each small file has a temporary name.
#[test]
fn a_kill_where_each_file_has_a_name_leaves_nothing_that_a_rerun_does_not_remove() {
    let Some(case) = case() else { return };
    let Some(_named_only) = Mounted::in_user_space(&case.aside("below"), &case.near) else { return };
    let many = |top: &Path| {
        (0..1500).for_each(|number| write(top.join(format!("tree/{number}")), noise(number, 4000)))
    };
    kill_early(&case, Way::Pull, &["sync"], many);
}
