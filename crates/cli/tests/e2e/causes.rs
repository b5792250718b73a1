//! Tests that create causes of low rates on purpose: `linerate doctor` must name them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_lab::End;
use linerate_testing::{has, skip};
use serde_json::Value;

use crate::bed::{Case, args, case_with_link};
use crate::support::Run;

/// The longest time until the doctor names a path MTU black hole.
const DEADLINE: Duration = Duration::from_secs(10);

/// The doctor's findings at the near end.
fn found(case: &Case, words: &[&str]) -> Vec<Value> {
    let mut all = args![case.bed.program(), "doctor", "--json", "-F", case.bed.lab.ssh_config()];
    all.extend(words.iter().map(Into::into));
    let run = case.start_with(all, Vec::new()).end().exits(0);
    reported(&run)
}

fn reported(run: &Run) -> Vec<Value> {
    let report: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"));
    report["findings"].as_array().unwrap_or_else(|| panic!("{run}")).clone()
}

fn finding<'a>(all: &'a [Value], check: &str) -> &'a Value {
    all.iter().find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("no {check} in {all:#?}"))
}

/// The name of the network port of an end.
fn port(case: &Case, end: End) -> String {
    let all = case.bed.on(end, &["ip", "-br", "link"]);
    let line = all.lines().find(|line| !line.starts_with("lo ")).expect("a lab's host has a port");
    line.split(['@', ' ']).next().expect("a name").to_owned()
}

#[test]
fn timed_a_shaper_on_the_port_is_named_and_so_is_the_container() {
    let Some(case) = case_with_link("1gbit") else { return };
    let all = found(&case, &["--path", "local", "b", "--target", "10gbit"]);
    let limit = finding(&all, "rate-limit");
    assert!(limit["title"].as_str().unwrap().contains("tbf"), "{limit}");
    assert_eq!(limit["severity"], "critical");
    // The port's other end is in another namespace.
    assert!(finding(&all, "container")["evidence"][0].as_str().unwrap().contains("veth"), "{all:#?}");
    let rate = finding(&all, "path-rate");
    assert!(rate["fix"].as_str().unwrap().contains("rate-limit"), "{rate}");
    let near = port(&case, End::A);
    case.bed.on(End::A, &["tc", "qdisc", "del", "dev", &near, "root"]);
    assert!(found(&case, &["--target", "10gbit"]).iter().all(|other| other["check"] != "rate-limit"));
}

#[test]
fn timed_a_smaller_mtu_at_the_other_end_is_named() {
    let Some(case) = case_with_link("1gbit") else { return };
    let far = port(&case, End::B);
    case.bed.on(End::B, &["ip", "link", "set", &far, "mtu", "1400"]);
    let all = found(&case, &["--path", "local", "b", "--target", "1gbit"]);
    assert!(finding(&all, "path-mtu")["title"].as_str().unwrap().contains("1400"), "{all:#?}");
}

/// Drops packets of more than 1400 bytes before `end`, while that end's kernel announces that it accepts full
/// packets.
fn black_hole(case: &Case, end: End) {
    for each in [End::A, End::B] {
        case.bed.on(each, &["ethtool", "-K", &port(case, each), "tso", "off", "gso", "off"]);
    }
    let own = port(case, end);
    let routes = case.bed.on(end, &["ip", "-4", "route", "show", "dev", &own]);
    let route: Vec<&str> = routes.lines().next().expect("a route").split_whitespace().collect();
    case.bed.on(end, &["ip", "link", "set", &own, "mtu", "1400"]);
    let mut replace = vec!["ip", "route", "replace", route[0], "dev", &own, "advmss", "1460"];
    let source = route.iter().position(|word| *word == "src").and_then(|at| route.get(at + 1));
    replace.extend(source.map(|address| ["src", *address]).into_iter().flatten());
    case.bed.on(end, &replace);
}

#[test]
fn timed_a_black_hole_is_named_in_time_in_either_direction() {
    if !has("ethtool") {
        return;
    }
    for end in [End::B, End::A] {
        let Some(case) = case_with_link("1gbit") else { return };
        black_hole(&case, end);
        let begun = Instant::now();
        let all = found(&case, &["--path", "local", "b", "--target", "1gbit"]);
        assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
        assert_eq!(finding(&all, "mtu-black-hole")["severity"], "critical");
        assert_eq!(all[0]["check"], "mtu-black-hole", "the costliest is first");
    }
}

/// Neither TCP nor ssh gives up then, and no segment counts as sent again.
#[test]
fn timed_full_packets_that_this_hosts_own_firewall_drops_are_named_in_time() {
    if !has("ethtool") || !has("nft") {
        return;
    }
    let Some(case) = case_with_link("1gbit") else { return };
    case.bed.on(End::A, &["ethtool", "-K", &port(&case, End::A), "tso", "off", "gso", "off"]);
    let rule = "add table ip t; add chain ip t o { type filter hook output priority 0; }; add rule ip t o ip length gt 1400 drop";
    case.bed.on(End::A, &["nft", rule]);
    let begun = Instant::now();
    let all = found(&case, &["--path", "local", "b", "--target", "1gbit"]);
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    assert_eq!(finding(&all, "mtu-black-hole")["severity"], "critical");
}

#[test]
fn timed_an_overlay_is_named_with_its_mtu() {
    let Some(case) = case_with_link("1gbit") else { return };
    let below = port(&case, End::A);
    let vxlan = ["ip", "link", "add", "vxlan7", "type", "vxlan", "id", "7", "dev", &below, "dstport", "4789"];
    case.bed.on(End::A, &vxlan);
    case.bed.on(End::A, &["ip", "link", "set", "vxlan7", "up"]);
    let all = found(&case, &[]);
    let overlay = finding(&all, "overlay");
    assert_eq!((&overlay["place"], &overlay["severity"]), (&"vxlan7".into(), &"note".into()));
    assert!(overlay["evidence"][0].as_str().unwrap().contains("MTU 1450"), "{overlay}");
}

/// Packets above a rate are dropped by a rule at the far end.
#[test]
fn timed_a_policer_is_named_by_what_it_drops_and_by_its_rule() {
    let Some(case) = case_with_link("1gbit") else { return };
    if !has("nft") {
        return;
    }
    let rules = "add table inet t; add chain inet t c { type filter hook input priority 0; }; \
                 add rule inet t c limit rate over 12500000 bytes/second drop";
    case.bed.on(End::B, &["nft", rules]);
    let all = found(&case, &["--path", "local", "b", "--target", "1gbit"]);
    let loss = finding(&all, "path-loss");
    assert!(loss["title"].as_str().unwrap().contains("policer"), "{loss}");
    let rule = finding(&all, "rate-limit");
    assert_eq!((&rule["host"], rule["ceiling"].as_f64()), (&"b".into(), Some(1e8)), "{rule}");
}

/// The name of a file of a control group, and the text that is written to it.
type FileLine = (&'static str, &'static str);

/// A control group with limits, which is removed on drop.
struct Limits(PathBuf);

impl Limits {
    fn set(controller: &str, files: &[FileLine]) -> Option<Self> {
        let dir = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(format!("linerate-test-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let limits = Self(dir);
        files.iter().all(|(file, value)| fs::write(limits.0.join(file), value).is_ok()).then_some(limits)
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        // Its only process has ended.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn timed_limits_of_a_control_group_are_named() {
    let Some(case) = case_with_link("1gbit") else { return };
    const MADE: [(&str, &str, [FileLine; 2]); 3] = [
        ("cpu-quota", "cpu", [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")]),
        ("cpuset", "cpuset", [("cpuset.cpus", "0"), ("cpuset.mems", "0")]),
        ("memory-limit", "memory", [("memory.swappiness", "10"), ("memory.limit_in_bytes", "200000000")]),
    ];
    for (check, controller, files) in MADE {
        let Some(limits) = Limits::set(controller, &files) else {
            return skip("cgroups", "no control groups of version 1 can be made here");
        };
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", limits.0.display());
        let line =
            args!["sh", "-c", enter, "sh", case.bed.program(), "doctor", "--json", "--target", "10gbit"];
        let run = case.start_with(line, Vec::new()).end().exits(0);
        finding(&reported(&run), check);
    }
}
