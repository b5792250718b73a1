//! Sequence numbers that wrap while old segments may still be in flight.

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::remedy::Remedy;
use crate::source::{IP_SYSCTL, RFC_7323, RFC_9293};
use crate::{Finding, Host, Severity};

/// Seconds that a segment may live in the network (RFC 9293, 3.4.1).
const LIFETIME: f64 = 120.0;

pub(super) const CHECK: Check = Check {
    name: "tcp-timestamps",
    about: "timestamps that are off at a rate that needs them",
    sources: &[RFC_7323, RFC_9293, IP_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    if host.facts.tcp.timestamps.get()? {
        return None;
    }
    let wrap = 2f64.powi(32) * 8.0 / host.rate();
    if wrap > LIFETIME {
        return None;
    }
    let finding = Finding::new(
        Severity::Minor,
        format!(
            "sequence numbers wrap after {wrap:.1} s, \
        without protection against old segments"
        ),
    )
    .evidence(
        "tcp_timestamps is 0: the receiver may accept old segments as new ones, and round trips are rarely measured",
    )
    .evidence(format!("at {} the sequence numbers wrap after {wrap:.1} s, but an old segment may arrive up to 120 s late", gbit(host.rate())))
    .remedied(Remedy::sysctl("net.ipv4.tcp_timestamps", 0, 1))
    .conflict(
        "old guides turn timestamps off to save 12 bytes a segment (0.8 % at MTU 1500, 0.1 % at 9000); \
             RFC 7323 and the kernel's default keep them",
    );
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{changed, fixture, found, found_for, lines};
    use linerate_host::Fact;

    #[test]
    fn fast_hosts_need_them() {
        let off = changed("stock-10g", |facts| facts.tcp.timestamps = Fact::Known(false));
        assert_eq!(lines(&found(&CHECK, &off)), ["tcp-timestamps - minor -"]);
        assert!(found_for(&CHECK, &off, Need::Target(100e6)).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
