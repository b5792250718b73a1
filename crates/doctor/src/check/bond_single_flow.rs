//! One connection over a bond is never faster than one port.

use linerate_host::facts::{Bond, Port};

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::{BONDING, FEDEX};
use crate::subject::speed;
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "bond-single-flow",
    about: "a bond: each connection uses only one of its ports",
    sources: &[BONDING, FEDEX],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.linked().filter_map(|port| of(host, port, port.bond.known()?)).collect()
}

fn of(host: &Host<'_>, port: &Port, bond: &Bond) -> Option<Finding> {
    let several = ["balance-xor", "802.3ad", "balance-tlb", "balance-alb"];
    if !several.contains(&bond.mode.known()?.as_str()) {
        return None;
    }
    let slaves = bond.slaves.known().filter(|slaves| slaves.len() > 1)?;
    let one = slaves.iter().filter_map(|name| speed(host.facts.port(name)?)).max_by(f64::total_cmp)?;
    let need = host.rate_of(port)?;
    if one >= need {
        return None;
    }
    let title = format!(
        "one connection over {} reaches {}, the rate of one of its {} ports",
        port.name,
        gbit(one),
        slaves.len()
    );
    // Only tools with one connection are limited, so this is only a note.
    let finding = Finding { severity: Severity::Note, ..Finding::leaves(one, need, title) }
        .at(&port.name)
        .evidence(format!("mode {}, ports {}", bond.mode.known()?, slaves.join(", ")))
        .fix(format!("use more streams than ports: linerate cp --streams {} ...", slaves.len() * 4));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn a_bond_of_two_is_a_note() {
        let found = found(&CHECK, &fixture("bond-layer2"));
        assert_eq!(lines(&found), ["bond-single-flow bond0 note 10.0 Gbit/s"]);
    }

    #[test]
    fn one_at_a_time_is_no_bond_of_several() {
        let host = edited("bond-layer2", "bond0", |port| {
            let linerate_host::Fact::Known(bond) = &mut port.bond else { panic!("no bond") };
            bond.mode = linerate_host::Fact::Known("active-backup".into());
        });
        assert!(found(&CHECK, &host).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
