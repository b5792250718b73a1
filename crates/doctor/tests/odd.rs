//! No host is too odd: whatever its files hold or lack, the checks neither panic nor find what can't be.

use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::{Finding, Host, Measured, Need, Path as Between, examine_host, examine_path};
use linerate_host::{Facts, Snapshot};

fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Where these are missing, the usual is assumed and said: 10 Gbit/s, an MTU of 1500; and a bridge is compared with the
/// card below it, as far as that is known.
const EXCUSES: [&str; 4] = ["/speed", "/mtu", "/current_link_speed", "/current_link_width"];

/// Everything that can be found on a host, and between it and itself.
fn look(facts: &Facts) {
    for need in [Need::OfPorts, Need::Target(400e9), Need::Target(1e30)] {
        let host = Host { name: "h", facts, need };
        examine_host(&host).iter().for_each(can_be);
        for rtt in [0.0, 1e-9, 0.05, 1e9] {
            let measured = Measured {
                rtt: Some(rtt),
                rate: Some(1e9),
                streams: Some(0),
                retransmitted: Some(7),
                sent: Some(5),
                ..Measured::default()
            };
            examine_path(&Between { from: host, to: host, measured }).iter().for_each(can_be);
        }
    }
}

fn can_be(finding: &Finding) {
    assert!(finding.ceiling.is_none_or(|rate| rate.is_finite() && rate >= 0.0), "{finding:#?}");
    assert!(finding.loss.is_none_or(|loss| (0.0..=1.0).contains(&loss)), "{finding:#?}");
    assert!(
        !finding.title.contains("NaN") && !finding.evidence.iter().any(|line| line.contains("NaN")),
        "{finding:#?}"
    );
}

/// Every number of a snapshot's one-line values stands for another.
fn with_numbers(text: &str, other: &str) -> String {
    let line = |line: &str| match line.split_once(" = ") {
        Some((path, value)) if value.parse::<i64>().is_ok() => format!("{path} = {other}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn odd_numbers_are_survived() {
    let dir = std::env::temp_dir().join(format!("linerate-odd-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("host.txt");
    for path in fixtures() {
        let text = fs::read_to_string(&path).unwrap();
        for other in ["0", "1", "-1", "4294967295", "18446744073709551615", "many"] {
            fs::write(&file, with_numbers(&text, other)).unwrap();
            look(&Facts::of_snapshot(&Snapshot::open(&file).unwrap()));
        }
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// Half of the files, by a generator of numbers that everybody has the same from.
#[test]
fn hosts_without_half_of_their_files_are_survived() {
    let mut state = 1_u64;
    let mut coin = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 63 == 1
    };
    for path in fixtures() {
        let whole = Snapshot::open(&path).unwrap();
        for _ in 0..8 {
            let mut rest = whole.clone();
            let gone: Vec<String> = whole.paths().filter(|_| coin()).collect();
            gone.iter().for_each(|path| assert!(rest.remove(path)));
            look(&Facts::of_snapshot(&rest));
        }
    }
}

/// A file less may hide a finding, or make it weaker; it makes none that wasn't there.
#[test]
fn what_is_found_without_a_file_was_found_with_it() {
    let mut wrong = String::new();
    for path in fixtures() {
        let whole = Snapshot::open(&path).unwrap();
        let names = |snapshot: &Snapshot| -> Vec<&'static str> {
            let facts = Facts::of_snapshot(snapshot);
            examine_host(&Host { name: "h", facts: &facts, need: Need::Target(10e9) })
                .iter()
                .map(|f| f.check)
                .collect()
        };
        let before = names(&whole);
        let excuses = |path: &String| EXCUSES.iter().any(|end| path.ends_with(end));
        for gone in whole.paths().filter(|path| !excuses(path)).collect::<Vec<_>>() {
            let mut rest = whole.clone();
            rest.remove(&gone);
            let new: Vec<_> = names(&rest).into_iter().filter(|name| !before.contains(name)).collect();
            if !new.is_empty() {
                wrong += &format!(
                    "{}: without {gone}: {new:?}
",
                    path.display()
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
