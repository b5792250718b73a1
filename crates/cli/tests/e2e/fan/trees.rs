//! Tests of one tree that is copied to several hosts, each of which forwards the data to two others.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::ground::{Fleet, fleet, fleet_with_link, fleet_with_own_link};
use super::{ends, ends_of, goes_on_after_an_interruption};
use crate::bed::args;
use crate::json::u64_at;
use crate::support::{Run, within};
use crate::tree::{assert_alike, make_mixed, noise, temporaries, write};

/// The number of hosts. Host 0 forwards to 1 and 2, host 1 to 3 and 4, host 2 to 5 and 6.
const HOSTS: usize = 7;
const FILES: usize = 24;

fn line(path: &str) -> Vec<OsString> {
    args!["--json", "--compress=off", "--fan-out=tree", "-r", path]
}

/// Makes seven hosts, and files that take some seconds over the link.
fn seven() -> Option<Fleet> {
    let fleet = fleet_with_link(HOSTS, "400mbit")?;
    let tree = fleet.case.near.join("tree");
    (0..FILES).for_each(|number| write(tree.join(format!("file {number}")), noise(number as u64, 5 << 20)));
    Some(fleet)
}

/// The hosts that got all data through other hosts.
fn through_others(hosts: &[Value]) -> Vec<usize> {
    (0..hosts.len()).filter(|number| hosts[*number]["chained"] == true).collect()
}

#[track_caller]
fn assert_all_there(fleet: &Fleet, path: &str) {
    for number in 0..fleet.hosts {
        assert_alike(&fleet.case.near.join("tree"), &fleet.at(number).join(path));
        assert_eq!(temporaries(&fleet.at(number)).len(), 0, "h{number}");
    }
}

#[test]
fn a_tree_goes_through_seven_hosts_and_leaves_this_one_once() {
    let Some(fleet) = fleet(HOSTS) else { return };
    let tree = fleet.case.near.join("tree");
    make_mixed(&tree);
    write(tree.join("huge"), noise(7, 40 << 20));
    let run = fleet.cp(args!["--json", "--fan-out=tree", "--verify", "-r", "tree"]).exits(0);
    let (hosts, last) = ends(&fleet, &run.out);
    let size = u64_at(&hosts[0], "/bytes");
    assert_eq!(through_others(&hosts), (0..HOSTS).collect::<Vec<_>>(), "{run}");
    hosts.iter().for_each(|host| {
        assert_eq!((&host["result"], u64_at(host, "/bytes")), (&"done".into(), size), "{host}");
    });
    assert_eq!((u64_at(&last, "/read_bytes"), u64_at(&last, "/done")), (size, HOSTS as u64), "{last}");
    assert_all_there(&fleet, "to");
}

#[test]
fn the_output_says_who_hands_on_to_whom() {
    let Some(fleet) = fleet(3) else { return };
    make_mixed(&fleet.case.near.join("tree"));
    let run = fleet.cp(args!["-v", "--fan-out=tree", "--no-encrypt", "--compress=3", "-r", "tree"]).exits(0);
    let run = run.says(&[
        "h0: data connection: from here to ",
        "h1: data connection: from h0",
        "h2: data connection: from h0",
    ]);
    assert_eq!(run.err.matches("through the tree; done").count(), 3, "{run}");
    assert_all_there(&fleet, "to");
}

#[test]
fn timed_an_inner_host_that_is_killed_takes_only_its_branch_with_it() {
    let Some(fleet) = seven() else { return };
    let running = fleet.start("cp", line("tree"));
    fleet.wait_for_files(&running, 1, "to", 12);
    fleet.signal(1, Signal::KILL);
    let run = running.end().exits(0);
    let (hosts, last) = ends(&fleet, &run.out);
    assert!(hosts.iter().all(|host| host["result"] == "done"), "{run}");
    assert_eq!(through_others(&hosts), [0, 2, 5, 6], "{run}");
    // The three others got the rest from here, by what their journals have.
    let (size, read) = (u64_at(&hosts[0], "/bytes"), u64_at(&last, "/read_bytes"));
    assert!(read > size && 2 * read < 7 * size, "{read} bytes were read of {size}: {run}");
    assert_all_there(&fleet, "to");
}

/// Stops these hosts until all others have all data; returns the hosts' events.
#[track_caller]
fn stopped(fleet: &Fleet, stopped: &[usize]) -> (Vec<Value>, Run) {
    let running = fleet.start("cp", line("tree"));
    stopped.iter().for_each(|number| fleet.wait_for_files(&running, *number, "to", 2));
    stopped.iter().for_each(|number| fleet.signal(*number, Signal::STOP));
    let others: Vec<_> = (0..HOSTS).filter(|number| !stopped.contains(number)).collect();
    let has_all =
        |number: &usize| fs::read_dir(fleet.at(*number).join("to")).is_ok_and(|all| all.count() == FILES);
    assert!(within(Duration::from_secs(40), || others.iter().all(has_all)), "{}", running.said());
    stopped.iter().for_each(|number| fleet.signal(*number, Signal::CONT));
    let run = running.end();
    let (hosts, last) = ends(fleet, &run.out);
    assert!(others.iter().all(|number| hosts[*number]["result"] == "done"), "{run}");
    assert!(u64_at(&last, "/peak_rss_bytes") <= 250_000_000, "{last}");
    let tree = fleet.case.near.join("tree");
    others.iter().for_each(|number| assert_alike(&tree, &fleet.at(*number).join("to")));
    (hosts, run)
}

#[test]
fn timed_an_inner_host_that_stands_still_is_given_up_with_its_branch_alone() {
    let Some(fleet) = seven() else { return };
    let (hosts, run) = stopped(&fleet, &[1]);
    assert_eq!(through_others(&hosts), [0, 2, 5, 6], "{run}");
    assert!(run.out.contains("sends no more data to h1"), "{run}");
}

#[test]
fn timed_two_hosts_that_stand_still_are_given_up_together_and_the_one_before_them_is_not() {
    let Some(fleet) = seven() else { return };
    let (hosts, run) = stopped(&fleet, &[3, 4]);
    assert_eq!(through_others(&hosts), [0, 1, 2, 5, 6], "{run}");
    assert!(
        ["h3", "h4"].iter().all(|name| run.out.contains(&format!("sends no more data to {name}"))),
        "{run}"
    );
}

#[test]
fn timed_one_of_two_hosts_that_is_very_slow_is_given_up_and_not_the_other() {
    let Some(fleet) = fleet_with_link(4, "400mbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..30).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 10 << 20)));
    let running = fleet.start("cp", line("tree"));
    fleet.wait_for_files(&running, 2, "to", 2);
    let others = [0, 1, 3].map(|number| fleet.at(number).join("to"));
    let are_there =
        fleet.slows_down(2, || others.iter().all(|to| fs::read_dir(to).is_ok_and(|all| all.count() == 30)));
    assert!(are_there, "the others wait: {}", running.said());
    let run = running.end().exits(0);
    let (hosts, _) = ends(&fleet, &run.out);
    assert_eq!(through_others(&hosts), [0, 1, 3], "{run}");
    assert!(run.out.contains("sends no more data to h2: it receives"), "{run}");
    assert_all_there(&fleet, "to");
}

#[test]
fn a_host_that_reaches_no_other_leaves_its_branch_to_this_one() {
    let Some(fleet) = fleet(4) else { return };
    make_mixed(&fleet.case.near.join("tree"));
    // Its login may only copy to its directory.
    fleet.restrict(1);
    let mut words = args!["-v", "--fan-out=tree", "-r", "tree"];
    for number in 0..fleet.hosts {
        let place = if number == 1 { "h1:to".into() } else { fleet.place(number, "to") };
        words.extend(args!["--to", place]);
    }
    let run = fleet.start_only("cp", words).end().exits(0);
    let run = run.says(&[
        "h1: h1 can't connect to h3: this login may connect only to",
        "h3: h1 can't connect to this host",
    ]);
    assert_eq!(run.err.matches("through the tree; done").count(), 3, "{run}");
    assert_all_there(&fleet, "to");
}

#[test]
fn an_interrupted_tree_goes_on_from_what_each_host_has() {
    let Some(fleet) = fleet_with_own_link(4, "200mbit") else { return };
    let tree = fleet.case.near.join("tree");
    let line = || [line("tree"), fleet.to("to/")].concat();
    goes_on_after_an_interruption(&fleet, &line, 12);
    assert_all_there(&fleet, "to/tree");
    // Once more, onto complete copies.
    write(tree.join("more"), noise(3, 100_000));
    let run = fleet.start_only("cp", line()).end().exits(0);
    let (hosts, _) = ends_of(&fleet, "to/", &run.out);
    assert_eq!(through_others(&hosts), [0, 1, 2, 3], "{run}");
    assert_all_there(&fleet, "to/tree");
}
