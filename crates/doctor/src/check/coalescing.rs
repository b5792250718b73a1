//! How interrupts are gathered: too many of them, or too late.

use linerate_host::facts::{Coalescing, Port};

use super::{Check, Run};
use crate::formula::{bdp, bytes};
use crate::source::{ESNET_NIC, ETHTOOL, RED_HAT};
use crate::{Finding, Host, Severity};

/// Microseconds below which each queue interrupts more than 200,000 times a second.
const SHORT: u32 = 5;
/// Microseconds beyond which waiting is felt on a local path.
const LONG: u32 = 250;
/// Drivers of Intel's in which values up to 3 stand for their own ways of adapting.
const OWN_WAYS: [&str; 5] = ["igb", "e1000", "e1000e", "igc", "ixgbe"];
/// Below this rate a core bears any number of interrupts.
const SLOW: f64 = 5e9;

pub(super) const CHECK: Check = Check {
    name: "coalescing",
    about: "interrupts for each packet, or so late that delay is added",
    sources: &[RED_HAT, ESNET_NIC, ETHTOOL],
    run: Run::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(port, host.rate_of(port)?)).collect()
}

fn of(port: &Port, need: f64) -> Option<Finding> {
    let set = port.coalescing.known().filter(|set| !set.adaptive_rx)?;
    if set.rx_usecs <= 3 && OWN_WAYS.contains(&port.driver.known()?.as_str()) {
        return None;
    }
    match set.rx_usecs {
        usecs if usecs < SHORT && set.rx_frames <= 1 && need >= SLOW => Some(too_many(port, set)),
        usecs if usecs > LONG => Some(too_late(port, set, need)),
        _ => None,
    }
}

fn too_many(port: &Port, set: &Coalescing) -> Finding {
    let finding = Finding::new(Severity::Minor, format!("{} interrupts for almost each packet", port.name));
    told(finding, port, set, "at 10 Gbit/s that is up to 800,000 times a second")
        .conflict("guides for low delay want 0 to 8 microseconds; for bulk 50 to 100, or adaptive")
}

fn too_late(port: &Port, set: &Coalescing, need: f64) -> Finding {
    let more = bytes(bdp::bytes(need, f64::from(set.rx_usecs) * 1e-6));
    let title = format!("{} waits {} microseconds before it interrupts", port.name, set.rx_usecs);
    told(Finding::new(Severity::Minor, title), port, set, &format!("windows must be {more} larger for it"))
}

fn told(finding: Finding, port: &Port, set: &Coalescing, why: &str) -> Finding {
    finding
        .at(&port.name)
        .evidence(format!("rx-usecs {}, rx-frames {}, adaptive-rx off", set.rx_usecs, set.rx_frames))
        .evidence(why)
        .fix(format!("ethtool -C {} adaptive-rx on || ethtool -C {} rx-usecs 50", port.name, port.name))
        .undo(format!("ethtool -C {} adaptive-rx off rx-usecs {}", port.name, set.rx_usecs))
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(driver: &str, rx_usecs: u32) -> Vec<String> {
        let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
            port.driver = Fact::Known(driver.into());
            port.coalescing = Fact::Known(Coalescing { rx_usecs, ..Coalescing::default() });
        });
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn too_soon_and_too_late_are_told() {
        assert_eq!(with("mlx5_core", 0), ["coalescing ens1f0np0 minor -"]);
        assert_eq!(with("mlx5_core", 1000), ["coalescing ens1f0np0 minor -"]);
    }

    #[test]
    fn adaptive_and_usual_values_are_not() {
        assert!(with("mlx5_core", 50).is_empty() && with("ixgbe", 1).is_empty());
        for host in ["mlx5-25g-tuned", "igb-sriov", "virtio-one-queue"] {
            assert!(found(&CHECK, &fixture(host)).is_empty(), "{host}");
        }
    }
}
