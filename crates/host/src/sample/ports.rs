//! Network interfaces in the network namespace of the recording process: /proc/net/dev (proc_pid_net(5)).
//!
//! Bytes are counted as the kernel counts them: with Ethernet headers, but without the preamble, checksum and gap on
//! the wire. Packets are also the kernel's packets: with segmentation offload, a packet on a virtual link has up to 64
//! KiB.

use serde::{Deserialize, Serialize};

use super::counters::{self, CounterValues, History};
use super::source::KeptFile;
use super::{Recording, SampleKind, TimeSeries};

const NAME: &str = "ports";

pub(super) const KIND: SampleKind =
    SampleKind { name: NAME, open: |options| KeptFile::boxed(&options.root, "proc/net/dev"), series };

/// The columns in the kernel's order; unused columns have no name.
const COLUMNS: [&str; 12] = [
    "received bytes",
    "received packets",
    "received errors",
    "received drops",
    "",
    "",
    "",
    "",
    "sent bytes",
    "sent packets",
    "sent errors",
    "sent drops",
];

/// The traffic of an interface in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The number of bytes, including Ethernet headers.
    pub bytes: u64,
    /// The number of packets as the kernel counts them.
    pub packets: u64,
    /// The number of errors.
    pub errors: u64,
    /// The number of dropped packets.
    pub drops: u64,
    /// The highest rate of any interval, in bits per second.
    pub peak_bits: f64,
}

/// The traffic of an interface in both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortTotals {
    /// The interface's name.
    pub name: String,
    /// The received traffic.
    pub received: Traffic,
    /// The sent traffic.
    pub sent: Traffic,
}

/// The traffic of each interface between the first and the last sample, sorted by name.
pub fn ports(recording: &Recording) -> Vec<PortTotals> {
    let history = history(recording);
    let (totals, series) = (counters::totals(&history), series(recording));
    let mut names: Vec<&str> =
        totals.keys().filter_map(|name| name.strip_suffix(" received bytes")).collect();
    names.dedup();
    let traffic = |name: &str, way: &str| {
        let of = |what: &str| totals.get(&format!("{name} {way} {what}")).copied().unwrap_or(0);
        let rate = series.iter().find(|series| series.name == format!("{name} {way}"));
        let peak = rate.and_then(|rate| rate.points.iter().map(|point| point.1).reduce(f64::max));
        Traffic {
            bytes: of("bytes"),
            packets: of("packets"),
            errors: of("errors"),
            drops: of("drops"),
            peak_bits: peak.unwrap_or(0.0),
        }
    };
    let port = |name: &&str| PortTotals {
        name: (*name).to_owned(),
        received: traffic(name, "received"),
        sent: traffic(name, "sent"),
    };
    names.iter().map(port).collect()
}

fn series(recording: &Recording) -> Vec<TimeSeries> {
    let mut all = counters::rates(NAME, "1/s", 1.0, &history(recording));
    for series in &mut all {
        if let Some(name) = series.name.strip_suffix(" bytes") {
            series.name = name.to_owned();
            series.unit = "bit/s".into();
            series.points.iter_mut().for_each(|point| point.1 *= 8.0);
        }
    }
    all
}

fn history(recording: &Recording) -> History {
    counters::history(recording, NAME, parse)
}

/// Parses the counters of all interfaces. The name of a counter consists of the interface and the column.
fn parse(text: &str) -> CounterValues {
    let mut counters = CounterValues::new();
    // The two heading lines contain '|'.
    for line in text.lines().filter(|line| !line.contains('|')) {
        let Some((name, values)) = line.rsplit_once(':') else { continue };
        let named = COLUMNS.iter().zip(values.split_whitespace()).filter(|(column, _)| !column.is_empty());
        let parsed = named.filter_map(|(column, value)| Some((column, value.parse().ok()?)));
        counters.extend(parsed.map(|(column, value)| (format!("{} {column}", name.trim()), value)));
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;

    #[test]
    fn each_direction_is_reported() {
        let text = |received: u64, sent: u64| {
            format!(
                "Inter-|   Receive |  Transmit\n face |bytes    packets errs |bytes\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  \
                 eth0:{received} 20 0 1 0 0 0 9 {sent} 30 2 0 0 0 0 0\n"
            )
        };
        let first = text(1000, 0).replace(" 20 0 1", " 10 0 0");
        let recording = recording_of(NAME, &[&first, &text(126_000, 5), &text(127_000, 10)]);
        let found = ports(&recording);
        assert_eq!(found.iter().map(|port| &*port.name).collect::<Vec<_>>(), ["eth0", "lo"]);
        let received =
            Traffic { bytes: 126_000, packets: 10, errors: 0, drops: 1, peak_bits: 125_000.0 * 8.0 };
        assert_eq!(found[0].received, received);
        assert_eq!((found[0].sent.bytes, found[0].sent.packets), (10, 0));
        let series = series(&recording);
        let rate = series.iter().find(|series| series.name == "eth0 received").unwrap();
        assert_eq!((&*rate.unit, rate.points[0], rate.points[1]), ("bit/s", (1.0, 1e6), (2.0, 8000.0)));
    }
}
