//! Tests of copying one tree to several hosts at the same time.

mod chains;
mod ground;
mod trees;

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::bed::args;
use crate::json::{events, u64_at};
use crate::mounts::Mounted;
use crate::support::{PATIENCE, within};
use crate::tree::{assert_alike, assert_nothing_half_written, make_mixed, names, noise, temporaries, write};
use ground::{Fleet, fleet, fleet_with_link, fleet_with_own_link};

/// The event of each host, and the last event.
#[track_caller]
fn ends(fleet: &Fleet, out: &str) -> (Vec<Value>, Value) {
    ends_of(fleet, "to", out)
}

/// The event of each of these destinations, and the last event.
#[track_caller]
fn ends_of(fleet: &Fleet, to: &str, out: &str) -> (Vec<Value>, Value) {
    let mut events = events(out);
    let last = events.pop().expect("an event");
    assert_eq!(last["type"], "fan-out", "{last}");
    let of = |number: usize| {
        let place = fleet.place(number, to);
        let mut found =
            events.iter().filter(|event| event["type"] == "destination" && event["destination"] == *place);
        found.next().cloned().unwrap_or_else(|| panic!("no event of {place}: {out}"))
    };
    ((0..fleet.hosts).map(of).collect(), last)
}

/// Interrupts a copy when each host has this number of the 24 files; the next run must resume at every
/// host. Returns the last event of the interrupted copy.
#[track_caller]
fn goes_on_after_an_interruption(fleet: &Fleet, line: &dyn Fn() -> Vec<OsString>, files: usize) -> Value {
    let tree = fleet.case.near.join("tree");
    (0..24).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 3 << 20)));
    let running = fleet.start_only("cp", line());
    (0..fleet.hosts).for_each(|number| fleet.wait_for_files(&running, number, "to/tree", files));
    running.signal(Signal::INT);
    let run = running.end().exits(130);
    let (hosts, last) = ends_of(fleet, "to/", &run.out);
    assert!(hosts.iter().all(|host| host["result"] == "interrupted" && host["chained"] == false), "{run}");
    let is_over = || (0..fleet.hosts).all(|number| fleet.processes(number).is_empty());
    assert!(within(PATIENCE, is_over), "agents are left");
    let run = fleet.start_only("cp", line()).end().exits(0);
    let (hosts, _) = ends_of(fleet, "to/", &run.out);
    assert!(hosts.iter().all(|host| u64_at(host, "/sent_bytes") < 24 * (3 << 20)), "{run}");
    (0..fleet.hosts).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to/tree")));
    last
}

#[test]
fn a_tree_goes_to_four_hosts_and_is_read_once() {
    let Some(fleet) = fleet(4) else { return };
    let tree = fleet.case.near.join("tree");
    make_mixed(&tree);
    write(tree.join("huge"), noise(7, 40 << 20));
    let run = fleet.cp(args!["--json", "--verify", "-r", "tree"]).exits(0);
    let (hosts, last) = ends(&fleet, &run.out);
    let size: u64 = u64_at(&hosts[0], "/bytes");
    for (number, host) in hosts.iter().enumerate() {
        assert_alike(&tree, &fleet.at(number).join("to"));
        assert_eq!(
            (&host["result"], &host["exit"], &host["left_behind"]),
            (&"done".into(), &0.into(), &false.into())
        );
        assert_eq!(u64_at(host, "/summary/bytes"), size);
        assert_eq!(temporaries(&fleet.at(number)).len(), 0);
    }
    assert_eq!((u64_at(&last, "/destinations"), u64_at(&last, "/done"), u64_at(&last, "/exit")), (4, 4, 0));
    assert_eq!(u64_at(&last, "/read_bytes"), size, "each byte is read once");
    let progress = events(&run.out).into_iter().filter(|event| event["type"] == "progress");
    let places: Vec<String> = (0..4).map(|number| fleet.place(number, "to")).collect();
    progress.for_each(|event| {
        assert!(places.iter().any(|place| event["destination"] == **place), "{event}");
    });
}

#[test]
fn people_get_a_row_for_each_host() {
    let Some(fleet) = fleet(2) else { return };
    write(fleet.case.near.join("tree/file"), noise(1, 3 << 20));
    let list = fleet.case.near.join("hosts");
    let text = format!("# both\n{}\n\n{}\n", fleet.place(0, "to"), fleet.place(1, "to"));
    write(list, text);
    let run = fleet.start_only("cp", args!["-rp", "tree", "--to-file", "hosts"]).end().exits(0);
    run.says(&[
        "h0  1 file, 3.15 MB in ",
        "h1  1 file, 3.15 MB in ",
        "; done",
        "all 2 destinations are complete; 3.15 MB read on this host",
    ]);
    fs::remove_file(fleet.at(1).join("to/file")).unwrap();
    let dry = fleet.start("sync", args!["-n", "tree"]).end().exits(0);
    dry.says(&["h1  would send 1 file", "all 2 destinations were compared; nothing was changed"]);
    assert_eq!(names(&fleet.at(1).join("to")), [""; 0]);
    let run = fleet.start("sync", args!["--itemize-changes", "tree"]).end().exits(0);
    assert!(run.out.contains("h1: ") && run.out.contains("f+++++++++ file"), "{run}");
    run.says(&["h0  0 files of 1, ", "h1  1 file of 1, "]);
    assert_eq!(names(&fleet.at(1).join("to")), ["file"]);
}

#[test]
fn a_host_that_is_not_there_leaves_the_others_alone() {
    let Some(fleet) = fleet(2) else { return };
    let tree = fleet.case.near.join("tree");
    make_mixed(&tree);
    let run = fleet.cp(args!["-r", "tree", "--to", "nowhere:x"]).exits(5);
    run.says(&[
        "linerate: nowhere: ",
        "nowhere  not reached; failed (exit code 5): no agent could be started at the far end",
        "2 of 3 destinations are complete",
    ]);
    (0..2).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to")));
}

#[test]
fn a_full_disk_leaves_the_others_alone() {
    let Some(fleet) = fleet(2) else { return };
    let Some(_small) = Mounted::memory(&fleet.at(1), "8m") else { return };
    let tree = fleet.case.near.join("tree");
    (0..20).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 1 << 20)));
    let run = fleet.cp(args!["--json", "-r", "tree"]).exits(1);
    let (hosts, last) = ends(&fleet, &run.out);
    assert_eq!((&hosts[0]["result"], &hosts[1]["result"]), (&"done".into(), &"failed".into()), "{run}");
    assert!(hosts[1]["message"].as_str().unwrap().contains("No space left"), "{run}");
    assert_eq!((u64_at(&last, "/done"), u64_at(&last, "/exit")), (1, 1));
    assert_alike(&tree, &fleet.at(0).join("to"));
    assert_nothing_half_written(&tree, &fleet.at(1).join("to"));
}

#[test]
fn a_host_that_was_killed_is_brought_up_by_the_same_command() {
    let Some(fleet) = fleet_with_own_link(2, "400mbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..24).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 3 << 20)));
    // With the slash the same command means the same where the tree is there.
    let line = || [args!["--json", "--compress=off", "-r", "tree"], fleet.to("to/")].concat();
    let running = fleet.start_only("cp", line());
    fleet.wait_for_files(&running, 1, "to/tree", 8);
    fleet.signal(1, Signal::KILL);
    let run = running.end().exits(5);
    let (hosts, _) = ends_of(&fleet, "to/", &run.out);
    assert_eq!((&hosts[0]["result"], &hosts[1]["result"]), (&"done".into(), &"failed".into()), "{run}");
    let run = fleet.start_only("cp", line()).end().exits(0);
    let (hosts, _) = ends_of(&fleet, "to/", &run.out);
    assert!(u64_at(&hosts[1], "/sent_bytes") <= 21 * (3 << 20), "it goes on from what has come: {run}");
    (0..2).for_each(|number| {
        assert_alike(&tree, &fleet.at(number).join("to/tree"));
        assert_eq!(temporaries(&fleet.at(number)).len(), 0);
    });
}

#[test]
fn timed_a_host_that_stands_still_holds_nobody_up() {
    let Some(fleet) = fleet_with_link(4, "1gbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..16).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 10 << 20)));
    let running = fleet.start("cp", args!["--json", "--compress=off", "-r", "tree"]);
    fleet.wait_for_files(&running, 2, "to", 1);
    fleet.signal(2, Signal::STOP);
    let stopped = Instant::now();
    let others = [0, 1, 3].map(|number| fleet.at(number).join("to"));
    let are_there = || others.iter().all(|to| to.exists() && names(to).len() == 16);
    assert!(within(Duration::from_secs(25), are_there), "the others wait");
    let took = stopped.elapsed();
    eprintln!("the others had everything {took:?} after the stop");
    fleet.signal(2, Signal::CONT);
    let run = running.end().exits(0);
    let (hosts, last) = ends(&fleet, &run.out);
    assert!(hosts[2]["left_behind"] == true, "{run}");
    assert!(u64_at(&last, "/peak_rss_bytes") <= 250_000_000, "{last}");
    (0..4).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to")));
}

#[test]
fn timed_four_equal_hosts_that_share_a_link_have_each_byte_read_once() {
    let Some(fleet) = fleet_with_link(4, "1gbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..12).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 10 << 20)));
    let run = fleet.cp(args!["--json", "--compress=off", "--fan-out=star", "-r", "tree"]).exits(0);
    let (hosts, last) = ends(&fleet, &run.out);
    let (read, size) = (u64_at(&last, "/read_bytes"), u64_at(&hosts[0], "/bytes"));
    eprintln!("{read} bytes were read of {size}");
    // Other tests run beside, and may stop one of them for a while.
    assert!(read * 100 <= size * 105, "{read} bytes were read of {size}: {run}");
    (0..4).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to")));
}

#[test]
fn timed_one_of_eight_that_stands_still_costs_the_others_little_time_and_no_memory() {
    let Some(fleet) = fleet_with_link(8, "1gbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..8).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 10 << 20)));
    (0..3000).for_each(|number| write(tree.join(format!("small/{number}")), noise(number, 2000)));
    let copied = |is_stopped: bool| {
        let to = if is_stopped { "to" } else { "before" };
        let line = [args!["--json", "--compress=off", "-r", "tree"], fleet.to(to)].concat();
        let running = fleet.start_only("cp", line);
        fleet.wait_for_files(&running, 5, to, 1);
        if is_stopped {
            fleet.signal(5, Signal::STOP);
        }
        // Until seven have ended.
        let ends = || running.said().matches("\"type\":\"destination\"").count();
        assert!(within(PATIENCE, || ends() >= 7), "{}", running.said());
        fleet.signal(5, Signal::CONT);
        let run = running.end().exits(0);
        let (hosts, last) = ends_of(&fleet, to, &run.out);
        let seconds = |host: &Value| host["elapsed_seconds"].as_f64().expect("a number");
        let others = hosts.iter().enumerate().filter(|(number, _)| *number != 5);
        let (rss, read) = (u64_at(&last, "/peak_rss_bytes"), u64_at(&last, "/read_bytes"));
        let slowest = others.map(|(_, host)| seconds(host)).fold(0.0, f64::max);
        eprintln!("stopped {is_stopped}: {slowest:.2} s, {rss} bytes of memory, {read} bytes read");
        assert!(rss <= 250_000_000, "{last}");
        slowest
    };
    let (alone, beside) = (copied(false), copied(true));
    // Seven share the link that eight had.
    assert!(beside <= alone * 1.05 + 0.3, "{beside:.2} s, and {alone:.2} s without");
    (0..8).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to")));
}

#[test]
fn an_interruption_ends_all_copies_and_the_same_command_goes_on() {
    let Some(fleet) = fleet_with_own_link(2, "200mbit") else { return };
    let line = || [args!["--json", "--compress=off", "-r", "tree"], fleet.to("to/")].concat();
    let last = goes_on_after_an_interruption(&fleet, &line, 4);
    assert_eq!(u64_at(&last, "/done"), 0);
}

#[test]
fn what_does_not_go_with_several_destinations_is_refused_by_name() {
    let Some(fleet) = fleet(2) else { return };
    write(fleet.case.near.join("file"), "x");
    let refused =
        |command: &str, args, words: &[&str]| drop(fleet.start(command, args).end().exits(2).says(words));
    refused(
        "cp",
        args!["--manifest", "sums", "file"],
        &["--manifest is for a single destination", "--verify"],
    );
    refused(
        "sync",
        args!["--remove-source-files", "file"],
        &["--remove-source-files is for a single destination"],
    );
    refused("cp", args!["--metrics", "x.prom", "file"], &["--metrics is for a single destination"]);
    refused("cp", args!["file", "h0:x"], &["h0:x counts as a source", "write --to h0:x"]);
    refused("cp", args!["file", "--to", "/mnt"], &["--to /mnt is on this host"]);
    refused("cp", args!["file", "--to", fleet.place(0, "to")], &["is named twice"]);
    refused("cp", args!["not there"], &["none of the sources"]);
    assert!((0..2).all(|number| names(&fleet.at(number)).is_empty()));
}

#[test]
fn a_source_that_is_missing_fails_in_every_copy() {
    let Some(fleet) = fleet(2) else { return };
    write(fleet.case.near.join("file"), "x");
    let mut args = args!["--json", "file", "missing"];
    args.extend((0..2).flat_map(|number| args!["--to", fleet.place(number, "to/")]));
    let run = fleet.start_only("cp", args).end().exits(3);
    let ends: Vec<_> = events(&run.out).into_iter().filter(|event| event["type"] == "destination").collect();
    assert!(ends.iter().all(|end| end["result"] == "incomplete" && end["exit"] == 3), "{run}");
    (0..2).for_each(|number| assert_eq!(names(&fleet.at(number).join("to")), ["file"]));
}
