//! A driver's answers to ethtool (include/uapi/linux/ethtool.h). Only a module's memory
//! needs a privilege, CAP_NET_ADMIN.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The connector of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    /// Twisted pair, such as 10GBASE-T uses.
    TwistedPair,
    /// A transceiver for fibre.
    Fibre,
    /// A direct-attach copper cable.
    DirectAttach,
    /// An old connector: attachment unit interface, BNC or MII.
    Old,
    /// An empty port.
    Nothing,
    /// Another connector; drivers of virtual devices report this.
    Other,
}

/// Queues of a port; 0 for a kind of queue that the driver lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// Queues for receiving only.
    pub rx: u32,
    /// Their maximum number.
    pub max_rx: u32,
    /// Queues for sending only.
    pub tx: u32,
    /// Their maximum number.
    pub max_tx: u32,
    /// Queues for both directions.
    pub combined: u32,
    /// Their maximum number.
    pub max_combined: u32,
}

impl Channels {
    /// The number of queues that receive.
    pub fn receiving(&self) -> u32 {
        self.rx.saturating_add(self.combined)
    }

    /// The most queues that can receive. Most drivers that offer both kinds (combined, or of one direction)
    /// allow only one kind at a time, so the maximum is that of either kind. Queues of one direction can
    /// replace combined ones only in pairs of a receiving and a sending queue.
    pub fn max_receiving(&self) -> u32 {
        match self.max_combined {
            0 => self.max_rx,
            combined => combined.max(self.max_rx.min(self.max_tx)),
        }
    }

    /// The kind of queue that receives now, by its name in `ethtool -L`, and the maximum of that kind.
    pub fn receiving_kind(&self) -> (&'static str, u32) {
        if self.combined > 0 || self.max_rx == 0 {
            ("combined", self.max_combined)
        } else {
            ("rx", self.max_rx)
        }
    }
}

/// Descriptors in each ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rings {
    /// For receiving.
    pub rx: u32,
    /// Their maximum number.
    pub max_rx: u32,
    /// For sending.
    pub tx: u32,
    /// Their maximum number.
    pub max_tx: u32,
}

/// A device's delays before interrupts (interrupt coalescing).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coalescing {
    /// Microseconds between a received packet and the interrupt.
    pub rx_usecs: u32,
    /// The number of received packets after which the device interrupts; 0: no limit.
    pub rx_frames: u32,
    /// Microseconds between a sent packet and the interrupt.
    pub tx_usecs: u32,
    /// The number of sent packets after which the device interrupts.
    pub tx_frames: u32,
    /// True if the driver adapts the delay of received packets.
    pub adaptive_rx: bool,
    /// True if the driver adapts the delay of sent packets.
    pub adaptive_tx: bool,
}

/// One offload feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offload {
    /// True if it is on.
    pub on: bool,
    /// True if it can't be changed.
    pub fixed: bool,
}

/// Flow control by pause frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// True if it is negotiated with the other end.
    pub autoneg: bool,
    /// True if received pause frames are obeyed.
    pub rx: bool,
    /// True if pause frames are sent.
    pub tx: bool,
}

/// Receive side scaling: the choice of receive queues by a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rss {
    /// Receive rings.
    pub rings: u32,
    /// The number of slots of the hash table that point to each ring, by ring; empty if the driver has no
    /// table.
    pub slots: BTreeMap<u32, u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(max_rx: u32, max_tx: u32, max_combined: u32) -> u32 {
        Channels { max_rx, max_tx, max_combined, ..Channels::default() }.max_receiving()
    }

    #[test]
    fn kinds_of_queues_are_alternatives() {
        assert_eq!((most(0, 0, 8), most(8, 1, 0)), (8, 8));
        assert_eq!((most(16, 16, 16), most(74, 74, 37), most(8, 1, 4)), (16, 74, 4));
    }

    #[test]
    fn the_kind_in_use_is_changed() {
        let both = Channels { max_rx: 74, max_tx: 74, max_combined: 37, ..Channels::default() };
        assert_eq!(Channels { combined: 4, ..both.clone() }.receiving_kind(), ("combined", 37));
        assert_eq!(Channels { rx: 4, ..both }.receiving_kind(), ("rx", 74));
    }
}
