//! Tests of `linerate measure` on this host, and of an agent that is asked for samples.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use linerate_host::sample::Recording;
use linerate_remote::host_agent::HostAgent;
use linerate_remote::place::Place;
use linerate_wire::control::Sampling;
use rustix::process::Signal;
use serde_json::Value;
use support::{Run, Running};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

fn start(arguments: &[&str]) -> Running {
    let mut command = Command::new(PROGRAM);
    command.arg("measure").args(arguments);
    Running::start(command)
}

fn measure(arguments: &[&str]) -> Run {
    start(arguments).end()
}

#[test]
fn a_command_keeps_its_exit_code_and_its_output() {
    let run = measure(&["--", "sh", "-c", "echo out; exit 7"]).exits(7);
    assert_eq!(run.out, "out\n");
    run.says(&["exit 7 after", "processors", "CPU-s", "segments sent again", "softnet"]);
    measure(&["--", "sh", "-c", "kill -TERM $$"]).exits(143).says(&["signal 15"]);
    measure(&["--", "/no/such/program"]).exits(127).says(&["/no/such/program"]);
    measure(&["--", "/dev/null"]).exits(126);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    measure(&["--interval", "0ms", "--seconds", "1"]).exits(2).says(&["20ms to 60s"]);
    measure(&["--seconds", "1", "--", "true"]).exits(2);
    measure(&["--read", "/dev/null"]).exits(2).says(&["/dev/null", "isn't a recording"]);
    measure(&["--seconds", "0.1", "--host", "-x"]).exits(2);
}

#[test]
fn a_tree_of_processes_is_counted_whole() {
    let busy = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let script = format!("({busy}) & ({busy}) & wait; {busy}");
    let run = measure(&["--export", "json", "--", "sh", "-c", &script]).exits(0);
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    let spent = reported["cpu_seconds"].as_f64().unwrap();
    let host = &reported["hosts"][0]["cost"]["cpu"];
    let of_host = ["user", "nice", "system"].map(|state| host[state].as_f64().unwrap()).iter().sum::<f64>();
    assert!(spent > 0.05, "{spent}");
    // The kernel counts the host's time by ticks.
    assert!(spent < of_host * 1.25 + 0.1, "{spent} of {of_host}");
}

/// The times of a pipeline's processes, which start with the command, must be counted from their beginning.
#[test]
fn each_process_of_a_pipeline_has_its_time() {
    let busy = "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done; echo done";
    let run = measure(&["--interval", "100ms", "--", "sh", "-c", &format!("sh -c '{busy}' | cat")]).exits(0);
    let line =
        |name: &str| run.err.lines().find(|line| line.trim_start().starts_with(name)).map(str::to_owned);
    let number = |line: String, before: &str| -> f64 {
        let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|word| *word == before).unwrap_or_else(|| panic!("{before}: {run}"));
        words[at + 1].parse().unwrap_or_else(|_| panic!("{before}: {run}"))
    };
    let spent = number(line("command").expect("its line"), "command");
    let shell = number(line("processes").unwrap_or_else(|| panic!("no processes: {run}")), "sh");
    assert!(spent > 0.3, "too short to tell: {run}");
    assert!(shell > 0.6 * spent, "{shell} of {spent} CPU-s: {run}");
}

/// Reads from a connection until the other end closes it.
fn read_all(mut from: TcpStream) {
    let mut buffer = vec![0; 1 << 18];
    while matches!(from.read(&mut buffer), Ok(1..)) {}
}

fn limiter_of(run: &Run) -> String {
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    reported["limiter"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn connections_of_other_programs_limit_no_command() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    let end = near.try_clone().unwrap();
    let reads = thread::spawn(move || read_all(far));
    // Some 100 MB/s, so that the host isn't full.
    let sends = thread::spawn(move || {
        while near.write_all(&[7; 1 << 20]).is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    });
    let run = measure(&["--export", "json", "--", "sleep", "1.5"]).exits(0);
    end.shutdown(std::net::Shutdown::Both).unwrap();
    sends.join().unwrap();
    reads.join().unwrap();
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    assert!(reported["hosts"][0]["flows"].as_array().is_some_and(|flows| !flows.is_empty()), "it was seen");
    assert_eq!(limiter_of(&run), "unknown", "{}", reported["limiter_evidence"]);
}

#[test]
fn a_connection_of_the_command_may_limit_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!(
        "exec 3>/dev/tcp/127.0.0.1/{}; for i in 1 2 3 4 5; do echo $i >&3; sleep 0.3; done",
        listener.local_addr().unwrap().port()
    );
    let reads = thread::spawn(move || read_all(listener.accept().unwrap().0));
    let run = measure(&["--export", "json", "--", "bash", "-c", &script]).exits(0);
    reads.join().unwrap();
    // The process sleeps, which no counter explains; neither the far end nor the network may be named as the
    // cause.
    assert_eq!(limiter_of(&run), "not-explained", "{}", run.out);
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    let evidence = reported["limiter_evidence"].as_str().unwrap();
    assert!(
        evidence.starts_with("not explained (this end ") && evidence.contains("no program waits"),
        "{evidence}"
    );
}

#[test]
fn a_recording_that_cannot_be_kept_is_reported_before_the_command_runs() {
    let directory = support::directory("linerate-measure-");
    let (file, mark) = (directory.path().join("none/kept"), directory.path().join("mark"));
    let run = measure(&["--out", file.to_str().unwrap(), "--", "touch", mark.to_str().unwrap()]).exits(1);
    run.says(&["saving the recording in", "none/kept"]);
    assert!(!mark.exists(), "the command ran");
    // Even if the disk is full at the end, the measured values are printed.
    let full = measure(&["--out", "/dev/full", "--", "true"]).exits(1);
    full.says(&["exit 0 after", "processors", "saving the recording in /dev/full"]);
}

#[test]
fn what_was_kept_is_read_again() {
    let directory = support::directory("linerate-measure-");
    let file = directory.path().join("kept");
    let file = file.to_str().unwrap();
    let run =
        measure(&["--out", file, "--export", "csv", "--", "sh", "-c", "echo aside; sleep 0.6"]).exits(0);
    assert!(run.err.contains("aside") && !run.out.contains("aside"), "{run}");
    assert!(run.out.starts_with("host,seconds,kind,name,unit,value\n"), "{run}");
    assert!(run.out.contains(",cpu,all busy,%,"), "{run}");
    let again = measure(&["--read", file, "--export", "csv"]).exits(0);
    assert!(again.out == run.out, "the same values: {again}");
    let json = measure(&["--read", file, "--export", "json"]).exits(0);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&json["schema"], &json["type"], &json["command"]),
        (&1.into(), &"measure".into(), &Value::Null)
    );
    assert!(json["hosts"][0]["series"].as_array().unwrap().len() > 20);
    assert!(measure(&["--read", file]).exits(0).out.contains("CPU-s"));
    fs::write(file, "linerate recording 1\n@ x\n").unwrap();
    measure(&["--read", file]).exits(2).says(&[file, "damaged"]);
}

#[test]
fn the_live_view_has_a_line_for_each_interval() {
    let run = measure(&["--follow", "--interval", "100ms", "--seconds", "0.75"]).exits(0);
    let lines = run.err.lines().filter(|line| !line.contains("busy %")).count();
    assert!((3..=8).contains(&lines), "{run}");
    assert!(!run.err.contains('\x1b') && run.out.contains("samples"), "{run}");
}

#[test]
fn signals_end_the_wait_or_reach_the_command() {
    let alone = start(&[]);
    std::thread::sleep(Duration::from_millis(400));
    alone.signal(Signal::INT);
    assert!(alone.end().exits(0).out.contains("CPU-s"));
    for interval in ["50ms", "60s"] {
        let with_command = start(&["--interval", interval, "--", "sleep", "30"]);
        std::thread::sleep(Duration::from_millis(400));
        with_command.signal(Signal::TERM);
        with_command.end_within(Duration::from_secs(10)).exits(143).says(&["signal 15"]);
    }
}

fn agent() -> HostAgent {
    HostAgent::start(&Place::Here, Path::new(PROGRAM)).unwrap()
}

fn every(interval_ms: u32) -> Sampling {
    Sampling { interval_ms, processes: vec![std::process::id()], names: vec!["no such program".into()] }
}

#[test]
fn an_agent_gives_its_recording_in_pieces() {
    let mut agent = agent();
    assert_eq!(agent.start_sampling(&every(100)).unwrap(), Duration::from_millis(100));
    let mut bytes = agent.take_samples().unwrap();
    assert_eq!(Recording::parse(&bytes).unwrap().samples.len(), 1);
    std::thread::sleep(Duration::from_millis(450));
    bytes.extend(agent.take_samples().unwrap());
    bytes.extend(agent.stop_sampling().unwrap());
    let recording = Recording::parse(&bytes).unwrap();
    assert!(recording.samples.len() >= 4 && recording.seconds() >= 0.45, "{}", recording.seconds());
    assert!(!agent.facts(&[]).unwrap().is_empty(), "it answers other questions too");
}

#[test]
fn an_agent_isnt_led_astray() {
    let mut agent = agent();
    let refused = |result: io::Result<Vec<u8>>| result.unwrap_err().to_string();
    assert!(refused(agent.take_samples()).contains("no recording is running"));
    assert_eq!(agent.start_sampling(&every(0)).unwrap(), Duration::from_millis(20));
    assert_eq!(agent.start_sampling(&every(u32::MAX)).unwrap(), Duration::from_secs(60));
    let many = Sampling { interval_ms: 250, processes: vec![1; 100_000], names: vec!["x".into(); 50_000] };
    agent.start_sampling(&many).unwrap();
    assert!(Recording::parse(&agent.stop_sampling().unwrap()).is_ok(), "a new recording, from its beginning");
    assert!(refused(agent.stop_sampling()).contains("no recording is running"));
}
