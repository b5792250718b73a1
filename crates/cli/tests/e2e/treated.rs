//! Tests of `linerate doctor --apply` for another host over ssh: the undo timer waits on
//! that host, after the login has ended and if the network is cut.

use linerate_lab::End;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use crate::bed::{Case, args, case_with_own_link, case_with_path};
use crate::support::{Run, within};

const PATIENCE: Duration = Duration::from_secs(30);
const FAULTS: &str = "sysctl -qw net.ipv4.tcp_sack=0 net.ipv4.tcp_rmem='4096 131072 262144'";

/// A far host with faults, and the journals' directory there.
fn ill() -> Option<(Case, PathBuf)> {
    let case = case_with_own_link("1gbit")?;
    case.bed.on(End::B, &["sh", "-c", FAULTS]);
    let state = case.aside("state-of-b");
    std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("our own");
    Some((case, state))
}

/// Runs the doctor at the near end, with host b as the examined host.
fn doctor(case: &Case, state: &PathBuf, words: &[&str]) -> Run {
    let mut all = args![case.bed.program(), "doctor", "-F", case.bed.lab.ssh_config(), "--state", state];
    all.extend(words.iter().map(OsString::from));
    all.push("b".into());
    case.start_with(all, Vec::new()).end()
}

fn settings(case: &Case) -> String {
    case.bed.on(End::B, &["sh", "-c", "grep -rs '' /proc/sys/net/ipv4/tcp_* /proc/sys/net/core || true"])
}

fn apply(case: &Case, state: &PathBuf, seconds: &str) -> String {
    let run = doctor(case, state, &["--apply", "--yes", "--json", "--confirm-within", seconds]).exits(0);
    let reported: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"));
    reported["id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}

#[test]
fn another_host_is_treated_over_ssh_and_confirmed_by_a_new_login() {
    let Some((case, state)) = ill() else { return };
    let before = settings(&case);
    let plan = doctor(&case, &state, &["--apply", "--plan"]).exits(0);
    assert!(plan.out.contains("b: ") && plan.out.contains("net.ipv4.tcp_sack"), "{plan}");
    assert_eq!(settings(&case), before);
    let id = apply(&case, &state, "8");
    assert_ne!(settings(&case), before);
    doctor(&case, &state, &["--confirm", &id]).exits(0);
    sleep(Duration::from_secs(9));
    assert_ne!(settings(&case), before, "it was confirmed");
    doctor(&case, &state, &["--undo", &id]).exits(0);
    assert_eq!(settings(&case), before);
    // Without a word everything is undone, long after the login has ended.
    apply(&case, &state, "3");
    assert_ne!(settings(&case), before);
    assert!(within(PATIENCE, || settings(&case) == before), "{}", settings(&case));
}

/// The test cuts the host off, as a wrong change could.
#[test]
fn a_host_that_is_cut_off_takes_the_changes_back() {
    let Some((case, state)) = ill() else { return };
    let before = settings(&case);
    let id = apply(&case, &state, "6");
    let ports = case.bed.on(End::B, &["ip", "-br", "link"]);
    let port =
        ports.lines().find(|line| !line.starts_with("lo ")).and_then(|line| line.split(['@', ' ']).next());
    let port = port.expect("a lab's host has a port");
    case.bed.on(End::B, &["ip", "link", "set", port, "down"]);
    let run = doctor(&case, &state, &["--confirm", &id, "-o", "ConnectTimeout=2"]);
    assert!(run.code != Some(0), "nobody gets there: {run}");
    assert!(within(PATIENCE, || settings(&case) == before), "{}", settings(&case));
    case.bed.on(End::B, &["ip", "link", "set", port, "up"]);
    doctor(&case, &state, &["--confirm", &id]).exits(1).says(&["undone already"]);
}

/// The three faults are corrected, and the gain is measured and reported. If a change gains nothing, it is
/// undone.
#[test]
fn timed_a_path_is_treated_at_both_ends_and_kept_where_it_gained() {
    let Some(case) = case_with_path("300mbit", "20ms") else { return };
    let state = case.aside("state");
    std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("our own");
    case.bed.on(End::A, &["sysctl", "-qw", "net.ipv4.tcp_wmem=4096 16384 131072"]);
    let faults = "sysctl -qw net.ipv4.tcp_rmem='4096 32768 131072' net.ipv4.tcp_window_scaling=0";
    case.bed.on(End::B, &["sh", "-c", faults]);
    let treat = |words: &[&str]| {
        let config = case.bed.lab.ssh_config();
        let mut all =
            args![case.bed.program(), "doctor", "-F", config, "--state", &state, "--target", "300mbit"];
        all.extend(
            ["--apply", "--yes", "--json", "--path", "local", "b"].iter().chain(words).map(OsString::from),
        );
        let run = case.start_with(all, Vec::new()).end_within(Duration::from_secs(600)).exits(0);
        serde_json::from_str::<Value>(run.out.lines().next_back().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{error}: {run}"))
    };
    if std::env::var_os("LINERATE_TEST_FULL").is_some() {
        // ECN does nothing on a link that marks nothing.
        case.bed.on(End::B, &["sysctl", "-qw", "net.ipv4.tcp_ecn=0"]);
        let gain = treat(&["--each", "--only", "window-vs-bdp,tcp-ecn"]);
        assert_eq!((&gain["gained"], &gain["settings"]), (&true.into(), &3.into()), "{gain}");
        assert!(
            gain["needless"][0]["setting"].as_str().is_some_and(|left| left == "b: net.ipv4.tcp_ecn"),
            "{gain}"
        );
        for treatment in gain["treatments"].as_array().expect("a list") {
            let (host, id) = (treatment["host"].as_str().unwrap(), treatment["id"].as_str().unwrap());
            let config = case.bed.lab.ssh_config();
            let all =
                args![case.bed.program(), "doctor", "-F", config, "--state", &state, "--undo", id, host];
            case.start_with(all, Vec::new()).end().exits(0);
        }
    }
    let gain = treat(&["--confirm-within", "300"]);
    assert_eq!((&gain["gained"], &gain["settings"]), (&true.into(), &3.into()), "{gain}");
    assert!(gain["ratio"].as_f64().is_some_and(|ratio| ratio > 3.0), "{gain}");
    let treatments = gain["treatments"].as_array().expect("a list");
    assert_eq!(treatments.len(), 2, "{gain}");
    let window = case.bed.on(End::B, &["sysctl", "-n", "net.ipv4.tcp_window_scaling"]);
    assert_eq!(window.trim(), "1");
    for treatment in treatments {
        let (host, id) = (treatment["host"].as_str().unwrap(), treatment["id"].as_str().unwrap());
        let config = case.bed.lab.ssh_config();
        let all = args![case.bed.program(), "doctor", "-F", config, "--state", &state, "--confirm", id, host];
        case.start_with(all, Vec::new()).end().exits(0);
    }
}
