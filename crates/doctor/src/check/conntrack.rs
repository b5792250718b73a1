//! The connection tracking table: when it is full, the kernel drops the first packets of new connections.

use super::{Check, CheckRun};
use crate::formula::{bounds, percent};
use crate::remedy::Remedy;
use crate::{Citation, Finding, Host, Severity};

/// Bytes of an entry.
const ENTRY: u64 = 320;
/// Used share of the table from which the table may soon be full.
const NEARLY: f64 = 0.9;

pub(super) const CHECK: Check = Check {
    name: "conntrack",
    about: "a connection tracking table that is full or nearly full",
    sources: &[Citation {
        name: "Linux, Documentation/networking/nf_conntrack-sysctl.rst",
        url: "https://docs.kernel.org/networking/nf_conntrack-sysctl.html",
    }],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let (tracked, most) = (tcp.tracked.get()?, tcp.most_tracked.get().filter(|most| *most > 0)?);
    let share = tracked as f64 / most as f64;
    if share < NEARLY {
        return None;
    }
    let severity = if tracked >= most { Severity::Major } else { Severity::Minor };
    let larger = most.saturating_mul(2).min(bounds::most(host.facts, ENTRY));
    let title = format!("{} of the connection tracking table is in use", percent(share));
    let finding = Finding::new(severity, title)
        .evidence(format!("nf_conntrack_count {tracked}, nf_conntrack_max {most}"))
        .evidence("when the table is full, the kernel drops the first packets of new connections; established connections lose no packets")
        .remedied_or(
            Remedy::sysctl("net.netfilter.nf_conntrack_max", most, larger),
            "exempt connections from tracking (notrack), or let idle entries expire sooner (net.netfilter.nf_conntrack_tcp_timeout_*)",
        )
        .conflict("an entry takes about 300 bytes; packets that a notrack rule exempts from tracking need no entry");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn a_full_table_is_found_and_one_with_room_is_not() {
        let with = |tracked| {
            let host = changed("stock-10g", |facts| {
                (facts.tcp.tracked, facts.tcp.most_tracked) = (Fact::Known(tracked), Fact::Known(65_536));
            });
            lines(&found(&CHECK, &host))
        };
        assert_eq!(with(65_536), ["conntrack - major -"]);
        assert_eq!(with(60_000), ["conntrack - minor -"]);
        assert!(with(1_000).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty(), "no table");
    }

    #[test]
    fn the_table_stays_within_the_memory_and_the_kernels_numbers() {
        let fix = |most: u64, memory: u64| {
            let host = changed("stock-10g", |facts| {
                (facts.tcp.tracked, facts.tcp.most_tracked) = (Fact::Known(most), Fact::Known(most));
                facts.memory.total = Fact::Known(memory);
            });
            found(&CHECK, &host).remove(0).fix.unwrap()
        };
        assert!(fix(65_536, 1 << 34).ends_with("nf_conntrack_max=131072"));
        assert!(fix(300_000, 1 << 30).ends_with("nf_conntrack_max=419430"));
        assert!(fix(1 << 30, 1 << 30).starts_with("exempt connections"));
        assert!(fix(1 << 30, 1 << 50).ends_with("nf_conntrack_max=2147483647"));
    }
}
