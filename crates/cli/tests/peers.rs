//! Tests with a hostile peer in Python, which shares no code with linerate and is based only on
//! docs/protocol.md. `tests/peer/run.py` runs its modes against the released program, each followed by honest
//! runs of the same command. This test runs random modes for a short time; the whole table takes minutes and
//! is a step of `.ci/run`.

use std::path::Path;
use std::process::Command;

#[test]
fn a_hostile_far_end_touches_nothing_and_the_next_run_is_right() {
    if !linerate_testing::has("python3") {
        return;
    }
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer");
    let output = Command::new("python3")
        .arg("-B")
        .arg(peer.join("run.py"))
        .args(["--program", env!("CARGO_BIN_EXE_linerate"), "--mix", "45"])
        .output()
        .expect("python3 was there a moment ago");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
}

/// Checks that the peer, the documentation and this program use the same numbers.
#[test]
fn it_says_what_the_worked_examples_of_the_page_say() {
    if !linerate_testing::has("python3") {
        return;
    }
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer");
    let output = Command::new("python3").arg("-B").arg(peer.join("examples.py")).output().expect("as above");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
