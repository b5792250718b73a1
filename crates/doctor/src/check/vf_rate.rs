//! Virtual functions whose rate the port below them limits.

use linerate_host::facts::{FunctionRate, Port, PortKind};

use super::{Check, CheckRun, shell};
use crate::finding::Way;
use crate::formula::gbit;
use crate::source::{IOV, IP_LINK};
use crate::{Finding, Host, Severity};

pub(super) const CHECK: Check = Check {
    name: "vf-rate",
    about: "virtual functions that may send less than is needed",
    sources: &[IP_LINK, IOV],
    run: CheckRun::Host(|host| host.linked().flat_map(|port| of(host, port)).collect()),
};

/// A limit slows this host if it has the function itself; otherwise it slows the guest that has it. A function that
/// isn't among the ports of this host's facts may belong to a guest, or be a port of this host that is down or that the
/// path doesn't take.
fn of(host: &Host<'_>, port: &Port) -> Vec<Finding> {
    let need = host.need_of(port);
    let all = port.function_rates.known().into_iter().flatten();
    let limited: Vec<(&FunctionRate, f64)> = all
        .filter_map(|function| Some((function, function.max_mbps? as f64 * 1e6)))
        .filter(|(_, most)| *most < need)
        .collect();
    let (used, lent): (Vec<_>, Vec<_>) =
        limited.into_iter().partition(|(function, _)| used_by(host, function).is_some());
    let here = used.into_iter().filter_map(|(function, most)| {
        let user = used_by(host, function)?;
        let title = format!("{} sends at most {}: {} limits its function", user.name, gbit(most), port.name);
        Some(written(
            Finding::leaves(most, need, title).only(Way::Sends).at(&user.name),
            port,
            &[(function, most)],
        ))
    });
    here.chain(others(port, need, &lent)).collect()
}

/// The port of this host that is the function.
fn used_by<'a>(host: &Host<'a>, function: &FunctionRate) -> Option<&'a Port> {
    let address = function.address.as_ref()?;
    let is_it = |port: &&Port| {
        port.kind.get() == Some(PortKind::VirtualFunction)
            && port.pci.known().is_some_and(|pci| pci.address == *address)
    };
    host.linked().find(is_it)
}

fn others(port: &Port, need: f64, lent: &[(&FunctionRate, f64)]) -> Option<Finding> {
    let least = lent.iter().map(|(_, most)| *most).min_by(f64::total_cmp)?;
    let title = format!("{} lets a virtual function send at most {}", port.name, gbit(least));
    let finding = Finding::leaves(least, need, title).at_most(Severity::Note).at(&port.name);
    let unseen = "the limit slows the user of the function, mostly a guest; the limit can't be seen from within the guest";
    Some(written(finding, port, lent).evidence(unseen))
}

fn written(finding: Finding, port: &Port, limited: &[(&FunctionRate, f64)]) -> Finding {
    let name = shell::word(&port.name);
    let each =
        limited.iter().map(|(function, most)| format!("vf {}: at most {}", function.number, gbit(*most)));
    let command = |rate: u64, function: &FunctionRate| {
        format!("ip link set {name} vf {} max_tx_rate {rate}", function.number)
    };
    let joined = |commands: Vec<String>| commands.join("; ");
    let off = limited.iter().map(|(function, _)| command(0, function)).collect();
    let back =
        limited.iter().map(|(function, _)| command(function.max_mbps.unwrap_or(0), function)).collect();
    each.fold(finding, Finding::evidence)
        .fix(format!("find out who set the limit; to remove the limit: {}", joined(off)))
        .undo(joined(back))
        .conflict("somebody set the limit on purpose: for fairness among guests, or because the rate is sold")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;
    use crate::testing::{edited, fixture, found, found_for, lines, port_of};
    use linerate_host::{Fact, Facts};

    fn limited(address: Option<&str>, max_mbps: Option<u64>) -> Facts {
        let rate = FunctionRate { number: 3, address: address.map(str::to_owned), min_mbps: None, max_mbps };
        edited("igb-sriov", "eth0", |port| {
            port.speed_mbps = Fact::Known(1000);
            port.function_rates = Fact::Known(vec![rate]);
        })
    }

    #[test]
    fn a_guests_limit_is_a_note_with_the_command() {
        let named = found(&CHECK, &limited(None, Some(200)));
        assert_eq!(lines(&named), ["vf-rate eth0 note 200 Mbit/s"]);
        assert_eq!(named[0].undo.as_deref(), Some("ip link set eth0 vf 3 max_tx_rate 200"));
        assert!(named[0].loss.is_none(), "nothing of this host's");
    }

    #[test]
    fn a_limit_of_this_hosts_own_function_costs_something() {
        let mut facts = limited(Some("0000:65:10.3"), Some(200));
        let own = port_of(&mut facts, "eth0").clone();
        let mut pci = own.pci.known().unwrap().clone();
        pci.address = "0000:65:10.3".into();
        let function = Port {
            name: "eth0v3".into(),
            kind: Fact::Known(PortKind::VirtualFunction),
            pci: Fact::Known(pci),
            function_rates: Fact::NotApplicable,
            ..own
        };
        let Fact::Known(ports) = &mut facts.ports else { panic!("none") };
        ports.push(function);
        assert_eq!(lines(&found(&CHECK, &facts)), ["vf-rate eth0v3 critical 200 Mbit/s"]);
    }

    #[test]
    fn no_limit_and_one_above_the_need_are_nothing() {
        // bnx2x reports its port's speed if nobody has set a limit.
        assert!(found(&CHECK, &limited(None, Some(1000))).is_empty());
        assert!(found(&CHECK, &limited(None, None)).is_empty());
        assert!(found_for(&CHECK, &limited(None, Some(200)), Need::Target(100e6)).is_empty());
        assert!(found(&CHECK, &fixture("igb-sriov")).is_empty());
    }
}
