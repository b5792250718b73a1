//! Records TCP's counters of the network namespace: /proc/net/snmp and /proc/net/netstat (RFC 4022, RFC 1213;
//! the kernel's Documentation/networking/snmp_counter.rst).

use serde::{Deserialize, Serialize};

use super::counters::{self, CounterValues, History};
use super::source::KeptFile;
use super::{Recording, SampleKind, TimeSeries};

const SNMP_NAME: &str = "snmp";
const NETSTAT_NAME: &str = "netstat";

pub(super) const SNMP: SampleKind = SampleKind {
    name: SNMP_NAME,
    open: |options| KeptFile::boxed(&options.root, "proc/net/snmp"),
    series: |recording| series(recording, SNMP_NAME),
};

pub(super) const NETSTAT: SampleKind = SampleKind {
    name: NETSTAT_NAME,
    open: |options| KeptFile::boxed(&options.root, "proc/net/netstat"),
    series: |recording| series(recording, NETSTAT_NAME),
};

/// The names of values that aren't counters.
const NO_COUNTERS: [&str; 5] =
    ["Tcp CurrEstab", "Tcp RtoAlgorithm", "Tcp RtoMin", "Tcp RtoMax", "Tcp MaxConn"];

/// TCP's numbers of segments, retransmissions, timeouts and drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpTotals {
    /// The number of segments received.
    pub segments_in: u64,
    /// The number of segments sent.
    pub segments_out: u64,
    /// The number of segments retransmitted.
    pub retransmits: u64,
    /// The number of retransmission timeouts.
    pub timeouts: u64,
    /// The number of tail loss probes.
    pub loss_probes: u64,
    /// The number of times that a receive queue was pruned, or a segment dropped, because of a lack of
    /// memory.
    pub prunes: u64,
    /// The number of connections that were dropped because a listen queue was full.
    pub listen_drops: u64,
}

/// The growth of TCP's counters (`RetransSegs`, `TCPTimeouts` and others) between the first and the last
/// sample.
pub fn tcp(recording: &Recording) -> CounterValues {
    let snmp = counters::totals(&history(recording, SNMP_NAME));
    let netstat = counters::totals(&history(recording, NETSTAT_NAME));
    let all = snmp.into_iter().chain(netstat);
    all.filter(|(name, _)| !NO_COUNTERS.contains(&name.as_str()))
        .filter_map(|(name, count)| {
            let name = name.strip_prefix("Tcp ").or_else(|| name.strip_prefix("TcpExt "))?;
            Some((name.to_owned(), count))
        })
        .collect()
}

/// The growth of the counters in [`TcpTotals`] between the first and the last sample.
pub fn tcp_totals(recording: &Recording) -> TcpTotals {
    let counters = tcp(recording);
    let of = |names: &[&str]| names.iter().filter_map(|name| counters.get(*name)).sum();
    TcpTotals {
        segments_in: of(&["InSegs"]),
        segments_out: of(&["OutSegs"]),
        retransmits: of(&["RetransSegs"]),
        timeouts: of(&["TCPTimeouts"]),
        loss_probes: of(&["TCPLossProbes"]),
        prunes: of(&["PruneCalled", "RcvPruned", "OfoPruned", "TCPRcvCollapsed", "TCPRcvQDrop"]),
        listen_drops: of(&["ListenDrops"]),
    }
}

/// The rates of the counters that have changed, and the number of connections.
fn series(recording: &Recording, kind: &str) -> Vec<TimeSeries> {
    let history = history(recording, kind);
    let rates = counters::moved(counters::rates(kind, "1/s", 1.0, &history));
    let mut all: Vec<_> =
        rates.into_iter().filter(|series| !NO_COUNTERS.contains(&series.name.as_str())).collect();
    let established = history.iter().filter_map(|(at, of)| Some((*at, *of.get("Tcp CurrEstab")? as f64)));
    let points: Vec<_> = established.collect();
    if !points.is_empty() {
        all.push(TimeSeries::new(kind, "Tcp CurrEstab", "connections", points));
    }
    all
}

fn history(recording: &Recording, kind: &str) -> History {
    counters::history(recording, kind, parse)
}

/// Parses the two lines of each protocol: one line with names, and one with values. Negative values, which are limits
/// that aren't set, are omitted.
fn parse(text: &str) -> CounterValues {
    let mut counters = CounterValues::new();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2) {
        let (Some((protocol, names)), Some((same, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        if protocol != same {
            continue;
        }
        let named = names.split_whitespace().zip(values.split_whitespace());
        let parsed = named.filter_map(|(name, value)| Some((name, value.parse().ok()?)));
        counters.extend(parsed.map(|(name, value)| (format!("{protocol} {name}"), value)));
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn both_files_are_reported_together() {
        let snmp = |n| {
            format!(
                "Ip: Forwarding\nIp: 1\nTcp: MaxConn CurrEstab OutSegs RetransSegs\nTcp: -1 {n} 1{n} {n}\n"
            )
        };
        let netstat =
            |n| format!("TcpExt: PruneCalled TCPTimeouts OfoPruned\nTcpExt: {n} 2 {n}\nIpExt: A\nIpExt: 1\n");
        let sample = |seconds: f64, n: u64| Sample {
            seconds,
            texts: vec![(SNMP_NAME.into(), snmp(n)), (NETSTAT_NAME.into(), netstat(n))],
        };
        let recording = Recording { samples: vec![sample(0.0, 3), sample(2.0, 7)], ..Recording::default() };
        let expected = TcpTotals { segments_out: 4, retransmits: 4, prunes: 8, ..TcpTotals::default() };
        assert_eq!(tcp_totals(&recording), expected);
        assert!(!tcp(&recording).contains_key("CurrEstab"));
        let shown: Vec<_> = series(&recording, SNMP_NAME).into_iter().map(|s| (s.name, s.points)).collect();
        assert_eq!(shown[0], ("Tcp OutSegs".into(), vec![(2.0, 2.0)]));
        assert_eq!(shown[2], ("Tcp CurrEstab".into(), vec![(0.0, 3.0), (2.0, 7.0)]));
    }
}
