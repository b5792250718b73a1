//! The number of receive queues, compared with the guests, the interrupts and the driver's options.

use linerate_host::facts::Port;

use super::{Check, CheckRun, work};
use crate::source::{SCALING, VMMARK};
use crate::{Finding, Host, Severity};

/// Driver options that set the number of queues.
const OPTIONS: [&str; 6] = ["RSS", "VMDQ", "num_queues", "num_vmdqs", "rss_queues", "qp"];

pub(super) const CHECK: Check = Check {
    name: "netqueue-mismatch",
    about: "fewer queues than guests or than the driver's options ask for, or fewer interrupts than queues",
    sources: &[VMMARK, SCALING],
    run: CheckRun::Host(|host| host.hardware().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let channels = port.channels.known()?;
    let (queues, (kind, most)) = (channels.receiving(), channels.receiving_kind());
    let signs = [guests(host, queues, most), options(port, queues), interrupts(port, queues)];
    if signs.iter().all(Option::is_none) {
        return None;
    }
    // Linux spreads packets by connection, not by guest, so guests can share queues.
    let is_felt = signs[1..].iter().any(Option::is_some);
    let signs: Vec<String> = signs.into_iter().flatten().collect();
    let wanted = host.facts.machine.guests.get().unwrap_or(0).max(queues).min(most.max(queues));
    let finding = Finding::new(
        if is_felt { Severity::Minor } else { Severity::Note },
        format!("{} has {queues} receive queues, which doesn't match its configuration", port.name),
    )
    .at(&port.name)
    .evidence(format!("{queues} receive queues; {most} are possible"));
    let finding = signs.into_iter().fold(finding, Finding::evidence);
    Some(
        finding
            .fix(format!(
                "ethtool -L {0} {kind} {wanted}; ethtool -S {0} shows each queue's packets; \
                 on ESX: esxcli system module parameters set -m MODULE",
                port.name
            ))
            .undo(format!("ethtool -L {} {kind} {queues}", port.name))
            .conflict(format!(
                "NetQueue and VMDq sort packets by guest, RSS by connection: \
                 for a single guest, only RSS gains from more queues; {}",
                work::kept_table(port)
            )),
    )
}

/// Each guest should have a queue, as far as the card has enough.
fn guests(host: &Host<'_>, queues: u32, most: u32) -> Option<String> {
    let guests = host.facts.machine.guests.get()?;
    (queues < guests.min(most)).then(|| format!("{guests} guests share these queues"))
}

/// Options hold a number for each port of the driver, separated by commas; 0 leaves the choice to the driver.
fn options(port: &Port, queues: u32) -> Option<String> {
    let all = port.module_options.known()?;
    all.iter().filter(|(name, _)| OPTIONS.contains(&name.as_str())).find_map(|(name, value)| {
        let value = value.known()?;
        let asked = value.split(',').filter_map(|n| n.trim().parse::<u32>().ok()).max()?;
        (asked > queues).then(|| format!("the driver's option {name}={value} asks for more"))
    })
}

/// Each queue needs an interrupt vector of its own, or shares one. Legacy interrupts have one for all queues.
fn interrupts(port: &Port, queues: u32) -> Option<String> {
    let vectors = u32::try_from(port.interrupts.known()?.len()).ok()?;
    (vectors > 0 && vectors < queues).then(|| format!("{vectors} interrupts for {queues} queues"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines};
    use linerate_host::Fact;
    use linerate_host::facts::Channels;

    #[test]
    fn fewer_queues_than_guests_are_found() {
        let one = edited("kvm-host-no-vhost", "ens2f0", |port| {
            port.channels = Fact::Known(Channels { combined: 1, max_combined: 63, ..Channels::default() });
        });
        assert_eq!(lines(&found(&CHECK, &one)), ["netqueue-mismatch ens2f0 note -"]);
    }

    #[test]
    fn options_that_asked_for_more_are_found() {
        let asked = edited("stock-10g", "eno1", |port| {
            let option = ("RSS".to_owned(), Fact::Known("16,16".to_owned()));
            port.module_options = Fact::Known([option].into());
        });
        assert!(found(&CHECK, &asked)[0].evidence[1].contains("RSS=16,16"));
    }

    #[test]
    fn enough_queues_are_enough() {
        assert!(found(&CHECK, &fixture("kvm-host-no-vhost")).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
