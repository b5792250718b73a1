//! Each path of tests/paths has exactly its findings: those of the path, and of both ends against what the
//! path needs.
//!
//! A file names two hosts of crates/host/tests/fixtures, perhaps with lines of a snapshot (indented) in place
//! of theirs, what was measured, and behind `finds` one line a finding, sorted. `LINERATE_EXPECTED=write
//! cargo test -p linerate-doctor --test paths` writes these anew; `git diff` shows what changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::limiter::Limiter;
use linerate_doctor::{
    Finding, Host, Need, Path as Between, PathMeasurements, along_route, examine_path_and_ends,
};
use linerate_host::{Facts, Snapshot};

const FINDS: &str = "finds\n";

/// One file, taken apart.
#[derive(Default)]
struct Case {
    from: String,
    to: String,
    measured: PathMeasurements,
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn cases() -> Vec<(PathBuf, String)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(here("tests/paths")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn each_path_has_exactly_its_findings() {
    let (cases, mut wrong) = (cases(), String::new());
    assert!(cases.len() >= 10);
    for (path, text) in cases {
        let (given, expected) = text.split_once(FINDS).unwrap_or_else(|| panic!("{path:?} finds nothing"));
        let found = golden(&Case::parse(given).findings());
        if std::env::var_os("LINERATE_EXPECTED").is_some_and(|value| value == "write") {
            fs::write(&path, format!("{given}{FINDS}{found}")).unwrap();
        }
        wrong += &differences(&path.file_stem().unwrap().to_string_lossy(), expected, &found);
    }
    assert!(wrong.is_empty(), "- expected, + found:\n{wrong}");
}

/// No check of paths is left out, and so none whose finding could change unseen.
#[test]
fn every_check_of_paths_is_shown() {
    let found: BTreeSet<&str> = cases()
        .iter()
        .flat_map(|(_, text)| Case::parse(text.split_once(FINDS).unwrap().0).findings())
        .map(|f| f.check)
        .collect();
    let of_paths = linerate_doctor::check::CHECKS.iter();
    let of_paths = of_paths.filter(|check| matches!(check.run, linerate_doctor::check::CheckRun::Path(_)));
    let missing: Vec<&str> = of_paths.map(|check| check.name).filter(|name| !found.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

impl Case {
    fn parse(text: &str) -> Self {
        let mut case = Self::default();
        let mut is_from = true;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let host = if is_from { &mut case.from } else { &mut case.to };
            match line.split_once(' ').unwrap_or((line, "")) {
                ("", _) => host.push_str(&format!("{}\n", &line[2..])),
                ("from", name) => case.from = fixture(name),
                ("to", name) => (is_from, case.to) = (false, fixture(name)),
                ("rtt", value) => case.measured.rtt = Some(value.parse().unwrap()),
                ("mtu", value) => case.measured.mtu = Some(value.parse().unwrap()),
                ("black_hole", value) => case.measured.black_hole = Some(value.parse().unwrap()),
                ("rate", value) => case.measured.rate = Some(value.parse().unwrap()),
                ("streams", value) => case.measured.streams = Some(value.parse().unwrap()),
                ("sent", value) => case.measured.sent = Some(value.parse().unwrap()),
                ("retransmitted", value) => case.measured.retransmitted = Some(value.parse().unwrap()),
                ("limiter", value) => case.measured.limiter = Some(limiter(value)),
                _ => panic!("{line:?}"),
            }
        }
        case
    }

    fn findings(&self) -> Vec<Finding> {
        let facts = |text: &str| along_route(Facts::of_snapshot(&Snapshot::parse(text).unwrap()));
        let (from, to) = (facts(&self.from), facts(&self.to));
        let host = |name, facts| Host::alone(name, facts, Need::OfPorts);
        let path = Between { from: host("a", &from), to: host("b", &to), measured: self.measured };
        examine_path_and_ends(&path.needing())
    }
}

fn fixture(name: &str) -> String {
    fs::read_to_string(here("../host/tests/fixtures").join(format!("{name}.txt"))).unwrap()
}

fn limiter(name: &str) -> &'static str {
    Limiter::ALL.iter().map(|limiter| limiter.name()).find(|known| *known == name).expect("a limiter's name")
}

fn golden(findings: &[Finding]) -> String {
    let mut lines: Vec<String> =
        findings.iter().map(|finding| format!("{}: {}\n", finding.host, finding.line())).collect();
    lines.sort();
    lines.concat()
}

fn differences(path: &str, expected: &str, found: &str) -> String {
    let lacks = |lines: &str, line: &str| !lines.lines().any(|other| other == line);
    let gone = expected.lines().filter(|line| lacks(found, line)).map(|line| format!("{path}: - {line}\n"));
    let new = found.lines().filter(|line| lacks(expected, line)).map(|line| format!("{path}: + {line}\n"));
    gone.chain(new).collect()
}
