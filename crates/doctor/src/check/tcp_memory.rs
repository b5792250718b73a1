//! The memory limit of all connections together, compared with the maximum of one.

use super::{Check, CheckRun};
use crate::formula::bytes;
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Host, Severity};

/// Connections of a usual transfer.
const STREAMS: f64 = 8.0;

pub(super) const CHECK: Check = Check {
    name: "tcp-memory",
    about: "a memory limit of all connections together that is below the maximum of eight",
    sources: &[IP_SYSCTL, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let ([low, pressure, most], one) = (tcp.mem.get()?, tcp.rmem.get()?[2] as f64);
    let page = host.facts.memory.page.get()? as f64;
    let (all, wanted) = (pressure as f64 * page, one * STREAMS);
    if all >= wanted {
        return None;
    }
    // Half of the memory at most.
    let bears = host.facts.memory.total.get().map_or(f64::INFINITY, |total| total as f64 / 2.0);
    let pages = (wanted.min(bears) / page).ceil() as u64;
    let finding = Finding::new(
        Severity::Note,
        "the memory limit stops buffers before eight connections reach their maximum",
    )
    .evidence(format!(
        "tcp_mem stops growth at {} in all; each connection may grow to {}",
        bytes(all),
        bytes(one)
    ))
    .conflict("the kernel's default is a share of the memory; set no more than half of the free memory");
    let value = |pages: u64, most: u64| format!("{low} {pages} {most}");
    let more = value(pages, most.max(pages.saturating_mul(3) / 2));
    let change = Remedy::sysctl("net.ipv4.tcp_mem", value(pressure, most), more);
    Some(finding.remedied_or(
        change,
        "use fewer connections at a time, or add memory: the limit is a reasonable share of it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn little_for_all_is_noted() {
        let tight = changed("stock-10g", |facts| facts.tcp.mem = Fact::Known([4096, 8192, 12288]));
        assert_eq!(lines(&found(&CHECK, &tight)), ["tcp-memory - note -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
        let large_pages = changed("stock-10g", |facts| {
            (facts.tcp.mem, facts.memory.page) = (Fact::Known([4096, 8192, 12288]), Fact::Known(65_536));
        });
        assert!(found(&CHECK, &large_pages).is_empty(), "16 times as much");
    }

    #[test]
    fn no_more_is_proposed_than_the_memory_bears() {
        let small = changed("stock-10g", |facts| {
            (facts.tcp.mem, facts.memory.total) = (Fact::Known([1, 131_072, 200_000]), Fact::Known(1 << 30));
            facts.tcp.rmem = Fact::Known([4096, 131_072, 1 << 30]);
        });
        let found = found(&CHECK, &small);
        assert!(found[0].undo.is_none() && !found[0].fix.as_ref().unwrap().contains("sysctl"), "{found:?}");
    }
}
