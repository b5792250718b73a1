//! Records the counters of network drivers (`ethtool -S`), both of single queues and of whole ports, in the
//! network namespace of the thread that starts the recording. Each line of the text consists of an interface,
//! a statistic, a colon and a value.

use std::collections::BTreeMap;
use std::io::{self, Write};

use linerate_sys::ethtool::Ethtool;

use super::counters::{self, CounterValues, History};
use super::source::{KeptFile, TextSource};
use super::{Recording, SampleKind, SamplerOptions};

const NAME: &str = "queues";

pub(super) const KIND: SampleKind = SampleKind {
    name: NAME,
    open: |options| Box::new(StatisticsSource::new(options)),
    series: |recording| counters::moved(counters::rates(NAME, "1/s", 1.0, &history(recording))),
};

/// The growth of each statistic between the first and the last sample. The name of a statistic has the form
/// `eth0 rx_queue_0_packets`.
pub fn queues(recording: &Recording) -> CounterValues {
    counters::totals(&history(recording))
}

fn history(recording: &Recording) -> History {
    counters::history(recording, NAME, parse)
}

fn parse(text: &str) -> CounterValues {
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(": ")?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

struct StatisticsSource {
    /// `None` if the recording isn't made on a live host, or if no socket can be opened.
    ethtool: Option<Ethtool>,
    interfaces: KeptFile,
    /// The names of each interface's statistics; `None` for an interface without statistics.
    names: BTreeMap<String, Option<Vec<String>>>,
}

impl StatisticsSource {
    fn new(options: &SamplerOptions) -> Self {
        let live = options.root.as_os_str() == "/";
        let ethtool = live.then(Ethtool::open).and_then(Result::ok);
        Self { ethtool, interfaces: KeptFile::new(&options.root, "proc/net/dev"), names: BTreeMap::new() }
    }

    fn interfaces(&mut self) -> io::Result<Vec<String>> {
        let mut text = Vec::new();
        self.interfaces.read(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let names = text.lines().filter(|line| !line.contains('|')).filter_map(|line| line.rsplit_once(':'));
        Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
    }
}

impl TextSource for StatisticsSource {
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let interfaces = self.interfaces()?;
        let Some(ethtool) = &mut self.ethtool else {
            return Err(io::Error::other("drivers can be asked on a live host only"));
        };
        self.names.retain(|name, _| interfaces.contains(name));
        for interface in interfaces {
            let names = self.names.entry(interface.clone()).or_insert_with(|| ethtool.names(&interface).ok());
            let Some(known) = names else { continue };
            let Ok(values) = ethtool.values(&interface) else { continue };
            if values.len() != known.len() {
                // The number of the interface's queues has changed, so the new names are read at the next
                // sample.
                self.names.remove(&interface);
                continue;
            }
            for (name, value) in known.iter().zip(values) {
                writeln!(text, "{interface} {name}: {value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;

    #[test]
    fn statistics_are_reported_by_interface() {
        let text =
            |n| format!("eth0 rx_queue_0_packets: {n}\neth0 tx 0 idle: 5\nveth1 peer_ifindex: 3\nbroken\n");
        let recording = recording_of(NAME, &[&text(2), &text(12)]);
        let found = queues(&recording);
        assert_eq!((found["eth0 rx_queue_0_packets"], found["eth0 tx 0 idle"], found.len()), (10, 0, 3));
        assert_eq!((KIND.series)(&recording).len(), 1);
    }

    #[test]
    fn a_live_host_is_asked() {
        let mut text = Vec::new();
        (KIND.open)(&SamplerOptions::default()).read(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(parse(&text).len(), text.lines().count(), "{text}");
    }
}
