//! Tests of one tree that is copied to several hosts in a chain, in which each host forwards the data to the
//! next.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::ground::{Fleet, fleet, fleet_with_link, fleet_with_own_link};
use super::{ends, goes_on_after_an_interruption};
use crate::bed::args;
use crate::json::{events, u64_at};
use crate::mounts::Mounted;
use crate::support::{Run, within};
use crate::tree::{assert_alike, make_mixed, names, noise, temporaries, write};

#[track_caller]
fn chained(fleet: &Fleet, words: &[&str]) -> Run {
    let mut line = args!["--json", "--fan-out=chain", "-r", "tree"];
    line.extend(words.iter().map(Into::into));
    fleet.cp(line)
}

/// Whether all hosts that got data got it through the chain.
fn is_chained(run: &Run) -> bool {
    !run.err.contains("sends the missing data directly")
        && !run.out.contains("sends the missing data directly")
}

#[test]
fn a_tree_goes_through_four_hosts_and_leaves_this_one_once() {
    let Some(fleet) = fleet(4) else { return };
    let tree = fleet.case.near.join("tree");
    make_mixed(&tree);
    write(tree.join("huge"), noise(7, 40 << 20));
    let run = chained(&fleet, &["--verify"]).exits(0);
    assert!(is_chained(&run), "{run}");
    let (hosts, last) = ends(&fleet, &run.out);
    let size = u64_at(&hosts[0], "/bytes");
    for (number, host) in hosts.iter().enumerate() {
        assert_alike(&tree, &fleet.at(number).join("to"));
        assert_eq!((&host["result"], u64_at(host, "/exit")), (&"done".into(), 0), "{host}");
        assert!(host["chained"] == true && host["reached"] == true, "{host}");
        assert!(host["summary"]["encrypted"] == true, "{host}");
        assert_eq!((u64_at(host, "/bytes"), u64_at(host, "/summary/bytes")), (size, size));
        assert_eq!(temporaries(&fleet.at(number)).len(), 0);
    }
    assert_eq!((u64_at(&last, "/read_bytes"), u64_at(&last, "/done")), (size, 4), "{last}");
}

#[test]
fn two_hosts_can_be_a_chain_and_one_that_is_not_there_is_none_of_it() {
    let Some(fleet) = fleet(2) else { return };
    let tree = fleet.case.near.join("tree");
    make_mixed(&tree);
    let run = chained(&fleet, &["--no-encrypt", "--compress=3", "--to", "nowhere:x"]).exits(5);
    assert!(is_chained(&run), "{run}");
    let (hosts, _) = ends(&fleet, &run.out);
    assert!(hosts.iter().all(|host| host["summary"]["encrypted"] == false), "{run}");
    (0..2).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to")));
    // Again, onto what is there.
    write(tree.join("more"), noise(3, 100_000));
    let line = [args!["-r", "--fan-out=chain", "-v", "tree"], fleet.to("to/")].concat();
    let run = fleet.start_only("cp", line).end().exits(0);
    assert!(is_chained(&run), "{run}");
    run.says(&["data connection: from here to ", "data connection: from h0"]);
    (0..2).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to/tree")));
}

/// The event about the destination whose name begins with `destination`.
#[track_caller]
fn end_of(run: &Run, destination: &str) -> Value {
    let is_it =
        |event: &Value| event["destination"].as_str().is_some_and(|name| name.starts_with(destination));
    let mut found =
        events(&run.out).into_iter().filter(|event| event["type"] == "destination" && is_it(event));
    found.next().unwrap_or_else(|| panic!("no event of {destination}: {run}"))
}

#[test]
fn a_host_that_never_came_into_a_chain_is_not_shown_as_one_of_it() {
    let Some(fleet) = fleet(3) else { return };
    let tree = fleet.case.near.join("tree");
    make_mixed(&tree);
    let to = |path: &str| {
        let refused = format!("h2:/proc/none/{path}");
        args![
            "--to",
            fleet.place(0, path),
            "--to",
            fleet.place(1, path),
            "--to",
            refused,
            "--to",
            "nowhere:x"
        ]
    };
    let line = |shape, path| [args!["-r", "tree", format!("--fan-out={shape}")], to(path)].concat();
    for shape in ["chain", "tree"] {
        let log = fleet.case.near.join(format!("{shape}.log"));
        let logged = [args!["--log-file", &log], line(shape, shape)].concat();
        let run = fleet.start_only("cp", logged).end().exits(2).says(&[
            &format!(
                "h2       not in the {shape}; failed (exit code 2): the destination /proc/none/{shape} can't"
            ),
            "nowhere  not reached; failed (exit code 5): no agent could be started at the far end",
        ]);
        assert_eq!(run.err.matches(&format!("through the {shape}; done")).count(), 2, "{run}");
        let log = std::fs::read_to_string(log).unwrap();
        for wanted in [
            &format!("destination: \"h2\" exit_code=2: not in the {shape}: the destination /proc/none/"),
            "destination: \"nowhere\" exit_code=5: not reached: no agent could be started",
        ] {
            assert!(log.contains(wanted), "{wanted}: {log}");
        }
    }
    let run = fleet.start_only("cp", [args!["--json"], line("chain", "json")].concat()).end().exits(2);
    for (name, reached, chained) in [("h0", true, true), ("h2", true, false), ("nowhere", false, false)] {
        let end = end_of(&run, &format!("{name}:"));
        assert_eq!((&end["reached"], &end["chained"]), (&reached.into(), &chained.into()), "{end}");
        assert_eq!(end["message"].is_null(), chained, "{end}");
    }
}

#[test]
fn a_host_that_is_lost_for_good_has_what_came_through_the_chain() {
    let Some(fleet) = fleet_with_own_link(3, "400mbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..24).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 5 << 20)));
    let running = fleet.start("cp", args!["--json", "--compress=off", "--fan-out=chain", "-r", "tree"]);
    fleet.wait_for_files(&running, 2, "to", 12);
    fleet.lose(2);
    fleet.signal(2, Signal::KILL);
    let run = running.end().exits(5);
    let (hosts, _) = ends(&fleet, &run.out);
    let lost = &hosts[2];
    assert_eq!(
        (&lost["result"], &lost["reached"], &lost["chained"]),
        (&"failed".into(), &true.into(), &false.into())
    );
    assert!(u64_at(lost, "/files") > 0, "{run}");
}

#[test]
fn a_source_that_is_missing_or_can_not_be_read_fails_at_each_host_of_a_chain() {
    let Some(fleet) = fleet(3) else { return };
    write(fleet.case.near.join("tree/file"), "x");
    let run = chained(&fleet, &["missing"]).exits(3);
    let (hosts, _) = ends(&fleet, &run.out);
    assert!(hosts.iter().all(|host| host["exit"] == 3 && host["failed"] == 1), "{run}");
    (0..3).for_each(|number| assert_eq!(names(&fleet.at(number).join("to")), ["file"]));
}

#[test]
fn timed_what_breaks_in_a_chain_comes_from_the_source() {
    let Some(fleet) = fleet_with_link(4, "400mbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..24).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 5 << 20)));
    let line = args!["--json", "--compress=off", "--fan-out=chain", "-r", "tree"];
    let running = fleet.start("cp", line);
    fleet.wait_for_files(&running, 1, "to", 12);
    fleet.signal(1, Signal::KILL);
    let run = running.end().exits(0);
    let (hosts, last) = ends(&fleet, &run.out);
    assert!(hosts.iter().all(|host| host["result"] == "done"), "{run}");
    assert!(run.out.contains("sends the missing data directly"), "{run}");
    assert!(!run.out.contains("run the same command again"), "this one goes on: {run}");
    // Three got the rest from here, by what their journals have, and it was read for all of them together.
    let size = u64_at(&hosts[0], "/bytes");
    let read = u64_at(&last, "/read_bytes");
    assert!(10 * read < 23 * size, "{read} bytes were read of {size}: {run}");
    for number in 0..4 {
        assert_alike(&tree, &fleet.at(number).join("to"));
        assert_eq!(temporaries(&fleet.at(number)).len(), 0);
    }
}

#[test]
fn timed_a_host_of_a_chain_that_stands_still_is_given_up_and_the_others_have_everything() {
    let Some(fleet) = fleet_with_link(4, "400mbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..24).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 5 << 20)));
    let line = args!["--json", "--compress=off", "--fan-out=chain", "-r", "tree"];
    let running = fleet.start("cp", line);
    fleet.wait_for_files(&running, 2, "to", 2);
    fleet.signal(2, Signal::STOP);
    let others = [0, 1, 3].map(|number| fleet.at(number).join("to"));
    let are_there = || others.iter().all(|to| to.exists() && names(to).len() == 24);
    assert!(within(Duration::from_secs(40), are_there), "the others wait: {}", running.said());
    fleet.signal(2, Signal::CONT);
    let run = running.end();
    let (hosts, last) = ends(&fleet, &run.out);
    assert!([0, 1, 3].iter().all(|number| hosts[*number]["result"] == "done"), "{run}");
    assert!(u64_at(&last, "/peak_rss_bytes") <= 250_000_000, "{last}");
    [0, 1, 3].iter().for_each(|number| assert_alike(&tree, &fleet.at(*number).join("to")));
}

#[test]
fn a_full_disk_in_a_chain_fails_alone() {
    let Some(fleet) = fleet(3) else { return };
    let Some(_small) = Mounted::memory(&fleet.at(1), "8m") else { return };
    let tree = fleet.case.near.join("tree");
    (0..20).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 1 << 20)));
    let run = chained(&fleet, &[]).exits(1);
    let (hosts, last) = ends(&fleet, &run.out);
    assert!(hosts[1]["message"].as_str().unwrap().contains("No space left"), "{run}");
    assert_eq!((u64_at(&last, "/done"), u64_at(&last, "/exit")), (2, 1), "{run}");
    [0, 2].iter().for_each(|number| assert_alike(&tree, &fleet.at(*number).join("to")));
}

#[test]
fn an_interrupted_chain_goes_on_from_what_each_host_has() {
    let Some(fleet) = fleet_with_own_link(3, "200mbit") else { return };
    let line =
        || [args!["--json", "--compress=off", "--fan-out=chain", "-r", "tree"], fleet.to("to/")].concat();
    goes_on_after_an_interruption(&fleet, &line, 12);
}

#[test]
fn a_chain_is_for_copies() {
    let Some(fleet) = fleet(2) else { return };
    write(fleet.case.near.join("tree/file"), "x");
    let refused = fleet.start("sync", args!["--fan-out=chain", "tree"]).end().exits(2);
    refused.says(&["--fan-out=chain is only for cp"]);
    fleet
        .start("sync", args!["--fan-out=tree", "tree"])
        .end()
        .exits(2)
        .says(&["--fan-out=tree is only for cp"]);
    fleet.start("sync", args!["--fan-out=auto", "tree"]).end().exits(0);
    let unknown = fleet.start("cp", args!["--fan-out=ring", "-r", "tree"]).end().exits(2);
    unknown.says(&["chain", "star", "tree"]);
}

#[test]
fn timed_a_host_of_a_chain_that_is_very_slow_is_given_up() {
    let Some(fleet) = fleet_with_link(3, "400mbit") else { return };
    let tree = fleet.case.near.join("tree");
    (0..30).for_each(|number| write(tree.join(format!("file {number}")), noise(number, 10 << 20)));
    let line = args!["--json", "--compress=off", "--fan-out=chain", "-r", "tree"];
    let running = fleet.start("cp", line);
    fleet.wait_for_files(&running, 1, "to", 2);
    let first = fleet.at(0).join("to");
    let is_there = fleet.slows_down(1, || names(&first).len() == 30);
    assert!(is_there, "the first one waits: {}", running.said());
    let run = running.end().exits(0);
    let notes: Vec<_> = run.out.lines().filter(|line| line.contains(r#""type":"note""#)).collect();
    assert!(notes.iter().any(|note| note.contains("less than a quarter of")), "{notes:?}: {run}");
    (0..3).for_each(|number| assert_alike(&tree, &fleet.at(number).join("to")));
}
