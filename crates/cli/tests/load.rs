//! Tests of `linerate load` with `linerate serve`, run as by a user and as by a study.

#[path = "support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Run, Running};

/// A server that is stopped on drop.
struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Served {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        let mut child =
            command.arg("serve").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        out.read_line(&mut ready).unwrap();
        let address = ready.strip_prefix("listening on ").expect("the ready line");
        let address = address.split([',', '\n']).next().unwrap().to_owned();
        Self { child, out, address }
    }

    /// Stops the server, and returns its exit code and its last output.
    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let mut last = String::new();
        self.out.read_line(&mut last).unwrap();
        (code, last)
    }

    fn stop(self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.end()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.arg("load").args(args);
    Running::start(command).end()
}

fn json(args: &[&str]) -> Value {
    let run = load(&[args, &["--json"]].concat()).exits(0);
    serde_json::from_str(run.out.lines().last().unwrap()).unwrap_or_else(|error| panic!("{error}: {run}"))
}

const SHORT: [&str; 4] = ["--seconds", "0.3", "--warm-up", "0.1"];

#[test]
fn pairs_and_their_server() {
    let server = Served::start(&["rr"]);
    let at = ["--connect", &server.address];
    for kind in ["rr", "crr"] {
        let result = json(&[&[kind, "--pairs", "2"], &at[..], &SHORT].concat());
        assert_eq!(
            (&result["schema"], &result["type"], &result["kind"]),
            (&1.into(), &"load".into(), &kind.into())
        );
        let count = result["transactions"].as_u64().unwrap();
        assert!(count > 0 && result["latency"]["count"] == count && result["bytes"] == count, "{result}");
    }
    let bulk = json(&[&["pairs", "--pairs", "4", "--bytes", "20MB"], &at[..]].concat());
    assert_eq!((&bulk["bytes"], bulk["pairs"].as_array().unwrap().len()), (&20_000_000.into(), 4));
    let (code, said) = server.stop();
    assert!(code == Some(0) && said.starts_with("served "), "{code:?} {said}");
}

#[test]
fn users_and_their_optimum() {
    let server = Served::start(&["http", "--object", "64kB", "--workers", "64"]);
    let url = format!("http://{}/object", server.address);
    let found = json(&[
        "http",
        "--url",
        &url,
        "--users",
        "auto",
        "--max-users",
        "8",
        "--step",
        "0.2",
        "--seconds",
        "0.3",
        "--ramp",
        "0.1",
    ]);
    let (users, steps) = (found["users"].as_u64().unwrap(), found["steps"].as_array().unwrap());
    assert!((1..=8).contains(&users) && steps.len() >= 2 && steps[0]["count"] == 1, "{found}");
    let people = load(&["http", "--url", &url, "--users", "3", "--seconds", "0.3", "--ramp", "0"]).exits(0);
    assert!(people.out.contains("http with 3 users") && people.out.contains("3 made, 0 failed"), "{people}");
    let missing = load(&["http", "--url", &format!("http://{}/x", server.address)]).exits(1);
    missing.says(&["404"]);
}

#[test]
fn a_tile_and_a_baseline() {
    let server = Served::start(&["tile", "--object", "10kB"]);
    let url = format!("http://{}/object", server.address);
    let tile = ["tile", "--connect", &server.address, "--url", &url, "--scale", "0.2", "--seconds", "1"];
    let first = load(&[&tile[..], &["--json"]].concat()).exits(0);
    let dir = tempfile::tempdir().unwrap();
    let baseline = dir.path().join("baseline.json");
    std::fs::write(&baseline, &first.out).unwrap();
    let second = json(&[&tile[..], &["--baseline", baseline.to_str().unwrap()]].concat());
    let score = second["score"].as_f64().unwrap();
    assert!(score > 0.5 && score < 2.0, "{second}");
}

#[test]
fn a_server_ends_by_itself() {
    let once = Served::start(&["rr", "--once"]);
    load(&[&["rr", "--connect", &once.address], &SHORT[..]].concat()).exits(0);
    assert_eq!(once.end().0, Some(0));
    let idle = Served::start(&["http", "--idle-timeout", "0.2"]);
    assert_eq!(idle.end(), (Some(0), "served 0 connections\n".into()));
}

#[test]
fn what_cannot_be_served_is_said() {
    load(&["rr", "--connect", "127.0.0.1:1", "--seconds", "0.1"])
        .exits(5)
        .says(&["127.0.0.1:1", "server running"]);
    load(&["rr", "--connect", "nowhere"]).exits(2).says(&["HOST:PORT"]);
    load(&["http", "--url", "https://127.0.0.1/"]).exits(2).says(&["without TLS"]);
    load(&["http", "--url", "http://127.0.0.1/", "--users", "0"]).exits(2).says(&["auto"]);
}

/// Runs a script on the near host of a lab; `None` if no lab can be made. In the script, `LINERATE` is this
/// program and `$far` a server.
fn on_lab(lab: &[&str], script: &str) -> Option<Run> {
    if !linerate_testing::is_root("a lab needs root") || !linerate_testing::has_all(&["ip", "sshd"]) {
        return None;
    }
    let linerate = env!("CARGO_BIN_EXE_linerate");
    let serve = "ip netns exec $LINERATE_LAB_NETNS_B LINERATE serve rr --listen [::]:5300 > $LINERATE_LAB_DIR/said & server=$!
        until grep -q listening $LINERATE_LAB_DIR/said; do kill -0 $server || exit 99; sleep 0.05; done
        far=$LINERATE_LAB_ADDRESS_B:5300";
    let script = format!("{serve}\n{script}\ncode=$?; kill $server; exit $code")
        .replace("LINERATE ", &format!("{linerate} "));
    let mut command = Command::new(linerate);
    command.args(["lab", "run"]).args(lab).args(["--", "sh", "-c", &script]);
    Some(Running::start(command).end_within(2 * support::PATIENCE))
}

fn last_json(text: &str) -> Value {
    let line = text.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no JSON: {text}"));
    serde_json::from_str(line).expect("JSON")
}

/// The kernel's counters of both ports must confirm the number of lost datagrams.
#[test]
fn losses_of_datagrams_are_those_that_the_ports_counted() {
    let script = "port() { ip -n \"$1\" -o route get \"$2\" | sed 's/.* dev \\([^ ]*\\).*/\\1/'; }
        packets() { ip -n \"$1\" -s -j link show \"$2\"; }
        a=$LINERATE_LAB_NETNS_A; b=$LINERATE_LAB_NETNS_B
        pa=$(port $a $LINERATE_LAB_ADDRESS_B); pb=$(port $b $LINERATE_LAB_ADDRESS_A)
        packets $a $pa; packets $b $pb
        LINERATE load pairs --json --connect $far --udp --datagram 300 --rate 2mbit --pairs 2 --warm-up 0 --seconds 2 > $LINERATE_LAB_DIR/result
        code=$?; packets $a $pa; packets $b $pb; cat $LINERATE_LAB_DIR/result; test $code = 0";
    let Some(run) = on_lab(&["--loss", "5%", "--rtt", "4ms"], script) else { return };
    let run = run.exits(0);
    let counters: Vec<Value> =
        run.out.lines().filter(|l| l.starts_with('[')).map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |at: usize, way: &str| {
        counters[at][0]["stats64"][way]["packets"].as_u64().unwrap_or_else(|| panic!("{run}"))
    };
    let (sent, arrived) = (of(2, "tx") - of(0, "tx"), of(3, "rx") - of(1, "rx"));
    let result = last_json(&run.out);
    let count = |name: &str| result["datagrams"][name].as_u64().unwrap_or_else(|| panic!("{result}"));
    let (received, lost) = (count("received"), count("lost"));
    // Two connections of TCP go beside them: some 20 packets.
    assert!(sent.abs_diff(received + lost) <= 40, "{sent} packets left, {received} + {lost} counted: {run}");
    assert!(
        arrived.abs_diff(received) <= 40 && arrived >= received,
        "{arrived} arrived, {received} counted: {run}"
    );
    let share = lost as f64 / (received + lost) as f64;
    // 3,300 in two seconds; a lost SYN of TCP's takes the first second from its pair.
    assert!((0.02..0.09).contains(&share) && received + lost > 1500, "{result}");
}

/// The ports' counters must agree: the server's sent bytes arrive at this host.
#[test]
fn both_directions_are_those_of_the_port() {
    let script = "port=$(ip -o route get $LINERATE_LAB_ADDRESS_B | sed 's/.* dev \\([^ ]*\\).*/\\1/')
        ip -s -j link show $port
        LINERATE load pairs --json --connect $far --reverse --bytes 20MB > $LINERATE_LAB_DIR/back || exit 1
        ip -s -j link show $port
        LINERATE load pairs --json --connect $far --both --bytes 20MB > $LINERATE_LAB_DIR/both || exit 1
        ip -s -j link show $port; cat $LINERATE_LAB_DIR/back $LINERATE_LAB_DIR/both; true";
    let Some(run) = on_lab(&["--link", "1gbit"], script) else { return };
    let run = run.exits(0);
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let moved = |at: usize, way: &str| {
        let of = |line: &Value| line[0]["stats64"][way]["bytes"].as_f64().unwrap_or_else(|| panic!("{run}"));
        of(&lines[at + 1]) - of(&lines[at])
    };
    assert!((20e6..22.5e6).contains(&moved(0, "rx")) && moved(0, "tx") < 2e6, "{run}");
    assert!((20e6..23e6).contains(&moved(1, "rx")) && (20e6..23e6).contains(&moved(1, "tx")), "{run}");
    assert_eq!((&lines[3]["bytes"], &lines[3]["bytes_back"]), (&20_000_000.into(), &20_000_000.into()));
    assert_eq!((&lines[4]["bytes"], &lines[4]["bytes_back"]), (&40_000_000.into(), &20_000_000.into()));
}

/// A request beside a bulk transfer waits in the queue of a slow link; ping measures the same delay.
#[test]
fn requests_beside_a_command_wait_in_the_links_queue() {
    let script = "LINERATE load rr --json --connect $far --rate 50 -- sleep 1 2> $LINERATE_LAB_DIR/alone || exit 1
        LINERATE load rr --json --connect $far --rate 50 -- LINERATE load pairs --json --connect $far --seconds 2 2> $LINERATE_LAB_DIR/beside
        cat $LINERATE_LAB_DIR/alone $LINERATE_LAB_DIR/beside
        LINERATE load rr --connect $far --rate 50 -- sh -c 'exit 7'; test $? = 7";
    let Some(run) = on_lab(&["--link", "50mbit"], script) else { return };
    let run = run.exits(0);
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["kind"], &lines[1]["kind"], &lines[2]["kind"]),
        (&"pairs".into(), &"rr".into(), &"rr".into())
    );
    let time = |line: &Value| line["latency"]["p50_us"].as_f64().unwrap();
    assert!(time(&lines[2]) > 2.0 * time(&lines[1]), "{run}");
    assert!((0.9..5.0).contains(&lines[1]["seconds"].as_f64().unwrap()), "{run}");
}

#[test]
fn options_of_a_load_that_exclude_one_another_are_refused() {
    for args in [
        &["pairs", "--connect", "127.0.0.1:9", "--udp", "--reverse"][..],
        &["pairs", "--connect", "127.0.0.1:9", "--datagram", "100"],
        &["pairs", "--connect", "127.0.0.1:9", "--udp", "--datagram", "15"],
        &["pairs", "--connect", "127.0.0.1:9", "--rate", "0mbit"],
        &["rr", "--connect", "127.0.0.1:9", "--", "true"],
    ] {
        load(args).exits(2);
    }
    load(&["rr", "--connect", "127.0.0.1:9", "--rate", "5", "--", "true"]).exits(5);
}
