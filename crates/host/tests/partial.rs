//! Hosts of which only a part can be read: what is still known is what it is on the whole host.
//!
//! `tests/fixtures.rs` takes whole sources away; here lines go, as from a text that was cut, shortened by
//! hand, or written by another kernel. A list or a map may lose members that way, and a value may become
//! unknown. None may become another.

use std::path::{Path, PathBuf};

use linerate_host::{Facts, Snapshot};
use serde_json::Value;

/// Rounds for each host; in each another share of the lines goes.
const ROUNDS: u32 = 80;
/// Answers in numbers, by the ends of their paths.
const NUMBERS: [&str; 5] = ["/channels", "/rings", "/coalescing", "/pause", "/rss"];
/// What tells members of a list apart.
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

/// The lines inside of texts. What a driver answered in numbers stays whole: the kernel leaves out what a
/// driver doesn't have, so that by docs/formats.md a line that is missing there is a 0.
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

/// The first place whose value is another, unless it has become unknown or lost some of its members.
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

/// The first member that isn't one of the old ones; they stand in the same order, each by its name or number.
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
