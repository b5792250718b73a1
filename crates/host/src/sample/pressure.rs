//! Records pressure stall information (the kernel's Documentation/accounting/psi.rst).

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::counters::{self, CounterValues, History};
use super::source::{KeptFile, TextSource};
use super::{Recording, SampleKind, TimeSeries};

const NAME: &str = "pressure";
const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

pub(super) const KIND: SampleKind =
    SampleKind { name: NAME, open: |options| Box::new(PressureFiles::new(&options.root)), series };

/// The files of the three resources. Each recorded line begins with the name of its resource.
struct PressureFiles(Vec<(&'static str, KeptFile)>);

impl PressureFiles {
    fn new(root: &Path) -> Self {
        let held = |name: &'static str| (name, KeptFile::new(root, &format!("proc/pressure/{name}")));
        Self(RESOURCES.map(held).into())
    }
}

impl TextSource for PressureFiles {
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        for (name, held) in &mut self.0 {
            let mut lines = Vec::new();
            held.read(&mut lines)?;
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                text.extend_from_slice(name.as_bytes());
                text.push(b' ');
                text.extend_from_slice(line);
            }
        }
        Ok(())
    }
}

/// The time in which tasks waited for a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// The resource and the kind of wait. `cpu some`: at least one task waited for a processor; `io full`:
    /// all tasks waited for storage.
    pub name: String,
    /// The duration in wall-clock seconds.
    pub seconds: f64,
}

/// The waiting times between the first and the last sample; empty if the kernel doesn't count them.
pub fn stalls(recording: &Recording) -> Vec<Stall> {
    let totals = counters::totals(&history(recording));
    totals.into_iter().map(|(name, micros)| Stall { name, seconds: micros as f64 * 1e-6 }).collect()
}

/// The shares of wall-clock time in which tasks waited, in percent.
fn series(recording: &Recording) -> Vec<TimeSeries> {
    counters::rates(NAME, "%", 1e-4, &history(recording))
}

fn history(recording: &Recording) -> History {
    counters::history(recording, NAME, parse)
}

/// Parses the microseconds for each resource, separately for "some" and "full".
fn parse(text: &str) -> CounterValues {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (resource, which) = (words.next()?, words.next()?);
        let total = words.find_map(|word| word.strip_prefix("total="))?.parse().ok()?;
        Some((format!("{resource} {which}"), total))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;

    #[test]
    fn stalls_are_wall_time() {
        let text =
            |micros| format!("cpu some avg10=5.66 avg60=7.42 avg300=6.56 total={micros}\nio full total=7\n");
        let recording = recording_of(NAME, &[&text(1_000_000), &text(1_250_000)]);
        assert_eq!(stalls(&recording)[0], Stall { name: "cpu some".into(), seconds: 0.25 });
        assert_eq!(series(&recording)[0].points, [(1.0, 25.0)]);
    }
}
