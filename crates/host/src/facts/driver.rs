//! A driver's answers to requests of ethtool (include/uapi/linux/ethtool.h). Only the request for a module's memory
//! needs a privilege, CAP_NET_ADMIN.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The connector of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    /// A connector for twisted pair, as 10GBASE-T uses it.
    TwistedPair,
    /// A transceiver for fibre.
    Fibre,
    /// A direct-attach copper cable.
    DirectAttach,
    /// An old connector: attachment unit interface (AUI), BNC or MII.
    Old,
    /// No connector is plugged in.
    Nothing,
    /// Another connector; drivers of virtual devices report this.
    Other,
}

/// The numbers of a port's queues, by kind of queue. A number is 0 if the driver lacks this kind of queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// The number of queues for receiving only.
    pub rx: u32,
    /// The largest possible number of queues for receiving only.
    pub max_rx: u32,
    /// The number of queues for sending only.
    pub tx: u32,
    /// The largest possible number of queues for sending only.
    pub max_tx: u32,
    /// The number of queues for both directions.
    pub combined: u32,
    /// The largest possible number of queues for both directions.
    pub max_combined: u32,
}

impl Channels {
    /// The number of queues that receive.
    pub fn receiving(&self) -> u32 {
        self.rx.saturating_add(self.combined)
    }

    /// The most queues that can receive. Most drivers that have combined queues and queues for one direction allow only
    /// one of these two kinds at a time, so the result is the larger of the two maxima. Queues for one direction can
    /// replace combined queues only in pairs of a receiving and a sending queue.
    pub fn max_receiving(&self) -> u32 {
        match self.max_combined {
            0 => self.max_rx,
            combined => combined.max(self.max_rx.min(self.max_tx)),
        }
    }

    /// The kind of queue that receives now, as `ethtool -L` names it, and the largest possible number of
    /// queues of that kind.
    pub fn receiving_kind(&self) -> (&'static str, u32) {
        if self.combined > 0 || self.max_rx == 0 {
            ("combined", self.max_combined)
        } else {
            ("rx", self.max_rx)
        }
    }
}

/// The numbers of descriptors in a port's rings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rings {
    /// Descriptors in each receive ring.
    pub rx: u32,
    /// The largest possible number of descriptors in a receive ring.
    pub max_rx: u32,
    /// Descriptors in each transmit ring.
    pub tx: u32,
    /// The largest possible number of descriptors in a transmit ring.
    pub max_tx: u32,
}

/// The limits up to which a device delays its interrupts (interrupt coalescing).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coalescing {
    /// The longest delay, in microseconds, between a received packet and the interrupt.
    pub rx_usecs: u32,
    /// The number of received packets after which the device interrupts; 0 means no limit.
    pub rx_frames: u32,
    /// The longest delay, in microseconds, between a sent packet and the interrupt.
    pub tx_usecs: u32,
    /// The number of sent packets after which the device interrupts.
    pub tx_frames: u32,
    /// True if the driver adapts the delay for received packets.
    pub adaptive_rx: bool,
    /// True if the driver adapts the delay for sent packets.
    pub adaptive_tx: bool,
}

/// An offload feature of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offload {
    /// True if the feature is on.
    pub on: bool,
    /// True if the feature can't be changed.
    pub fixed: bool,
}

/// Flow control of a port by pause frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// True if flow control is negotiated with the other end.
    pub autoneg: bool,
    /// True if the port obeys received pause frames.
    pub rx: bool,
    /// True if the port sends pause frames.
    pub tx: bool,
}

/// Receive side scaling: a hash chooses the receive queue of each packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rss {
    /// The number of receive rings.
    pub rings: u32,
    /// For each ring, the number of slots of the hash table that lead to this ring; empty if the driver has
    /// no table.
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
