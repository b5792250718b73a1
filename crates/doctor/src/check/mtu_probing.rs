//! Jumbo packets on a path that may drop them silently.

use super::{Check, CheckRun};
use crate::remedy::Remedy;
use crate::source::{ESNET, IP_SYSCTL};
use crate::{Finding, Host, Severity};

/// The MTU of the internet.
const COMMON: u32 = 1500;

pub(super) const CHECK: Check = Check {
    name: "mtu-probing",
    about: "large packets, without probing for paths that drop them",
    sources: &[IP_SYSCTL, ESNET],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    if host.facts.tcp.mtu_probing.get()? != 0 {
        return None;
    }
    let port = host.devices().find(|port| port.mtu.get().is_some_and(|mtu| mtu > COMMON))?;
    let finding = Finding::new(Severity::Note, "connections may stall on a path with a smaller MTU")
        .at(&port.name)
        .evidence(format!("MTU {}, and tcp_mtu_probing is 0", port.mtu.get()?))
        .evidence("if routers' ICMP messages are filtered, connections hang after the first full segment")
        .remedied(Remedy::sysctl("net.ipv4.tcp_mtu_probing", 0, 1))
        .conflict("ESnet and perfSONAR set 1 with jumbo packets; distributions keep 0");
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
