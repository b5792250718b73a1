//! What a driver answers to ethtool (include/uapi/linux/ethtool.h). None of it needs a privilege.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is plugged into a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    /// 10GBASE-T and its like.
    TwistedPair,
    /// A transceiver with glass.
    Fibre,
    /// A copper cable with its plugs.
    DirectAttach,
    /// Attachment unit interface, BNC or MII: of old.
    Old,
    /// Nothing is plugged in.
    Nothing,
    /// Something else; drivers of virtual devices say so.
    Other,
}

/// Queues of a port. 0 where the driver has none of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// For receiving only.
    pub rx: u32,
    /// The most of them.
    pub max_rx: u32,
    /// For sending only.
    pub tx: u32,
    /// The most of them.
    pub max_tx: u32,
    /// For both.
    pub combined: u32,
    /// The most of them.
    pub max_combined: u32,
}

impl Channels {
    /// Queues that receive.
    pub fn receiving(&self) -> u32 {
        self.rx.saturating_add(self.combined)
    }

    /// Queues that could receive: of either kind, since most drivers that offer both want one or the other. Queues of
    /// one direction stand for a combined one in pairs only.
    pub fn max_receiving(&self) -> u32 {
        match self.max_combined {
            0 => self.max_rx,
            combined => combined.max(self.max_rx.min(self.max_tx)),
        }
    }

    /// What ethtool -L calls the kind of those that receive now, and the most of that kind.
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
    /// The most of them.
    pub max_rx: u32,
    /// For sending.
    pub tx: u32,
    /// The most of them.
    pub max_tx: u32,
}

/// How long a device waits before it interrupts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coalescing {
    /// Microseconds after a packet was received.
    pub rx_usecs: u32,
    /// Or packets; 0 doesn't count them.
    pub rx_frames: u32,
    /// Microseconds after a packet was sent.
    pub tx_usecs: u32,
    /// Or packets.
    pub tx_frames: u32,
    /// Whether the driver adapts it for receiving.
    pub adaptive_rx: bool,
    /// Whether the driver adapts it for sending.
    pub adaptive_tx: bool,
}

/// One feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offload {
    /// In force.
    pub on: bool,
    /// Nobody can change it.
    pub fixed: bool,
}

/// Flow control by pause frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// Agreed with the other end.
    pub autoneg: bool,
    /// Obeyed.
    pub rx: bool,
    /// Sent.
    pub tx: bool,
}

/// How a packet's hash chooses its receive queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rss {
    /// Receive rings.
    pub rings: u32,
    /// Slots of the table by the ring that they name; empty where the driver has no table.
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
