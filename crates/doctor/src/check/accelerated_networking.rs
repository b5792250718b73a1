//! Hyper-V's synthetic port in a guest that has no virtual function.

use linerate_host::facts::{Port, PortKind};

use super::{Check, CheckRun};
use crate::{Citation, Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "accelerated-networking",
    about: "a guest of Hyper-V or Azure whose packets all pass through the hypervisor's switch",
    sources: &[Citation {
        name: "Microsoft, Accelerated Networking overview",
        url: "https://learn.microsoft.com/en-us/azure/virtual-network/accelerated-networking-overview",
    }],
    run: CheckRun::Host(|host| host.devices().filter_map(|port| of(host, port)).collect()),
};

/// Drivers of the virtual functions that Hyper-V offers in addition to its synthetic port.
const FUNCTIONS: [&str; 9] =
    ["mlx4_core", "mlx4_en", "mlx5_core", "mana", "ixgbevf", "iavf", "i40evf", "bnxt_en", "qede"];

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    // The virtual function is a member of Hyper-V's port.
    let is_function = |other: &Port| {
        other.kind.known() == Some(&PortKind::VirtualFunction)
            || other.master.known() == Some(&port.name)
            || other.driver.known().is_some_and(|driver| FUNCTIONS.contains(&driver.as_str()))
    };
    let ports = host.facts.ports.known()?;
    // A guest of WSL2 has Hyper-V's port, but nobody can give the guest a virtual function.
    if host.fixed_by().is_some() {
        return None;
    }
    if port.driver.known()? != "hv_netvsc" || ports.iter().any(is_function) {
        return None;
    }
    let finding = Finding::new(Severity::Minor, format!("{} has no virtual function", port.name))
        .at(&port.name)
        .evidence(
            "driver hv_netvsc, and the guest has no virtual function: \
             the hypervisor's software switch handles each packet",
        )
        .evidence("the cost depends on the guest's size, which the guest can't see")
        .fix(
            "Azure, with the guest stopped: az network nic update --accelerated-networking true; \
             Hyper-V: Set-VMNetworkAdapter -IovWeight 100; if it is already on: az vm deallocate, then az vm start; the guest's \
             kernel needs pci-hyperv and mlx4_en, mlx5_core or mana",
        )
        .undo("az network nic update --accelerated-networking false; Set-VMNetworkAdapter -IovWeight 0")
        .conflict("not every guest size supports accelerated networking");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn the_synthetic_port_alone_is_found() {
        assert_eq!(lines(&found(&CHECK, &fixture("hv-netvsc"))), ["accelerated-networking eth0 minor -"]);
    }

    #[test]
    fn with_a_function_beside_it_is_not() {
        let beside = |function: Port| {
            changed("hv-netvsc", |facts| {
                let Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
                ports.push(Port { name: "enP1s1".into(), ..function });
            })
        };
        for driver in ["mlx5_core", "mlx4_en", "iavf", "bnxt_en"] {
            let function = Port { driver: Fact::Known(driver.into()), ..Port::default() };
            assert!(found(&CHECK, &beside(function)).is_empty(), "{driver}");
        }
        let member = Port { master: Fact::Known("eth0".into()), ..Port::default() };
        assert!(found(&CHECK, &beside(member)).is_empty());
        assert!(found(&CHECK, &fixture("ena")).is_empty());
        let kernel = Fact::Known("5.15.167.4-microsoft-standard-WSL2".into());
        assert!(found(&CHECK, &changed("hv-netvsc", |facts| facts.kernel = kernel)).is_empty());
    }
}
