//! Records hard and soft interrupts by processor: /proc/interrupts and /proc/softirqs (proc(5)).

use serde::{Deserialize, Serialize};

use super::counters::{self, CounterValues, History};
use super::source::KeptFile;
use super::{Recording, SampleKind, TimeSeries};

const HARD_NAME: &str = "interrupts";
const SOFT_NAME: &str = "softirqs";
/// An upper limit for the number of processors; processors with larger numbers are ignored.
const MOST_PROCESSORS: usize = 8192;

pub(super) const HARD: SampleKind = SampleKind {
    name: HARD_NAME,
    open: |options| KeptFile::boxed(&options.root, "proc/interrupts"),
    series: |recording| series(recording, HARD_NAME),
};

pub(super) const SOFT: SampleKind = SampleKind {
    name: SOFT_NAME,
    open: |options| KeptFile::boxed(&options.root, "proc/softirqs"),
    series: |recording| series(recording, SOFT_NAME),
};

/// The number of interrupts from one source, for each processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptCounts {
    /// The interrupt's number and device (`28 virtio0-input.0`), or its short name and its meaning
    /// (`LOC Local timer interrupts`); for soft interrupts, only the name.
    pub source: String,
    /// The number of interrupts, indexed by the processor's number; 0 for offline processors.
    pub per_processor: Vec<u64>,
}

/// The hard interrupts between the first and the last sample, in the order of the kernel's names, without
/// sources that had none.
pub fn interrupts(recording: &Recording) -> Vec<InterruptCounts> {
    between(recording, HARD_NAME)
}

/// The soft interrupts between the first and the last sample, without sources that had none.
pub fn softirqs(recording: &Recording) -> Vec<InterruptCounts> {
    between(recording, SOFT_NAME)
}

fn between(recording: &Recording, kind: &str) -> Vec<InterruptCounts> {
    let totals = counters::totals(&history(recording, kind));
    let mut found: Vec<InterruptCounts> = Vec::new();
    for (processor, source, count) in totals.iter().filter_map(|(name, count)| split(name, *count)) {
        if found.last().is_none_or(|last| last.source != source) {
            found.push(InterruptCounts { source: source.to_owned(), per_processor: Vec::new() });
        }
        let Some(last) = found.last_mut() else { continue };
        let length = last.per_processor.len().max(processor + 1);
        last.per_processor.resize(length, 0);
        last.per_processor[processor] = count;
    }
    found.retain(|of| of.per_processor.iter().any(|count| *count > 0));
    level(&mut found);
    found
}

/// Extends all rows to the length of the longest row.
fn level(rows: &mut [InterruptCounts]) {
    let longest = rows.iter().map(|row| row.per_processor.len()).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row.per_processor.resize(longest, 0));
}

fn series(recording: &Recording, kind: &str) -> Vec<TimeSeries> {
    let rates = counters::rates(kind, "1/s", 1.0, &history(recording, kind));
    let named = |mut series: TimeSeries| {
        if let Some((processor, source, _)) = split(&series.name, 0) {
            series.name = format!("{source} cpu{processor}");
        }
        series
    };
    counters::moved(rates).into_iter().map(named).collect()
}

fn history(recording: &Recording, kind: &str) -> History {
    counters::history(recording, kind, parse)
}

/// Parses the counters by source and processor; see [`split`].
fn parse(text: &str) -> CounterValues {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default().split_whitespace();
    let processors: Vec<usize> = head
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok().filter(|n| *n < MOST_PROCESSORS))
        .collect();
    lines.filter_map(|line| row(line, &processors)).flatten().collect()
}

fn row(line: &str, processors: &[usize]) -> Option<Vec<(String, u64)>> {
    let (label, rest) = line.split_once(':')?;
    let mut words = rest.split_whitespace();
    let counts: Vec<u64> =
        words.by_ref().take(processors.len()).map_while(|word| word.parse().ok()).collect();
    // The lines ERR and MIS have one number for the whole host instead of a number for each processor.
    if counts.len() != processors.len() || counts.is_empty() {
        return None;
    }
    let source = source(label.trim(), &words.collect::<Vec<_>>());
    let name = |processor: &usize| format!("{source}\t{processor:05}");
    Some(processors.iter().map(name).zip(counts).collect())
}

/// The name of an interrupt source. In its line, the number of an interrupt is followed by its chip, pin and
/// devices; the name of an interrupt is followed by its meaning.
fn source(label: &str, about: &[&str]) -> String {
    let numbered = label.bytes().all(|byte| byte.is_ascii_digit());
    let about = if numbered { about.last().copied().unwrap_or_default().to_owned() } else { about.join(" ") };
    format!("{label} {about}").trim_end().to_owned()
}

fn split(name: &str, count: u64) -> Option<(usize, &str, u64)> {
    let (source, processor) = name.rsplit_once('\t')?;
    Some((processor.parse().ok()?, source, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;

    const FIRST: &str = "           CPU0       CPU2\n 24:  1  0  IO-APIC   5-edge   ACPI:Ged\n \
        28:  0 14 PCI-MSIX-0000:00:01.0   0-edge      virtio0-input.0\nLOC: 10 20   Local timer interrupts\nERR: 3\n";

    #[test]
    fn sources_are_reported_by_processor() {
        let last = FIRST.replace("0 14", "5 100").replace("10 20", "11 22");
        let recording = recording_of(HARD_NAME, &[FIRST, &last]);
        let found = interrupts(&recording);
        let row = |source: &str, per_processor: [u64; 3]| InterruptCounts {
            source: source.into(),
            per_processor: per_processor.to_vec(),
        };
        assert_eq!(
            found,
            [row("28 virtio0-input.0", [5, 0, 86]), row("LOC Local timer interrupts", [1, 0, 2])]
        );
        assert!((HARD.series)(&recording).iter().any(|s| s.name == "28 virtio0-input.0 cpu2"));
    }

    #[test]
    fn soft_interrupts_have_names_alone() {
        let text = |n| format!("    CPU0 CPU1\n   HI: 0 0\nNET_RX: {n} 7\n");
        let found = softirqs(&recording_of(SOFT_NAME, &[&text(1), &text(9)]));
        assert_eq!(found, [InterruptCounts { source: "NET_RX".into(), per_processor: vec![8, 0] }]);
    }

    #[test]
    fn a_processor_of_no_host_takes_no_memory() {
        let text = |n| format!(" CPU0 CPU99999999999 CPU9999999\n 1: {n} 1 1 chip pin dev\n");
        assert_eq!(interrupts(&recording_of(HARD_NAME, &[&text(1), &text(2)]))[0].per_processor.len(), 1);
    }
}
