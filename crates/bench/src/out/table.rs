//! The cases' figures.

use super::grid::{Grid, wrap};
use super::number::plain;
use crate::record::Record;
use crate::stats::{CaseSummary, Estimate, Interval, LEAST_BLOCKS, summaries};

/// The cases and what they came to: payload rate with its interval, the whole command's time, CPU beside it, and the
/// rate over the baseline's. Below it what a reader must know to read it.
pub fn table(record: &Record) -> String {
    let baseline = record.baseline.as_deref();
    let all = summaries(record, baseline);
    let base = baseline.and_then(|id| record.cases.iter().find(|case| case.id == id));
    let ratio = base.map(|case| format!("x {}", case.tool));
    let mut heading = vec!["case", "streams", "cipher", "Gbit/s payload", "seconds", "CPU %", "CPU-s/GB"];
    heading.extend(ratio.as_deref());
    let mut grid = Grid::new(&heading, 1);
    for summary in &all {
        let mut cells = row(summary);
        cells.truncate(heading.len());
        grid.row(cells);
    }
    let mut lines = grid.lines();
    lines.push(String::new());
    lines.extend(footnotes(record, &all).iter().flat_map(|note| wrap(note, 2)));
    lines.join("\n")
}

/// Payload below which a case has no rate to speak of.
const LEAST_BYTES: u64 = 1_000_000;

fn row(summary: &CaseSummary) -> Vec<String> {
    let case = &summary.case;
    let mut cells = vec![marked_label(summary), streams(summary), cipher(case.cipher.as_deref())];
    if summary.seconds.is_none() {
        cells.push(summary.reason.clone().unwrap_or_else(|| "not run".into()));
        return cells;
    }
    let number = |estimate: Option<Estimate>| estimate.map_or("-".into(), |e| plain(e.median));
    // Of a handful of bytes neither a rate nor a price per gigabyte says anything; the time does.
    let has_rate = summary.bytes.is_some_and(|bytes| bytes >= LEAST_BYTES);
    let of_bytes = |estimate: Option<Estimate>| estimate.filter(|_| has_rate);
    cells.push(of_bytes(summary.payload_rate).map_or("-".into(), with_interval));
    cells.push(number(summary.seconds));
    cells.push(summary.busy_percent.map_or("-".into(), |e| format!("{:.0}", e.median)));
    cells.push(number(of_bytes(summary.cpu_per_gb)));
    cells.push(number(of_bytes(summary.ratio)));
    cells
}

/// A star marks a case of which a run failed or was disturbed; a footnote says what.
fn marked_label(summary: &CaseSummary) -> String {
    let marked = summary.seconds.is_some() && (summary.failed > 0 || summary.disturbed > 0);
    format!("{}{}", summary.case.label, if marked { " *" } else { "" })
}

fn streams(summary: &CaseSummary) -> String {
    match (summary.case.streams, summary.streams) {
        (Some(n), _) => n.to_string(),
        (None, Some(n)) => format!("auto: {n}"),
        (None, None) => "auto".into(),
    }
}

/// The short name by which people know it.
fn cipher(name: Option<&str>) -> String {
    name.map_or("-".into(), |name| name.trim_end_matches("-poly1305").to_owned())
}

fn with_interval(estimate: Estimate) -> String {
    match estimate.interval {
        Interval::Known(low, high) => format!("{} [{}, {}]", plain(estimate.median), plain(low), plain(high)),
        Interval::Insufficient => plain(estimate.median),
    }
}

fn footnotes(record: &Record, all: &[CaseSummary]) -> Vec<String> {
    let mut notes = vec![interval_note(record), cpu_note(record).to_owned()];
    for summary in all {
        let (id, failed) = (&summary.case.id, summary.failed);
        if failed > 0 {
            let reason = summary.reason.as_deref().unwrap_or("no reason was recorded");
            notes.push(format!("* {id}: no figure in {failed} of {} runs: {reason}", record.blocks));
        }
    }
    notes.extend(disturbed_note(all));
    notes
}

fn disturbed_note(all: &[CaseSummary]) -> Option<String> {
    let disturbed: Vec<String> = all
        .iter()
        .filter(|summary| summary.disturbed > 0)
        .map(|summary| format!("{} ({})", summary.case.id, summary.disturbed))
        .collect();
    let listed = disturbed.join(", ");
    (!disturbed.is_empty()).then(|| {
        format!("* Runs during or before which other work or the hypervisor took processor time, by case: {listed}.")
    })
}

fn interval_note(record: &Record) -> String {
    let medians = "Medians over blocks; Gbit/s is payload over the tool's own transfer time, or over the whole command \
                   where it states none (scp, rsync)";
    if (record.blocks as usize) < LEAST_BLOCKS {
        return format!("{medians}. Intervals: insufficient, they need {LEAST_BLOCKS} blocks.");
    }
    format!("{medians}; in brackets the 95 % interval.")
}

fn cpu_note(record: &Record) -> &'static str {
    if record.shared_processors {
        "CPU is the whole host's. Both ends share its processors, so CPU % and CPU-s/GB hold both ends' work."
    } else {
        "CPU % is the sending host's; CPU-s/GB adds both hosts'."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::grid::WIDTH;
    use crate::record::Outcome;
    use crate::testing::{measured, record, run};

    fn sample() -> Record {
        let runs = (0..5).flat_map(|block| {
            let failed = Outcome::Failed { reason: "scp: no space left on device, and more ".repeat(5) };
            let lost = Outcome::Unavailable { reason: "rsync isn't installed; apt-get install rsync".into() };
            let scp = if block == 2 { failed } else { measured(3.0, 2.0) };
            [
                run("cp", block, measured(9.0 + f64::from(block) / 10.0, 1.0)),
                run("scp", block, scp),
                run("rsync", block, lost),
            ]
        });
        let mut record = record(&["cp", "scp", "rsync"], 5, runs.collect());
        record.baseline = Some("scp".into());
        record
    }

    #[test]
    fn shows_figures_failures_and_what_is_missing() {
        let text = table(&sample());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("case") && lines[0].ends_with("x scp"), "{text}");
        assert!(lines[1].contains("9.20 [9.00, 9.40]") && lines[1].ends_with("3.07"), "{text}");
        assert!(lines[2].starts_with("scp *") && lines[2].contains("3.00"), "{text}");
        assert!(lines[3].contains("rsync isn't installed"), "{text}");
        assert!(text.contains("* scp: no figure in 1 of 5 runs: scp: no space left"), "{text}");
        assert!(text.contains("share its processors"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn one_block_says_that_it_is_insufficient() {
        let mut record = sample();
        record.blocks = 1;
        record.runs.retain(|run| run.block == 0);
        let text = table(&record);
        assert!(text.contains("insufficient") && !text.contains('['), "{text}");
    }
}
