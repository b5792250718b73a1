//! The number of receive queues, compared with the guests, the interrupts and the driver's options.

use linerate_host::facts::Port;

use super::{Check, CheckRun, processors};
use crate::remedy::{Queues, Remedy, Setting};
use crate::source::{SCALING, VMMARK};
use crate::{Finding, Host, Severity};

/// Driver options that set the number of queues.
const OPTIONS: [&str; 6] = ["RSS", "VMDQ", "num_queues", "num_vmdqs", "rss_queues", "qp"];

/// The advice if the number of queues is right, but the driver's options or interrupts don't match it.
const ASKED_ELSEWHERE: &str = "make the driver's options (modinfo, /etc/modprobe.d) and its interrupts (cat /proc/interrupts) match the number \
    of queues: a driver may know other options than the one that was set, or have got fewer interrupts; \
    on ESX: esxcli system module parameters set -m MODULE";

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
    let kind = if kind == "rx" { Queues::Rx } else { Queues::Combined };
    let channels = Setting::Channels { port: port.name.clone(), queues: kind };
    Some(
        finding
            .remedied_or(Remedy::of(channels, queues, wanted), ASKED_ELSEWHERE)
            .fix_words(&format!("ethtool -S {} shows each queue's packets", port.name))
            .conflict(format!(
                "NetQueue and VMDq sort packets by guest, RSS by connection: \
                 for a single guest, only RSS gains from more queues; {}",
                processors::kept_table(port)
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
        let found = found(&CHECK, &one);
        assert_eq!(lines(&found), ["netqueue-mismatch ens2f0 note -"]);
        assert!(found[0].fix.as_deref().unwrap().starts_with("ethtool -L ens2f0 combined "), "{found:?}");
    }

    #[test]
    fn options_that_asked_for_more_are_found() {
        let asked = edited("stock-10g", "eno1", |port| {
            let option = ("RSS".to_owned(), Fact::Known("16,16".to_owned()));
            port.module_options = Fact::Known([option].into());
        });
        let finding = found(&CHECK, &asked).remove(0);
        assert!(finding.evidence[1].contains("RSS=16,16"));
        // The present number isn't proposed again.
        assert!(finding.remedies.is_empty() && finding.undo.is_none(), "{finding:?}");
        assert!(!finding.fix.unwrap().contains("ethtool -L"));
        let few = edited("stock-10g", "eno1", |port| {
            let Fact::Known(irqs) = &mut port.interrupts else { panic!("no interrupts") };
            irqs.truncate(4);
        });
        let finding = found(&CHECK, &few).remove(0);
        assert!(finding.undo.is_none() && !finding.fix.unwrap().contains("ethtool -L"));
    }

    #[test]
    fn enough_queues_are_enough() {
        assert!(found(&CHECK, &fixture("kvm-host-no-vhost")).is_empty());
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
