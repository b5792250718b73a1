//! Fuzz target for data about a host: recordings of counters, snapshots of files in /proc and /sys, and
//! facts.

use linerate_host::sample::{self, Cost, Recording};
use linerate_host::{Facts, Snapshot};

/// Parses the input; the first byte selects the parser for the rest.
pub fn host(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    match mode % 4 {
        0 => recording(rest),
        1 => drop(serde_json::from_slice::<Facts>(rest)),
        _ => snapshot(&String::from_utf8_lossy(rest)),
    }
}

/// Parses a recording. The part after an empty line of dashes is added later.
fn recording(data: &[u8]) {
    let at = data.windows(5).position(|part| part == b"\n---\n");
    let (first, more) = at.map_or((data, None), |at| (&data[..at + 1], data.get(at + 5..)));
    let Ok(mut recording) = Recording::parse(first) else { return };
    if let Some(more) = more {
        let _ = recording.extend(more);
    }
    let _ = Cost::of(&recording);
    for series in sample::series(&recording) {
        assert!(series.points.iter().all(|(at, _)| at.is_finite()));
    }
    let _ = (sample::interrupts(&recording), sample::softirqs(&recording), sample::flows(&recording));
    let _ = (sample::tcp(&recording), sample::process_seconds(&recording), sample::queues(&recording));
}

/// Parses a snapshot of a host's files with every parser.
fn snapshot(text: &str) {
    let Ok(snapshot) = Snapshot::parse(text) else { return };
    let facts = Facts::of_snapshot(&snapshot);
    let json = serde_json::to_vec(&facts).expect("facts can be written");
    serde_json::from_slice::<Facts>(&json).expect("what was written can be read");
    // A text with two interpretations, such as ` = ` twice in a line, may be parsed differently the second
    // time.
    let _ = Snapshot::parse(&snapshot.to_text());
}
