//! Jumbo packets where a hop drops them without a word.

use super::{Check, Run};
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Host, Severity};

/// What the whole internet takes.
const COMMON: u32 = 1500;

pub(super) const CHECK: Check = Check {
    name: "mtu-probing",
    about: "large packets, and no way to learn that a path doesn't take them",
    sources: &[IP_SYSCTL, ESNET],
    run: Run::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    if host.facts.tcp.mtu_probing.get()? != 0 {
        return None;
    }
    let port = host.devices().find(|port| port.mtu.get().is_some_and(|mtu| mtu > COMMON))?;
    let finding = Finding::new(Severity::Note, "a path that takes less than the port's MTU may stall")
        .at(&port.name)
        .evidence(format!("MTU {}, and tcp_mtu_probing is 0", port.mtu.get()?))
        .evidence("where a router's answer is filtered, connections hang after the first full segment")
        .fix("sysctl -w net.ipv4.tcp_mtu_probing=1")
        .undo("sysctl -w net.ipv4.tcp_mtu_probing=0")
        .conflict("ESnet and perfSONAR set 1 with jumbo packets; distributions leave 0");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn jumbo_without_probing_is_noted() {
        let off = changed("mlx5-25g-tuned", |facts| facts.tcp.mtu_probing = Fact::Known(0));
        assert_eq!(lines(&found(&CHECK, &off)), ["mtu-probing ens1f0np0 note -"]);
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("firecracker")).is_empty(), "an MTU of 1400 goes everywhere");
    }
}
