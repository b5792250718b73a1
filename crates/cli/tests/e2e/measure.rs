//! What `linerate measure` tells agrees with what sar, mpstat, ip and ethtool tell of the same time.

use linerate_host::sample::{Cost, Interrupts};
use linerate_lab::End;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

use crate::bed::{Case, args, case_with_link};

/// sar and mpstat watch for so many seconds; the traffic is over before.
const WATCHED: f64 = 6.0;

/// What the link's interface at the near end carried.
#[derive(Debug)]
struct Link {
    bytes_in: f64,
    bytes_out: f64,
    packets_in: f64,
    packets_out: f64,
}

#[test]
fn other_tools_agree_within_one_percent() {
    let Some(case) = case_with_link("500mbit") else { return };
    if !are_installed(&["sar", "mpstat", "ethtool", "ip"]) {
        return;
    }
    // With it a veth counts packets by queue.
    for (end, interface) in [(End::A, "to-b"), (End::B, "to-a")] {
        case.bed.on(end, &["ethtool", "-K", interface, "gro", "on"]);
    }
    let (link, queues) = (ip_link(&case), ethtool(&case));
    let told = measured(&case);
    let (link_after, queues_after) = (ip_link(&case), ethtool(&case));

    let cost = |host: usize| -> Cost { serde_json::from_value(told["hosts"][host]["cost"].clone()).unwrap() };
    let (near, far) = (cost(0), cost(1));
    let port = near.ports.iter().find(|port| port.name == "to-b").expect("the link's interface");
    assert!(port.sent.bytes > 100_000_000, "{port:?}");
    // Nothing else goes over the link: before and after enclose the command.
    agree("ip -s: bytes in", port.received.bytes as f64, link_after.bytes_in - link.bytes_in);
    agree("ip -s: bytes out", port.sent.bytes as f64, link_after.bytes_out - link.bytes_out);
    agree("ip -s: packets in", port.received.packets as f64, link_after.packets_in - link.packets_in);
    agree("ip -s: packets out", port.sent.packets as f64, link_after.packets_out - link.packets_out);

    let sar = fs::read_to_string(case.near.join("sar")).unwrap();
    agree("sar -n DEV: bytes out", port.sent.bytes as f64, sar_column(&sar, "txkB/s") * 1024.0 * WATCHED);
    agree("sar -n DEV: packets in", port.received.packets as f64, sar_column(&sar, "rxpck/s") * WATCHED);

    queues_agree(&told, &queues, &queues_after);
    processors_agree(&near, &fs::read_to_string(case.near.join("mpstat")).unwrap());

    let there = far.ports.iter().find(|port| port.name == "to-a").expect("the link's other interface");
    agree("the far host: bytes in", there.received.bytes as f64, port.sent.bytes as f64);
    softirqs_are_told(&told);
    assert!(told["hosts"][0]["flows"][0]["bytes_sent"].as_u64().unwrap() > 0, "TCP_INFO of the flows");
}

/// Measures both hosts while one sends 100 MB to the other and the other tools watch.
fn measured(case: &Case) -> Value {
    let (program, config) = (case.bed.program(), case.bed.lab.ssh_config());
    let script = format!(
        "LC_ALL=C sar -n DEV {WATCHED} 1 >sar & LC_ALL=C mpstat {WATCHED} 1 >mpstat & sleep 0.3; \
         {} stream -F {} --bytes 100MB b >&2; wait",
        program.display(),
        config.display()
    );
    let words = args![program, "measure", "-F", config, "--host", "b", "--export", "json", "--"];
    let run = case.start_with(words, args!["sh", "-c", script]).end().exits(0);
    serde_json::from_str(&run.out).unwrap()
}

fn are_installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = || std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let missing = programs.iter().find(|program| !places().any(|place| place.join(program).exists()));
    missing.inspect(|program| eprintln!("skipped: {program} isn't installed")).is_none()
}

#[track_caller]
fn agree(what: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 0.01 * theirs.abs(), "{what}: ours {ours}, theirs {theirs}");
}

fn ip_link(case: &Case) -> Link {
    let text = case.bed.on(End::A, &["ip", "-s", "-j", "link", "show", "dev", "to-b"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    let counter = |way: &str, what: &str| told[0]["stats64"][way][what].as_f64().expect(what);
    Link {
        bytes_in: counter("rx", "bytes"),
        bytes_out: counter("tx", "bytes"),
        packets_in: counter("rx", "packets"),
        packets_out: counter("tx", "packets"),
    }
}

fn ethtool(case: &Case) -> BTreeMap<String, f64> {
    let text = case.bed.on(End::A, &["ethtool", "-S", "to-b"]);
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The series of each statistic that moved; what it grew by is the sum over its steps.
fn queues_agree(told: &Value, before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) {
    let all = told["hosts"][0]["series"].as_array().unwrap();
    let mut moved = 0;
    for (name, value) in after {
        let theirs = value - before[name];
        if theirs == 0.0 {
            continue;
        }
        moved += 1;
        let full = format!("to-b {name}");
        let series = all.iter().find(|series| series["kind"] == "queues" && series["name"] == full.as_str());
        let series = series.unwrap_or_else(|| panic!("{full} has moved by {theirs}"));
        agree(&format!("ethtool -S: {name}"), grown(&series["points"], told), theirs);
    }
    assert!(moved > 0, "no queue has counted anything: {after:?}");
}

/// A rate's points stand at the ends of their steps, of which the first began with the recording.
fn grown(points: &Value, told: &Value) -> f64 {
    let begun = told["hosts"][0]["series"].as_array().unwrap().iter();
    let mut last = begun
        .filter(|series| series["kind"] == "memory")
        .map(|s| s["points"][0][0].as_f64().unwrap())
        .next()
        .unwrap();
    let mut sum = 0.0;
    for point in points.as_array().unwrap() {
        let (seconds, rate) = (point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
        sum += rate * (seconds - last);
        last = seconds;
    }
    sum
}

fn sar_column(text: &str, column: &str) -> f64 {
    let averages: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("Average:"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let place = averages[0].iter().position(|word| *word == column).expect("a column of sar's");
    let row = averages.iter().find(|row| row[1] == "to-b").expect("the interface");
    row[place].parse().unwrap()
}

/// mpstat watched inside our time: what it saw we saw too, and what we saw beyond is at most the time around it.
fn processors_agree(cost: &Cost, mpstat: &str) {
    let cpu = cost.cpu.unwrap();
    let rows: Vec<Vec<&str>> = mpstat.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = rows.iter().find(|row| row.contains(&"%usr")).expect("mpstat's heading");
    let average =
        rows.iter().find(|row| row.first() == Some(&"Average:") && row[1] == "all").expect("its average");
    // The heading begins with the time of day, the average with one word.
    let shift = head.len() - average.len();
    let seconds = |column: &str| {
        let place = head.iter().position(|word| *word == column).expect("a column of mpstat's");
        average[place - shift].parse::<f64>().unwrap() / 100.0 * WATCHED * f64::from(cpu.processors)
    };
    let theirs = WATCHED * f64::from(cpu.processors);
    let (around, percent) = ((cpu.total() - theirs).max(0.0), 0.01 * theirs);
    for (column, ours) in [
        ("%usr", cpu.user),
        ("%nice", cpu.nice),
        ("%sys", cpu.system),
        ("%irq", cpu.irq),
        ("%soft", cpu.softirq),
        ("%steal", cpu.steal),
        ("%iowait", cpu.iowait),
        ("%idle", cpu.idle),
    ] {
        let theirs = seconds(column);
        let range = theirs - percent..=theirs + around + percent;
        assert!(range.contains(&ours), "mpstat {column}: ours {ours}, theirs {theirs}, around it {around}");
    }
}

fn softirqs_are_told(told: &Value) {
    let rows: Vec<Interrupts> = serde_json::from_value(told["hosts"][0]["softirqs"].clone()).unwrap();
    let received = rows.iter().find(|row| row.source == "NET_RX").expect("packets came in");
    assert!(received.per_processor.iter().sum::<u64>() > 100, "{received:?}");
}
