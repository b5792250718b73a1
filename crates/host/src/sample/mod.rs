//! The sampler reads a host's counters at every interval, and records the kernel's text. The text is parsed
//! only when the recording is read.
//!
//! A [`Recorder`] makes a recording, and a [`Recording`] is a recording that was read. docs/formats.md specifies the
//! format of recordings on disk and between two ends. Each kind of data has one file in this module and one line in
//! `KINDS`.

mod cost;
mod counters;
mod cpu;
mod flows;
mod interrupts;
mod memory;
mod ports;
mod pressure;
mod processes;
mod queues;
mod quotas;
mod recorder;
mod recording;
mod sampler;
mod series;
mod sock_diag;
mod sockets;
mod softnet;
mod source;
mod tape;
mod tcp;
mod threads;

pub use cost::Cost;
pub use counters::CounterValues;
pub use cpu::{cpu_seconds, cpu_seconds_within, peak_busy_percent};
pub use flows::{Flow, flows, flows_of_followed};
pub use interrupts::{InterruptCounts, interrupts, softirqs};
pub use memory::least_available;
pub use ports::{PortTotals, Traffic, ports};
pub use pressure::{Stall, stalls};
pub use processes::{ProcessSeconds, ProcessTime, process_seconds, process_times, user_seconds};
pub use queues::queues;
pub use quotas::quota_use;
pub use recorder::Recorder;
pub use recording::{MAGIC, Recording, RecordingError, RecordingInfo, Sample};
pub use sampler::{DEFAULT_INTERVAL, Sampler, SamplerOptions, clamped};
pub use series::{TimeSeries, series};
pub use softnet::{Softnet, softnet};
pub use tape::MOST_BYTES;
pub use tcp::{TcpTotals, tcp, tcp_totals};
pub use threads::ThreadUse;

use source::TextSource;

/// A kind of data that is recorded.
pub(crate) struct SampleKind {
    /// The name of this kind in recordings.
    name: &'static str,
    /// Opens the source of this kind.
    open: fn(&SamplerOptions) -> Box<dyn TextSource>,
    /// Computes the series of this kind over time.
    series: fn(&Recording) -> Vec<TimeSeries>,
}

/// All kinds of data that are recorded.
pub(crate) const KINDS: &[SampleKind] = &[
    cpu::KIND,
    interrupts::HARD,
    interrupts::SOFT,
    ports::KIND,
    queues::KIND,
    softnet::KIND,
    memory::KIND,
    tcp::SNMP,
    tcp::NETSTAT,
    flows::KIND,
    pressure::KIND,
    quotas::KIND,
    processes::KIND,
];

/// A recording of one kind of data, with one text per second.
#[cfg(test)]
fn recording_of(kind: &str, texts: &[&str]) -> Recording {
    let sample = |(at, text): (usize, &&str)| Sample {
        seconds: at as f64,
        texts: vec![(kind.to_owned(), (*text).to_owned())],
    };
    let about = RecordingInfo { ticks_per_second: 100, ..RecordingInfo::default() };
    Recording { about, samples: texts.iter().enumerate().map(sample).collect(), missing: Vec::new() }
}
