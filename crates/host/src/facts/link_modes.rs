//! Link modes: the speeds and media that a port and the other end support, by the kernel's numbers
//! (`ETHTOOL_LINK_MODE_..._BIT` of include/uapi/linux/ethtool.h).

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::pairs;

/// The link modes of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkModes {
    /// True if the link mode is negotiated with the other end.
    pub autoneg: bool,
    /// Modes that the port supports. Some drivers list only the modes of the plugged module; old drivers
    /// report 10GBASE-T for every medium.
    pub supported: Vec<LinkMode>,
    /// Modes that the port offers to the other end.
    pub offered: Vec<LinkMode>,
    /// Modes that the other end offers; empty if the driver doesn't report them.
    pub partner: Vec<LinkMode>,
}

/// A link mode: a speed and a medium.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkMode {
    /// The mode's name in IEEE 802.3: `10GBASE-SR`, `1000BASE-T`, `100BASE-T half`; `mode 130` if the name is
    /// unknown.
    pub name: String,
    /// The mode's speed in Mbit/s; 0 if it is unknown.
    pub mbps: u64,
}

impl LinkModes {
    /// Parses the modes in a driver's answer about `port`.
    pub(super) fn parse(port: &str, text: &str) -> Fact<Self> {
        let lines = pairs(text);
        let modes = |key: &str| lines.get(key).map_or(Some(Vec::new()), |numbers| modes_of(numbers));
        let all = || {
            Some(Self {
                autoneg: *lines.get("autoneg")? != "0",
                supported: lines.get("supported").and_then(|numbers| modes_of(numbers))?,
                offered: modes("offered")?,
                partner: modes("partner")?,
            })
        };
        all().map_or_else(
            || Fact::Unreadable(format!("the answer of {port}'s driver about its link modes is malformed")),
            Fact::Known,
        )
    }

    /// The modes that the link may be using at the speed `mbps`; usually only one. These are the modes of this speed
    /// that the port offers (or supports, if it offers none). If the other end's modes are known, only modes that the
    /// other end also offers are included.
    pub fn at(&self, mbps: u64) -> Vec<&LinkMode> {
        let own = if self.offered.is_empty() { &self.supported } else { &self.offered };
        let is_shared = |mode: &&LinkMode| self.partner.is_empty() || self.partner.contains(mode);
        own.iter().filter(|mode| mode.mbps == mbps).filter(is_shared).collect()
    }

    /// The fastest mode that the port supports and the other end offers; `None` if there is no such mode, or if the
    /// other end's modes are unknown.
    pub fn best_of_both(&self) -> Option<&LinkMode> {
        self.supported.iter().filter(|mode| self.partner.contains(mode)).max_by_key(|mode| mode.mbps)
    }
}

/// The link modes with these numbers, without the numbers that aren't link modes (flow control, error
/// correction, connectors).
fn modes_of(numbers: &str) -> Option<Vec<LinkMode>> {
    let numbers: Option<Vec<usize>> = numbers.split_whitespace().map(|number| number.parse().ok()).collect();
    Some(numbers?.into_iter().filter_map(mode).collect())
}

fn mode(number: usize) -> Option<LinkMode> {
    match NAMES.get(number) {
        Some(&"") => None,
        Some(&name) => Some(LinkMode { name: name.to_owned(), mbps: speed(name) }),
        None => Some(LinkMode { name: format!("mode {number}"), mbps: 0 }),
    }
}

/// The speed in Mbit/s at the beginning of the name of a mode or standard (1000BASE-T, 2.5GBASE-T,
/// 100GBASE-SR4); 0 if the name has no speed.
pub(super) fn speed(name: &str) -> u64 {
    let Some((speed, _)) = name.split_once("BASE") else { return 0 };
    let (digits, unit) = match speed.strip_suffix('G') {
        Some(digits) => (digits, 1e3),
        None => (speed, 1.0),
    };
    digits.parse::<f64>().map_or(0, |number| (number * unit) as u64)
}

/// The names of the modes by their numbers; the name is empty if the number isn't that of a mode.
#[rustfmt::skip]
const NAMES: [&str; 126] = [
    "10BASE-T half", "10BASE-T", "100BASE-T half", "100BASE-T", "1000BASE-T half", "1000BASE-T", "", "",
    "", "", "", "", "10GBASE-T", "", "", "2.5GBASE-X",
    "", "1000BASE-KX", "10GBASE-KX4", "10GBASE-KR", "", "20GBASE-MLD2", "20GBASE-KR2", "40GBASE-KR4",
    "40GBASE-CR4", "40GBASE-SR4", "40GBASE-LR4", "56GBASE-KR4", "56GBASE-CR4", "56GBASE-SR4", "56GBASE-LR4", "25GBASE-CR",
    "25GBASE-KR", "25GBASE-SR", "50GBASE-CR2", "50GBASE-KR2", "100GBASE-KR4", "100GBASE-SR4", "100GBASE-CR4", "100GBASE-LR4/ER4",
    "50GBASE-SR2", "1000BASE-X", "10GBASE-CR", "10GBASE-SR", "10GBASE-LR", "10GBASE-LRM", "10GBASE-ER", "2.5GBASE-T",
    "5GBASE-T", "", "", "", "50GBASE-KR", "50GBASE-SR", "50GBASE-CR", "50GBASE-LR/ER/FR",
    "50GBASE-DR", "100GBASE-KR2", "100GBASE-SR2", "100GBASE-CR2", "100GBASE-LR2/ER2/FR2", "100GBASE-DR2", "200GBASE-KR4", "200GBASE-SR4",
    "200GBASE-LR4/ER4/FR4", "200GBASE-DR4", "200GBASE-CR4", "100BASE-T1", "1000BASE-T1", "400GBASE-KR8", "400GBASE-SR8", "400GBASE-LR8/ER8/FR8",
    "400GBASE-DR8", "400GBASE-CR8", "", "100GBASE-KR", "100GBASE-SR", "100GBASE-LR/ER/FR", "100GBASE-CR", "100GBASE-DR",
    "200GBASE-KR2", "200GBASE-SR2", "200GBASE-LR2/ER2/FR2", "200GBASE-DR2", "200GBASE-CR2", "400GBASE-KR4", "400GBASE-SR4", "400GBASE-LR4/ER4/FR4",
    "400GBASE-DR4", "400GBASE-CR4", "100BASE-FX half", "100BASE-FX", "10BASE-T1L", "800GBASE-CR8", "800GBASE-KR8", "800GBASE-DR8",
    "800GBASE-DR8-2", "800GBASE-SR8", "800GBASE-VR8", "10BASE-T1S", "10BASE-T1S half", "10BASE-T1S-P2MP half", "10BASE-T1BRR", "200GBASE-CR",
    "200GBASE-KR", "200GBASE-DR", "200GBASE-DR-2", "200GBASE-SR", "200GBASE-VR", "400GBASE-CR2", "400GBASE-KR2", "400GBASE-DR2",
    "400GBASE-DR2-2", "400GBASE-SR2", "400GBASE-VR2", "800GBASE-CR4", "800GBASE-KR4", "800GBASE-DR4", "800GBASE-DR4-2", "800GBASE-SR4",
    "800GBASE-VR4", "1600GBASE-CR8", "1600GBASE-KR8", "1600GBASE-DR8", "1600GBASE-DR8-2", "25GBASE-LR",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> LinkModes {
        LinkModes::parse("eth0", text).known().unwrap_or_else(|| panic!("{text}")).clone()
    }

    #[test]
    fn numbers_become_names() {
        let names =
            |numbers| modes_of(numbers).unwrap().into_iter().map(|mode| mode.name).collect::<Vec<_>>();
        assert_eq!(names("0 6 10 12 13 31 43"), ["10BASE-T half", "10GBASE-T", "25GBASE-CR", "10GBASE-SR"]);
        assert_eq!(
            names("79 92 102 119 124 125 130"),
            [
                "100GBASE-DR",
                "10BASE-T1L",
                "10BASE-T1BRR",
                "800GBASE-SR4",
                "1600GBASE-DR8-2",
                "25GBASE-LR",
                "mode 130"
            ]
        );
        assert_eq!((speed("2.5GBASE-T"), speed("1000BASE-SX"), speed("mode 130")), (2_500, 1_000, 0));
        assert_eq!(modes_of("12 x"), None);
    }

    #[test]
    fn the_mode_in_force_is_one_that_both_ends_have() {
        let fibre = known("autoneg 0\nsupported 10 41 43\noffered 10 43");
        let names = |modes: Vec<&LinkMode>| modes.iter().map(|mode| mode.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(fibre.at(10_000)), ["10GBASE-SR"]);
        assert_eq!((fibre.at(1_000).len(), fibre.best_of_both()), (0, None));
        let copper = known("autoneg 1\nsupported 3 5 12\noffered 3 5 12\npartner 3 5");
        assert_eq!(names(copper.at(100)), ["100BASE-T"]);
        assert_eq!(copper.best_of_both().map(|mode| mode.mbps), Some(1_000));
        assert!(copper.at(10_000).is_empty());
        assert!(matches!(LinkModes::parse("eth0", "autoneg 1"), Fact::Unreadable(_)));
    }
}
