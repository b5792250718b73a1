use super::*;
use crate::exit::Code;
use linerate_doctor::limiter::{Evidence, transfer};
use serde_json::Value;
use std::collections::BTreeSet;

const FORMATS: &str = include_str!("../../../../../docs/formats.md");

fn limiter() -> LimiterFields {
    (&transfer::name(&Evidence::default())).into()
}

fn end() -> EndFields {
    EndFields { cpu_seconds: 0.0, cpu_seconds_per_gb: 0.0, peak_rss_bytes: 0, stages: Stages::default() }
}

fn copied(synced: Option<SyncFields>) -> Event {
    Event::Summary(Box::new(CopySummary {
        landed: Totals::default().into(),
        payload_seconds: 0.0,
        window: Some(CountedTime { begin: 0.0, end: 0.0 }),
        elapsed_seconds: 0.0,
        gbit_per_second: 0.0,
        wire_bytes: 0,
        encrypted: true,
        cipher: None,
        within_host: false,
        streams: 1,
        turned_away: None,
        limiter: limiter(),
        sender: end(),
        receiver: end(),
        failed: 0,
        changed: 0,
        not_kept: 0,
        exit: Code::Done.number(),
        synced,
    }))
}

/// One event of each kind. For a new kind, `section` doesn't compile until the kind is documented.
fn events() -> Vec<Event> {
    let text = String::new;
    let synced =
        SyncFields { dry_run: false, deleted: 0, unchanged_files: 0, unchanged_bytes: 0, matched_bytes: 0 };
    vec![
        Event::Progress(Sighting::default()),
        Event::Problem { path: text(), message: text(), kind: "failed" },
        Event::Note { message: text() },
        Event::Entry { path: text(), kind: "file", bytes: 0 },
        Event::Change { item: text(), path: text() },
        copied(None),
        copied(Some(synced)),
        Event::Surveyed { dry_run: true, found: Totals::default().into(), exit: 0 },
        Event::Failed { message: text(), exit: 1 },
        Event::Detached { job: text(), from: text(), to: text() },
        Event::Destination(Box::new(DestinationFields {
            destination: text(),
            result: "done",
            message: None,
            reached: true,
            left_behind: false,
            chained: false,
            landed: Totals::default().into(),
            sent_bytes: 0,
            elapsed_seconds: 0.0,
            failed: 0,
            changed: 0,
            not_kept: 0,
            exit: 0,
            summary: None,
        })),
        Event::FanOut {
            destinations: 2,
            done: 2,
            read_bytes: 0,
            elapsed_seconds: 0.0,
            cpu_seconds: 0.0,
            peak_rss_bytes: 0,
            exit: 0,
        },
        Event::Missing { path: text(), aspects: [] },
        Event::Extra { path: text(), aspects: [] },
        Event::Differs { path: text(), aspects: vec!["kind"] },
        Event::Leftover { path: text(), kind: "journal", bytes: 0 },
        Event::Cleaned { dry_run: true, leftovers: 0, bytes: 0, failed: 0, exit: 0 },
        Event::Compared {
            compared: 0,
            bytes: 0,
            differ: 0,
            missing: 0,
            extra: 0,
            failed: 0,
            changed: 0,
            exit: 0,
        },
    ]
}

/// The section of docs/formats.md that documents an event.
fn section(event: &Event) -> &'static str {
    let heading = match event {
        Event::Progress(_)
        | Event::Problem { .. }
        | Event::Note { .. }
        | Event::Entry { .. }
        | Event::Change { .. }
        | Event::Summary(_)
        | Event::Surveyed { .. }
        | Event::Failed { .. } => "\n## JSON of a copy\n",
        Event::Detached { .. } => "\n## Detached jobs\n",
        Event::Destination(_) | Event::FanOut { .. } => "\n## JSON of several destinations\n",
        Event::Leftover { .. } | Event::Cleaned { .. } => "\n## JSON of a cleaning\n",
        Event::Missing { .. } | Event::Extra { .. } | Event::Differs { .. } | Event::Compared { .. } => {
            "\n## JSON of a comparison\n"
        }
    };
    let (_, section) = FORMATS.split_once(heading).expect("the heading is there");
    section.split("\n## ").next().unwrap_or(section)
}

/// The texts between backquotes.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn fields(event: &Event) -> (String, BTreeSet<String>) {
    let Value::Object(mut line) = serde_json::to_value(event.versioned()).unwrap() else {
        panic!("an event is an object")
    };
    assert_eq!(line.remove("schema"), Some(SCHEMA.into()));
    let Some(Value::String(name)) = line.remove("type") else { panic!("an event has a type") };
    (name, line.into_iter().map(|(field, _)| field).collect())
}

#[test]
fn every_event_has_a_row_with_its_fields_and_no_others() {
    for event in events() {
        let (name, fields) = fields(&event);
        let page = section(&event);
        let row = |line: &&str| {
            let first = line.strip_prefix("| ").and_then(|rest| rest.split(" | ").next());
            first.is_some_and(|names| quoted(names).contains(name.as_str()))
        };
        let row = page.lines().find(row).unwrap_or_else(|| panic!("no row for `{name}`"));
        let last = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        if last == "see below" {
            continue;
        }
        // The documented text begins with the fields; their possible values follow in parentheses.
        let documented: String = last.split('(').map(|part| part.rsplit(')').next().unwrap_or("")).collect();
        let documented: BTreeSet<String> = quoted(&documented).into_iter().map(str::to_owned).collect();
        assert_eq!(documented, fields, "`{name}`: documented, and printed");
    }
}

#[test]
fn every_field_of_a_summary_is_in_the_table() {
    let rows = FORMATS.split("Fields of `summary`").nth(1).unwrap().lines().skip(4);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let documented: BTreeSet<&str> =
        rows.iter().flat_map(|row| quoted(row.split(" | ").next().unwrap_or(row))).collect();
    let printed: BTreeSet<String> = events()
        .iter()
        .filter(|event| matches!(event, Event::Summary(_) | Event::Surveyed { .. }))
        .flat_map(|event| fields(event).1)
        .collect();
    assert_eq!(documented, printed.iter().map(String::as_str).collect(), "documented, and printed");
    let of_ends: BTreeSet<String> = match serde_json::to_value(end()).unwrap() {
        Value::Object(end) => end.into_iter().map(|(field, _)| field).collect(),
        _ => panic!("an end is an object"),
    };
    let row = rows.iter().find(|row| row.starts_with("| `sender`")).unwrap();
    let documented = quoted(row.rsplit(" | ").next().unwrap());
    assert_eq!(documented, of_ends.iter().map(String::as_str).collect());
}

#[test]
fn every_kind_is_documented() {
    use linerate_wire::path::RelPath;
    let entries = [
        Kind::File { size: 0 },
        Kind::Directory,
        Kind::Symlink { target: Vec::new() },
        Kind::Device { block: false, major: 0, minor: 0 },
        Kind::Fifo,
        Kind::Socket,
        Kind::HardLink { source: 0, path: RelPath::root() },
    ];
    let events = [
        ("`problem`", PROBLEMS.map(problem_name).to_vec()),
        ("`entry`", entries.iter().map(entry_name).collect()),
    ];
    for (row, kinds) in events {
        let row = FORMATS.lines().find(|line| line.starts_with(&format!("| {row}"))).unwrap();
        let documented = quoted(row.split("`kind` (").nth(1).unwrap().split(')').next().unwrap());
        assert_eq!(documented, kinds.into_iter().collect(), "{row}");
    }
}

#[test]
fn every_leftover_and_every_aspect_is_documented() {
    let leftovers = [LeftoverKind::Journal, LeftoverKind::Partial, LeftoverKind::Other];
    let row = FORMATS.lines().find(|line| line.starts_with("| `leftover`")).unwrap();
    let documented = quoted(row.split("`kind` (").nth(1).unwrap().split(')').next().unwrap());
    assert_eq!(documented, leftovers.map(leftover_name).into_iter().collect());
    let aspects = [
        Aspect::Kind,
        Aspect::Contents,
        Aspect::Target,
        Aspect::Mode,
        Aspect::Time,
        Aspect::Owner,
        Aspect::Group,
        Aspect::Xattrs,
        Aspect::Acl,
        Aspect::Links,
    ];
    let row = FORMATS.lines().find(|line| line.starts_with("| `differs`")).unwrap();
    let documented = quoted(row.split("`aspects` (").nth(1).unwrap().split(')').next().unwrap());
    assert_eq!(documented, aspects.map(aspect_name).into_iter().collect());
}
