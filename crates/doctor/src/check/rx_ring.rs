//! Receive rings: the time in which a ring fills if nobody empties it, and the packets that found a ring full.

use linerate_host::facts::{Port, Rings};

use super::lost_packets::{self, Lost, Place};
use super::{Check, CheckRun, drops, ring, shell};
use crate::formula::buffer::kernel;
use crate::formula::goodput::Segments;
use crate::remedy::{Remedy, RingWay, Setting};
use crate::source::{ESNET_NIC, RED_HAT, STACK, STATISTICS};
use crate::{Finding, Host, Severity};

/// Seconds that a ring should last at the needed rate: about a tick of the scheduler.
const LASTS: f64 = 0.001;

/// Drivers whose ring sizes count buffers of mostly 64 KiB, each of which holds several packets (cxgb4's sge.c): 64
/// buffers are 4 MiB.
const IN_BUFFERS: [&str; 2] = ["cxgb4", "cxgb4vf"];

/// The first kernel for which ESnet's guide for 100 Gbit/s no longer advises larger rings.
const SMALLER_RINGS: (u32, u32) = (6, 11);

/// The size of a ring of such buffers that is proposed first.
const SOME_BUFFERS: u32 = 1024;

/// Drivers of cards that have one receive queue.
const ONE_QUEUE: [&str; 5] = ["e1000", "e1000e", "r8169", "sky2", "forcedeth"];

pub(super) const CHECK: Check = Check {
    name: "rx-ring",
    about: "receive rings that were full, or that fill within a millisecond",
    sources: &[RED_HAT, STATISTICS, ESNET_NIC, STACK],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(host, port, &host.since())).collect()
}

fn of(host: &Host<'_>, port: &Port, since: &str) -> Option<Finding> {
    match (felt(port), extensible(port)) {
        (None, None) => None,
        (Some((lost, severity)), None) => Some(full(port, &lost, severity, since)),
        (felt, Some(rings)) => short(host, port, rings, felt.map(|(_, severity)| severity)),
    }
}

/// The rings of a port, if they can be larger.
fn extensible(port: &Port) -> Option<&Rings> {
    port.rings.known().filter(|rings| rings.rx > 0 && rings.rx < rings.max_rx)
}

/// Packets that found the ring full, and the severity of the loss; `None` if the packets are too few to matter.
fn felt(port: &Port) -> Option<(Lost, Severity)> {
    let lost = lost_packets::at(port, Place::Ring)?;
    let severity = drops::severity(lost.packets, port.counters.rx_packets.get())?;
    Some((lost, severity))
}

/// The finding about rings that were full, and that have their largest size or no known size.
fn full(port: &Port, lost: &Lost, severity: Severity, since: &str) -> Finding {
    let rings = match port.rings.known().filter(|rings| rings.rx > 0) {
        Some(rings) => format!("its rings hold {}, their maximum", rings.rx),
        None => "the size of its rings isn't known".into(),
    };
    let title = format!(
        "{} packets of {} found the receive ring full: the host emptied the ring too late",
        lost.packets, port.name
    );
    let larger = "if ethtool -g shows a larger maximum, use larger rings";
    let finding = Finding::new(severity, title).at(&port.name).evidence(losses(port, since)).evidence(rings);
    let has_one = port.driver.known().is_some_and(|driver| ONE_QUEUE.contains(&driver.as_str()));
    let finding = finding.fix(if has_one {
        larger.to_owned()
    } else {
        format!(
            "use more queues, or interrupts on more processors: see queues-vs-cores, irq-one-cpu; {larger}"
        )
    });
    drops::old(finding, since)
}

/// The finding about rings that could be larger, and that were full or fill soon.
fn short(host: &Host<'_>, port: &Port, rings: &Rings, felt: Option<Severity>) -> Option<Finding> {
    let in_buffers = port.driver.known().is_some_and(|driver| IN_BUFFERS.contains(&driver.as_str()));
    let packets = || Some(Segments::usual(port.mtu.get()?).packets(host.rate_of(port)?));
    let lasts = packets().filter(|_| !in_buffers).map(|packets| f64::from(rings.rx) / packets);
    let is_short = lasts.is_some_and(|lasts| lasts < LASTS) && !enlarges_only_for_losses(host);
    let severity = felt.or(is_short.then_some(Severity::Note))?;
    let unit = if in_buffers { "buffers" } else { "packets" };
    let title = format!("{}'s receive rings hold {} of {} {unit}", port.name, rings.rx, rings.max_rx);
    let finding = Finding::new(severity, title).at(&port.name);
    let finding = match (in_buffers, lasts) {
        (true, _) => finding.evidence("each buffer holds several packets"),
        (false, Some(lasts)) => {
            finding.evidence(format!("at the needed rate, one ring lasts {:.2} ms", lasts * 1e3))
        }
        (false, None) => finding.evidence("the port's MTU or its speed isn't known"),
    };
    let finding = finding.evidence(losses(port, &host.since()));
    Some(if in_buffers { words(finding, port, rings) } else { remedy(finding, host, port, rings) })
}

/// True if ESnet no longer advises to enlarge rings without losses for this kernel.
fn enlarges_only_for_losses(host: &Host<'_>) -> bool {
    kernel(host.facts).is_some_and(|version| version >= SMALLER_RINGS)
}

/// A text about the losses in the ring, by the counters. It states that nothing was lost only if the counters are known
/// and 0.
fn losses(port: &Port, since: &str) -> String {
    let is_counted = port.counters.rx_missed.get().is_some() || port.statistics.known().is_some();
    if let Some(lost) = lost_packets::at(port, Place::Ring) {
        let share = drops::share(lost.packets, port.counters.rx_packets.get());
        return format!("{} packets found the ring full {since} ({}){share}", lost.packets, lost.counter);
    }
    if let Some(lost) = lost_packets::at(port, Place::Card) {
        return format!(
            "no packets are counted at the ring, but {} found the card's own buffer full ({}): see drops-by-cause",
            lost.packets, lost.counter
        );
    }
    match lost_packets::unknown(port) {
        Some((counter, count)) => format!(
            "{counter} counts {count} packets that were dropped {since} for an unknown reason: the ring may have been full"
        ),
        None if is_counted => "no packets were lost so far".into(),
        None => "whether packets were lost isn't known".into(),
    }
}

/// Adds the fix in words, for rings of buffers. Their drivers refuse the command (EBUSY) once a port of the card has
/// been up, and their largest ring takes a gibibyte.
fn words(finding: Finding, port: &Port, rings: &Rings) -> Finding {
    let more = rings.rx.saturating_mul(2).max(SOME_BUFFERS).min(rings.max_rx);
    let fix = format!(
        "as soon as the driver is loaded, before any port of the card is up: ethtool -G {} rx {more}; see whether the port still loses packets",
        shell::word(&port.name)
    );
    let memory = format!(
        "buffers of 64 KiB: {} MiB for each queue; a port that has been up refuses the command",
        more / 16
    );
    finding.fix(fix).conflict(memory)
}

fn remedy(finding: Finding, host: &Host<'_>, port: &Port, rings: &Rings) -> Finding {
    let setting = Setting::Ring { port: port.name.clone(), way: RingWay::Rx };
    let larger = ring::next(host, port, rings.rx, rings.max_rx);
    let remedies = larger.and_then(|size| Remedy::of(setting, rings.rx, size));
    finding.remedied_or(remedies, ring::TOO_LITTLE_MEMORY).conflict(format!(
        "ESnet sets 8192 before Linux 6.11 and no longer does from then on, Red Hat enlarges rings only if packets were lost; rings larger than the processor's cache cost time at 100 Gbit/s (Cai et al.); \
         the command resets the port, and some drivers leave it down if memory is short; {}",
        ring::costs()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, fixture, found, lines};

    #[test]
    fn full_rings_are_found() {
        let found = found(&CHECK, &fixture("stock-10g"));
        assert_eq!(found.len(), 1);
        assert!(found[0].severity >= Severity::Minor, "{found:?}");
        assert_eq!(found[0].fix.as_deref(), Some("ethtool -G eno1 rx 2048"));
        assert_eq!(found[0].undo.as_deref(), Some("ethtool -G eno1 rx 512"));
        assert!(crate::testing::found(&CHECK, &fixture("vmxnet3-one-queue"))[0].severity >= Severity::Minor);
    }

    /// As cxgb4 reports its defaults: a list of 72 buffers, less 8.
    #[test]
    fn rings_of_whole_buffers_are_judged_by_losses_alone() {
        let ring = |lost| {
            found(
                &CHECK,
                &edited("stock-10g", "eno1", |port| {
                    port.driver = linerate_host::Fact::Known("cxgb4".into());
                    port.counters.rx_missed = linerate_host::Fact::Known(lost);
                    port.statistics = linerate_host::Fact::Known(std::collections::BTreeMap::new());
                    let rings = Rings { rx: 64, max_rx: 16_384, tx: 1024, max_tx: 16_384 };
                    port.rings = linerate_host::Fact::Known(rings);
                }),
            )
        };
        assert!(ring(0).is_empty());
        let full = ring(7).remove(0);
        assert!(full.title.ends_with("64 of 16384 buffers") && !full.evidence[0].contains("ms"), "{full:?}");
        // set_sge_param() in cxgb4_main.c refuses the change while the port is up.
        assert!(full.remedies.is_empty() && full.undo.is_none(), "{full:?}");
        assert!(full.fix.unwrap().contains("ethtool -G eno1 rx 1024;"));
    }

    /// Losses at the ring that drivers don't count in rx_missed.
    #[test]
    fn each_drivers_own_counter_is_read() {
        let with = |driver: &str, counter: &str, lost: u64, dropped: u64| {
            let host = edited("stock-10g", "eno1", |port| {
                port.driver = linerate_host::Fact::Known(driver.into());
                (port.counters.rx_missed, port.counters.rx_dropped) =
                    (linerate_host::Fact::Known(0), linerate_host::Fact::Known(dropped));
                port.statistics = linerate_host::Fact::Known([(counter.to_owned(), lost)].into());
            });
            found(&CHECK, &host).remove(0)
        };
        let severity = |driver, counter, lost| with(driver, counter, lost, 0).severity;
        assert_eq!(severity("i40e", "port.rx_dropped", 900_000), Severity::Major);
        assert_eq!(severity("qede", "no_buff_discards", 900), Severity::Minor);
        assert_eq!(severity("atlantic", "InDroppedDma", 9), Severity::Note);
        let says = |finding: Finding| finding.evidence[1].clone();
        assert!(
            says(with("enic", "rx_no_bufs", 900, 0)).contains("900 packets found the ring full since boot")
        );
        let card = says(with("mlx5_core", "rx_discards_phy", 900, 900));
        assert!(card.contains("900 found the card's own buffer full (rx_discards_phy)"), "{card}");
        // This counter belongs neither to the ring nor to the card.
        let unknown = says(with("ixgbe", "rx_crc_errors", 900, 900));
        assert!(unknown.starts_with("rx_dropped counts 900 packets"), "{unknown}");
        assert!(says(with("mvneta", "rx_discard", 900, 0)).starts_with("rx_discard counts 900 packets"));
        assert_eq!(says(with("ixgbe", "rx_crc_errors", 900, 0)), "no packets were lost so far");
    }

    #[test]
    fn losses_in_rings_of_the_largest_size_are_found_too() {
        let with = |rings: linerate_host::Fact<Rings>, lost| {
            let host = edited("mlx5-25g-tuned", "ens1f0np0", |port| {
                let (counters, known) = (&mut port.counters, linerate_host::Fact::Known);
                (counters.rx_packets, counters.rx_missed) = (known(1_000_000), known(lost));
                port.rings = rings;
            });
            found(&CHECK, &host).pop()
        };
        let largest = || linerate_host::Fact::Known(Rings { rx: 8192, max_rx: 8192, tx: 8192, max_tx: 8192 });
        let full = with(largest(), 5000).unwrap();
        assert_eq!(full.line(), "rx-ring ens1f0np0 major -");
        assert!(full.evidence[1].starts_with("its rings hold 8192, their maximum"), "{full:?}");
        assert!(full.remedies.is_empty());
        let unknown = with(linerate_host::Fact::Unreadable("x".into()), 50).unwrap();
        assert_eq!(unknown.line(), "rx-ring ens1f0np0 minor -");
        assert!(with(largest(), 0).is_none());
    }

    /// otx2_set_ringparam() stops the port, and opens it again with the new rings.
    #[test]
    fn a_million_buffers_are_not_proposed() {
        let with = |memory| {
            let mut host = edited("stock-10g", "eno1", |port| {
                port.driver = linerate_host::Fact::Known("rvu-nicpf".into());
                port.counters.rx_dropped = linerate_host::Fact::Known(60_000);
                let rings = Rings { rx: 256, max_rx: 1 << 20, tx: 4096, max_tx: 1 << 20 };
                port.rings = linerate_host::Fact::Known(rings);
            });
            host.memory.total = linerate_host::Fact::Known(memory);
            found(&CHECK, &host).remove(0)
        };
        assert_eq!(with(64 << 30).fix.as_deref(), Some("ethtool -G eno1 rx 1024"));
        let small = with(1 << 30);
        assert!(small.remedies.is_empty() && small.undo.is_none(), "{small:?}");
        assert!(small.fix.unwrap().contains("too much of the host's memory"));
    }

    #[test]
    fn nothing_is_said_of_counters_that_are_not_known() {
        let host = edited("stock-10g", "eno1", |port| {
            (port.counters, port.statistics) = Default::default();
        });
        assert_eq!(found(&CHECK, &host)[0].evidence[1], "whether packets were lost isn't known");
    }

    #[test]
    fn short_rings_without_loss_are_a_note_and_long_ones_nothing() {
        let short = edited("stock-10g", "eno1", |port| {
            port.counters.rx_missed = linerate_host::Fact::Known(0);
            port.statistics = linerate_host::Fact::Known(std::collections::BTreeMap::new());
        });
        assert_eq!(lines(&found(&CHECK, &short)), ["rx-ring eno1 note -"]);
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
        assert!(found(&CHECK, &fixture("e1000")).is_empty(), "at a gigabit 256 last three milliseconds");
    }
}
