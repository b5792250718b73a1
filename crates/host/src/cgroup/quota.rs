//! Limits on the processor time of control groups (the kernel's Documentation/scheduler/sched-bwc.rst).

use serde::{Deserialize, Serialize};

use super::hierarchy::{Hierarchy, HierarchyVersion};
use crate::Fact;
use crate::root::Root;

/// The files with a group's quota: the first is that of version 2, the other two are those of version 1.
pub(crate) const QUOTA_FILES: [&str; 3] = ["cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"];
/// The file with the counters of a group.
pub(crate) const STAT: &str = "cpu.stat";

/// A limit on the processor time of a group and of all groups below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuQuota {
    /// The group's path in the hierarchy.
    pub group: String,
    /// The number of processors that all threads of the group together may fill: 0.5 is half a processor.
    pub processors: f64,
    /// The period in microseconds. Once the group has used its share of a period, it is stopped until the next
    /// period begins.
    pub period_us: u64,
}

/// How often a quota has stopped its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Throttling {
    /// The number of periods in which the group ran.
    pub periods: u64,
    /// The number of periods in which the group used its whole share and was stopped.
    pub throttled: u64,
    /// Microseconds for which the group was stopped, summed over processors.
    pub throttled_us: u64,
}

/// A quota, and how often it stopped its group during a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaUse {
    /// The quota.
    pub quota: CpuQuota,
    /// How much the quota's counters have grown during the measurement.
    pub throttling: Throttling,
}

impl CpuQuota {
    /// The quotas of a process's groups, beginning with its own group; empty if no group has a quota. Not applicable
    /// on a kernel without quotas.
    pub(crate) fn of(root: &Root<'_>, groups: &Hierarchy) -> Fact<Vec<Self>> {
        let texts = |file: &str| groups.texts(root, file);
        match groups.version {
            HierarchyVersion::Two => texts("cpu.max").and_then(|all| {
                collect(all.into_iter().map(|(group, text)| (Self::parse(&group.name, &text), text)))
            }),
            HierarchyVersion::One => texts("cpu.cfs_quota_us").and_then(|quotas| {
                texts("cpu.cfs_period_us").and_then(|periods| {
                    let both = quotas.iter().zip(&periods).map(|((group, quota), (_, period))| {
                        let text = format!("{quota} {period}");
                        (Self::parse(&group.name, &text), text)
                    });
                    collect(both)
                })
            }),
        }
    }

    /// Parses `QUOTA PERIOD`, both in microseconds. `max` (in version 1: -1) means that there is no quota,
    /// and results in `Some(None)`. `None` if the text is invalid.
    pub(crate) fn parse(group: &str, text: &str) -> Option<Option<Self>> {
        let (quota, period) = text.trim().split_once(' ')?;
        let period_us: u64 = period.trim().parse().ok().filter(|period| *period > 0)?;
        if quota == "max" || quota == "-1" {
            return Some(None);
        }
        let processors = quota.parse::<u64>().ok()? as f64 / period_us as f64;
        Some(Some(Self { group: group.to_owned(), processors, period_us }))
    }
}

/// All quotas in the list. If a text isn't a valid quota, the fact is unreadable, and its reason quotes the first
/// invalid text.
fn collect(all: impl Iterator<Item = (Option<Option<CpuQuota>>, String)>) -> Fact<Vec<CpuQuota>> {
    let mut quotas = Vec::new();
    for (quota, text) in all {
        match quota {
            Some(quota) => quotas.extend(quota),
            None => return Fact::Unreadable(format!("a control group's quota is {:?}", text.trim())),
        }
    }
    Fact::Known(quotas)
}

impl Throttling {
    /// How much the counters have grown since an earlier reading of the same group. If the group was created again
    /// since then, the result is the current values of the counters.
    pub fn since(&self, earlier: &Self) -> Self {
        if self.periods < earlier.periods {
            return *self;
        }
        Self {
            periods: self.periods - earlier.periods,
            throttled: self.throttled.saturating_sub(earlier.throttled),
            throttled_us: self.throttled_us.saturating_sub(earlier.throttled_us),
        }
    }
}

impl QuotaUse {
    /// The total length, in seconds, of the periods in which the group was stopped.
    pub fn stopped_seconds(&self) -> f64 {
        self.throttling.throttled as f64 * self.quota.period_us as f64 * 1e-6
    }
}

/// Parses cpu.stat; `None` if the group has no such counters. Version 1 counts the time for which the group was stopped
/// in nanoseconds.
pub(crate) fn throttling(text: &str) -> Option<Throttling> {
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let throttled_us = value("throttled_usec").or_else(|| Some(value("throttled_time")? / 1000))?;
    Some(Throttling { periods: value("nr_periods")?, throttled: value("nr_throttled")?, throttled_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_write_quotas_and_none() {
        let parsed =
            |text| CpuQuota::parse("/a", text).unwrap().map(|quota| (quota.processors, quota.period_us));
        assert_eq!(parsed("15000 100000"), Some((0.15, 100_000)));
        assert_eq!((parsed("max 100000"), parsed("-1 100000")), (None, None));
        for odd in ["", "max", "x 100000", "1000 0", "-2 100000"] {
            assert_eq!(CpuQuota::parse("/a", odd), None, "{odd}");
        }
    }

    /// The values come from kubernetes#97445 (EKS, Linux 4.14) and k0s#4954 (a pod of KubeVirt).
    #[test]
    fn both_versions_write_counters() {
        let one = throttling("nr_periods 183\nnr_throttled 2\nthrottled_time 5198271\n").unwrap();
        assert_eq!(one, Throttling { periods: 183, throttled: 2, throttled_us: 5198 });
        let two = "usage_usec 8099091679\nuser_usec 8089018953\nsystem_usec 10072726\nnr_periods 7607\n\
                   nr_throttled 4174\nthrottled_usec 3322148518\nnr_bursts 0\nburst_usec 0\n";
        let two = throttling(two).unwrap();
        assert_eq!(two, Throttling { periods: 7607, throttled: 4174, throttled_us: 3_322_148_518 });
        assert_eq!(throttling("usage_usec 1\nuser_usec 1\nsystem_usec 0\n"), None, "the uppermost group");
    }

    #[test]
    fn growth_is_that_of_one_group() {
        let of = |periods, throttled| Throttling { periods, throttled, throttled_us: 1000 * throttled };
        assert_eq!(of(50, 40).since(&of(30, 25)), of(20, 15));
        assert_eq!(of(5, 4).since(&of(30, 25)), of(5, 4), "made anew");
    }
}
