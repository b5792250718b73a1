//! Received packets that a port lost before the kernel had them, by the kernel's counters and by those of the port's
//! driver, whose names differ.
//!
//! The kernel's documentation of statistics calls such packets rx_missed, but many drivers count them elsewhere: in
//! rx_fifo, in rx_dropped, or only among ethtool's statistics. The names are those in Linux 6.1's drivers, and the
//! names of the same counters in earlier and later versions.

use linerate_host::Fact;
use linerate_host::facts::Port;

use Place::{Card, Ring};

/// Where packets were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host had given the card no free buffer.
    Ring,
    /// The card's own buffer was full: the slot was too slow, or the ring was.
    Card,
}

/// Lost packets, and the counter that counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The counter's name; `#` stands for the numbers of its queues.
    pub counter: &'static str,
    /// The number of packets.
    pub packets: u64,
}

/// Drivers, the place of the loss, and the drivers' counters. An empty list of drivers means any driver that has the
/// counter. `#` is a number; counters that differ only by this number are added up.
type Known = (&'static [&'static str], Place, &'static [&'static str]);

const KNOWN: &[Known] = &[
    (&[], Ring, &["rx_no_dma_resources", "rx_out_of_buffer", "rx_discards"]),
    (&["vmxnet3"], Ring, &["pkts rx OOB"]),
    (&["mlx5_core"], Card, &["rx_discards_phy", "outbound_pci_buffer_overflow", "rx_prio#_discards"]),
    (&["mlx5_core"], Card, &["rx_prio#_buf_discard"]),
    (&["mlx4_en", "mlx4_core"], Card, &["rx_fifo_errors"]),
    (&["bnxt_en"], Ring, &["[#]: rx_discards", "rx_total_discard_pkts", "rx_total_ring_discards"]),
    (&["bnx2x"], Ring, &["[#]: rx_discards"]),
    (&["bnx2x"], Card, &["rx_brb_discard"]),
    (&["qede"], Ring, &["no_buff_discards", "#: no_buff_discards"]),
    (&["qede"], Card, &["brb_discards"]),
    (&["i40e"], Ring, &["port.rx_dropped", "port.rx_discards"]),
    (&["ice"], Ring, &["rx_dropped", "rx_dropped.nic"]),
    (&["igb", "igc"], Ring, &["rx_queue_#_drops", "rx_missed_errors"]),
    (&["ixgbe", "e1000", "e1000e"], Ring, &["rx_missed_errors"]),
    (&["fm10k"], Ring, &["nodesc_drop"]),
    (&["ena"], Ring, &["rx_drops", "rx_overruns"]),
    // These counters belong to the drivers of Solarflare's cards.
    (&[], Ring, &["port_rx_nodesc_drops", "rx_nodesc_drops", "rx_nodesc_drop_cnt"]),
    (&["sfc", "sfc-siena", "sfc-falcon"], Card, &["port_rx_overflow", "rx_overflow"]),
    (&["sfc"], Card, &["port_rx_pm_discard_bb_overflow", "port_rx_pm_discard_vfifo_full"]),
    // Chelsio's card has one buffer before its lists of buffers, and counts packets there only.
    (&["cxgb4"], Ring, &["rx_bg#_frames_dropped"]),
    (&["cxgb3"], Ring, &["RxDrops"]),
    (&["enic"], Ring, &["rx_no_bufs"]),
    (&["be2net"], Ring, &["rxq#: rx_drops_no_frags", "rx_drops_no_erx_descr"]),
    (&["be2net"], Card, &["rx_drops_no_pbuf", "rx_input_fifo_overflow_drop", "pmem_fifo_overflow_drop"]),
    (&["atlantic"], Ring, &["InDroppedDma"]),
    (&["r8169"], Ring, &["rx_missed"]),
    (&["gve"], Ring, &["rx_no_buffers_posted[#]"]),
    (&["virtio_net"], Ring, &["rx#_hw_drop_overruns", "rx_hw_drop_overruns"]),
    (&["mana"], Ring, &["hc_rx_discards_no_wqe"]),
    (&["ionic"], Ring, &["hw_rx_over_errors"]),
    (&["thunder-nicvf"], Ring, &["rx_drop_red"]),
    (&["thunder-nicvf"], Card, &["rx_drop_overrun"]),
    (&["nfp"], Ring, &["dev_rx_discards"]),
    (&["mvpp2"], Ring, &["rxq_#_queue_full_drops", "rxq_#_packets_bm_drops"]),
    (&["mvpp2"], Card, &["rx_fifo_overrun", "rx_fifo_or_parser_overrun_drops"]),
    (&["fsl_dpaa2_eth"], Ring, &["[hw] rx nobuffer discards"]),
    (&["fsl_enetc", "fsl_enetc_vf"], Ring, &["Rx ring # discarded frames"]),
    (&["fsl_enetc"], Card, &["MAC rx fifo drop"]),
    (&["myri10ge"], Ring, &["dropped_no_big_buffer", "dropped_no_small_buffer"]),
    (&["myri10ge"], Card, &["dropped_link_overflow", "dropped_overrun"]),
    (&["amd-xgbe"], Card, &["rx_fifo_overflow_errors"]),
    (&["st_gmac"], Ring, &["rx_missed_cntr"]),
    (&["st_gmac"], Card, &["mmc_rx_fifo_overflow", "rx_overflow_cntr"]),
    // Cadence's card, as in the Raspberry Pi 5: no buffer was free, or the bus wasn't granted in time.
    (&["macb"], Ring, &["rx_resource_errors"]),
    (&["macb"], Card, &["rx_overruns"]),
    // The counter's register is that of overflows of the FIFO.
    (&["fec"], Card, &["IEEE_rx_macerr"]),
    (&["bcmgenet", "brcm-systemport"], Card, &["rbuf_ovflow_cnt"]),
    (&["brcm-systemport"], Ring, &["rdma_ovflow_cnt"]),
    (&["qlcnic"], Ring, &["ctx_rx_pkts_dropped_wo_rds"]),
];

/// Drivers whose rx_fifo counts losses at the ring. With other drivers it counts losses in the card's buffer, or is 0.
const FIFO_OF_RING: [&str; 4] = ["igb", "igc", "bnx2x", "qede"];
/// Drivers whose rx_dropped counts losses at the ring: packets for which the device had no buffer (DPDK's drivers of
/// the same devices count them as imissed). ethtool writes the names of Octeon's drivers with hyphens, /sys with
/// underscores.
const DROPPED_OF_RING: [&str; 8] =
    ["alx", "ena", "rvu-nicpf", "rvu-nicvf", "rvu_nicpf", "rvu_nicvf", "octeontx2-nicpf", "octeontx2-nicvf"];
/// Counters of packets that an XDP program decided to drop, for drivers that count these packets in rx_dropped, too
/// (err_xdp in virtio_net.c).
const DECIDED: &[(&[&str], &[&str])] = &[(&["virtio_net"], &["rx#_xdp_drops"])];
/// Drivers whose rx_dropped includes packets that their own counters count, too. Without these counters it isn't known
/// how many other packets rx_dropped counts.
const IN_DROPPED: [&str; 15] = [
    "mlx5_core",
    "ice",
    "i40e",
    "iavf",
    "fm10k",
    "sfc",
    "sfc-siena",
    "sfc-falcon",
    "enic",
    "atlantic",
    "thunder-nicvf",
    "cxgb4",
    "be2net",
    "nfp",
    "fsl_dpaa2_eth",
];
/// The driver that counts the ring's losses both in rx_missed and in rx_dropped (ice_main.c).
const IN_BOTH: [&str; 1] = ["ice"];
/// Parts of names of other counters of lost packets.
const SIGNS: [&str; 7] = ["drop", "discard", "no_buf", "nobuf", "overrun", "overflow", "missed"];
/// Parts of names of counters that also match the list above, but count something else: Intel's rx_no_buffer_count
/// includes packets that waited in the card for a buffer, rx_steer_missed counts packets for no receiver on this host,
/// and i40e's veb counts packets that the switch in the card didn't forward to its other functions. Packets larger than
/// the port's MTU aren't TCP's, and damaged packets don't show a lack of buffers. gve's rx_queue_drop_cnt is the sum of
/// its other counters.
const OTHERS: [&str; 16] = [
    "xdp",
    "tx",
    "csum",
    "checksum",
    "bytes",
    "out",
    "loopback",
    "events",
    "no_buffer_count",
    "steer_missed",
    "veb.",
    "over_mru",
    "oversize",
    "drops_mtu",
    "fcoe",
    "queue_drop_cnt",
];

/// The highest of the counters of this place: counters of one place mostly count the same packets.
pub fn at(port: &Port, place: Place) -> Option<Lost> {
    let known = KNOWN.iter().filter(|(drivers, of, _)| *of == place && is_of(port, drivers));
    let names = known.flat_map(|(_, _, names)| names.iter().copied());
    let drivers = names.map(|counter| Lost { counter, packets: sum(port, counter) });
    let all = kernels(port, place).into_iter().chain(drivers).filter(|lost| lost.packets > 0);
    // If counters are equal, the first one is taken: the kernel's.
    all.reduce(|most, lost| if lost.packets > most.packets { lost } else { most })
}

/// Packets in rx_dropped that aren't also counted as lost at a ring or in the card, and that no XDP program decided to
/// drop; 0 if the number isn't known.
pub fn others(port: &Port) -> u64 {
    let dropped = port.counters.rx_dropped.get().unwrap_or(0).saturating_sub(decided(port));
    if is_of(port, &DROPPED_OF_RING) {
        return 0;
    }
    if !is_of(port, &IN_DROPPED) {
        return dropped;
    }
    let Fact::Known(_) = port.statistics else { return 0 };
    let is_elsewhere = |place| kernels(port, place).iter().any(|lost| lost.packets > 0);
    let places = [Ring, Card].into_iter().filter(|place| is_of(port, &IN_BOTH) || !is_elsewhere(*place));
    places.filter_map(|place| at(port, place)).fold(dropped, |rest, lost| rest.saturating_sub(lost.packets))
}

/// Packets in rx_dropped that an XDP program decided to drop.
fn decided(port: &Port) -> u64 {
    let known = DECIDED.iter().filter(|(drivers, _)| is_of(port, drivers));
    known.flat_map(|(_, names)| *names).fold(0, |all, name| all.saturating_add(sum(port, name)))
}

/// A counter of received packets that were lost for an unknown reason, and their number.
pub fn unknown(port: &Port) -> Option<(String, u64)> {
    if let rest @ 1.. = others(port) {
        return Some(("rx_dropped".into(), rest));
    }
    let statistics = port.statistics.known().into_iter().flatten();
    let is_loss = |name: &str| {
        let name = name.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        (name.contains("rx") || name.contains("in")) && has(&SIGNS) && !has(&OTHERS)
    };
    let is_known = |name: &str| {
        let known = KNOWN.iter().filter(|(drivers, _, _)| is_of(port, drivers));
        // The statistics of ixgbe and ice have the kernel's counter rx_dropped too.
        name == "rx_dropped" || known.flat_map(|(_, _, names)| *names).any(|one| is_named(name, one))
    };
    let mut unknown = statistics.filter(|(name, _)| is_loss(name) && !is_known(name));
    unknown.find(|(_, count)| **count > 0).map(|(name, count)| (name.trim().to_owned(), *count))
}

/// The kernel's counters of a place.
fn kernels(port: &Port, place: Place) -> Vec<Lost> {
    let counters = &port.counters;
    let lost = |counter, count: &Fact<u64>| Lost { counter, packets: count.get().unwrap_or(0) };
    let fifo = if is_of(port, &FIFO_OF_RING) { Ring } else { Card };
    let mut all = Vec::new();
    if place == Ring {
        all.push(lost("rx_missed", &counters.rx_missed));
    }
    if place == fifo {
        all.push(lost("rx_fifo", &counters.rx_fifo));
    }
    if place == Ring && is_of(port, &DROPPED_OF_RING) {
        all.push(lost("rx_dropped", &counters.rx_dropped));
    }
    all
}

/// True if the port has one of these drivers, or if the list is empty.
fn is_of(port: &Port, drivers: &[&str]) -> bool {
    drivers.is_empty() || port.driver.known().is_some_and(|driver| drivers.contains(&driver.as_str()))
}

/// The sum of all counters with this name.
fn sum(port: &Port, counter: &str) -> u64 {
    let all = port.statistics.known().into_iter().flatten();
    all.filter(|(name, _)| is_named(name, counter)).fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// True if a counter has this name, in which `#` is a number. Some drivers fill names or numbers with spaces.
fn is_named(name: &str, pattern: &str) -> bool {
    let name = name.trim();
    let Some((before, after)) = pattern.split_once('#') else { return name == pattern };
    let number = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number
        .map(str::trim)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(driver: &str, counters: &[(&str, u64)]) -> Port {
        let statistics = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Port { driver: Fact::Known(driver.into()), statistics: Fact::Known(statistics), ..Port::default() }
    }

    fn packets(port: &Port, place: Place) -> u64 {
        at(port, place).map_or(0, |lost| lost.packets)
    }

    #[test]
    fn each_drivers_counters_of_full_rings_are_known() {
        for (driver, counter) in [
            ("mlx5_core", "rx_out_of_buffer"),
            ("qede", "no_buff_discards"),
            ("bnx2x", "rx_discards"),
            ("bnxt_en", "rx_total_discard_pkts"),
            ("i40e", "port.rx_dropped"),
            ("ice", "rx_dropped.nic"),
            ("iavf", "rx_discards"),
            ("igb", "rx_queue_3_drops"),
            ("sfc", "port_rx_nodesc_drops"),
            ("ena", "rx_drops"),
            ("cxgb4", "rx_bg0_frames_dropped  "),
            ("enic", "rx_no_bufs"),
            ("be2net", "rxq4: rx_drops_no_frags"),
            ("atlantic", "InDroppedDma"),
            ("gve", "rx_no_buffers_posted[12]"),
            ("mana", "hc_rx_discards_no_wqe"),
            ("nfp", "dev_rx_discards"),
            ("tg3", "rx_discards"),
            ("r8169", "rx_missed"),
            ("fsl_enetc", "Rx ring  0 discarded frames"),
            ("macb", "rx_resource_errors"),
            ("st_gmac", "rx_missed_cntr"),
            ("brcm-systemport", "rdma_ovflow_cnt"),
        ] {
            let port = port(driver, &[(counter, 5)]);
            assert_eq!((packets(&port, Ring), packets(&port, Card)), (5, 0), "{driver} {counter}");
            assert_eq!(unknown(&port), None, "{driver} {counter}");
        }
    }

    #[test]
    fn each_drivers_counters_of_its_own_buffer_are_known() {
        for (driver, counter) in [
            ("mlx5_core", "rx_discards_phy"),
            ("mlx5_core", "outbound_pci_buffer_overflow"),
            ("bnx2x", "rx_brb_discard"),
            ("qede", "brb_discards"),
            ("sfc", "port_rx_overflow"),
            ("be2net", "rx_drops_no_pbuf"),
            ("macb", "rx_overruns"),
            ("st_gmac", "rx_overflow_cntr"),
            ("fec", "IEEE_rx_macerr"),
            ("bcmgenet", "rbuf_ovflow_cnt"),
        ] {
            let port = port(driver, &[(counter, 5)]);
            assert_eq!((packets(&port, Ring), packets(&port, Card)), (0, 5), "{driver} {counter}");
        }
    }

    #[test]
    fn queues_are_added_up_and_counters_of_the_same_packets_are_not() {
        let queues = [("[0]: rx_discards", 3), ("[11]: rx_discards", 4), ("rx_total_discard_pkts", 7)];
        assert_eq!(packets(&port("bnxt_en", &queues), Ring), 7);
        // A full transmit ring, which loses no packet.
        assert_eq!(packets(&port("vmxnet3", &[("ring full", 9), ("pkts rx OOB", 2)]), Ring), 2);
        // cxgb4's loopback.
        assert_eq!(packets(&port("cxgb4", &[("bg0_frames_dropped     ", 9)]), Ring), 0);
    }

    #[test]
    fn a_packet_is_counted_once() {
        let dropped = |driver: &str, counters: &[(&str, u64)], missed| {
            let mut port = port(driver, counters);
            (port.counters.rx_dropped, port.counters.rx_missed) = (Fact::Known(100), Fact::Known(missed));
            (packets(&port, Ring), others(&port))
        };
        assert_eq!(dropped("i40e", &[("port.rx_dropped", 90)], 0), (90, 10), "before it had rx_missed");
        assert_eq!(dropped("i40e", &[("port.rx_discards", 90)], 90), (90, 100), "since then");
        assert_eq!(dropped("ice", &[("rx_dropped", 100)], 100), (100, 0));
        assert_eq!(dropped("mlx5_core", &[("rx_discards_phy", 100)], 7), (7, 0));
        assert_eq!(dropped("ena", &[], 0), (100, 0));
        assert_eq!(dropped("alx", &[], 0), (100, 0));
        assert_eq!(dropped("ixgbe", &[], 7), (7, 100));
        assert_eq!(dropped("rvu-nicpf", &[("rx_drops", 100)], 0), (100, 0));
        // vmxnet3's rx_dropped is the driver's own: damaged packets, and those without memory.
        assert_eq!(dropped("vmxnet3", &[("pkts rx OOB", 40), ("drv dropped rx total", 100)], 0), (40, 100));
    }

    /// Packets dropped by a program, by a switch within the card, or because of a sender's MTU don't show a shortage on
    /// the host.
    #[test]
    fn packets_that_were_dropped_on_purpose_are_no_loss() {
        let mut virtio =
            port("virtio_net", &[("rx0_xdp_drops", 60), ("rx1_xdp_drops", 30), ("rx0_drops", 70)]);
        virtio.counters.rx_dropped = Fact::Known(97);
        assert_eq!((others(&virtio), unknown(&virtio)), (7, Some(("rx_dropped".into(), 7))));
        for (driver, counter) in [
            ("i40e", "veb.rx_discards"),
            ("gve", "rx_drops_packet_over_mru[0]"),
            ("gve", "rx_drops_invalid_checksum[0]"),
            ("gve", "rx_queue_drop_cnt[0]"),
            ("gve", "rx_xdp_drop[0]"),
            ("mlx5_core", "rx_oversize_pkts_sw_drop"),
            ("be2net", "rx_drops_mtu"),
            ("ixgbe", "rx_fcoe_dropped"),
        ] {
            assert_eq!(unknown(&port(driver, &[(counter, 5)])), None, "{driver} {counter}");
        }
        assert_eq!(unknown(&port("gve", &[("rx_dropped_pkt[0]", 5)])).map(|(_, lost)| lost), Some(5));
    }

    #[test]
    fn other_losses_are_of_unknown_cause() {
        let reported = |driver: &str, counter: &str| unknown(&port(driver, &[(counter, 5)])).map(|(_, n)| n);
        assert_eq!(reported("bnxt_en", "rx_stat_discard"), Some(5));
        assert_eq!(reported("mvneta", "rx_discard"), Some(5));
        for name in ["tx_dropped", "rx_xdp_drop", "rx_csum_bad", "rx_packets", "rx_prio0_pause"] {
            assert_eq!(reported("mvneta", name), None, "{name}");
        }
    }
}
