//! Pause frames, as drivers count them.

use linerate_host::facts::Port;

/// A driver's counters of sent and of received pause frames. The names are those in Linux 6.1's drivers.
const COUNTERS: [[&str; 2]; 12] = [
    // e1000e, igb, igc, ixgbe
    ["tx_flow_control_xoff", "rx_flow_control_xoff"],
    // i40e
    ["port.link_xoff_tx", "port.link_xoff_rx"],
    // ice
    ["link_xoff_tx.nic", "link_xoff_rx.nic"],
    // mlx5
    ["tx_pause_ctrl_phy", "rx_pause_ctrl_phy"],
    ["tx_prio0_pause", "rx_prio0_pause"],
    ["tx_global_pause", "rx_global_pause"],
    // mlx4
    ["tx_pause", "rx_pause"],
    // sfc
    ["port_tx_pause", "port_rx_pause"],
    // bnx2x, bnxt, cxgb4, qede
    ["tx_pause_frames", "rx_pause_frames"],
    // be2net
    ["tx_pauseframes", "rx_pause_frames"],
    // tg3
    ["tx_xoff_sent", "rx_xoff_pause_rcvd"],
    // nfp
    ["mac.tx_pause_mac_ctrl_frames", "mac.rx_pause_mac_ctrl_frames"],
];

/// The number of pauses for each packet below which the pauses' cost is negligible. A card lets the other end resume as
/// soon as its buffer has drained a little, after about 100 packets (64 to 128 KiB): one pause in 10,000 packets is 1 %
/// of the time.
const FELT: f64 = 1e-4;

/// A driver's count of pause frames.
#[derive(Clone, Copy)]
pub struct Pauses<'a> {
    /// The driver's name of the counter.
    pub name: &'a str,
    /// The number of frames.
    pub count: u64,
}

/// The pause frames that a port sent; `None` if it sent none.
pub fn sent(port: &Port) -> Option<Pauses<'_>> {
    counted(port, |[sent, _]| sent)
}

/// The pause frames that a port received; `None` if it received none.
pub fn received(port: &Port) -> Option<Pauses<'_>> {
    counted(port, |[_, received]| received)
}

fn counted<'a>(port: &'a Port, side: fn([&'static str; 2]) -> &'static str) -> Option<Pauses<'a>> {
    let all = port.statistics.known()?;
    let found = COUNTERS
        .into_iter()
        .find_map(|names| all.get_key_value(side(names)).filter(|(_, count)| **count > 0));
    found.map(|(name, count)| Pauses { name, count: *count })
}

impl Pauses<'_> {
    /// True if there are so many pauses, compared with the packets that passed meanwhile, that they cost something.
    pub fn are_felt(&self, packets: Option<u64>) -> bool {
        packets.is_some_and(|packets| self.count as f64 >= packets as f64 * FELT)
    }

    /// The counter, with the packets that passed meanwhile.
    pub fn evidence(&self, packets: Option<u64>, passed: &str) -> String {
        let of =
            packets.map_or_else(String::new, |packets| format!(", while {packets} packets were {passed}"));
        format!("{}: {}{of}", self.name, self.count)
    }
}
