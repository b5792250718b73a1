//! A command in a lab: its exit code, signals, a kill -9, and users without rights.

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use common::{
    NOBODY, Program, can_make_labs, in_user_namespace, remains, text, user_namespaces_work, wait_for_line,
    within,
};
use linerate_lab::{Process, sweep};
use linerate_testing::{has, has_all};
use rustix::process::{Pid, Signal, kill_process};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("our own child");
}

/// The labs' names that a finished program printed on its first lines.
fn first_line(output: &str) -> String {
    output.lines().next().expect("it told its name").to_owned()
}

#[test]
fn the_exit_code_is_the_commands() {
    if !can_make_labs() {
        return;
    }
    let program = Program::for_user(0);
    let mut codes = Vec::new();
    for argv in [
        &["sh", "-c", "exit 7"][..],
        &["sh", "-c", "kill -9 $$"],
        &["/there-is-none"],
        &["/etc/passwd"],
        &["true"],
    ] {
        codes.push(program.run(argv).status.code());
    }
    assert_eq!(codes, [7, 137, 127, 126, 0].map(Some));
}

#[test]
fn a_command_finds_the_lab_in_its_environment() {
    if !can_make_labs() {
        return;
    }
    let script = "echo $LINERATE_LAB; test -d $LINERATE_LAB_DIR && \
        ip address | grep -q $LINERATE_LAB_ADDRESS_A && \
        ip netns exec $LINERATE_LAB_NETNS_A ip address | grep -q $LINERATE_LAB_ADDRESS_A && \
        ip netns exec $LINERATE_LAB_NETNS_B ip address | grep -q $LINERATE_LAB_ADDRESS_B && \
        scp -q -F $LINERATE_LAB_SSH_CONFIG /etc/passwd $LINERATE_LAB_HOST:$LINERATE_LAB_DIR/copy && \
        cmp /etc/passwd $LINERATE_LAB_DIR/copy";
    let printed = text(&Program::for_user(0).run(&["--link", "10gbit", "sh", "-c", script]));
    assert_eq!(remains(&first_line(&printed)), Vec::<String>::new());
}

#[test]
fn a_signal_ends_command_and_lab() {
    if !can_make_labs() {
        return;
    }
    let program = Program::for_user(0);
    for (sent, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        // Out of the terminal's foreground, so that no key can have sent the signal to the command as well.
        let mut child = program
            .command(&["sh", "-c", "echo ready; exec sleep 600"])
            .process_group(0)
            .spawn()
            .expect("it starts");
        wait_for_line(&mut child, "ready");
        signal(&child, sent);
        assert_eq!(child.wait().expect("our child").code(), Some(code));
    }
}

#[test]
fn what_a_kill_leaves_is_swept_away() {
    if !can_make_labs() {
        return;
    }
    let program = Program::for_user(0);
    // One child that dies with its parent, one that doesn't, one far away.
    let script = "echo $LINERATE_LAB > $0/name; setsid sleep 601 & ssh -n -F $LINERATE_LAB_SSH_CONFIG b sleep 602 & \
        sleep 0.5; echo ready; exec sleep 603";
    let runtime = program.runtime();
    let mut child = program
        .command(&["--guests", "2", "sh", "-c", script, runtime.to_str().expect("plain")])
        .spawn()
        .expect("it starts");
    wait_for_line(&mut child, "ready");
    let name = std::fs::read_to_string(runtime.join("name")).expect("just written").trim().to_owned();
    assert!(remains(&name).iter().any(|left| left.ends_with("-g1")), "{:?}", remains(&name));
    let namespace = format!("linerate-{name}-a");
    let pids = || {
        let listed = Command::new("ip").args(["netns", "pids", &namespace]).output().expect("ip runs");
        String::from_utf8_lossy(&listed.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(pids().len() >= 3, "the sleeps and ssh: {:?}", pids());
    let sleepers: Vec<Process> =
        pids().iter().filter_map(|pid| Process::of(pid.parse().ok()?).ok()).collect();

    signal(&child, Signal::KILL);
    child.wait().expect("our child");
    assert!(!remains(&name).is_empty(), "a kill -9 leaves namespaces and files");
    // Another test's lab may sweep first: what counts is that it is gone.
    sweep().expect("readable");
    assert!(within(Duration::from_secs(10), || remains(&name).is_empty()), "{:?}", remains(&name));
    assert!(sleepers.iter().all(|process| !process.is_alive()));
}

#[test]
fn an_ordinary_user_gets_a_lab_in_a_user_namespace() {
    if !can_make_labs() || !has("setpriv") || !user_namespaces_work() {
        return;
    }
    let script = "id -u; ssh -F $LINERATE_LAB_SSH_CONFIG b id -u; tc qdisc; ssh -F $LINERATE_LAB_SSH_CONFIG b tc qdisc; exit 5";
    let program = Program::for_user(NOBODY);
    let output = program.run(&["--link", "1gbit", "sh", "-c", script]);
    let (printed, reported) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(5), "{printed} {reported}");
    assert_eq!(printed.matches("65534\n").count(), 2, "{printed}");
    assert_eq!(printed.matches("tbf").count(), 2, "{printed}");
    assert_eq!(left_of_users_labs(&program), ["lock"]);
}

#[test]
fn what_an_ordinary_users_kill_leaves_is_swept_away() {
    let programs = has_all(&["setpriv", "pgrep"]);
    if !can_make_labs() || !programs || !user_namespaces_work() {
        return;
    }
    let program = Program::for_user(NOBODY);
    let mut child = program.command(&["sh", "-c", "setsid sleep 604 & echo $!; echo ready; exec sleep 605"]);
    let mut child = child.spawn().expect("it starts");
    wait_for_line(&mut child, "ready");
    signal(&child, Signal::KILL);
    child.wait().expect("our child");
    assert_ne!(left_of_users_labs(&program), ["lock"]);
    let output = program.run(&["true"]);
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && reported.contains("left behind by process"), "{reported}");
    assert_eq!(left_of_users_labs(&program), ["lock"]);
    let asleep = Command::new("pgrep").args(["-u", "65534", "-f", "sleep 60[45]"]).output();
    assert!(asleep.is_ok_and(|found| found.stdout.is_empty()), "the sleepers are gone");
}

#[test]
fn a_kernel_that_refuses_is_explained() {
    if !can_make_labs() || !has("setpriv") || !user_namespaces_work() {
        return;
    }
    // In a user namespace whose own limit is zero, a further one is refused as a hardened system would.
    let program = Program::for_user(NOBODY);
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --ambient-caps=-all --inh-caps=-all {} true",
        program.path().display()
    );
    let mut command = in_user_namespace(&["sh", "-c", &script]);
    command.env("XDG_RUNTIME_DIR", program.runtime());
    let output = command.output().expect("setpriv runs");
    let reported = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{reported}");
    for expected in ["user.max_user_namespaces=10000", "as root", "localhost"] {
        assert!(reported.contains(expected), "{expected} in: {reported}");
    }
}

fn left_of_users_labs(program: &Program) -> Vec<String> {
    let entries =
        std::fs::read_dir(program.runtime().join("linerate")).expect("made by the program").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.is_empty())
        .collect()
}
