//! The strain of the host, shown by stolen processor time and by stalls of tasks: /proc/stat and /proc/pressure.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::or_odd;
use crate::cpu_times::{self, CpuTimes};
use crate::root::Root;

/// How much the host is strained by other guests and by its own tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Strain {
    /// Seconds since the host was booted.
    pub up_seconds: Fact<u64>,
    /// The share, from 0 to 1, of processor time since boot that the hypervisor gave to other guests.
    pub steal: Fact<f64>,
    /// The share, from 0 to 1, of processor time since boot in which processors were busy.
    pub busy: Fact<f64>,
    /// The percentages of recent time in which tasks waited for a processor.
    pub cpu: Fact<StallShares>,
    /// The percentages of recent time in which tasks waited for storage.
    pub io: Fact<StallShares>,
    /// The percentages of recent time in which tasks waited for memory.
    pub memory: Fact<StallShares>,
}

/// The percentages of a recent interval in which tasks waited for one resource: processors, storage or memory (the
/// kernel's Documentation/accounting/psi.rst).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StallShares {
    /// The percentage of the last 10 seconds in which at least one task waited.
    pub some_10: f64,
    /// The percentage of the last 60 seconds in which at least one task waited.
    pub some_60: f64,
    /// The percentage of the last 300 seconds in which at least one task waited.
    pub some_300: f64,
    /// The percentage of the last 10 seconds in which all tasks waited at the same time; for processors, Linux 5.13 and
    /// later have this value.
    pub full_10: Fact<f64>,
}

impl Strain {
    pub(super) fn read(root: &Root) -> Self {
        let times =
            root.needed("proc/stat").and_then(|text| or_odd("proc/stat", &text, cpu_times::parse(&text)));
        // The text has the form `SECONDS.HUNDREDTHS IDLE`.
        let up = |text: String| {
            or_odd("proc/uptime", &text, text.split('.').next().and_then(|seconds| seconds.parse().ok()))
        };
        Self {
            up_seconds: root.text("proc/uptime").and_then(up),
            steal: times.clone().and_then(|times| share(&times, times.steal)),
            busy: times.and_then(|times| share(&times, busy(&times))),
            cpu: StallShares::read(root, "cpu"),
            io: StallShares::read(root, "io"),
            memory: StallShares::read(root, "memory"),
        }
    }
}

fn busy(times: &CpuTimes) -> u64 {
    let parts =
        [times.user, times.nice, times.system, times.irq, times.softirq, times.guest, times.guest_nice];
    parts.into_iter().fold(0, u64::saturating_add)
}

fn share(times: &CpuTimes, part: u64) -> Fact<f64> {
    let parts = [busy(times), times.idle, times.iowait, times.steal];
    let total = parts.into_iter().fold(0, u64::saturating_add);
    if total == 0 { Fact::NotApplicable } else { Fact::Known(part as f64 / total as f64) }
}

impl StallShares {
    fn read(root: &Root, resource: &str) -> Fact<Self> {
        let path = format!("proc/pressure/{resource}");
        let text = match root.text(&path) {
            // A kernel booted with psi=0 answers EOPNOTSUPP, which also means "not applicable".
            Fact::Unreadable(reason) if reason.contains("not supported") => return Fact::NotApplicable,
            fact => fact,
        };
        text.and_then(|text| or_odd(&path, &text, Self::parse(&text)))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |line: &str, key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(line))?;
            line.split_whitespace().find_map(|word| word.strip_prefix(key))?.parse().ok()
        };
        Some(Self {
            some_10: value("some ", "avg10=")?,
            some_60: value("some ", "avg60=")?,
            some_300: value("some ", "avg300=")?,
            full_10: value("full ", "avg10=").map_or(Fact::NotApplicable, Fact::Known),
        })
    }
}
