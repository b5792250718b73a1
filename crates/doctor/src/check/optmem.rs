//! Memory for sockets' ancillary data, which zero-copy sending needs.

use super::{Check, CheckRun};
use crate::formula::{bytes, gbit};
use crate::remedy::Remedy;
use crate::source::{ESNET, NET_SYSCTL};
use crate::{Finding, Host, Severity};

/// The rate in bits a second at or above which ESnet's guide raises the limit.
const LEAST_RATE: f64 = 100e9;
/// Bytes that ESnet's guide sets.
const LEAST_OPTMEM: u64 = 1 << 20;

pub(super) const CHECK: Check = Check {
    name: "optmem",
    about: "a low limit for zero-copy sending, from 100 Gbit/s up",
    sources: &[ESNET, NET_SYSCTL],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let now = host.facts.tcp.optmem_max.get()?;
    if host.rate() < LEAST_RATE || now >= LEAST_OPTMEM {
        return None;
    }
    let finding = Finding::new(Severity::Note, "zero-copy sending may run out of memory")
        .evidence(format!("optmem_max {}; needed: {}", bytes(now as f64), gbit(host.rate())))
        .evidence(
            "this matters to MSG_ZEROCOPY (iperf3 -Z from 3.18 on); linerate encrypts, and so copies anyway",
        )
        .remedied(Remedy::sysctl("net.core.optmem_max", now, LEAST_OPTMEM));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{changed, found_for, lines};
    use linerate_host::Fact;

    #[test]
    fn it_matters_at_a_hundred_gigabits() {
        let little = changed("stock-10g", |facts| facts.tcp.optmem_max = Fact::Known(20_480));
        assert_eq!(lines(&found_for(&CHECK, &little, Need::Target(100e9))), ["optmem - note -"]);
        assert!(found_for(&CHECK, &little, Need::OfPorts).is_empty());
        let more = changed("stock-10g", |facts| facts.tcp.optmem_max = Fact::Known(LEAST_OPTMEM));
        assert!(found_for(&CHECK, &more, Need::Target(100e9)).is_empty());
    }
}
