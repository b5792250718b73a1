//! The memory limit of all connections together, compared with the maximum of one.

use super::{Check, CheckRun, processors};
use crate::formula::{bytes, flow, trip};
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Host, Severity};

/// A limit that is nearly enough, or that could grow only a little, isn't worth a change.
const NEARLY: f64 = 0.9;

pub(super) const CHECK: Check = Check {
    name: "tcp-memory",
    about: "a memory limit for all TCP connections that is too small for eight connections with full buffers",
    sources: &[IP_SYSCTL, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let ([low, pressure, most], one) = (tcp.mem.get()?, tcp.rmem.get()?[2] as f64);
    let page = host.facts.memory.page.get()? as f64;
    // A maximum above what the needed rate takes serves longer paths, and few connections reach it.
    let (all, used) = (pressure as f64 * page, one.min(flow::in_flight(host.rate(), trip::REGION)));
    let wanted = used * processors::STREAMS;
    if all >= wanted * NEARLY {
        return None;
    }
    // All connections may take half of the memory at most, and two thirds of that half before the kernel begins to save
    // memory.
    let bears = host.facts.memory.total.get().map_or(f64::INFINITY, |total| total as f64 / 2.0 / page);
    let pages = (wanted / page).min(bears / 1.5).floor();
    let is_much = pressure as f64 <= pages * NEARLY;
    let finding = Finding::new(
        Severity::Note,
        "TCP's memory limit stops the buffers' growth before eight connections have what they can use",
    )
    .evidence(format!(
        "tcp_mem stops growth at {} in all; each connection may grow to {}, and uses up to {} at a round trip of 10 ms",
        bytes(all),
        bytes(one),
        bytes(used)
    ))
    .conflict("the kernel's default is a share of the memory; set no more than half of the free memory");
    let value = |pages: u64, most: u64| format!("{low} {pages} {most}");
    let more = value(pages as u64, most.max((pages * 1.5) as u64));
    let change = Remedy::sysctl("net.ipv4.tcp_mem", value(pressure, most), more).filter(|_| is_much);
    Some(finding.remedied_or(
        change,
        "use fewer connections at a time, or add memory: the limit is a reasonable share of the memory",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines, port_of};
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

    /// ESnet's guide sets 2 GiB on hosts of 100 Gbit/s, with the kernel's own tcp_mem: a sixteenth of 192 GiB.
    #[test]
    fn maxima_beyond_the_needed_rate_take_no_more() {
        let with = |pressure: u64| {
            let host = changed("esnet-dtn-100g", |facts| {
                facts.tcp.rmem = Fact::Known([4096, 87_380, i32::MAX as u64]);
                facts.tcp.mem = Fact::Known([1, pressure, pressure * 2]);
            });
            found(&CHECK, &host).len()
        };
        assert_eq!((with(3 << 20), with(1 << 16)), (0, 1));
    }

    #[test]
    fn no_more_is_proposed_than_the_memory_bears() {
        let small = changed("stock-10g", |facts| {
            (facts.tcp.mem, facts.memory.total) = (Fact::Known([1, 131_072, 200_000]), Fact::Known(1 << 30));
            facts.tcp.rmem = Fact::Known([4096, 131_072, 1 << 30]);
            port_of(facts, "eno1").speed_mbps = Fact::Known(100_000);
        });
        let found = found(&CHECK, &small);
        assert!(found[0].undo.is_none() && !found[0].fix.as_ref().unwrap().contains("sysctl"), "{found:?}");
    }

    #[test]
    fn the_largest_value_is_half_of_the_memory_and_a_page_more_is_nothing() {
        let fix = |pressure: u64, one: u64| {
            let host = changed("stock-10g", |facts| {
                facts.memory.total = Fact::Known(1 << 30);
                port_of(facts, "eno1").speed_mbps = Fact::Known(100_000);
                (facts.tcp.mem, facts.tcp.rmem) =
                    (Fact::Known([1, pressure, pressure + 1]), Fact::Known([4096, 131_072, one]));
            });
            found(&CHECK, &host).first().map(|finding| finding.fix.clone().unwrap())
        };
        assert_eq!(fix(8192, 1 << 30).unwrap(), "sysctl -w net.ipv4.tcp_mem='1 87381 131071'");
        assert_eq!(fix(2196, 2197 * 512), None, "one page less than eight connections need");
        assert!(fix(87_000, 1 << 30).unwrap().starts_with("use fewer connections"));
    }
}
