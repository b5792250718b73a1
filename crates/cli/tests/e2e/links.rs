//! Tests of several links between two hosts, without a bond.

use std::time::{Duration, Instant};

use linerate_lab::End;

use crate::bed::{Case, args, case, case_with_links, case_with_own_links};
use crate::killed::Way;
use crate::tree::{assert_alike, noise, write};

/// An Ethernet address that no host has.
const NOBODYS_ADDRESS: &str = "02:00:00:00:00:01";
/// The greatest number of bytes for a login, a greeting and answers.
const TALK: u64 = 2_000_000;

/// Copies the program to the far end of the case's lab.
fn brought(case: Case) -> Case {
    case.bring_program();
    case
}

/// The bytes that each of host a's interfaces to host b has carried, in both directions.
fn carried(case: &Case) -> Vec<u64> {
    let table = case.bed.on(End::A, &["cat", "/proc/net/dev"]);
    let counts = |interface: &str| {
        let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
        let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        Some(fields.first()? + fields.get(8)?)
    };
    names(case).iter().map(|interface| counts(interface).expect("the lab has made it")).collect()
}

fn names(case: &Case) -> Vec<String> {
    case.bed.lab.host(End::A).ports().into_iter().map(|port| port.interface).collect()
}

/// Copies 40 MB with these options; returns the bytes that each link carried, and the messages.
fn copy(case: &Case, way: Way, options: &[&str]) -> (Vec<u64>, String) {
    let to = format!("to{}", options.join(""));
    let (source, destination) = match way {
        Way::Push => (case.near.join("tree"), case.far.join(&to)),
        Way::Pull => (case.far.join("tree"), case.near.join(&to)),
    };
    (0..10).for_each(|number| write(source.join(format!("{number}")), noise(number, 4 << 20)));
    let mut list = args!["-r", "-v", "--no-pacing"];
    list.extend(options.iter().map(Into::into));
    list.extend(match way {
        Way::Push => args!["tree", case.b(&to)],
        Way::Pull => args![case.b("tree"), &to],
    });
    let before = carried(case);
    let run = case.cp(list).exits(0);
    assert_alike(&source, &destination);
    let after = carried(case);
    (after.iter().zip(before).map(|(after, before)| after - before).collect(), run.err.clone())
}

#[test]
fn timed_all_links_carry_and_are_as_fast_as_one_with_all_their_rates() {
    let Some(case) = case_with_links("100mbit", 4).map(brought) else { return };
    for way in [Way::Push, Way::Pull] {
        let begun = Instant::now();
        let (carried, said) = copy(&case, way, &["--interfaces=all"]);
        // On one of them 3.5 s.
        assert!(begun.elapsed() < Duration::from_millis(2500), "{way:?}: {:?}: {said}", begun.elapsed());
        assert!(carried.iter().all(|bytes| *bytes > 4_000_000), "{way:?}: {carried:?}: {said}");
        assert!(names(&case).iter().all(|name| said.contains(&format!("over {name}"))), "{said}");
    }
    let (carried, _) = copy(&case, Way::Push, &[]);
    assert!(carried[1..].iter().all(|bytes| *bytes < TALK), "without the option there is one: {carried:?}");
}

#[test]
fn data_takes_another_link_than_the_login() {
    let Some(case) = case_with_own_links("open", 3).map(brought) else { return };
    let name = &names(&case)[2];
    for way in [Way::Push, Way::Pull] {
        for more in ["--streams=auto", "--streams=4", "--no-encrypt"] {
            let (carried, said) = copy(&case, way, &[&format!("--interfaces={name}"), more]);
            assert!(carried[2] > 40_000_000, "{way:?} {more}: {carried:?}: {said}");
            assert!(carried[..2].iter().all(|bytes| *bytes < TALK), "{way:?} {more}: {carried:?}: {said}");
        }
    }
}

#[test]
fn a_link_over_which_nobody_answers_is_named_and_the_others_carry() {
    let Some(case) = case_with_own_links("open", 3).map(brought) else { return };
    let ports = [End::A, End::B].map(|end| case.bed.lab.host(end).ports());
    let (dead, there) = (&ports[0][1].interface, ports[1][1].address.to_string());
    let words =
        ["ip", "neigh", "replace", &there, "dev", dead, "lladdr", NOBODYS_ADDRESS, "nud", "permanent"];
    case.bed.on(End::A, &words);
    for way in [Way::Push, Way::Pull] {
        // It takes longer than an address has to answer.
        let (carried, said) = copy(&case, way, &["--interfaces=all", "--streams=6", "--bwlimit=8m"]);
        assert!(carried[1] < TALK && carried[0] > TALK && carried[2] > TALK, "{way:?}: {carried:?}: {said}");
        assert_eq!(said.matches("warning: no data goes over").count(), 1, "{way:?}: {said}");
        assert!(said.contains(&format!("no data goes over {dead}: {there}")), "{way:?}: {said}");
    }
    let (_, said) = copy(&case, Way::Push, &[&format!("--interfaces={dead}")]);
    assert!(said.contains("the data takes the kernel's route to the far end"), "{said}");
}

#[test]
fn what_names_no_link_is_refused() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), "x");
    let refused = |options: &[&str], to: &str, says: &str| {
        let mut list = args!["--interfaces"];
        list.extend(options.iter().map(Into::into));
        list.extend(args!["file", to]);
        case.cp(list).exits(2).says(&[says]);
    };
    let far = case.b("there");
    let far = far.to_str().unwrap();
    refused(&["none0"], far, "'none0' isn't an interface of this host; write some of ");
    refused(&["all", "--no-encrypt"], far, "name them");
    refused(&["all"], "copy", "no data leaves this host");
}
