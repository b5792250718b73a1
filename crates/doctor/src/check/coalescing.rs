//! Interrupt coalescing: too many interrupts, or interrupts too late.

use linerate_host::facts::{Coalescing, Port};

use super::{Check, CheckRun, processors};
use crate::formula::{bytes, flow, gbit};
use crate::remedy::{Remedy, Setting};
use crate::source::{ESNET_NIC, ETHTOOL, RED_HAT};
use crate::{Finding, Host, Severity};

/// Microseconds below which each queue may interrupt more than 200,000 times a second.
const SHORT: u32 = 5;
/// Microseconds above which the delay matters on a local path.
const LONG: u32 = 250;
/// Intel drivers in which values up to 3 select the driver's own adaptive modes.
const OWN_MODES: [&str; 6] = ["igb", "e1000", "e1000e", "igc", "ixgbe", "ixgbevf"];
/// Drivers with a mode in which the card adapts the delay between two bounds. They report the longer bound
/// (hw_atl_b0.c): 112 microseconds at 10 Gbit/s, 448 at 2.5. They refuse adaptive-rx, and setting any number turns this
/// mode off.
const LONGEST: [&str; 1] = ["atlantic"];
/// Drivers that report their delay, but have no function to set it (nicvf_ethtool_ops in Linux 6.1). nicvf also
/// interrupts after a number of packets, which it doesn't report. Virtual functions of bnx2x can't set the delay
/// either, but always report 50 microseconds.
const READ_ONLY: [&str; 1] = ["thunder-nicvf"];
/// Drivers that refuse (EINVAL) a delay of received packets that differs from that of sent ones (hns_set_coalesce()).
const ONE_DELAY: [&str; 1] = ["hns"];
/// Microseconds for a driver that can't adapt the delay: guides for bulk data advise 50 to 100.
const USUAL: u32 = 50;
/// Below this rate one core can handle an interrupt for each packet.
const SLOW: f64 = 5e9;

pub(super) const CHECK: Check = Check {
    name: "coalescing",
    about: "an interrupt for each packet, or interrupts so late that they add delay",
    sources: &[RED_HAT, ESNET_NIC, ETHTOOL],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(port, host.rate_of(port)?)).collect()
}

fn of(port: &Port, need: f64) -> Option<Finding> {
    let set = port.coalescing.known().filter(|set| !set.adaptive_rx)?;
    if set.rx_usecs <= 3 && OWN_MODES.contains(&port.driver.known()?.as_str()) {
        return None;
    }
    let is_fixed = |driver: &String| READ_ONLY.contains(&driver.as_str());
    if port.driver.known().is_some_and(is_fixed) {
        return None;
    }
    let is_longest = port.driver.known().is_some_and(|driver| LONGEST.contains(&driver.as_str()));
    match set.rx_usecs {
        // A driver that doesn't have this number has a delay of its own.
        0 if has(port, "rx-usecs") == Some(false) => None,
        usecs if usecs < SHORT && set.rx_frames <= 1 && need >= SLOW => Some(too_many(port, set, need)),
        usecs if usecs > LONG && !is_longest => Some(too_late(port, set, need)),
        _ => None,
    }
}

fn too_many(port: &Port, set: &Coalescing, need: f64) -> Finding {
    let finding = Finding::new(Severity::Minor, format!("{} interrupts for almost every packet", port.name));
    // A frame of an MTU of 1500 takes 1538 bytes on the wire.
    let millions = need / (1538.0 * 8.0) / 1e6;
    let rate = format!("at {} that is up to {millions:.1} million interrupts a second", gbit(need));
    remedy(finding, port, set, &rate).conflict(
        "guides for low delay advise 0 to 8 microseconds, guides for bulk data 50 to 100, or adaptive",
    )
}

fn too_late(port: &Port, set: &Coalescing, need: f64) -> Finding {
    let more = bytes(flow::in_flight(need, f64::from(set.rx_usecs) * 1e-6));
    let title = format!("{} waits {} microseconds before it interrupts a processor", port.name, set.rx_usecs);
    remedy(
        Finding::new(Severity::Minor, title),
        port,
        set,
        &format!("because of this delay, each connection needs a window that is {more} larger"),
    )
}

fn remedy(finding: Finding, port: &Port, set: &Coalescing, why: &str) -> Finding {
    let finding = finding
        .at(&port.name)
        .evidence(format!("rx-usecs {}, rx-frames {}, adaptive-rx off", set.rx_usecs, set.rx_frames))
        .evidence(why);
    let change = |now: &str, new: &str| {
        Remedy::of(Setting::Coalescing { port: port.name.clone() }, format!("{now} {}", set.rx_usecs), new)
    };
    let is_one_delay = port.driver.known().is_some_and(|driver| ONE_DELAY.contains(&driver.as_str()));
    let usual = format!(
        "rx-usecs {USUAL}{}",
        if is_one_delay { format!(" tx-usecs {USUAL}") } else { String::new() }
    );
    // Octeon's drivers refuse (EINVAL) adaptive-rx without adaptive-tx, and the other way round (otx2_set_coalesce()).
    let (off, on) = match processors::is_octeon(port) {
        true => ("adaptive-rx off adaptive-tx off rx-usecs", "adaptive-rx on adaptive-tx on"),
        false => ("adaptive-rx off rx-usecs", "adaptive-rx on"),
    };
    match has(port, "adaptive-rx") {
        Some(true) => finding.remedied(change(off, on)),
        Some(false) => finding
            .evidence("the driver can't adapt the delay (ethtool -c: Adaptive RX: n/a)")
            .remedied(change(
                &if is_one_delay { format!("tx-usecs {} rx-usecs", set.tx_usecs) } else { "rx-usecs".into() },
                &usual,
            )),
        None => finding
            .remedied(change(off, on))
            .fix_words(&format!("if the driver refuses this, ethtool -C {} {usual}", port.name)),
    }
}

/// True if the driver has this part of coalescing; `None` if that isn't known.
fn has(port: &Port, name: &str) -> Option<bool> {
    port.coalescing_names.known().map(|names| names.iter().any(|one| one == name))
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
    fn too_soon_and_too_late_are_found() {
        assert_eq!(with("mlx5_core", 0), ["coalescing ens1f0np0 minor -"]);
        assert_eq!(with("mlx5_core", 1000), ["coalescing ens1f0np0 minor -"]);
    }

    /// stmmac, igb and others refuse adaptive-rx (EOPNOTSUPP), and ethtool reports it as 0, as if it were only off.
    #[test]
    fn only_what_the_driver_has_is_proposed() {
        let with = |rx_usecs, names: &[&str]| {
            let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
                port.coalescing = Fact::Known(Coalescing { rx_usecs, ..Coalescing::default() });
                port.coalescing_names = Fact::Known(names.iter().map(|name| (*name).to_owned()).collect());
            });
            found(&CHECK, &host).pop()
        };
        let fixed = with(0, &["rx-usecs", "rx-frames"]).unwrap();
        assert_eq!(fixed.fix.as_deref(), Some("ethtool -C ens1f0np0 rx-usecs 50"));
        assert_eq!(fixed.undo.as_deref(), Some("ethtool -C ens1f0np0 rx-usecs 0"));
        let adapts = with(1000, &["rx-usecs", "adaptive-rx"]).unwrap();
        assert_eq!(adapts.fix.as_deref(), Some("ethtool -C ens1f0np0 adaptive-rx on"));
        assert!(with(0, &["rx-frames"]).is_none(), "the driver has no such number");
    }

    /// otx2_set_coalesce() and hns_set_coalesce() refuse one half of a pair.
    #[test]
    fn pairs_are_set_together() {
        let with = |driver: &str, names: &[&str]| {
            let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
                port.driver = Fact::Known(driver.into());
                port.coalescing =
                    Fact::Known(Coalescing { rx_usecs: 1, tx_usecs: 1, ..Coalescing::default() });
                port.coalescing_names = Fact::Known(names.iter().map(|name| (*name).to_owned()).collect());
            });
            let finding = found(&CHECK, &host).remove(0);
            (finding.fix.unwrap(), finding.undo.unwrap())
        };
        for driver in ["rvu-nicpf", "rvu-nicvf", "rvu_nicvf"] {
            let (fix, undo) = with(driver, &["rx-usecs", "tx-usecs", "adaptive-rx", "adaptive-tx"]);
            assert_eq!(fix, "ethtool -C ens1f0np0 adaptive-rx on adaptive-tx on");
            assert_eq!(undo, "ethtool -C ens1f0np0 adaptive-rx off adaptive-tx off rx-usecs 1");
        }
        let (fix, undo) = with("hns", &["rx-usecs", "tx-usecs"]);
        assert_eq!(fix, "ethtool -C ens1f0np0 rx-usecs 50 tx-usecs 50");
        assert_eq!(undo, "ethtool -C ens1f0np0 tx-usecs 1 rx-usecs 1");
    }

    #[test]
    fn a_delay_that_nobody_can_set_is_not_found() {
        let nothing: [&str; 0] = [];
        assert_eq!(
            (with("thunder-nicvf", 3), with("thunder-nicvf", 1000)),
            (nothing.map(String::from).to_vec(), vec![])
        );
        assert_eq!(with("rvu-nicpf", 3).len(), 1);
    }

    #[test]
    fn adaptive_and_usual_values_are_not() {
        assert!(with("mlx5_core", 50).is_empty() && with("ixgbe", 1).is_empty());
        assert!(with("ixgbevf", 1).is_empty(), "its driver answers 1 where it adapts by itself");
        for host in ["mlx5-25g-tuned", "igb-sriov", "virtio-one-queue"] {
            assert!(found(&CHECK, &fixture(host)).is_empty(), "{host}");
        }
    }
}
