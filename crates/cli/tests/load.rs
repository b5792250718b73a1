//! `linerate load` against `linerate serve`, as a user and as a study run them.

#[path = "support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Run, Running};

/// A server that ends with this value.
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

    /// Its exit code and what it said last.
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
