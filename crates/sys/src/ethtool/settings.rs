//! Further queries of a driver: its identity, queues, rings, features and interrupt coalescing.
//!
//! Every answer is a structure that begins with the number of the request; most answers consist of 32-bit words. None
//! of these requests needs a privilege.

use std::io;

use super::{Ethtool, NAME, name};

/// The commands ETHTOOL_GDRVINFO, GFEATURES, GRXRINGS, GRXFHINDIR and GLINKSETTINGS.
const DRIVER: u32 = 0x03;
const FEATURES: u32 = 0x3a;
const RX_RINGS: u32 = 0x2d;
const INDIRECTION: u32 = 0x38;
const LINK: u32 = 0x4c;
const PERMANENT_ADDRESS: u32 = 0x20;
/// MAX_ADDR_LEN: the most bytes of a hardware address.
const MOST_ADDRESS: u32 = 32;
/// ETH_SS_FEATURES: the set of strings that names features.
pub(super) const FEATURE_NAMES: u32 = 4;
/// The most slots of an indirection table that are read. The largest drivers have a few thousand.
pub(super) const MOST_SLOTS: u32 = 1 << 16;
/// The most words of link modes that are read. The kernel has three or four.
const MOST_MODES: usize = 32;
/// The length of struct ethtool_link_settings before its link modes.
const LINK_HEADER: usize = 48;

/// A request for a group of numbers that a driver returns in one answer. For each number, `fields` has its name and the
/// index of its word in the answer.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub(super) command: u32,
    pub(super) fields: &'static [(&'static str, usize)],
}

/// The numbers of queues (`ETHTOOL_GCHANNELS`).
pub const CHANNELS: Question = Question {
    command: 0x3c,
    fields: &[("max_rx", 1), ("max_tx", 2), ("max_combined", 4), ("rx", 5), ("tx", 6), ("combined", 8)],
};

/// The sizes of rings (`ETHTOOL_GRINGPARAM`).
pub const RINGS: Question =
    Question { command: 0x10, fields: &[("max_rx", 1), ("max_tx", 4), ("rx", 5), ("tx", 8)] };

/// The settings of interrupt coalescing (`ETHTOOL_GCOALESCE`).
pub const COALESCING: Question = Question {
    command: 0x0e,
    fields: &[
        ("rx_usecs", 1),
        ("rx_frames", 2),
        ("tx_usecs", 5),
        ("tx_frames", 6),
        ("adaptive_rx", 10),
        ("adaptive_tx", 11),
    ],
};

/// The settings of flow control (`ETHTOOL_GPAUSEPARAM`).
pub const PAUSE: Question = Question { command: 0x12, fields: &[("autoneg", 1), ("rx", 2), ("tx", 3)] };

/// A driver's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// The driver's name.
    pub name: String,
    /// The driver's version.
    pub version: String,
    /// The firmware version of the driver's device; empty if it is unknown.
    pub firmware: String,
    /// The bus address of the driver's device, usually a PCI address.
    pub bus: String,
}

/// A feature of an interface, such as an offload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The feature's name.
    pub name: String,
    /// True if the feature is on.
    pub on: bool,
    /// True if the feature was requested. A requested feature is on unless it depends on another feature that
    /// is off.
    pub wanted: bool,
    /// True if the feature can't be changed.
    pub fixed: bool,
}

/// How received packets are distributed over queues (RSS).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The number of receive rings.
    pub rings: u32,
    /// The ring of each slot of the indirection table; empty if the driver has no such table.
    pub slots: Vec<u32>,
}

/// The link of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLink {
    /// The kind of connector, as the kernel's number (`PORT_TP` 0, `PORT_FIBRE` 3, `PORT_DA` 5 and so on).
    pub media: u8,
    /// True if the link's mode is negotiated with the other end.
    pub autoneg: bool,
    /// The current speed in Mbit/s; `None` if the driver doesn't know it.
    pub mbps: Option<u32>,
    /// The modes that the port supports, as the kernel's numbers (`ETHTOOL_LINK_MODE_..._BIT`).
    pub supported: Vec<u32>,
    /// The modes that the port offers to the other end, as the kernel's numbers.
    pub offered: Vec<u32>,
    /// The modes that the other end offers, as the kernel's numbers; empty if the driver doesn't report them.
    pub partner: Vec<u32>,
}

impl Ethtool {
    /// Reads the group of numbers `question`; returns each number with its name.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the driver doesn't support the request, `ENODEV` if there is no such interface.
    pub fn numbers(&mut self, interface: &str, question: Question) -> io::Result<Vec<(&'static str, u32)>> {
        self.clear();
        self.put([question.command, 0, 0]);
        self.ask(interface)?;
        Ok(question.fields.iter().map(|(name, at)| (*name, self.word(at * 4))).collect())
    }

    /// The identity of an interface's driver.
    ///
    /// # Errors
    /// The errors of [`Ethtool::numbers`].
    pub fn driver(&mut self, interface: &str) -> io::Result<Driver> {
        self.clear();
        self.put([DRIVER, 0, 0]);
        self.ask(interface)?;
        let text = |i: usize| name(&self.buffer[4 + i * NAME..4 + (i + 1) * NAME]);
        Ok(Driver { name: text(0), version: text(1), firmware: text(2), bus: text(3) })
    }

    /// The bytes of an interface's permanent hardware address; zeros if the interface has no such address, like most
    /// virtual interfaces.
    ///
    /// # Errors
    /// `ENODEV` if there is no such interface.
    pub fn permanent_address(&mut self, interface: &str) -> io::Result<Vec<u8>> {
        self.clear();
        self.put([PERMANENT_ADDRESS, MOST_ADDRESS, 0]);
        self.ask(interface)?;
        let size = self.word(4).min(MOST_ADDRESS) as usize;
        Ok(self.buffer[8..8 + size].to_vec())
    }

    /// An interface's features, in the kernel's order.
    ///
    /// # Errors
    /// The errors of [`Ethtool::numbers`].
    pub fn features(&mut self, interface: &str) -> io::Result<Vec<Feature>> {
        let names = self.set(interface, FEATURE_NAMES)?;
        self.clear();
        self.put([FEATURES, u32::try_from(names.len().div_ceil(32)).unwrap_or(0), 0]);
        self.ask(interface)?;
        let bit = |word: usize, i: usize| self.word(8 + i / 32 * 16 + word * 4) >> (i % 32) & 1 == 1;
        let feature = |(i, name)| Feature { name, on: bit(2, i), wanted: bit(1, i), fixed: !bit(0, i) };
        let all = names.into_iter().enumerate().map(feature);
        // Unused bits have no name.
        Ok(all.filter(|feature| !feature.name.is_empty()).collect())
    }

    /// How an interface distributes received packets over queues.
    ///
    /// # Errors
    /// The errors of [`Ethtool::numbers`].
    pub fn spread(&mut self, interface: &str) -> io::Result<Spread> {
        self.clear();
        self.put([RX_RINGS, 0, 0]);
        self.ask(interface)?;
        let rings = self.word(8);
        match self.slots(interface) {
            Ok(slots) => Ok(Spread { rings, slots }),
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Spread { rings, slots: Vec::new() }),
            Err(e) => Err(e),
        }
    }

    fn slots(&mut self, interface: &str) -> io::Result<Vec<u32>> {
        self.put([INDIRECTION, 0, 0]);
        self.ask(interface)?;
        let size = self.word(4).min(MOST_SLOTS);
        self.put([INDIRECTION, size, 0]);
        self.ask(interface)?;
        Ok((0..size as usize).map(|i| self.word(8 + i * 4)).collect())
    }

    /// An interface's link, with the link modes of both ends.
    ///
    /// # Errors
    /// The errors of [`Ethtool::numbers`].
    pub fn link(&mut self, interface: &str) -> io::Result<PortLink> {
        self.clear();
        self.put([LINK, 0, 0]);
        self.ask(interface)?;
        // The first answer contains, as a negative number, the number of words that the second request needs
        // for link modes.
        let words = (self.buffer[15] as i8).unsigned_abs();
        if usize::from(words) > MOST_MODES {
            return Err(io::Error::other(format!("{interface} has {words} words of link modes")));
        }
        self.clear();
        self.put([LINK, 0, 0]);
        self.buffer[15] = words;
        self.ask(interface)?;
        let modes = |map: u32| self.modes(map * u32::from(words), u32::from(words));
        Ok(PortLink {
            media: self.buffer[9],
            autoneg: self.buffer[11] == 1,
            // SPEED_UNKNOWN is -1.
            mbps: Some(self.word(4)).filter(|mbps| (1..u32::MAX).contains(mbps)),
            supported: modes(0),
            offered: modes(1),
            partner: modes(2),
        })
    }

    /// The numbers of the bits that are set in the `words` words of link modes that begin with the word `first`.
    fn modes(&self, first: u32, words: u32) -> Vec<u32> {
        let is_set =
            |bit: &u32| self.word(LINK_HEADER + ((first + bit / 32) * 4) as usize) >> (bit % 32) & 1 == 1;
        (0..words * 32).filter(is_set).collect()
    }

    /// Zeroes the buffer, so that an answer that is shorter than expected leaves zeros and not parts of an earlier
    /// answer.
    pub(super) fn clear(&mut self) {
        self.buffer[..4096].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_features_and_nothing_else() {
        let mut ethtool = Ethtool::open().unwrap();
        let features = ethtool.features("lo").unwrap();
        let find = |name: &str| features.iter().find(|feature| feature.name == name);
        // The checksum features of the kernel's loopback interface are fixed, and its segmentation features can be
        // switched.
        assert!(find("highdma").is_some_and(|feature| feature.on && feature.fixed), "{features:?}");
        assert!(find("tx-tcp-segmentation").is_some_and(|feature| !feature.fixed), "{features:?}");
        let refused = ethtool.numbers("lo", RINGS).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn every_interface_can_be_asked_everything() {
        let mut ethtool = Ethtool::open().unwrap();
        let listed = std::fs::read_to_string("/proc/net/dev").unwrap();
        for interface in listed.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())) {
            for question in [CHANNELS, RINGS, COALESCING, PAUSE] {
                if let Ok(numbers) = ethtool.numbers(interface, question) {
                    assert_eq!(numbers.len(), question.fields.len(), "{interface}");
                }
            }
            if let Ok(driver) = ethtool.driver(interface) {
                assert!(!driver.name.is_empty(), "{interface}");
            }
            let _ = (ethtool.link(interface), ethtool.spread(interface), ethtool.module(interface));
        }
    }
}
