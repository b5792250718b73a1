//! A CPU quota of an end's control group, which stopped it for most of the time.

use linerate_host::QuotaUse;
use linerate_wire::stages::Stages;

use super::evidence::{percent, ratio, time};
use super::{Limiter, Verdict};

/// Share of the quota's periods in which the group used all of its quota, at or above which the quota limits.
const STOPPED: f64 = 0.5;
/// The number of stops below which a quota isn't named as the limiter.
const FEW: f64 = 3.0;

/// A quota, and how often it stopped its group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QuotaStops {
    /// The group, if its name is known.
    group: Option<String>,
    /// The number of processors that the group may fill.
    processors: f64,
    /// The quota's period in microseconds.
    period: f64,
    /// The number of periods in which the group was stopped.
    stops: f64,
    /// Duration of the measurement in seconds.
    seconds: f64,
}

impl QuotaStops {
    /// The quota of one end of a transfer.
    pub fn of_end(stages: &Stages, seconds: f64) -> Self {
        Self {
            group: None,
            processors: stages.quota as f64 * 1e-9,
            period: stages.quota_period as f64 * 1e-3,
            stops: stages.quota_stops as f64,
            seconds,
        }
    }

    /// The quota of a recorded host.
    pub fn of_host(used: &QuotaUse, seconds: f64) -> Self {
        Self {
            group: Some(used.quota.group.clone()),
            processors: used.quota.processors,
            period: used.quota.period_us as f64,
            stops: used.throttling.throttled as f64,
            seconds,
        }
    }

    /// Share of the measurement's periods in which the group was stopped.
    pub fn share(&self) -> f64 {
        ratio(self.stops * self.period * 1e-6, self.seconds).min(1.0)
    }

    /// The verdict, if the group was stopped in most periods.
    pub fn verdict(&self, whose: &str) -> Option<Verdict> {
        if self.processors <= 0.0 || self.stops < FEW || self.share() < STOPPED {
            return None;
        }
        let group = self.group.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        let evidence = format!(
            "its control group{group} may use {:.2} processors; the group was stopped, because it had used them up, in {} of the periods \
             of {}",
            self.processors,
            percent(self.share()),
            time(self.period)
        );
        Some(Verdict::new(Limiter::CpuQuota, self.share(), evidence).of(whose))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_host::{CpuQuota, Throttling};

    /// 10 seconds under a quota of 0.15 processors in periods of 100 ms.
    fn stopped(times: u64) -> QuotaUse {
        QuotaUse {
            quota: CpuQuota {
                group: "/system.slice/ssh.service".into(),
                processors: 0.15,
                period_us: 100_000,
            },
            throttling: Throttling { periods: 100, throttled: times, throttled_us: 85_000 * times },
        }
    }

    #[test]
    fn a_group_that_is_stopped_in_most_periods_is_limited_by_its_quota() {
        let verdict = |times| QuotaStops::of_host(&stopped(times), 10.0).verdict("host web1");
        let named = verdict(97).unwrap();
        assert_eq!(
            named.to_string(),
            "the CPU quota of host web1 (its control group /system.slice/ssh.service may use 0.15 processors; \
             the group was stopped, because it had used them up, in 97 % of the periods of 100 ms)"
        );
        assert_eq!(verdict(49), None);
        assert_eq!(QuotaStops::of_host(&QuotaUse::default(), 10.0).verdict("x"), None);
        assert_eq!(QuotaStops::of_host(&stopped(2), 0.2).verdict("x"), None, "too few to tell");
    }

    #[test]
    fn both_forms_say_the_same() {
        let stages = Stages {
            quota: 150_000_000,
            quota_period: 100_000_000,
            quota_stops: 97,
            quota_stopped: 97 * 85_000_000,
            ..Stages::default()
        };
        let (end, host) = (QuotaStops::of_end(&stages, 10.0), QuotaStops::of_host(&stopped(97), 10.0));
        assert!((end.processors - host.processors).abs() < 1e-9 && end.share() == host.share());
        assert!(end.verdict("the sender").unwrap().evidence.starts_with("its control group may use 0.15"));
    }
}
