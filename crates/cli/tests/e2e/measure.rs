//! Tests that the results of `linerate measure` agree with those of sar, mpstat, ip and ethtool for the same
//! time.

use linerate_host::sample::{Cost, InterruptCounts, Recording};
use linerate_lab::End;
use linerate_testing::{has_all, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::bed::{Case, args, case, case_with_link};

/// The seconds for which sar and mpstat measure; the traffic ends before.
const WATCHED: f64 = 6.0;

/// The traffic that the link's interface at the near end carried.
#[derive(Debug)]
struct Link {
    bytes_in: f64,
    bytes_out: f64,
    packets_in: f64,
    packets_out: f64,
}

#[test]
fn timed_other_tools_agree_within_one_percent() {
    let Some(case) = case_with_link("500mbit") else { return };
    if !has_all(&["sar", "mpstat", "ethtool", "ip"]) {
        return;
    }
    let counts_queues = add_interface_with_queues(&case);
    let (link, queues) = (ip_link(&case), ethtool(&case));
    let reported = measured(&case);
    let (link_after, queues_after) = (ip_link(&case), ethtool(&case));

    let cost =
        |host: usize| -> Cost { serde_json::from_value(reported["hosts"][host]["cost"].clone()).unwrap() };
    let (near, far) = (cost(0), cost(1));
    let port = near.ports.iter().find(|port| port.name == "to-b").expect("the link's interface");
    assert!(port.sent.bytes > 100_000_000, "{port:?}");
    // Nothing else goes over the link: before and after enclose the command.
    agree("ip -s: bytes in", port.received.bytes as f64, link_after.bytes_in - link.bytes_in);
    agree("ip -s: bytes out", port.sent.bytes as f64, link_after.bytes_out - link.bytes_out);
    agree("ip -s: packets in", port.received.packets as f64, link_after.packets_in - link.packets_in);
    agree("ip -s: packets out", port.sent.packets as f64, link_after.packets_out - link.packets_out);

    let sar = fs::read_to_string(case.near.join("sar")).unwrap();
    sar_agrees(&sar, "txkB/s", port.sent.bytes as f64 / 1024.0);
    sar_agrees(&sar, "rxpck/s", port.received.packets as f64);

    if counts_queues {
        queues_agree(&reported, &queues, &queues_after);
    }
    processors_agree(&near, &fs::read_to_string(case.near.join("mpstat")).unwrap());

    let there = far.ports.iter().find(|port| port.name == "to-a").expect("the link's other interface");
    agree("the far host: bytes in", there.received.bytes as f64, port.sent.bytes as f64);
    softirqs_are_reported(&reported);
    assert!(reported["hosts"][0]["flows"][0]["bytes_sent"].as_u64().unwrap() > 0, "TCP_INFO of the flows");
}

/// A script that sends datagrams to the interface with counters by queue; without such an interface, they are
/// dropped.
const DATAGRAMS: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    for i in range(3000): s.sendto(bytes(1000), (\"10.99.0.2\", 9))
except OSError as error:
    print(error)
";

/// Adds an interface with counters for each queue: an intermediate functional block counts every packet, a
/// veth only those of XDP.
fn add_interface_with_queues(case: &Case) -> bool {
    let ip = |line: &str| {
        let words = args!["ip"].into_iter().chain(line.split(' ').map(Into::into));
        case.start_with(words.collect(), Vec::new()).end().code == Some(0)
    };
    let made = ip("link add queues numtxqueues 2 type ifb")
        && ip("address add 10.99.0.1/24 dev queues")
        && ip("link set queues up")
        && !ethtool(case).is_empty();
    if !made {
        let why = "ethtool -S has nothing to compare with, since this kernel has no ifb that counts by queue";
        skip("ifb", why);
    }
    made
}

/// Measures both hosts while one host sends 100 MB to the other and the other tools measure too.
fn measured(case: &Case) -> Value {
    let (program, config) = (case.bed.program(), case.bed.lab.ssh_config());
    let script = format!(
        "(date +%s.%N; LC_ALL=C sar -n DEV {WATCHED} 1; date +%s.%N) >sar & LC_ALL=C mpstat {WATCHED} 1 >mpstat & sleep 0.3; \
         python3 -c '{DATAGRAMS}'; {} stream -F {} --bytes 100MB b >&2; wait",
        program.display(),
        config.display()
    );
    let rsh = format!("sh {}", beside_the_link(case).display());
    let words =
        args![program, "measure", "--interval", "1s", "--rsh", rsh, "--host", "b", "--export", "json", "--"];
    let run = case.start_with(words, args!["sh", "-c", script]).end().exits(0);
    serde_json::from_str(&run.out).unwrap()
}

/// A remote shell that enters the far host's namespace directly, so that its traffic doesn't use the link.
fn beside_the_link(case: &Case) -> PathBuf {
    let (home, shell) = (case.aside("home"), case.aside("bin").join("enter"));
    let namespace = case.bed.lab.host(End::B).namespace_path();
    let (home, namespace) = (home.display(), namespace.display());
    let text =
        format!("export HOME={home} XDG_CACHE_HOME={home}\nexec nsenter --net={namespace} sh -c \"$2\"\n");
    fs::write(&shell, text).expect("writable");
    shell
}

#[test]
fn another_host_is_measured_through_ssh() {
    let Some(case) = case() else { return };
    let (program, config) = (case.bed.program(), case.bed.lab.ssh_config());
    let words = args![program, "measure", "-F", config, "--host", "b", "--out", "kept", "--process", "sshd"];
    let script = format!("ssh -F {} b true; sleep 0.6", case.bed.lab.ssh_config().display());
    let run = case.start_with(words, args!["--", "sh", "-c", script]).end().exits(0);
    run.says(&["\nb: ", "to-a", "to-b", "CPU-s"]);
    for kept in ["kept", "kept.b"] {
        let recording = Recording::parse(&fs::read(case.near.join(kept)).unwrap()).unwrap();
        assert!(
            recording.samples.len() >= 2 && recording.seconds() >= 0.6,
            "{kept}: {} samples, {} s",
            recording.samples.len(),
            recording.seconds()
        );
    }
    let nowhere =
        args![case.bed.program(), "measure", "-F", case.bed.lab.ssh_config(), "--host", "nowhere.invalid"];
    case.start_with(nowhere, args!["--", "touch", "ran"]).end().exits(5).says(&["nowhere.invalid"]);
    assert!(!case.near.join("ran").exists(), "what can't be measured isn't run");
}

#[track_caller]
fn agree(what: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 0.01 * theirs.abs(), "{what}: ours {ours}, theirs {theirs}");
}

fn ip_link(case: &Case) -> Link {
    let text = case.bed.on(End::A, &["ip", "-s", "-j", "link", "show", "dev", "to-b"]);
    let reported: Value = serde_json::from_str(&text).unwrap();
    let counter = |way: &str, what: &str| reported[0]["stats64"][way][what].as_f64().expect(what);
    Link {
        bytes_in: counter("rx", "bytes"),
        bytes_out: counter("tx", "bytes"),
        packets_in: counter("rx", "packets"),
        packets_out: counter("tx", "packets"),
    }
}

fn ethtool(case: &Case) -> BTreeMap<String, f64> {
    let words = args!["ethtool", "-S", "queues"];
    let text = case.start_with(words, Vec::new()).end().out;
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Checks the series of each statistic that changed: the sum over its steps must be the statistic's increase.
fn queues_agree(reported: &Value, before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) {
    let all = reported["hosts"][0]["series"].as_array().unwrap();
    let mut moved = 0;
    for (name, value) in after {
        let theirs = value - before[name];
        if theirs == 0.0 {
            continue;
        }
        moved += 1;
        let full = format!("queues {name}");
        let series = all.iter().find(|series| series["kind"] == "queues" && series["name"] == full.as_str());
        let series = series.unwrap_or_else(|| panic!("{full} has moved by {theirs}"));
        agree(&format!("ethtool -S: {name}"), grown(&series["points"], reported), theirs);
    }
    assert!(moved > 0, "no queue has counted anything: {after:?}");
}

/// The increase that a series of rates means. Each point is at the end of its step; the first step begins
/// with the recording.
fn grown(points: &Value, reported: &Value) -> f64 {
    let begun = reported["hosts"][0]["series"].as_array().unwrap().iter();
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

/// Checks a value of sar. sar prints rates over its own time, which may be longer on a busy host, at most
/// from before its start to after its end.
fn sar_agrees(text: &str, column: &str, ours: f64) {
    let times: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let rate = sar_column(text, column);
    let (least, most) = (rate * WATCHED, rate * (times[1] - times[0]));
    assert!(
        least * 0.99 <= ours && ours <= most * 1.01,
        "sar {column}: ours {ours}, theirs {least} to {most}"
    );
}

fn sar_column(text: &str, column: &str) -> f64 {
    let averages = text.lines().filter(|line| line.starts_with("Average:"));
    let averages: Vec<Vec<&str>> = averages.map(|line| line.split_whitespace().collect()).collect();
    let place = averages[0].iter().position(|word| *word == column).expect("a column of sar's");
    let row = averages.iter().find(|row| row[1] == "to-b").expect("the interface");
    row[place].parse().unwrap()
}

/// Checks the processor times of mpstat. mpstat's time is inside ours, so our times must include its times,
/// and exceed them by at most the additional time.
fn processors_agree(cost: &Cost, mpstat: &str) {
    let cpu = cost.cpu.unwrap();
    let rows: Vec<Vec<&str>> = mpstat.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = rows.iter().find(|row| row.contains(&"%usr")).expect("mpstat's heading");
    let average =
        rows.iter().find(|row| row.first() == Some(&"Average:") && row[1] == "all").expect("its average");
    // The heading begins with the time of day, the average with one word.
    let shift = head.len() - average.len();
    // Ticks of all states together are a little less than wall time, for both of us.
    let watched = cpu.total() * (WATCHED / cost.seconds).min(1.0);
    let (around, percent) = (cpu.total() - watched, 0.01 * watched);
    let seconds = |column: &str| {
        let place = head.iter().position(|word| *word == column).expect("a column of mpstat's");
        average[place - shift].parse::<f64>().unwrap() / 100.0 * watched
    };
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

fn softirqs_are_reported(reported: &Value) {
    let rows: Vec<InterruptCounts> =
        serde_json::from_value(reported["hosts"][0]["softirqs"].clone()).unwrap();
    let received = rows.iter().find(|row| row.source == "NET_RX").expect("packets came in");
    assert!(received.per_processor.iter().sum::<u64>() > 100, "{received:?}");
}
