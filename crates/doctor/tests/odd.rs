//! No host is too odd: whatever its files hold or lack, the checks neither panic nor find what can't be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::{Finding, Host, Need, Path as Between, PathMeasurements, examine_host, examine_path};
use linerate_host::{Facts, Snapshot};

/// Rounds for each host; in each another share of its files, or of their lines, is gone.
const ROUNDS: u32 = 60;
/// Drivers' answers in numbers, by the ends of their lines.
const NUMBERS: [&str; 5] = ["/channels:", "/rings:", "/coalescing:", "/pause:", "/rss:"];

fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Everything that can be found on a host, and between it and itself.
fn look(facts: &Facts) {
    for need in [Need::OfPorts, Need::Target(400e9), Need::Target(1e30)] {
        let host = Host::alone("h", facts, need);
        examine_host(&host).iter().for_each(can_be);
        for rtt in [0.0, 1e-9, 0.05, 1e9] {
            let measured = PathMeasurements {
                rtt: Some(rtt),
                rate: Some(1e9),
                streams: Some(0),
                retransmitted: Some(7),
                sent: Some(5),
                window: Some(u64::MAX),
                ..PathMeasurements::default()
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

/// Every number of a snapshot's one-line values is replaced by another.
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

/// Some of the files, at random: no panic, and nothing that can't be.
#[test]
fn hosts_without_some_of_their_files_are_survived() {
    let mut random = fastrand::Rng::with_seed(3);
    for path in fixtures() {
        let whole = Snapshot::open(&path).unwrap();
        (0..8).for_each(|_| look(&Facts::of_snapshot(&without_files(&whole, &mut random))));
    }
}

/// An unreadable fact may hide a finding or change its size, but creates none.
#[test]
fn what_is_found_on_a_part_was_found_on_the_whole() {
    let mut random = fastrand::Rng::with_seed(13);
    let mut wrong = BTreeMap::new();
    for path in fixtures() {
        let whole = Snapshot::open(&path).unwrap();
        let (name, before) = (path.file_stem().unwrap().to_string_lossy(), found(&whole));
        let mut compare = |rest: &Snapshot, gone: &str| {
            for new in found(rest).difference(&before) {
                wrong.entry(format!("{name}: {new:?}")).or_insert_with(|| gone.to_owned());
            }
        };
        for gone in whole.paths().collect::<Vec<_>>() {
            let mut rest = whole.clone();
            assert!(rest.remove(&gone));
            compare(&rest, &gone);
        }
        for _ in 0..ROUNDS {
            compare(&without_files(&whole, &mut random), "some files");
            compare(&without_lines(&whole, &mut random), "some lines");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Checks and the places of what they find, for a need that is the same whatever the ports tell.
fn found(snapshot: &Snapshot) -> BTreeSet<(&'static str, Option<String>)> {
    let facts = Facts::of_snapshot(snapshot);
    let host = Host::alone("h", &facts, Need::Target(10e9));
    examine_host(&host).into_iter().map(|finding| (finding.check, finding.place)).collect()
}

fn without_files(whole: &Snapshot, random: &mut fastrand::Rng) -> Snapshot {
    let keep = random.u32(..100);
    let mut rest = whole.clone();
    for path in whole.paths().filter(|_| random.u32(..100) >= keep).collect::<Vec<_>>() {
        assert!(rest.remove(&path));
    }
    rest
}

/// Lines inside of texts; except drivers' answers in numbers, in which a missing line is a 0
/// (docs/formats.md).
fn without_lines(whole: &Snapshot, random: &mut fastrand::Rng) -> Snapshot {
    let (keep, text) = (random.u32(..100), whole.to_text());
    let mut in_numbers = false;
    let stays = |line: &&str| {
        if !line.starts_with("  ") {
            in_numbers = line.starts_with("/live/ethtool/") && NUMBERS.iter().any(|end| line.ends_with(end));
            return true;
        }
        in_numbers || random.u32(..100) < keep
    };
    Snapshot::parse(&text.lines().filter(stays).collect::<Vec<_>>().join("\n")).unwrap()
}
