//! Processors that postponed received packets because their budget was used up.

use linerate_host::facts::SoftnetCpu;

use super::{Check, CheckRun};
use crate::formula::percent;
use crate::remedy::Remedy;
use crate::source::{NET_SYSCTL, RED_HAT};
use crate::{Finding, Host, Severity};

/// The number of exhausted budgets for each processed packet at or above which the budget is too small. By default a
/// budget is 300 packets.
const OFTEN: f64 = 1e-4;
const LEAST_PACKETS: u64 = 100_000;
/// The least budget to propose: twice the kernel's default, as Red Hat sets it. The budget's time depends on the
/// kernel's ticks, so its present value is doubled.
const BUDGET: u64 = 600;
/// The largest values that are proposed: three doublings of the kernel's defaults, 300 packets and 2000 microseconds
/// (at 1000 ticks a second). Larger budgets keep programs off the processor for too long; then more queues are the
/// remedy.
const MOST_BUDGET: u64 = 2400;
const MOST_USECS: u64 = 16_000;

pub(super) const CHECK: Check = Check {
    name: "softnet-squeezed",
    about: "processors that often exhausted the budget for received packets",
    sources: &[NET_SYSCTL, RED_HAT],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let softnet = &host.facts.softnet;
    let share = |cpu: &&SoftnetCpu| cpu.squeezed as f64 / cpu.processed.max(1) as f64;
    let busy = softnet.cpus.known()?.iter().filter(|cpu| cpu.processed >= LEAST_PACKETS);
    let worst = busy.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let budget = u64::from(softnet.budget.get()?);
    // Linux before 4.12 has no netdev_budget_usecs.
    let usecs = softnet.budget_usecs.get().map(u64::from);
    if share(&worst) < OFTEN {
        return None;
    }
    let changes = [
        Remedy::sysctl("net.core.netdev_budget", budget, (budget * 2).clamp(BUDGET, MOST_BUDGET.max(budget))),
        usecs.and_then(|now| {
            Remedy::sysctl("net.core.netdev_budget_usecs", now, (now * 2).min(MOST_USECS.max(now)))
        }),
    ];
    let time = usecs.map_or(String::new(), |usecs| format!(", netdev_budget_usecs {usecs}"));
    let title = format!("processor {} postponed received packets {} times", worst.cpu, worst.squeezed);
    let finding = Finding::new(Severity::Minor, title)
        .evidence(format!("{} of {} packets {}", percent(share(&worst)), worst.processed, host.since()))
        .evidence(format!("netdev_budget {budget}{time}"))
        .remedied_or(
            changes.into_iter().flatten(),
            "spread the packets over more processors: more queues, or RPS",
        )
        .conflict("a larger budget keeps programs off the processor for longer; more queues avoid that");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{fixture, found, lines};

    #[test]
    fn a_small_budget_is_found() {
        let mut host = fixture("stock-10g");
        let Fact::Known(cpus) = &mut host.softnet.cpus else { panic!("no processors") };
        cpus[2].squeezed = cpus[2].processed / 1000;
        let found = found(&CHECK, &host);
        assert_eq!(lines(&found), ["softnet-squeezed - minor -"]);
        assert!(found[0].title.contains("processor 2"), "{found:?}");
        let now = host.softnet.budget_usecs.get().unwrap_or(2000);
        let fix = format!("netdev_budget=600 net.core.netdev_budget_usecs={}", 2 * now);
        assert!(found[0].fix.as_ref().is_some_and(|found| found.contains(&fix)), "{found:?}");
    }

    #[test]
    fn an_older_kernel_has_no_limit_in_time() {
        let mut host = fixture("stock-10g");
        let Fact::Known(cpus) = &mut host.softnet.cpus else { panic!("no processors") };
        cpus[2].squeezed = cpus[2].processed / 1000;
        host.softnet.budget_usecs = Fact::NotApplicable;
        let found = found(&CHECK, &host).remove(0);
        assert_eq!(found.fix.as_deref(), Some("sysctl -w net.core.netdev_budget=600"));
        assert_eq!(found.evidence[1], "netdev_budget 300");
    }

    #[test]
    fn budgets_that_are_large_already_stay() {
        let mut host = fixture("stock-10g");
        let Fact::Known(cpus) = &mut host.softnet.cpus else { panic!("no processors") };
        cpus[2].squeezed = cpus[2].processed / 1000;
        (host.softnet.budget, host.softnet.budget_usecs) = (Fact::Known(1 << 30), Fact::Known(1 << 30));
        let found = found(&CHECK, &host).remove(0);
        assert!(found.remedies.is_empty() && found.fix.unwrap().contains("more queues"));
    }

    #[test]
    fn a_few_times_are_nothing() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        assert!(found(&CHECK, &fixture("virtio-one-queue")).is_empty());
    }
}
