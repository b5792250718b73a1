//! Tests of `linerate facts` for this host, for another host, and for snapshots.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use linerate_host::Snapshot;
use linerate_testing::is_root;
use serde_json::Value;
use support::{Run, Running};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

fn facts(arguments: &[&str]) -> Run {
    let mut command = Command::new(PROGRAM);
    command.arg("facts").args(arguments);
    Running::start(command).end()
}

fn json(arguments: &[&str]) -> Value {
    let run = facts(&[&["--json"], arguments].concat()).exits(0);
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures").join(name)
}

#[test]
fn this_host_is_reported_in_no_time() {
    let begun = Instant::now();
    let run = facts(&[]).exits(0);
    // The command takes half a second on an idle host; other tests run at the same time.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for part in ["kernel", "processors", "AES-128-GCM", "memory", "TCP", "path /", "ssh", "strain"] {
        assert!(run.out.contains(part), "{part}: {run}");
    }
    let reported = json(&["--path", "/proc"]);
    assert_eq!((&reported["schema"], &reported["type"]), (&1.into(), &"facts".into()));
    assert!(reported["cpu"]["blake3"]["known"].as_f64().unwrap() > 1e6, "{reported}");
    assert_eq!(reported["storage"]["file_systems"]["known"][0]["kind"]["known"], "proc");
}

#[test]
fn a_far_end_of_another_protocol_is_reported_with_both_versions() {
    let directory = support::directory("linerate-facts-");
    let (rsh, reads) =
        (directory.path().join("rsh"), r"'\nlinerate-agent ready\n\032\0\0\0\0\377\001\0059.9.9\0");
    let script = format!("#!/bin/sh\nprintf {reads}{}'\nexec cat >/dev/null\n", r"\0".repeat(16));
    linerate_testing::write_script(&rsh, &script);
    let rsh = rsh.to_str().unwrap();
    for words in [
        &["facts", "--rsh", rsh, "far"][..],
        &["doctor", "--rsh", rsh, "far"],
        &["measure", "--rsh", rsh, "--host", "far", "--", "true"],
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(words);
        let run = Running::start(command).end().exits(7);
        run.says(&["linerate 9.9.9 (protocol 255)", env!("CARGO_PKG_VERSION"), "install the same version"]);
    }
}

#[test]
fn a_snapshot_says_the_same_elsewhere() {
    let directory = support::directory("linerate-facts-");
    for name in ["here.txt", "here.txt.zst"] {
        let file = directory.path().join(name);
        let file = file.to_str().unwrap();
        assert_eq!(facts(&["--snapshot", file]).exits(0).out, "");
        let (first, second) = (json(&["--root", file]), json(&["--root", file]));
        assert_eq!(first, second);
        let live = json(&[]);
        for part in ["hostname", "kernel", "machine", "distribution"] {
            assert_eq!(first[part], live[part], "{part}");
        }
        assert_eq!(first["cpu"]["features"], live["cpu"]["features"]);
        let ports = |reported: &Value| reported["ports"]["known"].as_array().map(Vec::len);
        assert_eq!(ports(&first), ports(&live));
    }
}

#[test]
fn another_host_is_asked_by_its_agent() {
    let directory = support::directory("linerate-facts-");
    let shell = directory.path().join("shell");
    // This script replaces a remote shell: it ignores the host and runs the command line.
    fs::write(&shell, "shift\nexec sh -c \"$*\"\n").unwrap();
    let (rsh, cache) = (format!("sh {}", shell.display()), directory.path().join("cache"));
    let kept = directory.path().join("kept");
    let ask = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["facts", "--rsh", &rsh, "elsewhere"]).args(more).env("XDG_CACHE_HOME", &cache);
        Running::start(command).end()
    };
    let run = ask(&["--json", "--path", "/sys"]).exits(0);
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(reported["storage"]["file_systems"]["known"][0]["path"], "/sys", "{run}");
    // A link of that name is somebody's way to another file.
    let other = directory.path().join("other");
    fs::write(&other, "as it was").unwrap();
    std::os::unix::fs::symlink(&other, &kept).unwrap();
    ask(&["--snapshot", kept.to_str().unwrap()]).exits(0);
    assert!(Snapshot::open(&kept).unwrap().paths().count() > 50);
    assert_eq!(fs::read_to_string(&other).unwrap(), "as it was");
}

#[test]
fn fixtures_are_reported_for_people() {
    let path = fixture("bare-gen1-x4.txt");
    let run = facts(&["--root", path.to_str().unwrap()]).exits(0);
    for part in ["xfer-old", "2.5 GT/s x4 of 2.5 GT/s x8", "below bridge", "ixgbe", "rx 4096 of 4096"] {
        assert!(run.out.contains(part), "{part}: {run}");
    }
}

#[test]
fn what_is_no_snapshot_is_refused() {
    facts(&["--root", "/dev/null"]).exits(1).says(&["/dev/null", "isn't a snapshot"]);
    facts(&["--root", "/no/such/file"]).exits(1).says(&["/no/such/file"]);
    facts(&["--root", "x", "host"]).exits(2);
    facts(&["--json", "--snapshot", "x"]).exits(2);
    facts(&["--no-install", "--rsh", "/no/such/shell", "host"]).exits(5);
    let directory = support::directory("linerate-facts-");
    let empty = json(&["--root", directory.path().to_str().unwrap()]);
    assert_eq!(empty["hostname"]["unreadable"], "/proc/sys/kernel/hostname is missing");
}

/// Facts that an ordinary user can't read must be unknown, and never have a wrong value.
#[test]
fn an_ordinary_users_report_has_less_and_nothing_else() {
    if !is_root("only root can become another user") {
        return;
    }
    let directory = support::directory("linerate-facts-");
    let all = json(&[]);
    let reported: Value = serde_json::from_str(&as_nobody(&directory, &["facts", "--json"]).out).unwrap();
    for part in ["hostname", "kernel", "distribution", "machine"] {
        assert_eq!(differs(&all[part], &reported[part]), None, "{part}");
    }
    for part in
        ["model", "online", "cores", "sockets", "nodes", "features", "governors", "smt", "mitigations"]
    {
        assert_eq!(differs(&all["cpu"][part], &reported["cpu"][part]), None, "{part}");
    }
    let ports = |facts: &Value| facts["ports"]["known"].as_array().cloned().unwrap_or_default();
    for (port, reported) in ports(&all).iter().zip(&ports(&reported)) {
        for part in [
            "name",
            "driver",
            "firmware",
            "kind",
            "mtu",
            "speed_mbps",
            "channels",
            "rings",
            "offloads",
            "pci",
        ] {
            assert_eq!(differs(&port[part], &reported[part]), None, "{part} of {port}");
        }
    }
    for arguments in [&["facts"][..], &["doctor"], &["doctor", "--json", "--target", "100gbit"]] {
        as_nobody(&directory, arguments).exits(0);
    }
}

/// Runs a copy of the program, which any user may execute, as the user nobody.
fn as_nobody(directory: &tempfile::TempDir, arguments: &[&str]) -> Run {
    let program = directory.path().join("linerate");
    if !program.exists() {
        linerate_testing::copy_program(Path::new(PROGRAM), &program);
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(program);
    command.args(arguments).uid(65534).gid(65534).current_dir("/").env("HOME", "/");
    Running::start(command).end().exits(0)
}

/// The first place at which the two values differ, unless the value in `reported` is unknown.
fn differs(all: &Value, reported: &Value) -> Option<String> {
    match (all, reported) {
        _ if all == reported || reported.get("unreadable").is_some() => None,
        (Value::Object(old), Value::Object(new)) if old.keys().eq(new.keys()) => {
            old.iter().find_map(|(key, old)| differs(old, &new[key]).map(|place| format!("{key}.{place}")))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).find_map(|(old, new)| differs(old, new))
        }
        _ => Some(format!(" {all} became {reported}")),
    }
}
