//! Tests of errors at one of two far hosts: messages name the host, and an interrupted copy can be resumed.

use std::fs;
use std::time::Duration;

use linerate_lab::End;
use rustix::process::Signal;

use super::ground::{HOSTS, Trio, trio};
use crate::bed::args;
use crate::proofs::sent;
use crate::support::{PATIENCE, Running, send, within};
use crate::tree::{assert_alike, assert_real_names_are_whole, names, noise, temporaries, write};

/// The longest time that an end may need to notice that another end is gone, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn an_error_of_either_host_names_it() {
    let Some(trio) = trio() else { return };
    write(trio.case.near.join("tree/file"), "x");
    trio.cp(args![trio.src("missing"), trio.dst("to")]).exits(2).says(&["src:", "missing"]);
    write(trio.case.far.join("plain"), "x");
    trio.cp(args!["-r", trio.src("tree"), trio.dst("plain")]).exits(2).says(&["dst: "]);
    trio.cp(args!["-r", trio.src("tree"), trio.dst("no/such/place")]).exits(2).says(&["dst: "]);
    // One entry that can't land, and one that can't go, where the rest does.
    write(trio.case.far.join("to/file/in the way"), "x");
    write(trio.case.near.join("tree/other"), "other");
    let run = trio.cp(args!["-r", trio.src("tree/."), trio.dst("to")]).exits(3);
    run.says(&["linerate: dst:", "to/file"]);
    assert_eq!(fs::read(trio.case.far.join("to/other")).unwrap(), b"other");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        trio.case.near.join("tree/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let run = trio.cp(args!["-r", trio.src("tree/."), trio.dst("new")]).exits(3);
    run.says(&["linerate: src:", "pipe: "]);
    trio.assert_all_gone();
}

#[test]
fn a_login_that_fails_names_its_host() {
    let Some(trio) = trio() else { return };
    write(trio.case.near.join("tree/file"), "x");
    for (name, _) in HOSTS {
        let authorized = trio.authorized(name);
        let kept = fs::read(&authorized).unwrap();
        fs::write(&authorized, "").unwrap();
        trio.cp(args!["-r", trio.src("tree"), trio.dst("to")])
            .exits(5)
            .says(&[&format!("linerate: {name}: ")]);
        fs::write(&authorized, kept).unwrap();
        trio.assert_all_gone();
    }
}

/// Starts a copy, and waits until a part has arrived.
fn midway(trio: &Trio, options: &[&str]) -> Running {
    let (tree, to) = trio.trees();
    write(tree.join("chunked"), noise(1, 40 << 20));
    for number in 0..12 {
        write(tree.join(format!("large {number}")), noise(100 + number, 2 << 20));
    }
    let mut line: Vec<_> = options.iter().map(std::ffi::OsString::from).collect();
    line.extend(args!["--bwlimit", "8m", "-r", trio.src("tree"), trio.dst("to")]);
    let running = trio.start("cp", line);
    let landed = || names(&to).len() - temporaries(&to).len();
    assert!(within(PATIENCE, || landed() > 6), "it never got under way: {}", running.end());
    running
}

/// Checks that the same command completes the copy, and leaves no other files.
#[track_caller]
pub fn goes_on(trio: &Trio) {
    trio.assert_all_gone();
    let (tree, to) = trio.trees();
    assert_real_names_are_whole(&tree, &to);
    let run = trio.cp(args!["--json", "-r", trio.src("tree"), trio.dst("to")]).exits(0);
    assert!(sent(&run) < 58 << 20, "everything was sent again: {}", sent(&run));
    assert_alike(&tree, &to);
    assert_eq!(temporaries(&trio.case.far), Vec::<std::ffi::OsString>::new(), "left behind");
}

#[test]
fn a_killed_client_is_gone_on_from() {
    let Some(trio) = trio() else { return };
    let running = midway(&trio, &[]);
    running.signal(Signal::KILL);
    running.end_within(SOON);
    goes_on(&trio);
}

#[test]
fn an_interrupted_client_leaves_nobody() {
    let Some(trio) = trio() else { return };
    let running = midway(&trio, &[]);
    running.signal(Signal::INT);
    running.end_within(SOON).exits(130);
    goes_on(&trio);
}

/// Kills the agent of one host; the other agent and the client must end by themselves.
fn killed_agent(name: &str) {
    let Some(trio) = trio() else { return };
    let running = midway(&trio, &[]);
    for process in trio.processes(name) {
        send(process, Signal::KILL);
    }
    running.end_within(SOON).exits(5).says(&[&format!("linerate: {name}: ")]);
    goes_on(&trio);
}

#[test]
fn a_killed_source_is_named_and_gone_on_from() {
    killed_agent("src");
}

#[test]
fn a_killed_destination_is_named_and_gone_on_from() {
    killed_agent("dst");
}

#[test]
fn a_lost_host_is_tried_again() {
    let Some(trio) = trio() else { return };
    let running = midway(&trio, &["--retry", "3"]);
    for process in trio.processes("src") {
        send(process, Signal::KILL);
    }
    running.end().exits(0).says(&["linerate: src: ", "trying again in 1 s"]);
    let (tree, to) = trio.trees();
    assert_alike(&tree, &to);
}

#[test]
fn a_host_that_hangs_is_given_up_and_named() {
    let Some(trio) = trio() else { return };
    let running = midway(&trio, &["--timeout", "2"]);
    let stopped = trio.processes("dst");
    stopped.iter().for_each(|process| send(*process, Signal::STOP));
    let run = running.end_within(Duration::from_secs(20));
    stopped.iter().for_each(|process| send(*process, Signal::KILL));
    run.exits(5).says(&["linerate: dst: ", "sent nothing", "--timeout"]);
    goes_on(&trio);
}

#[test]
fn a_link_between_the_two_that_is_cut_ends_the_copy() {
    let Some(trio) = super::ground::trio_with_own_link("10gbit") else { return };
    let running = midway(&trio, &["--timeout", "3", "--retry", "20"]);
    let host = &trio.case.bed.lab.host(End::A).namespace;
    let link = |state: &str| {
        let port = trio.case.bed.lab.host(End::A).ports()[0].interface.clone();
        let mut ip = std::process::Command::new("ip");
        assert!(ip.args(["-n", host, "link", "set", "dev", &port, state]).status().unwrap().success());
    };
    link("down");
    std::thread::sleep(Duration::from_secs(6));
    link("up");
    running.end().exits(0).says(&["a data connection", "trying again"]);
    let (tree, to) = trio.trees();
    assert_alike(&tree, &to);
}
