//! Packets dropped between two processors, or before a virtual port, because the backlog was full.

use linerate_host::facts::SoftnetFacts;

use super::{Check, CheckRun, shell};
use crate::formula::bounds;
use crate::remedy::Remedy;
use crate::source::{ESNET, NET_SYSCTL, RED_HAT};
use crate::{Finding, Host, Severity};

/// The backlog that ESnet sets for 10 Gbit/s and more.
const LARGE: u64 = 250_000;
/// Bytes of a packet that waits, with the kernel's own data about it.
const PACKET: u64 = 4096;
/// The share of dropped packets at or above which connections slow down.
const FELT: f64 = 1e-4;
const FLOW_LIMIT: &str = "net.core.flow_limit_cpu_bitmap";

pub(super) const CHECK: Check = Check {
    name: "softnet-backlog",
    about: "packets dropped because a processor's backlog was full",
    sources: &[NET_SYSCTL, ESNET, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let softnet = &host.facts.softnet;
    full(host, softnet).into_iter().chain(flow(softnet)).collect()
}

fn full(host: &Host<'_>, softnet: &SoftnetFacts) -> Option<Finding> {
    let cpus = softnet.cpus.known()?;
    let (dropped, processed) =
        (cpus.iter().map(|c| c.dropped).sum::<u64>(), cpus.iter().map(|c| c.processed).sum::<u64>());
    let backlog = softnet.max_backlog.get().filter(|_| dropped > 0).map(u64::from)?;
    let severity = if dropped as f64 >= processed as f64 * FELT { Severity::Major } else { Severity::Minor };
    let larger = (backlog * 2).max(LARGE.min(backlog * 10)).min(bounds::most(host.facts, PACKET));
    let finding =
        Finding::new(severity, format!("{dropped} received packets found their processor's backlog full"))
            .evidence(format!("of {processed} packets {}; netdev_max_backlog is {backlog}", host.since()))
            .remedied_or(
                Remedy::sysctl("net.core.netdev_max_backlog", backlog, larger),
                "spread the packets over more processors: more receive queues, or RPS",
            )
            .conflict(
                "ESnet sets 250000 at once, Red Hat doubles the value while the counter grows; only RPS and virtual ports use the backlog, and a long backlog adds delay",
            );
    Some(finding)
}

fn flow(softnet: &SoftnetFacts) -> Option<Finding> {
    let dropped: u64 = softnet.cpus.known()?.iter().map(|cpu| cpu.flow_limit).sum();
    let finding = Finding::new(
        Severity::Minor,
        format!("{dropped} packets of large flows were dropped in favour of small flows"),
    )
    .evidence(
        "flow_limit_cpu_bitmap is set: while a backlog is half full, packets of the largest flow are dropped",
    )
    .fix(format!("sysctl -w {FLOW_LIMIT}=0"))
    .undo(match softnet.flow_limit_cpus.known() {
        Some(mask) => format!("sysctl -w {FLOW_LIMIT}={}", shell::word(mask)),
        None => format!("sysctl -w {FLOW_LIMIT}=MASK: note the mask first (sysctl {FLOW_LIMIT})"),
    });
    (dropped > 0).then_some(finding)
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;
    use linerate_host::facts::SoftnetCpu;

    use super::*;
    use crate::testing::{fixture, found, lines};

    fn with(change: impl FnOnce(&mut SoftnetCpu)) -> Vec<String> {
        let mut host = fixture("stock-10g");
        let Fact::Known(cpus) = &mut host.softnet.cpus else { panic!("no processors") };
        change(&mut cpus[0]);
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn full_backlogs_are_found() {
        assert_eq!(with(|cpu| cpu.dropped = 5), ["softnet-backlog - minor -"]);
        assert_eq!(with(|cpu| cpu.dropped = cpu.processed), ["softnet-backlog - major -"]);
        assert_eq!(with(|cpu| cpu.flow_limit = 5), ["softnet-backlog - minor -"]);
    }

    #[test]
    fn the_backlog_stays_within_the_memory_and_the_kernels_numbers() {
        let fix = |backlog: u32, memory: u64| {
            let mut host = fixture("stock-10g");
            let Fact::Known(cpus) = &mut host.softnet.cpus else { panic!("no processors") };
            cpus[0].dropped = 5;
            (host.softnet.max_backlog, host.memory.total) = (Fact::Known(backlog), Fact::Known(memory));
            found(&CHECK, &host).remove(0).fix.unwrap()
        };
        assert!(fix(1000, 1 << 34).ends_with("netdev_max_backlog=10000"));
        assert!(fix(30_000, 1 << 30).ends_with("netdev_max_backlog=32768"));
        assert!(fix(40_000, 1 << 30).starts_with("spread the packets"));
        assert!(fix(1_500_000_000, 1 << 50).ends_with("netdev_max_backlog=2147483647"));
    }

    #[test]
    fn the_mask_of_before_is_restored() {
        let mut host = fixture("stock-10g");
        let Fact::Known(cpus) = &mut host.softnet.cpus else { panic!("no processors") };
        cpus[0].flow_limit = 5;
        assert!(
            found(&CHECK, &host)[0].undo.as_deref().is_some_and(|undo| undo.contains("note the mask first"))
        );
        host.softnet.flow_limit_cpus = Fact::Known("ff".into());
        let undo = "sysctl -w net.core.flow_limit_cpu_bitmap=ff";
        assert_eq!(found(&CHECK, &host)[0].undo.as_deref(), Some(undo));
    }

    #[test]
    fn empty_ones_are_not() {
        assert!(with(|_| ()).is_empty());
    }
}
