//! The ports' speed, compared with the needed rate and with the ports' own capability.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{ETHTOOL, FEDEX, STATISTICS};
use crate::subject::speed;
use crate::{Finding, Host, Need, Severity};

/// The speed that a link has at least if both of its ends and its cable are in order, and if the port supports it: only
/// old switches are slower.
const LEAST_SPEED: f64 = 1e9;

pub(super) const CHECK: Check = Check {
    name: "nic-speed",
    about: "ports slower than the needed rate or than both ends allow, or half duplex",
    sources: &[FEDEX, STATISTICS, ETHTOOL],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let each = host
        .hardware()
        .flat_map(|port| [half(port), negotiated(host, port).or_else(|| below_both(host, port))]);
    too_slow(host).into_iter().chain(each.flatten()).collect()
}

/// The finding that no port is as fast as the target.
fn too_slow(host: &Host<'_>) -> Option<Finding> {
    let (Need::Target(target), fastest) = (host.need, host.fastest()?) else { return None };
    if fastest >= target {
        return None;
    }
    let title = format!("the fastest port runs at {}; {} is needed", gbit(fastest), gbit(target));
    let speeds = host.linked().filter_map(|port| Some(format!("{}: {}", port.name, gbit(speed(port)?))));
    let finding = Finding::leaves(fastest, target, title)
        .fix("use a faster port, or a bond of several ports with at least one stream for each");
    Some(speeds.fold(finding, Finding::evidence))
}

fn half(port: &Port) -> Option<Finding> {
    let is_half = port.duplex.known().is_some_and(|duplex| duplex == "half");
    is_half.then(|| {
        Finding::new(
            Severity::Major,
            format!("{} is half duplex: it can't send while it receives", port.name),
        )
        .at(&port.name)
        .evidence("the other end doesn't negotiate, or is a hub")
        .fix(format!("let both ends negotiate: ethtool -s {} autoneg on", port.name))
    })
}

fn negotiated(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let modes = port.modes.known()?;
    let able = modes.supported.iter().map(|mode| mode.mbps).max()? as f64 * 1e6;
    let need = wanted(host, able.min(LEAST_SPEED));
    let speed = speed(port).filter(|speed| *speed < need)?;
    let finding =
        Finding::leaves(speed, need, format!("{} was negotiated down to {}", port.name, gbit(speed)))
            .at(&port.name);
    let is_other_ends = modes.best_of_both().is_some_and(|best| best.mbps as f64 * 1e6 <= speed);
    let finding = if is_other_ends {
        finding
            .evidence(format!("the port supports {}, but the other end offers no more", gbit(able)))
            .fix("connect it to a faster port of the switch")
    } else {
        finding
            .evidence(format!(
                "the port supports {}: a pair of the cable is broken, or the other end limits the speed",
                gbit(able)
            ))
            .fix(format!("replace the cable, then ethtool -s {} autoneg on", port.name))
    };
    // If the host has a faster port too, the slow one mostly serves the machine's management.
    let is_fastest = host.fastest().is_none_or(|fastest| fastest <= speed);
    Some(if is_fastest { finding } else { Finding { severity: Severity::Note, ..finding } })
}

/// The rate in bits a second that a link needs if it could have the speed `able`.
pub(super) fn wanted(host: &Host<'_>, able: f64) -> f64 {
    match host.need {
        Need::Target(target) => able.min(target),
        Need::OfPorts => able,
    }
}

/// The finding that both ends offer more than the link has. Modules and their cables may be planned for less than both
/// ends support, but twisted pairs that are in order carry what both ends offer.
fn below_both(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (now, best) = (speed(port)?, port.modes.known()?.best_of_both()?);
    let able = best.mbps as f64 * 1e6;
    let title = format!("{} runs at {}; both ends support {}", port.name, gbit(now), gbit(able));
    let is_note = host.need == Need::OfPorts && !best.name.ends_with("BASE-T");
    let need = wanted(host, able);
    (now < need).then(|| {
        Finding::leaves(now, need, title)
            .at_most(if is_note { Severity::Note } else { Severity::Critical })
            .at(&port.name)
            .evidence(format!("this end supports {}, and the other end offers it", best.name))
            .fix(format!(
                "replace the cable, which may not be good enough for {}; let both ends offer all of their modes",
                best.name
            ))
    })
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;
    use linerate_host::facts::{LinkMode, LinkModes};

    use super::*;
    use crate::testing::{edited, fixture, found, found_for, lines};

    #[test]
    fn slow_and_half_ports_are_found() {
        let target = Need::Target(10e9);
        assert_eq!(
            lines(&found_for(&CHECK, &fixture("e1000e-desktop"), target)),
            ["nic-speed - critical 1.00 Gbit/s"]
        );
        let mut beside = fixture("bond-layer2");
        let slower = crate::testing::port_of(&mut beside, "eth1");
        (slower.speed_mbps, slower.modes) = (Fact::Known(100), supporting(&[100, 1000]));
        assert_eq!(lines(&found(&CHECK, &beside)), ["nic-speed eth1 note 100 Mbit/s"]);
        let half = edited("stock-10g", "eno1", |port| port.duplex = Fact::Known("half".into()));
        assert_eq!(lines(&found(&CHECK, &half)), ["nic-speed eno1 major -"]);
        assert_eq!(
            lines(&found(&CHECK, &slow(100, supporting(&[100, 1000])))),
            ["nic-speed eno1 critical 100 Mbit/s"]
        );
    }

    /// Link modes of these speeds in Mbit/s.
    fn supporting(speeds: &[u64]) -> Fact<LinkModes> {
        let mode = |mbps: &u64| LinkMode { name: format!("{mbps}BASE-T"), mbps: *mbps };
        Fact::Known(LinkModes { supported: speeds.iter().map(mode).collect(), ..LinkModes::default() })
    }

    fn slow(mbps: u64, modes: Fact<LinkModes>) -> linerate_host::Facts {
        edited("e1000e-desktop", "eno1", |port| (port.speed_mbps, port.modes) = (Fact::Known(mbps), modes))
    }

    /// Ports with smsc95xx or r8152 of 10/100 Mbit/s; and ports with cdc_ether, at the 480 Mbit/s of USB 2, and with
    /// cdc_ncm, which report no modes.
    #[test]
    fn a_port_is_blamed_only_for_what_it_supports() {
        assert!(found(&CHECK, &slow(100, supporting(&[10, 100]))).is_empty());
        assert!(found(&CHECK, &slow(480, supporting(&[]))).is_empty());
        assert!(found(&CHECK, &slow(425, Fact::NotApplicable)).is_empty());
        assert_eq!(
            lines(&found(&CHECK, &slow(10, supporting(&[10, 100])))),
            ["nic-speed eno1 critical 10.0 Mbit/s"]
        );
    }

    #[test]
    fn a_slow_switch_is_no_broken_cable() {
        let Fact::Known(mut modes) = supporting(&[10, 100, 1000]) else { panic!("no modes") };
        let fix = |modes: &LinkModes| {
            found(&CHECK, &slow(100, Fact::Known(modes.clone()))).remove(0).fix.unwrap_or_default()
        };
        assert!(fix(&modes).starts_with("replace the cable"));
        modes.partner = modes.supported[..2].to_vec();
        assert!(fix(&modes).starts_with("connect it to a faster port"));
    }

    /// A link of 10 Gbit/s between ends that offer 25.
    #[test]
    fn a_target_that_the_link_reaches_is_enough() {
        let with = |need| {
            let host = edited("stock-10g", "eno1", |port| {
                let modes = vec![LinkMode { name: "25GBASE-SR".into(), mbps: 25_000 }];
                let both = LinkModes { supported: modes.clone(), partner: modes, ..LinkModes::default() };
                port.modes = Fact::Known(both);
            });
            lines(&found_for(&CHECK, &host, need))
        };
        assert!(with(Need::Target(1e9)).is_empty() && with(Need::Target(10e9)).is_empty());
        assert!(with(Need::Target(25e9)).contains(&"nic-speed eno1 critical 10.0 Gbit/s".into()));
        assert!(with(Need::Target(14e9)).contains(&"nic-speed eno1 major 10.0 Gbit/s".into()));
        assert_eq!(with(Need::OfPorts), ["nic-speed eno1 note 10.0 Gbit/s"], "the line may be planned so");
        assert!(found_for(&CHECK, &slow(100, supporting(&[100, 1000])), Need::Target(100e6)).is_empty());
    }

    #[test]
    fn a_link_below_what_both_ends_offer_is_found() {
        let with = |speed, partner: &[&str]| {
            let modes = |names: &[&str]| {
                let mode = |name: &&str| LinkMode {
                    name: (*name).into(),
                    mbps: if *name == "10GBASE-T" { 10_000 } else { 1_000 },
                };
                names.iter().map(mode).collect()
            };
            let host = edited("stock-10g", "eno1", |port| {
                let supported = modes(&["1000BASE-T", "10GBASE-T"]);
                port.modes =
                    Fact::Known(LinkModes { supported, partner: modes(partner), ..LinkModes::default() });
                port.speed_mbps = Fact::Known(speed);
            });
            lines(&found(&CHECK, &host))
        };
        assert_eq!(with(1_000, &["1000BASE-T", "10GBASE-T"]), ["nic-speed eno1 critical 1.00 Gbit/s"]);
        assert!(with(10_000, &["10GBASE-T"]).is_empty());
        assert!(with(1_000, &["1000BASE-T"]).is_empty(), "the other end has no more");
        assert!(with(1_000, &[]).is_empty(), "nobody knows what the other end has");
    }

    #[test]
    fn the_port_is_the_need_where_nobody_says_otherwise() {
        assert!(found(&CHECK, &fixture("e1000e-desktop")).is_empty());
        assert!(found_for(&CHECK, &fixture("stock-10g"), Need::Target(10e9)).is_empty());
    }
}
