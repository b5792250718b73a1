//! The lanes of a card's slot and their speed, compared with the port's rate.

use linerate_host::facts::{PciLink, Port};

use super::{Check, CheckRun};
use crate::formula::{gbit, pcie};
use crate::same_cause::once_at_each;
use crate::source::{FEDEX, I40E, IXGBE, PCIE, SYSFS_PCI};
use crate::subject::speed;
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "pcie-width",
    about: "a card in a slot with too few or too slow lanes for its port",
    sources: &[FEDEX, PCIE, SYSFS_PCI, I40E, IXGBE],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    let shared: Vec<(Finding, Vec<&str>)> = host.linked().filter_map(|bond| shared(host, bond)).collect();
    let is_reported = |port: &Port| shared.iter().any(|(_, names)| names.contains(&port.name.as_str()));
    let alone = host.hardware().filter(|port| !is_reported(port));
    let found = alone.filter_map(|port| Some((card(port)?, of(port, host.rate_of(port)?)?)));
    let each = once_at_each(found, |port| format!("{port} shares the slot, so this limit applies to it too"));
    let all = each.into_iter().chain(shared.into_iter().map(|(finding, _)| finding));
    all.map(|finding| if host.is_guest() { seen_by_guest(finding) } else { finding }).collect()
}

/// The finding in a guest, as a note: the link may exist only in the hypervisor's emulation.
fn seen_by_guest(finding: Finding) -> Finding {
    finding
        .at_most(Severity::Note)
        .evidence("this is a guest: its hypervisor may show it a link that doesn't exist")
        .fix("look at the card's link on the underlying host, with lspci -vv")
}

/// True for a port whose link means nothing. A device within a processor or chipset (Intel's X552, X553, X722) reports
/// one lane of the first generation, even as its maximum, although it isn't connected by such a link; i40e and ixgbe
/// don't check its link. No real card of more than 1 Gbit/s has so slow a link.
pub(super) fn is_within_chip(port: &Port) -> bool {
    let link = port.pci.known().map(|pci| &pci.link);
    let is_least =
        link.is_some_and(|link| (link.max_speed.get(), link.max_width.get()) == (Some(2.5), Some(1)));
    is_least && speed(port).is_none_or(|speed| speed > 1e9)
}

fn of(port: &Port, need: f64) -> Option<Finding> {
    let pci = port.pci.known().filter(|_| !is_within_chip(port))?;
    let (speed, width) = (pci.link.speed.get()?, pci.link.width.get()?);
    let payload = pci.max_payload.get().unwrap_or(pcie::USUAL_PAYLOAD);
    let band = pcie::effective(speed, width, payload)?;
    if band.low >= need {
        return None;
    }
    let what = match short_of(&pci.link) {
        Some(Short::Nothing) => "PCI Express link",
        _ => "slot",
    };
    let title = format!("the {what} of {} carries {} to {}", port.name, gbit(band.low), gbit(band.high));
    let finding = Finding::leaves(band.low, need, title)
        .at(&port.name)
        .evidence(format!("PCI device {}: link {}", pci.address, link(speed, width)))
        .evidence(format!(
            "with payloads of {payload} bytes{}",
            if pci.max_payload.get().is_none() { " (assumed)" } else { "" }
        ))
        .evidence(format!("needed: {}", gbit(need)));
    Some(if is_divided(port) { of_two_slots(finding) } else { remedy(finding, port) })
}

/// True for a card of Mellanox whose link has the card's maximum. If such a link can't carry the rate of the port, the
/// card has a second link, in another slot (Socket Direct, a multi-PF netdev since Linux 6.9).
fn is_divided(port: &Port) -> bool {
    let is_at_best = port.pci.known().is_some_and(|pci| matches!(short_of(&pci.link), Some(Short::Nothing)));
    is_at_best && port.driver.known().is_some_and(|driver| driver == "mlx5_core")
}

fn of_two_slots(finding: Finding) -> Finding {
    finding
        .at_most(Severity::Note)
        .evidence("the link has the card's maximum, so this is probably one of the card's two links (Socket Direct)")
        .fix("nothing, if lspci shows a second function of the card in another slot: the port uses both")
}

/// The finding about ports of a bond that share one card's slot, with their names: a bond that uses several ports at
/// once needs the sum of their rates.
fn shared<'a>(host: &Host<'a>, bond: &Port) -> Option<(Finding, Vec<&'a str>)> {
    let about =
        bond.bond.known().filter(|about| about.mode.known().is_some_and(|mode| uses_several(mode)))?;
    let slaves: Vec<&Port> =
        about.slaves.known()?.iter().map(|name| host.facts.port(name)).collect::<Option<_>>()?;
    let first = *slaves.first()?;
    let (here, elsewhere): (Vec<&Port>, Vec<&Port>) =
        slaves.into_iter().partition(|port| card(port).is_some() && card(port) == card(first));
    let sum = |ports: &[&Port]| ports.iter().map(|port| speed(port)).sum::<Option<f64>>();
    let pci = first.pci.known().filter(|_| !is_within_chip(first))?;
    let (gigatransfers, width) = (pci.link.speed.get()?, pci.link.width.get()?);
    let payload = pci.max_payload.get().unwrap_or(pcie::USUAL_PAYLOAD);
    let band = pcie::effective(gigatransfers, width, payload)?;
    let (ceiling, need) = (band.low + sum(&elsewhere)?, host.rate_of(bond)?);
    if here.len() < 2 || band.low >= sum(&here)? || ceiling >= need {
        return None;
    }
    let names: Vec<&str> = here.iter().map(|port| port.name.as_str()).collect();
    let title = format!(
        "the slot that ports of {} share carries {} to {}",
        bond.name,
        gbit(band.low),
        gbit(band.high)
    );
    let finding = Finding::leaves(ceiling, need, title)
        .at(&bond.name)
        .evidence(format!(
            "{} are ports of one card, {}: link {}",
            names.join(", "),
            pci.address,
            link(gigatransfers, width)
        ))
        .evidence(format!("needed: {}", gbit(need)));
    let way = match short_of(&pci.link) {
        Some(Short::Nothing) => "bond ports of two cards: the card itself can't do more",
        _ => "use a wider slot for the card, or bond ports of two cards",
    };
    Some((finding.fix(way), names))
}

fn uses_several(mode: &str) -> bool {
    ["balance-rr", "balance-xor", "802.3ad", "balance-tlb", "balance-alb"].contains(&mode)
}

/// The port's PCI address without the function.
fn card(port: &Port) -> Option<&str> {
    port.pci.known()?.address.rsplit_once('.').map(|(card, _)| card)
}

/// A link in words: `Gen1 x4 (2.5 GT/s)`.
fn link(speed: f64, width: u32) -> String {
    let generation = pcie::generation(speed).map_or_else(|| "?".into(), |number| number.to_string());
    format!("Gen{generation} x{width} ({speed} GT/s)")
}

/// A property that a card supports, but its link doesn't have: more lanes, or the speed of a later generation.
enum Short {
    Nothing,
    Lanes,
    Speed,
    Both,
}

/// The property that the link lacks; `None` if the link or the card's maximum isn't known.
fn short_of(link: &PciLink) -> Option<Short> {
    let is_slower = link.speed.get()? < link.max_speed.get()?;
    Some(match (link.width.get()? < link.max_width.get()?, is_slower) {
        (false, false) => Short::Nothing,
        (true, false) => Short::Lanes,
        (false, true) => Short::Speed,
        (true, true) => Short::Both,
    })
}

fn remedy(finding: Finding, port: &Port) -> Finding {
    let Some(pci) = port.pci.known() else { return finding };
    let best = pci.link.max_speed.get().zip(pci.link.max_width.get());
    let Some(((speed, width), short)) = best.zip(short_of(&pci.link)) else {
        return finding
            .fix("put the card into a wider or faster slot; if the board has none, into another host");
    };
    let generation = pcie::generation(speed)
        .map_or_else(|| format!("{speed} GT/s"), |number| format!("generation {number}"));
    let slot = match short {
        Short::Nothing => {
            return finding
                .evidence("the link has the card's maximum: no slot makes it faster")
                .fix("use a card with more lanes or of a later generation: this card can't carry the rate of its port");
        }
        Short::Lanes => format!("with {width} lanes"),
        Short::Speed => format!("of {generation}, or allow it in the firmware"),
        Short::Both => format!("with {width} lanes of {generation}"),
    };
    let shows = format!("lspci -vv -s {} shows LnkCap and LnkSta", pci.address);
    finding
        .evidence(format!("the card supports {}", link(speed, width)))
        .fix(format!("put the card into a slot {slot}; {shows}"))
        .conflict("an idle link may run below its speed: check again during a transfer; a small board may have no such slot, and then only another host helps")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{edited, fixture, found, found_for, lines, port_of};

    #[test]
    fn four_lanes_of_the_first_generation_hold_ten_gigabits_back() {
        let found = found(&CHECK, &fixture("bare-gen1-x4"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line(), "pcie-width eth2 major 6.56 Gbit/s");
        assert!(found[0].title.contains("6.9"), "{}", found[0].title);
    }

    #[test]
    fn a_card_in_two_slots_is_not_judged_by_one() {
        let of = |driver: &str| {
            let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
                (port.speed_mbps, port.driver) =
                    (linerate_host::Fact::Known(400_000), linerate_host::Fact::Known(driver.into()));
                let linerate_host::Fact::Known(pci) = &mut port.pci else { panic!("no device") };
                (pci.link.max_speed, pci.link.max_width) = (pci.link.speed.clone(), pci.link.width.clone());
            });
            found(&CHECK, &host).iter().map(|finding| finding.severity).collect::<Vec<_>>()
        };
        assert_eq!(of("mlx5_core"), [Severity::Note]);
        assert_eq!(of("ice"), [Severity::Critical]);
    }

    #[test]
    fn two_ports_of_a_card_share_its_lanes() {
        let with = |lanes| {
            let host = ["eth0", "eth1"].into_iter().fold(fixture("bond-layer2"), |mut host, name| {
                let linerate_host::Fact::Known(pci) = &mut port_of(&mut host, name).pci else {
                    panic!("no device")
                };
                pci.link.width = linerate_host::Fact::Known(lanes);
                host
            });
            let need = |need| lines(&found_for(&CHECK, &host, need));
            (need(Need::OfPorts), need(Need::Target(10e9)))
        };
        assert_eq!(with(4), (vec!["pcie-width bond0 major 13.1 Gbit/s".into()], vec![]));
        assert_eq!(with(8), (vec![], vec![]));
        assert_eq!(with(1).0, ["pcie-width bond0 critical 3.28 Gbit/s"], "and nothing for each of its ports");
    }

    /// A card with two ports has one slot.
    #[test]
    fn a_slot_is_found_once() {
        let dual = crate::testing::changed("bare-gen1-x4", |facts| {
            let linerate_host::Fact::Known(ports) = &mut facts.ports else { panic!("no ports") };
            let mut other = ports.iter().find(|port| port.name == "eth2").expect("a port").clone();
            let linerate_host::Fact::Known(pci) = &mut other.pci else { panic!("no device") };
            pci.address = "0000:0a:00.1".into();
            other.name = "eth3".into();
            ports.push(other);
        });
        let found = found(&CHECK, &dual);
        assert_eq!(lines(&found), ["pcie-width eth2 major 6.56 Gbit/s"]);
        assert!(found[0].evidence.iter().any(|line| line.starts_with("eth3 shares the slot")), "{found:?}");
    }

    /// A card of 100 Gbit/s with eight lanes of the third generation.
    #[test]
    fn a_slot_is_blamed_only_for_what_it_lacks() {
        let fix = |speed: f64, width: u32| {
            let host = edited("bare-gen1-x4", "eth2", |port| {
                let linerate_host::Fact::Known(pci) = &mut port.pci else { panic!("no device") };
                let link = &mut pci.link;
                (link.speed, link.width) =
                    (linerate_host::Fact::Known(speed), linerate_host::Fact::Known(width));
                (link.max_speed, link.max_width) =
                    (linerate_host::Fact::Known(8.0), linerate_host::Fact::Known(8));
                port.speed_mbps = linerate_host::Fact::Known(100_000);
            });
            found(&CHECK, &host).remove(0).fix.unwrap()
        };
        assert!(fix(8.0, 8).starts_with("use a card with more lanes or of a later generation"));
        assert!(fix(8.0, 4).starts_with("put the card into a slot with 8 lanes;"));
        assert!(fix(2.5, 8).starts_with("put the card into a slot of generation 3, or"));
        assert!(fix(2.5, 4).starts_with("put the card into a slot with 8 lanes of generation 3;"));
    }

    /// Intel's X722 (8086:37d2) and X553 (8086:15c4), each with the link that it reports.
    #[test]
    fn a_device_within_a_chip_has_no_slot() {
        use linerate_host::Fact::Known;
        let with = |mbps, max: (f64, u32)| {
            let host = edited("bare-gen1-x4", "eth2", |port| {
                let Known(pci) = &mut port.pci else { panic!("no device") };
                (pci.link.speed, pci.link.width) = (Known(2.5), Known(1));
                (pci.link.max_speed, pci.link.max_width) = (Known(max.0), Known(max.1));
                port.speed_mbps = Known(mbps);
            });
            lines(&found_for(&CHECK, &host, Need::OfPorts))
        };
        assert!(with(10_000, (2.5, 1)).is_empty());
        assert_eq!(with(10_000, (8.0, 8)), ["pcie-width eth2 critical 1.64 Gbit/s"], "a card in a poor slot");
        assert_eq!(with(2_500, (5.0, 1)), ["pcie-width eth2 major 1.64 Gbit/s"], "an RTL8125");
    }

    #[test]
    fn both_ports_of_a_device_within_a_chip_have_no_slot() {
        use linerate_host::Fact::Known;
        let host = ["eth0", "eth1"].into_iter().fold(fixture("bond-layer2"), |mut host, name| {
            let Known(pci) = &mut port_of(&mut host, name).pci else { panic!("no device") };
            (pci.link.speed, pci.link.width) = (Known(2.5), Known(1));
            (pci.link.max_speed, pci.link.max_width) = (Known(2.5), Known(1));
            host
        });
        assert!(found(&CHECK, &host).is_empty());
    }

    #[test]
    fn a_guests_link_is_worth_a_look_at_the_host_below() {
        let guest = crate::testing::changed("bare-gen1-x4", |facts| {
            facts.machine.guest = linerate_host::Fact::Known(true);
        });
        let found = found(&CHECK, &guest);
        assert_eq!(lines(&found), ["pcie-width eth2 note 6.56 Gbit/s"]);
        assert!(
            found[0].fix.as_ref().unwrap().contains("underlying host") && found[0].loss.is_none(),
            "{found:?}"
        );
    }

    #[test]
    fn eight_lanes_are_enough() {
        let wide = edited("bare-gen1-x4", "eth2", |port| {
            let mut pci = port.pci.known().unwrap().clone();
            pci.link.width = linerate_host::Fact::Known(8);
            port.pci = linerate_host::Fact::Known(pci);
        });
        assert!(found(&CHECK, &wide).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty(), "no link is no narrow one");
    }
}
