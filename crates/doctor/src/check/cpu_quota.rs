//! A CPU quota of the control group in which linerate runs.

use super::control_group::{leaves, lifted};
use super::{Check, CheckRun};
use crate::formula::percent;
use crate::source::{BANDWIDTH, CGROUPS};
use crate::{Finding, Host, Severity};

/// Share of the periods in which the quota stopped its group, above which the quota has a cost.
const STOPPED: f64 = 0.01;

pub(super) const CHECK: Check = Check {
    name: "cpu-quota",
    about: "a control group whose quota is less than the host's processors",
    sources: &[BANDWIDTH, CGROUPS],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let groups = &host.facts.groups;
    let (quota, processors) = (groups.cpu_quota.known()?, host.facts.cpu.threads().get()?);
    if quota.processors >= f64::from(processors) {
        return None;
    }
    let stopped = groups.throttling.get().filter(|of| of.periods > 0);
    let share = stopped.map_or(0.0, |of| of.throttled as f64 / of.periods as f64);
    let title = format!("linerate may use {:.2} of {processors} processors", quota.processors);
    let finding = leaves(host, quota.processors, title).evidence(format!(
        "the quota of the control group {}, in periods of {} ms: once the quota is used up, all of the group's threads wait for \
         the next period",
        quota.group,
        quota.period_us / 1000
    ));
    let finding = match stopped {
        Some(of) => finding.evidence(format!(
            "since its creation, the group was stopped in {} of {} periods ({})",
            of.throttled,
            of.periods,
            percent(share)
        )),
        None => finding,
    };
    let severity = if share >= STOPPED { finding.severity.max(Severity::Minor) } else { finding.severity };
    let now = format!("{:.0}%", 100.0 * quota.processors);
    let words = "raise the container's limit: docker update --cpus, or resources.limits.cpu in Kubernetes; or write a larger quota to \
                 the group's cpu.max (version 1: cpu.cfs_quota_us)";
    Some(lifted(Finding { severity, ..finding }, &quota.group, "CPUQuota", "", &now, words).conflict(
        "a quota protects the host's other work; a weight (cpu.weight) does so too, and lets the group use idle processors",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::facts::CpuFacts;
    use linerate_host::{CpuQuota, Fact, Facts, Throttling};

    fn with(group: &str, processors: f64, throttled: u64) -> Facts {
        changed("stock-10g", |facts| {
            let quota = CpuQuota { group: group.into(), processors, period_us: 100_000 };
            facts.groups.cpu_quota = Fact::Known(quota);
            facts.groups.throttling =
                Fact::Known(Throttling { periods: 1000, throttled, throttled_us: 85_000 * throttled });
        })
    }

    #[test]
    fn a_quota_below_the_processors_is_found_with_what_it_leaves() {
        let found_ = found(&CHECK, &with("/system.slice/ssh.service", 0.15, 970));
        assert_eq!(lines(&found_), ["cpu-quota - critical 2.75 Gbit/s"]);
        assert!(found_[0].evidence[2].ends_with("stopped in 970 of 1000 periods (97 %)"), "{found_:?}");
        assert_eq!(
            (found_[0].fix.as_deref(), found_[0].undo.as_deref()),
            (
                Some("systemctl set-property --runtime ssh.service CPUQuota="),
                Some("systemctl set-property --runtime ssh.service CPUQuota=15%")
            )
        );
        let container = found(&CHECK, &with("/kubepods.slice/kubepods-podxxx", 0.15, 0));
        assert!(container[0].fix.as_ref().unwrap().contains("docker update --cpus"), "{container:?}");
    }

    #[test]
    fn a_quota_that_is_enough_is_a_note_unless_it_has_stopped_its_group() {
        let of = |throttled| lines(&found(&CHECK, &with("/a", 2.0, throttled)));
        assert_eq!(of(0), ["cpu-quota - note 36.7 Gbit/s"]);
        assert_eq!(of(50), ["cpu-quota - minor 36.7 Gbit/s"]);
        assert!(found(&CHECK, &with("/a", 64.0, 50)).is_empty(), "all processors");
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }

    #[test]
    fn without_rates_the_loss_is_unknown() {
        let mut facts = with("/a", 0.5, 0);
        facts.cpu = CpuFacts { online: facts.cpu.online.clone(), ..CpuFacts::default() };
        assert_eq!(lines(&found(&CHECK, &facts)), ["cpu-quota - minor -"]);
    }
}
