//! The slot of a card: its lanes and their speed, against the port's rate.

use linerate_host::facts::Port;

use super::cite::{FEDEX, PCIE, SYSFS_PCI};
use super::{Check, Run};
use crate::formula::{gbit, pcie};
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "pcie-width",
    about: "a card in a slot with too few or too slow lanes for its port",
    sources: &[FEDEX, PCIE, SYSFS_PCI],
    run: Run::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.hardware().filter_map(|port| of(port, host.rate_of(port)?)).collect()
}

fn of(port: &Port, need: f64) -> Option<Finding> {
    let pci = port.pci.known()?;
    let (speed, width) = (pci.link.speed.get()?, pci.link.width.get()?);
    let payload = pci.max_payload.get().unwrap_or(pcie::USUAL_PAYLOAD);
    let band = pcie::effective(speed, width, payload)?;
    if band.low >= need {
        return None;
    }
    let title = format!("the slot of {} carries {} to {}", port.name, gbit(band.low), gbit(band.high));
    let finding = Finding::leaves(band.low, need, title)
        .at(&port.name)
        .evidence(format!("PCI device {}: link {}", pci.address, link(speed, width)))
        .evidence(format!(
            "with payloads of {payload} bytes{}",
            if pci.max_payload.get().is_none() { " (assumed)" } else { "" }
        ))
        .evidence(format!("needed: {}", gbit(need)));
    Some(remedy(finding, port))
}

/// `Gen1 x4 (2.5 GT/s)`.
fn link(speed: f64, width: u32) -> String {
    let generation = pcie::generation(speed).map_or_else(|| "?".into(), |number| number.to_string());
    format!("Gen{generation} x{width} ({speed} GT/s)")
}

fn remedy(finding: Finding, port: &Port) -> Finding {
    let Some(pci) = port.pci.known() else { return finding };
    let best = pci.link.max_speed.get().zip(pci.link.max_width.get());
    match best {
        Some((speed, width)) => finding
            .evidence(format!("the card can {}", link(speed, width)))
            .fix(format!(
                "put the card into a slot with {width} lanes; lspci -vv -s {} shows LnkCap and LnkSta",
                pci.address
            ))
            .conflict("an idle link may be slower than it can be: look again while something is transferred"),
        None => finding.fix("put the card into a wider or faster slot"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found};

    #[test]
    fn four_lanes_of_the_first_generation_hold_ten_gigabits_back() {
        let found = found(&CHECK, &fixture("bare-gen1-x4"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line(), "pcie-width eth2 major 6.6 Gbit/s");
        assert!(found[0].title.contains("6.9"), "{}", found[0].title);
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
