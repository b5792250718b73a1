//! Receive rings: the time until an unserved ring is full, and whether rings were full.

use linerate_host::facts::{Port, Rings};

use super::{Check, CheckRun, work};
use crate::formula::goodput::Segments;
use crate::formula::percent;
use crate::remedy::{Remedy, RingWay, Setting};
use crate::source::{ESNET_NIC, RED_HAT, STACK};
use crate::{Finding, Host, Severity};

/// Seconds that a ring should last at the needed rate: about a tick of the scheduler.
const LASTS: f64 = 0.001;
/// Share of lost packets above which connections slow down.
const FELT: f64 = 1e-3;

/// Drivers that count buffers, mostly of 64 KiB, each of which holds several packets (cxgb4's sge.c): 64 of them are 4 MiB.
const IN_BUFFERS: [&str; 2] = ["cxgb4", "cxgb4vf"];

/// A ring of such buffers to try first.
const SOME_BUFFERS: u32 = 1024;

pub(super) const CHECK: Check = Check {
    name: "rx-ring",
    about: "receive rings that were full, or that fill within a millisecond",
    sources: &[RED_HAT, ESNET_NIC, STACK],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(port, host.rate_of(port)?, &host.since())).collect()
}

fn of(port: &Port, need: f64, since: &str) -> Option<Finding> {
    let rings = port.rings.known().filter(|rings| rings.rx > 0 && rings.rx < rings.max_rx)?;
    let in_buffers = port.driver.known().is_some_and(|driver| IN_BUFFERS.contains(&driver.as_str()));
    let lasts = f64::from(rings.rx) / Segments::usual(port.mtu.get()?).packets(need);
    let (lost, share) = lost(port);
    let severity = match (lost, share) {
        (0, _) if lasts >= LASTS || in_buffers => return None,
        (0, _) => Severity::Note,
        (_, share) if share >= FELT => Severity::Major,
        _ => Severity::Minor,
    };
    let unit = if in_buffers { "buffers" } else { "packets" };
    let title = format!("{}'s receive rings hold {} of {} {unit}", port.name, rings.rx, rings.max_rx);
    let finding = Finding::new(severity, title).at(&port.name);
    let finding = match in_buffers {
        true => finding.evidence("each buffer holds several packets"),
        false => finding.evidence(format!("at the needed rate, one ring lasts {:.2} ms", lasts * 1e3)),
    };
    let finding = match lost {
        0 => finding.evidence("no packets were lost so far"),
        lost => {
            finding.evidence(format!("{lost} packets found the ring full {since}, {} of all", percent(share)))
        }
    };
    Some(if in_buffers { words(finding, port, rings) } else { remedy(finding, port, rings) })
}

/// These drivers refuse the command (EBUSY) once a port of the card has been up, and their largest ring takes a gibibyte.
fn words(finding: Finding, port: &Port, rings: &Rings) -> Finding {
    let more = rings.rx.saturating_mul(2).max(SOME_BUFFERS).min(rings.max_rx);
    let fix = format!(
        "as soon as the driver is loaded, before any port of the card is up: ethtool -G {} rx {more}; see whether the port still loses packets",
        work::word(&port.name)
    );
    let memory = format!(
        "buffers of 64 KiB: {} MiB for each queue; a port that has been up refuses the command",
        more / 16
    );
    finding.fix(fix).conflict(memory)
}

fn remedy(finding: Finding, port: &Port, rings: &Rings) -> Finding {
    let ring = Setting::Ring { port: port.name.clone(), way: RingWay::Rx };
    finding.remedied(Remedy::of(ring, rings.rx, rings.max_rx)).conflict(
        "ESnet sets 8192 or the maximum, Red Hat only where packets were lost; \
         rings larger than the processor's cache cost time at 100 Gbit/s (Cai et al.); \
         the command resets the port",
    )
}

/// Packets that found the ring full, and their share: by the kernel's counters or the driver's, whichever
/// are higher.
fn lost(port: &Port) -> (u64, f64) {
    let kernels = port.counters.rx_missed.get().unwrap_or(0).max(port.counters.rx_fifo.get().unwrap_or(0));
    let drivers = port.statistics.known().into_iter().flatten().filter(|(name, _)| is_full(name));
    let lost = kernels.max(drivers.map(|(_, count)| *count).max().unwrap_or(0));
    let received = port.counters.rx_packets.get().unwrap_or(0).saturating_add(lost).max(1);
    (lost, lost as f64 / received as f64)
}

/// Drivers' counters of full rings.
fn is_full(name: &str) -> bool {
    let names = [
        "ring full",
        "rx_no_dma_resources",
        "rx_out_of_buffer",
        "rx_no_buffer_count",
        "pkts rx OOB",
        "port_rx_nodesc_drops",
        "rx_discards",
    ];
    // bnxt_en has one for each queue: `[3]: rx_discards`.
    names.contains(&name) || name.strip_prefix('[').is_some_and(|queue| queue.ends_with("]: rx_discards"))
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
        assert_eq!(found[0].fix.as_deref(), Some("ethtool -G eno1 rx 4096"));
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
        // cxgb4_main.c's set_sge_param() refuses it while the port is up.
        assert!(full.remedies.is_empty() && full.undo.is_none(), "{full:?}");
        assert!(full.fix.unwrap().contains("ethtool -G eno1 rx 1024;"));
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
