//! Records memory: /proc/meminfo (proc_meminfo(5)).

use super::source::KeptFile;
use super::{Recording, SampleKind, TimeSeries};

const NAME: &str = "memory";

pub(super) const KIND: SampleKind =
    SampleKind { name: NAME, open: |options| KeptFile::boxed(&options.root, "proc/meminfo"), series };

/// The values for which series are computed. The recording also contains all other values of /proc/meminfo.
const SHOWN: [&str; 11] = [
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapFree",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Shmem",
    "Slab",
    "PageTables",
];

/// The least available memory in any sample, in bytes.
pub fn least_available(recording: &Recording) -> Option<u64> {
    recording.texts(NAME).filter_map(|(_, text)| value(text, "MemAvailable")).min()
}

fn series(recording: &Recording) -> Vec<TimeSeries> {
    let points = |key: &str| {
        let values =
            recording.texts(NAME).filter_map(|(seconds, text)| Some((seconds, value(text, key)? as f64)));
        values.collect::<Vec<_>>()
    };
    let all = SHOWN.iter().map(|key| TimeSeries::new(NAME, key, "byte", points(key)));
    all.filter(|series| !series.points.is_empty()).collect()
}

/// The value with this key in bytes. The kernel's unit kB means KiB.
fn value(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;

    #[test]
    fn values_are_bytes() {
        let text = "MemTotal: 9 kB\nMemFree:  3 kB\nMemAvailable:  5 kB\n";
        let recording = recording_of(NAME, &[text, &text.replace('5', "4")]);
        assert_eq!(least_available(&recording), Some(4096));
        let names: Vec<_> =
            series(&recording).into_iter().map(|series| (series.name, series.points)).collect();
        assert_eq!(names[0], ("MemFree".into(), vec![(0.0, 3072.0), (1.0, 3072.0)]));
        assert_eq!(names.len(), 2);
    }
}
