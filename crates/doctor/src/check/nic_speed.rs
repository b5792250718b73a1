//! The ports' speed, compared with the needed rate and with the ports' own capability.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{ETHTOOL, FEDEX, STATISTICS};
use crate::subject::speed;
use crate::{Finding, Host, Need, Severity};

/// The least speed of all hardware ports of the last twenty years.
const LEAST: f64 = 1e9;

pub(super) const CHECK: Check = Check {
    name: "nic-speed",
    about: "ports slower than the needed rate or than both ends allow, or half duplex",
    sources: &[FEDEX, STATISTICS, ETHTOOL],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let each =
        host.hardware().flat_map(|port| [half(port), negotiated(host, port).or_else(|| below_both(port))]);
    too_slow(host).into_iter().chain(each.flatten()).collect()
}

/// No port is as fast as the target.
fn too_slow(host: &Host<'_>) -> Option<Finding> {
    let (Need::Target(target), fastest) = (host.need, host.fastest()?) else { return None };
    if fastest >= target {
        return None;
    }
    let title = format!("the fastest port has {}; {} is needed", gbit(fastest), gbit(target));
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
    let speed = speed(port).filter(|speed| *speed < LEAST)?;
    let finding =
        Finding::leaves(speed, LEAST, format!("{} was negotiated down to {}", port.name, gbit(speed)))
            .at(&port.name)
            .evidence(
                "ports of this kind reach at least 1 Gbit/s: \
         a pair of the cable is broken, or the other end limits the speed",
            )
            .fix(format!("replace the cable, then ethtool -s {} autoneg on", port.name));
    // If the host has a faster port too, the slow one mostly serves the machine's management.
    let is_fastest = host.fastest().is_none_or(|fastest| fastest <= speed);
    Some(if is_fastest { finding } else { Finding { severity: Severity::Note, ..finding } })
}

/// Both ends offer more than the link has.
fn below_both(port: &Port) -> Option<Finding> {
    let (now, best) = (speed(port)?, port.modes.known()?.best_of_both()?);
    let able = best.mbps as f64 * 1e6;
    let title = format!("{} has {}; both ends support {}", port.name, gbit(now), gbit(able));
    (now < able).then(|| {
        Finding::leaves(now, able, title)
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
        crate::testing::port_of(&mut beside, "eth1").speed_mbps = Fact::Known(100);
        assert_eq!(lines(&found(&CHECK, &beside)), ["nic-speed eth1 note 100 Mbit/s"]);
        let half = edited("stock-10g", "eno1", |port| port.duplex = Fact::Known("half".into()));
        assert_eq!(lines(&found(&CHECK, &half)), ["nic-speed eno1 major -"]);
        let slow = edited("e1000e-desktop", "eno1", |port| port.speed_mbps = Fact::Known(100));
        assert_eq!(lines(&found(&CHECK, &slow)), ["nic-speed eno1 critical 100 Mbit/s"]);
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
