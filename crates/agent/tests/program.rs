//! Tests that the program `linerate-agent` answers requests about its host, and has no other command.

use linerate_host::{CpuTimes, Snapshot, sample::Recording};
use linerate_remote::host_agent::{HostAgent, Sampling};
use linerate_remote::place::Place;
use linerate_wire::PROTOCOL;
use linerate_wire::identity::{IDENTITY, reported_by};
use std::io::Write;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate-agent");

#[test]
fn it_answers_questions_about_its_host() {
    let mut agent = HostAgent::start(&Place::Here, PROGRAM.as_ref()).unwrap();
    let sampling = Sampling { interval_ms: 20, processes: Vec::new(), names: Vec::new() };
    agent.start_sampling(&sampling).unwrap();
    let facts = linerate_host::Facts::of_snapshot(&Snapshot::from_bytes(&agent.facts(&[]).unwrap()).unwrap());
    assert!(facts.kernel.known().is_some(), "{facts:?}");
    serde_json::from_slice::<CpuTimes>(&agent.cpu().unwrap()).unwrap();
    let recording = agent.stop_sampling().unwrap();
    assert!(Recording::parse(&recording).is_ok());
}

#[test]
fn a_client_of_another_protocol_is_reported_on_standard_error() {
    let hello = [b"\x1a\0\0\0\0\xff\x01\x059.9.9\0".as_slice(), &[0; 16]].concat();
    let mut command = Command::new(PROGRAM);
    command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    agent.stdin.take().unwrap().write_all(&hello).unwrap();
    let said = String::from_utf8(agent.wait_with_output().unwrap().stderr).unwrap();
    let own = format!("this end {} (protocol {PROTOCOL})", env!("CARGO_PKG_VERSION"));
    let begin = "linerate agent: the client runs linerate 9.9.9 (protocol 255), ";
    assert!(said.starts_with(begin) && said.contains(&own) && said.lines().count() == 1, "{said}");
}

#[test]
fn it_has_no_other_command() {
    for words in [&[][..], &["cp", "a", "b"], &["agent", "--id"]] {
        let output = Command::new(PROGRAM).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("only the far end"), "{output:?}");
    }
}

#[test]
fn its_file_says_what_it_speaks() {
    assert_eq!(reported_by(&std::fs::read(PROGRAM).unwrap()), Some(IDENTITY));
    let output = Command::new(PROGRAM).output().unwrap();
    assert_eq!(reported_by(&output.stderr), Some(IDENTITY), "{output:?}");
}
