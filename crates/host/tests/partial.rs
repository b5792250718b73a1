//! Hosts of which only a part can be read: each fact that is still known has the same value as on the whole
//! host.
//!
//! `tests/fixtures.rs` removes whole sources. These tests remove lines, as in a text that was cut off,
//! shortened by hand, or written by another kernel. Then a list or a map may lose members, and a value may
//! become unknown, but no value may change.

use std::path::{Path, PathBuf};

use linerate_host::{Facts, Snapshot};
use serde_json::Value;

/// Rounds for each host. Each round removes another share of the lines.
const ROUNDS: u32 = 80;
/// Answers that consist of numbers, by the ends of their paths.
const NUMBERS: [&str; 5] = ["/channels", "/rings", "/coalescing", "/pause", "/rss"];
/// The fields that identify members of a list.
const KEYS: [&str; 4] = ["number", "cpu", "path", "name"];

fn fixtures() -> Vec<(String, Snapshot)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    files.into_iter().map(|path| (name(&path), Snapshot::open(&path).unwrap())).collect()
}

#[test]
fn without_some_lines_no_value_is_another() {
    let mut random = fastrand::Rng::with_seed(11);
    for (name, snapshot) in fixtures() {
        let (before, text) = (value(&snapshot), snapshot.to_text());
        let inside = inside(&text);
        // Each line alone, then many at once.
        for line in &inside {
            unchanged(&name, &before, &text, &[*line]);
        }
        for _ in 0..ROUNDS {
            let keep = random.u32(..100);
            let gone: Vec<usize> = inside.iter().copied().filter(|_| random.u32(..100) >= keep).collect();
            unchanged(&name, &before, &text, &gone);
        }
    }
}

/// The lines inside of texts. Drivers' answers that consist of numbers stay whole: the kernel leaves out
/// values that a driver doesn't have, so by docs/formats.md a missing line stands for 0.
fn inside(text: &str) -> Vec<usize> {
    let mut path = "";
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if !line.is_empty() && !line.starts_with("  ") {
            path = line.split([' ', ':']).next().unwrap_or_default();
        } else if !(path.starts_with("/live/ethtool/") && NUMBERS.iter().any(|end| path.ends_with(end))) {
            lines.push(at);
        }
    }
    lines
}

fn value(snapshot: &Snapshot) -> Value {
    serde_json::to_value(Facts::of_snapshot(snapshot)).unwrap()
}

fn unchanged(name: &str, before: &Value, text: &str, gone: &[usize]) {
    let rest = text.lines().enumerate().filter(|(at, _)| gone.binary_search(at).is_err());
    let rest: Vec<&str> = rest.map(|(_, line)| line).collect();
    let after = value(&Snapshot::parse(&rest.join("\n")).unwrap());
    if let Some(place) = differs(before, &after) {
        let few: Vec<&str> = gone.iter().take(3).filter_map(|at| text.lines().nth(*at)).collect();
        panic!("{name} without {few:?} and others ({} in all): {place:.300}", gone.len());
    }
}

/// The first place whose value has changed, unless it has become unknown or has lost some of its members.
fn differs(before: &Value, after: &Value) -> Option<String> {
    let is_unknown = after == "not_applicable" || after.get("unreadable").is_some();
    match (before, after) {
        _ if is_unknown || before == after => None,
        (Value::Object(old), Value::Object(new)) => new.iter().find_map(|(key, new)| {
            let place = match old.get(key) {
                Some(old) => differs(old, new)?,
                None => format!(" {new} wasn't there"),
            };
            Some(format!("{key}.{place}"))
        }),
        (Value::Array(old), Value::Array(new)) => among(old, new),
        _ => Some(format!(" {before} became {after}")),
    }
}

/// The first member that isn't one of the old members. Members are in the same order, and each has a name or
/// number.
fn among(old: &[Value], new: &[Value]) -> Option<String> {
    let key = |value: &Value| KEYS.iter().find_map(|key| value.get(*key).cloned());
    let mut rest = old.iter();
    new.iter().find_map(|new| {
        let place = match rest.find(|old| key(old).map_or(*old == new, |own| key(new) == Some(own))) {
            Some(old) => differs(old, new)?,
            None => format!(" {new} wasn't there"),
        };
        Some(format!("{}.{place}", key(new).unwrap_or_default()))
    })
}
