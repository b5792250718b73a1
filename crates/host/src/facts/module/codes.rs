//! The names that belong to the codes of SFF-8024, and to the bits of the compliance bytes.

use super::ModuleMemory;
use crate::facts::Fact;

/// The name of a connector (SFF-8024, table 4-3).
pub(super) fn connector(code: u8) -> Fact<String> {
    let name = match code {
        0x00 => return Fact::NotApplicable,
        0x01 => "SC",
        0x07 => "LC",
        0x08 => "MT-RJ",
        0x0b => "fibre pigtail",
        0x0c => "MPO 1x12",
        0x0d => "MPO 2x16",
        0x21 => "copper pigtail",
        0x22 => "RJ45",
        0x23 => "none: the cable is fixed",
        0x25 => "CS",
        0x26 => "SN",
        0x27 => "MPO 2x12",
        0x28 => "MPO 1x16",
        other => return Fact::Known(format!("connector {other:#04x}")),
    };
    Fact::Known(name.to_owned())
}

/// The names of a byte's bits, from bit 0; an empty name if the bit isn't an Ethernet standard.
pub(super) type BitNames = [&'static str; 8];

/// The standards in byte 3 of SFF-8472.
pub(super) const SFP_10G: BitNames =
    ["", "", "", "", "10GBASE-SR", "10GBASE-LR", "10GBASE-LRM", "10GBASE-ER"];
/// The standards in byte 6 of SFF-8472.
pub(super) const SFP_1G: BitNames = [
    "1000BASE-SX",
    "1000BASE-LX",
    "1000BASE-CX",
    "1000BASE-T",
    "100BASE-LX10",
    "100BASE-FX",
    "BASE-BX10",
    "BASE-PX",
];
/// The standards in byte 131 of SFF-8636.
pub(super) const QSFP_40G: BitNames = [
    "40G active cable",
    "40GBASE-LR4",
    "40GBASE-SR4",
    "40GBASE-CR4",
    "10GBASE-SR",
    "10GBASE-LR",
    "10GBASE-LRM",
    "",
];

/// The standards to which a module conforms: those that the bits of the bytes `bytes` name, and the one whose code
/// (SFF-8024, table 4-4) is in the byte at `extended`. Some codes stand for two standards, one with a single lane and
/// one with four lanes. For an SFP (`lane` is true), the result is the standard with one lane, otherwise the standard
/// with four lanes.
pub(super) fn standards<const N: usize>(
    memory: &ModuleMemory,
    bytes: [(usize, BitNames); N],
    extended: usize,
    lane: bool,
) -> Fact<Vec<String>> {
    let mut all = Vec::new();
    for (at, names) in bytes {
        match memory.byte(at) {
            Fact::Known(bits) => {
                let set =
                    names.iter().enumerate().filter(|(bit, name)| bits >> bit & 1 == 1 && !name.is_empty());
                all.extend(set.map(|(_, name)| (*name).to_owned()));
            }
            other => return other.map(|_| Vec::new()),
        }
    }
    memory.byte(extended).and_then(|code| {
        all.extend(extension(code, lane).map(str::to_owned));
        if all.is_empty() { Fact::NotApplicable } else { Fact::Known(all) }
    })
}

fn extension(code: u8, lane: bool) -> Option<&'static str> {
    let of_lanes = |one, four| if lane { one } else { four };
    Some(match code {
        0x01 | 0x18 => of_lanes("25G active optical cable", "100G active optical cable"),
        0x02 => of_lanes("25GBASE-SR", "100GBASE-SR4"),
        0x03 => of_lanes("25GBASE-LR", "100GBASE-LR4"),
        0x04 => of_lanes("25GBASE-ER", "100GBASE-ER4"),
        0x05 => "100GBASE-SR10",
        0x06 => "100G CWDM4",
        0x07 => "100G PSM4",
        0x08 | 0x19 => of_lanes("25G active copper cable", "100G active copper cable"),
        0x0b => of_lanes("25GBASE-CR", "100GBASE-CR4"),
        0x0c => "25GBASE-CR CA-S",
        0x0d => "25GBASE-CR CA-N",
        0x10 => "40GBASE-ER4",
        0x11 => "4 x 10GBASE-SR",
        0x12 => "40G PSM4",
        0x16 | 0x1c => "10GBASE-T",
        0x17 => "100G CLR4",
        0x1d => "5GBASE-T",
        0x1e => "2.5GBASE-T",
        0x1f => "40G SWDM4",
        0x20 => "100G SWDM4",
        0x25 => "100GBASE-DR",
        0x26 => "100GBASE-FR1",
        0x27 => "100GBASE-LR1",
        _ => return None,
    })
}
