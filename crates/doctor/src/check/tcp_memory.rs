//! The memory limit of all connections together, against the maximum of one.

use super::{Check, CheckRun};
use crate::formula::bytes;
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Host, Severity};

/// Bytes of a page on x86.
const PAGE: f64 = 4096.0;
/// Connections of a usual transfer.
const STREAMS: f64 = 8.0;

pub(super) const CHECK: Check = Check {
    name: "tcp-memory",
    about: "a memory limit of all connections below the maximum of eight",
    sources: &[IP_SYSCTL, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let ([low, pressure, most], one) = (tcp.mem.get()?, tcp.rmem.get()?[2] as f64);
    let (all, wanted) = (pressure as f64 * PAGE, one * STREAMS);
    if all >= wanted {
        return None;
    }
    let pages = (wanted / PAGE).ceil() as u64;
    let finding = Finding::new(
        Severity::Note,
        "the memory limit stops buffers before eight connections reach their maximum",
    )
    .evidence(format!(
        "tcp_mem stops growth at {} in all; each connection may grow to {}",
        bytes(all),
        bytes(one)
    ))
    .fix(format!("sysctl -w net.ipv4.tcp_mem='{low} {pages} {}'", most.max(pages.saturating_mul(3) / 2)))
    .undo(format!("sysctl -w net.ipv4.tcp_mem='{low} {pressure} {most}'"))
    .conflict("the kernel's default is a share of the memory; set no more than half of the free memory");
    Some(finding)
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
    }
}
