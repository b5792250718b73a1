//! The samplers of both hosts during a run: recordings of the texts that the kernel prints, and the series
//! that a report draws from them.

use std::io;

use linerate_host::sample::{self, Recording};
use linerate_remote::host_agent::{HostAgent, Sampling};

use super::pressure;
use crate::record::{Interrupts, Measures, Series};

/// The interval of samples in milliseconds.
const INTERVAL: u32 = 250;
/// The greatest number of points of a series. In a longer series, adjacent points are averaged; this is precise enough
/// for a line in a figure.
const MOST_POINTS: usize = 240;
/// The number of interrupt sources that the record keeps, the busiest first. The recording has all sources.
const MOST_SOURCES: usize = 12;

/// Properties of the hosts that are needed to judge a recording.
#[derive(Clone, Copy)]
pub(super) struct Surroundings {
    /// True if both ends are the same machine.
    pub one_machine: bool,
    /// True if the moved data is in memory at both ends.
    pub data_in_memory: bool,
}

/// The processes of an end whose processor time is sampled, including that of their descendants.
pub enum Followed {
    /// The process with this number.
    Process(u32),
    /// The processes with these names.
    Named(Vec<String>),
}

/// Makes an end's agent start sampling its host and the followed processes.
///
/// # Errors
/// If the agent has ended.
pub(super) fn start(agent: &mut HostAgent, followed: Followed) -> io::Result<()> {
    let (processes, names) = match followed {
        Followed::Process(process) => (vec![process], Vec::new()),
        Followed::Named(names) => (Vec::new(), names),
    };
    let sampling = Sampling { interval_ms: INTERVAL, processes, names };
    agent.start_sampling(&sampling).map(drop)
}

/// Adds the series of a host's recording to the run's measures.
///
/// # Errors
/// If the bytes aren't a recording.
pub(super) fn add(
    measures: &mut Measures,
    host: &str,
    recording: &[u8],
    surroundings: Surroundings,
) -> Result<(), String> {
    let recording = Recording::parse(recording).map_err(|e| format!("the recording of host {host}: {e}"))?;
    mark(measures, host, &recording, surroundings);
    let series = sample::series(&recording);
    measures.series.extend(series.into_iter().filter_map(|series| drawn(host, series)));
    let mut sources = sample::interrupts(&recording);
    sources.extend(sample::softirqs(&recording));
    sources.retain(|source| count(source) > 0);
    sources.sort_by_key(|source| std::cmp::Reverse(count(source)));
    measures.interrupts.extend(sources.into_iter().take(MOST_SOURCES).map(|source| Interrupts {
        host: host.into(),
        source: source.source,
        per_processor: source.per_processor,
    }));
    Ok(())
}

/// Marks the run as disturbed if the host was under pressure. If both ends are one machine, the machine's pressure is
/// reported only once.
fn mark(measures: &mut Measures, host: &str, recording: &Recording, surroundings: Surroundings) {
    if surroundings.one_machine && host != "a" {
        return;
    }
    let Some(reason) = pressure::disturbed(recording, surroundings.data_in_memory) else { return };
    let reason = if surroundings.one_machine { reason } else { format!("host {host}: {reason}") };
    measures.disturbed = Some(match measures.disturbed.take() {
        Some(before) => format!("{before}; {reason}"),
        None => reason,
    });
}

fn count(source: &sample::InterruptCounts) -> u64 {
    source.per_processor.iter().sum()
}

/// Selects the series that are kept in the record: processors, memory, and the bits and packets of ports. The
/// recording itself has all data.
fn drawn(host: &str, series: sample::TimeSeries) -> Option<Series> {
    let moved = || series.points.iter().any(|(_, rate)| *rate > 0.0);
    let (name, unit, scale) = match (series.kind.as_str(), series.name.as_str(), series.unit.as_str()) {
        ("cpu", name @ ("all busy" | "all softirq"), "%") => (format!("cpu {name}"), "percent", 1.0),
        ("ports", name, "bit/s") if moved() => (name.to_owned(), "Gbit/s", 1e-9),
        ("ports", name, _) if is_packets(name) && moved() => (name.to_owned(), "1/s", 1.0),
        ("memory", "MemAvailable", _) => ("memory available".to_owned(), "GB", 1e-9),
        _ => return None,
    };
    let points = whole_intervals(&series.points);
    let points = points.chunks(points.len().div_ceil(MOST_POINTS).max(1));
    let mean = |points: &[(f64, f64)]| {
        let sum: f64 = points.iter().map(|(_, value)| value).sum();
        points.last().map(|(at, _)| (*at, sum * scale / points.len() as f64))
    };
    Some(Series { host: host.into(), name, unit: unit.into(), points: points.filter_map(mean).collect() })
}

/// True for a series of a port's packets, except for loopback.
fn is_packets(name: &str) -> bool {
    name.ends_with(" packets") && !name.starts_with("lo ")
}

/// Removes the last point if its interval is shorter than the others, because a rate over a few milliseconds
/// is meaningless.
fn whole_intervals(points: &[(f64, f64)]) -> &[(f64, f64)] {
    match points {
        [.., (before, _), (last, _)] if last - before < f64::from(INTERVAL) / 2000.0 => {
            &points[..points.len() - 1]
        }
        _ => points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Surroundings = Surroundings { one_machine: false, data_in_memory: true };

    fn ports(received: u64) -> String {
        format!(
            "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes \
             packets errs drop fifo colls carrier compressed\n  eth0: {received} {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
            received / 1000
        )
    }

    fn recorded() -> String {
        let mut text =
            "linerate recording 1\nhost x\nstarted 1.0\nboot 1.0\ninterval 1\nticks 100\n".to_owned();
        for (second, busy, received) in [(0, 0, 0), (1, 50, 125_000_000)] {
            let cpu = format!("cpu  {busy} 0 0 {} 0 0 0 0 0 0\n", 100 - busy + second * 50);
            let interrupts =
                format!("  CPU0 CPU1\n 24: {} 7 IO-APIC eth0-rx\n 25: 3 3 x idle0\n", second * 40);
            let memory = "MemTotal: 9 kB\nMemAvailable: 2000000 kB\nDirty: 7 kB\n".to_owned();
            let all =
                [("cpu", cpu), ("interrupts", interrupts), ("ports", ports(received)), ("memory", memory)];
            for (kind, part) in all {
                let head = if kind == "cpu" { format!("@ {second}.0\n") } else { String::new() };
                text.push_str(&format!("{head}# {kind} {}\n{part}\n", part.len()));
            }
        }
        text
    }

    #[test]
    fn what_was_recorded_becomes_lines_and_rows() {
        let mut measures = Measures::default();
        add(&mut measures, "b", recorded().as_bytes(), ALONE).unwrap();
        let line = |name: &str| measures.series.iter().find(|series| series.name == name).unwrap();
        assert_eq!(line("eth0 received").unit, "Gbit/s");
        assert!((line("eth0 received").points.last().unwrap().1 - 1.0).abs() < 1e-9);
        assert_eq!(line("eth0 received packets").points, [(1.0, 125_000.0)]);
        let memory = line("memory available");
        assert!(memory.unit == "GB" && (memory.points[0].1 - 2.048).abs() < 1e-9, "{memory:?}");
        assert_eq!(line("cpu all busy").points.len(), 1);
        assert!(
            measures.series.iter().all(|series| series.host == "b" && !series.name.starts_with("eth0 sent"))
        );
        let [row] = &measures.interrupts[..] else { panic!("{:?}", measures.interrupts) };
        assert_eq!((row.per_processor.as_slice(), row.host.as_str()), (&[40, 0][..], "b"));
        assert!(row.source.contains("eth0-rx"), "{row:?}");
    }

    #[test]
    fn what_is_no_recording_is_reported() {
        let reported = add(&mut Measures::default(), "b", b"nonsense", ALONE).unwrap_err();
        assert!(reported.starts_with("the recording of host b: "), "{reported}");
    }

    #[test]
    fn a_long_line_is_thinned() {
        let points = (0..1000).map(|i| (f64::from(i), 2.0)).collect();
        let long =
            sample::TimeSeries { kind: "cpu".into(), name: "all busy".into(), unit: "%".into(), points };
        let line = drawn("a", long).unwrap();
        assert!(line.points.len() <= MOST_POINTS && line.points.iter().all(|(_, value)| *value == 2.0));
        assert_eq!(line.points.last().unwrap().0, 999.0);
        assert_eq!(whole_intervals(&[(0.25, 1.0), (0.5, 1.0), (0.51, 90.0)]).len(), 2);
        assert_eq!(whole_intervals(&[(0.02, 1.0)]).len(), 1);
    }
}
