//! Records the network backlog of each processor: /proc/net/softnet_stat (the kernel's
//! net/core/net-procfs.c).

use serde::{Deserialize, Serialize};

use super::counters::{self, CounterValues, History};
use super::source::KeptFile;
use super::{Recording, SampleKind};

const NAME: &str = "softnet";

pub(super) const KIND: SampleKind = SampleKind {
    name: NAME,
    open: |options| KeptFile::boxed(&options.root, "proc/net/softnet_stat"),
    series: |recording| counters::rates(NAME, "1/s", 1.0, &history(recording)),
};

/// Counters of the processors' backlogs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Softnet {
    /// The number of processed packets.
    pub processed: u64,
    /// The number of packets dropped because a backlog was full.
    pub dropped: u64,
    /// The number of times that a poll ended with work left, because its time or budget was used up.
    pub squeezed: u64,
}

/// The growth of the counters between the first and the last sample, summed over all processors.
pub fn softnet(recording: &Recording) -> Softnet {
    let totals = counters::totals(&history(recording));
    let of = |column: &str| totals.get(&format!("all {column}")).copied().unwrap_or(0);
    Softnet { processed: of("processed"), dropped: of("dropped"), squeezed: of("squeezed") }
}

fn history(recording: &Recording) -> History {
    counters::history(recording, NAME, parse)
}

/// Parses three columns of each line, which are hexadecimal, for each processor and for all processors
/// together.
fn parse(text: &str) -> CounterValues {
    let mut counters = CounterValues::new();
    for (line, place) in text.lines().zip(0..) {
        let values: Vec<u64> =
            line.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
        // Since Linux 5.10, the thirteenth column is the processor's number. Before, each online processor
        // has a line, in order.
        let processor = values.get(12).copied().unwrap_or(place);
        for (column, value) in ["processed", "dropped", "squeezed"].iter().zip(values) {
            counters.insert(format!("cpu{processor} {column}"), value);
            let all = counters.entry(format!("all {column}")).or_default();
            *all = all.saturating_add(value);
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;

    #[test]
    fn hexadecimal_columns_are_reported_by_processor() {
        let first = "0000000a 00000000 00000001 0 0 0 0 0 0 0 0 0 00000000\n\
                     00000001 00000000 00000000 0 0 0 0 0 0 0 0 0 00000003\n";
        let last =
            first.replace("0000000a 00000000", "000000ff 00000002").replace("00000001 0 0", "00000004 0 0");
        let recording = recording_of(NAME, &[first, &last]);
        assert_eq!(softnet(&recording), Softnet { processed: 245, dropped: 2, squeezed: 3 });
        let series = (KIND.series)(&recording);
        assert!(series.iter().any(|series| series.name == "cpu3 processed"));
    }
}
