//! Fewer receive queues than processors are needed to receive at the needed rate.

use std::slice;

use linerate_host::facts::{Channels, Port, PortKind, Rss};

use super::rss_indirection::as_now;
use super::{Check, CheckRun, processors};
use crate::remedy::{Queues, Remedy, Setting, commands, undo_commands};
use crate::source::{CORES, FEDEX, SCALING};
use crate::{Finding, Host};

/// Drivers whose queues have checks of their own.
const OTHERS: [&str; 2] = ["virtio_net", "vmxnet3"];

pub(super) const CHECK: Check = Check {
    name: "queues-vs-cores",
    about: "fewer receive queues than the needed rate requires cores",
    sources: &[SCALING, FEDEX, CORES],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(host, port)).collect()
}

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    if port.kind.get() == Some(PortKind::Emulated) || OTHERS.contains(&port.driver.known()?.as_str()) {
        return None;
    }
    let (queues, cores) = (port.rx_count().get()?, host.facts.cpu.housekeeping().known()?.len());
    let cores = u32::try_from(cores).ok()?;
    if queues >= cores {
        return None;
    }
    let (_, most) = port.channels.known().map_or(("rx", queues), Channels::receiving_kind);
    // For such a port rps-off-one-queue reports the remedy: RPS spreads one queue's packets over all processors.
    if queues == 1 && most <= 1 {
        return None;
    }
    let title = format!("{} receives with only {queues} of {cores} processors", port.name);
    let finding = processors::short_of(port, queues, host.rate_of(port)?, &title)?;
    Some(remedy(finding, port, queues, cores))
}

fn remedy(finding: Finding, port: &Port, queues: u32, cores: u32) -> Finding {
    let (kind, most) = port.channels.known().map_or(("rx", queues), Channels::receiving_kind);
    let wanted = most.min(cores);
    if wanted <= queues {
        return finding.evidence(format!("the driver supports no more than {queues} queues")).fix(format!(
            "spread the packets in software too (RPS): write the processors' mask to each \
                 /sys/class/net/{}/queues/rx-*/rps_cpus",
            port.name
        ));
    }
    let kind = if kind == "rx" { Queues::Rx } else { Queues::Combined };
    let channels = Setting::Channels { port: port.name.clone(), queues: kind };
    let finding = finding.evidence(format!("{most} queues are possible"));
    if processors::refuses_queues(port) {
        return finding.fix(processors::WITH_XDP);
    }
    let rss = port.rss.known().filter(|rss| is_chosen(rss));
    let finding = match rss.zip(Remedy::of(channels.clone(), queues, wanted)) {
        // These two changes need each other: more queues alone would have no effect.
        Some((rss, more)) => finding
            .evidence("the indirection table isn't the default: drivers keep such a table, so new queues would get no packets")
            .fix(format!(
                "{}; ethtool -X {} equal {wanted}, or a smaller number if the driver refuses it",
                commands(slice::from_ref(&more)),
                port.name
            ))
            .undo(format!("{}; {}", as_now(port, rss), undo_commands(&[more]))),
        None => finding.remedied(Remedy::of(channels, queues, wanted)),
    };
    let rdma = if port.driver.known().is_some_and(|driver| driver == "ice") {
        "ice refuses the command (EBUSY) while RDMA uses the card: unload irdma first, if no program needs it; "
    } else {
        ""
    };
    finding.conflict(format!(
        "{rdma}the kernel's guide advises no more queues than physical cores, other guides advise one for each thread; \
         the command takes the link down for a moment with most drivers; {}",
        processors::kept_table(port)
    ))
}

/// True if the table isn't the one that the kernel makes, in which the queues take turns
/// (ethtool_rxfh_indir_default()). Drivers keep the table that somebody has chosen (netif_is_rxfh_configured()).
fn is_chosen(rss: &Rss) -> bool {
    let counts = || rss.slots.values();
    let is_even = counts().max().zip(counts().min()).is_none_or(|(most, least)| most - least <= 1);
    !rss.slots.is_empty() && (!is_even || rss.slots.keys().copied().ne(0..rss.rings))
}

#[cfg(test)]
mod tests {
    use linerate_host::Fact;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    fn with(queues: usize) -> linerate_host::Facts {
        edited("stock-10g", "eno1", |port| {
            let Fact::Known(all) = &mut port.rx_queues else { panic!("no queues") };
            all.truncate(queues);
        })
    }

    #[test]
    fn one_queue_of_many_is_found() {
        let found = found(&CHECK, &with(1));
        assert_eq!(lines(&found), ["queues-vs-cores eno1 note 12.3 Gbit/s"]);
        assert_eq!(found[0].fix.as_deref(), Some("ethtool -L eno1 combined 8"));
        let mut fast = with(1);
        crate::testing::port_of(&mut fast, "eno1").speed_mbps = Fact::Known(25_000);
        assert_eq!(
            lines(&crate::testing::found(&CHECK, &fast)),
            ["queues-vs-cores eno1 critical 12.3 Gbit/s"]
        );
    }

    /// Drivers keep a table that somebody has chosen, and then new queues get nothing.
    #[test]
    fn a_chosen_table_is_changed_too() {
        let with = |slots: &[(u32, u32)]| {
            let mut host = with(2);
            let port = crate::testing::port_of(&mut host, "eno1");
            (port.speed_mbps, port.rss) =
                (Fact::Known(100_000), Fact::Known(Rss { rings: 2, slots: slots.iter().copied().collect() }));
            found(&CHECK, &host).remove(0)
        };
        for chosen in [&[(0, 128)][..], &[(1, 128)], &[(0, 100), (1, 28)]] {
            let finding = with(chosen);
            assert_eq!(
                finding.fix.as_deref(),
                Some(
                    "ethtool -L eno1 combined 8; ethtool -X eno1 equal 8, or a smaller number if the driver refuses it"
                ),
                "{chosen:?}"
            );
            assert!(finding.undo.unwrap().ends_with("; ethtool -L eno1 combined 2"), "the table comes first");
            assert!(finding.remedies.is_empty(), "neither change is of use alone");
        }
        let usual = with(&[(0, 64), (1, 64)]);
        assert_eq!(usual.fix.as_deref(), Some("ethtool -L eno1 combined 8"));
        assert!(usual.remedies.len() == 1 && usual.conflict.unwrap().contains("ethtool -X eno1 default"));
    }

    /// ice_set_channels(): "Cannot change channels when RDMA is active".
    #[test]
    fn rdma_comes_before_the_queues_of_ice() {
        let conflict = |driver: &str| {
            let mut host = with(1);
            crate::testing::port_of(&mut host, "eno1").driver = Fact::Known(driver.into());
            found(&CHECK, &host).remove(0).conflict.unwrap()
        };
        assert!(conflict("ice").starts_with("ice refuses the command (EBUSY) while RDMA"));
        assert!(!conflict("i40e").contains("RDMA"));
    }

    #[test]
    fn queues_of_two_kinds_are_not_added() {
        let mut host = with(1);
        crate::testing::port_of(&mut host, "eno1").channels = Fact::Known(Channels {
            max_rx: 4,
            max_tx: 4,
            combined: 1,
            max_combined: 4,
            ..Channels::default()
        });
        assert_eq!(found(&CHECK, &host)[0].fix.as_deref(), Some("ethtool -L eno1 combined 4"));
    }

    /// The card has no more queues: only software can spread the packets further.
    #[test]
    fn a_card_without_more_queues_gets_advice_that_it_can_follow() {
        let with = |queues: usize| {
            let mut host = with(queues);
            let port = crate::testing::port_of(&mut host, "eno1");
            let most = u32::try_from(queues).unwrap();
            port.speed_mbps = Fact::Known(100_000);
            port.channels =
                Fact::Known(Channels { combined: most, max_combined: most, ..Channels::default() });
            host
        };
        assert!(found(&CHECK, &with(1)).is_empty(), "rps-off-one-queue's");
        let rps = crate::check::named("rps-off-one-queue").unwrap();
        assert_eq!(found(rps, &with(1)).len(), 1);
        let two = found(&CHECK, &with(2)).remove(0);
        assert!(two.fix.as_ref().is_some_and(|fix| fix.contains("eno1/queues/rx-*/rps_cpus")), "{two:?}");
        assert!(found(rps, &with(2)).is_empty());
    }

    #[test]
    fn as_many_as_the_rate_needs_are_enough() {
        assert!(found(&CHECK, &with(8)).is_empty());
        assert!(found(&CHECK, &with(2)).is_empty());
        assert!(found(&CHECK, &fixture("ixgbevf")).is_empty());
    }
}
