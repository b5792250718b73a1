//! SFPs: SFF-8472. The bytes of address A0h begin at offset 0, and the bytes of address A2h at offset 256.

use super::codes::{SFP_1G, SFP_10G, connector, standards};
use super::{
    CableKind, Module, ModuleMemory, Monitor, celsius, milliwatts, monitor, only_if, rate, reaches, volts,
};
use crate::facts::Fact;

/// The offset of the bytes of address A2h.
const A2: usize = 256;
/// The code of the RJ45 connector.
const COPPER: u8 = 0x22;

pub(super) fn read(memory: &ModuleMemory) -> Fact<Module> {
    let cable = cable(memory);
    let monitors = |values: usize, limits: usize, unit: fn(u16) -> f64| {
        has_monitors(memory).and_then(|()| of_a2(memory, values, limits, unit))
    };
    let is_light = is_light(memory, &cable);
    let light = |values, limits| only_if(is_light.clone(), || monitors(values, limits, milliwatts));
    memory.summed(0..63, 63).map(|()| Module {
        form: "SFP".into(),
        vendor: memory.text(20..36),
        part: memory.text(40..56),
        connector: memory.byte(2).and_then(connector),
        standards: standards(memory, [(3, SFP_10G), (6, SFP_1G)], 36, true),
        wavelength_nm: only_if(is_laser(memory), || {
            memory
                .word(60)
                .and_then(|nm| if nm == 0 { Fact::NotApplicable } else { Fact::Known(f64::from(nm)) })
        }),
        reach: reach(memory, &cable),
        rate_mbd: rate(memory, 12, 66),
        max_watts: max_watts(memory),
        temperature: monitors(96, 0, celsius),
        voltage: monitors(98, 8, volts),
        tx_power: light(102, 24),
        rx_power: light(104, 32),
        cable,
    })
}

/// The kind of cable, from byte 8: bit 2 means a passive cable, and bit 3 an active cable.
fn cable(memory: &ModuleMemory) -> Fact<CableKind> {
    memory.byte(8).and_then(|bits| match bits & 0b1100 {
        0b0100 => Fact::Known(CableKind::PassiveCopper),
        0b1000 => Fact::Known(CableKind::Active),
        _ => Fact::NotApplicable,
    })
}

/// True if bytes 60 and 61 contain a wavelength. In cables these bytes contain other values, and modules with RJ45 have
/// no laser.
fn is_laser(memory: &ModuleMemory) -> Fact<bool> {
    let is_copper = memory.byte(2).map(|connector| connector == COPPER);
    memory.byte(8).and_then(|bits| is_copper.map(|is_copper| bits & 0b1100 == 0 && !is_copper))
}

/// True if the module measures optical power. An active cable may be fibre or copper.
fn is_light(memory: &ModuleMemory, cable: &Fact<CableKind>) -> Fact<bool> {
    let is_copper = memory.byte(2).map(|connector| connector == COPPER);
    let is_passive = cable.known() == Some(&CableKind::PassiveCopper);
    is_copper.map(|is_copper| !is_copper && !is_passive)
}

fn reach(memory: &ModuleMemory, cable: &Fact<CableKind>) -> Fact<Vec<super::ModuleReach>> {
    if cable.known().is_some() {
        return reaches(memory, [("cable", 18, 1.0)]);
    }
    memory.byte(2).and_then(|connector| {
        if connector == COPPER {
            return reaches(memory, [("copper", 18, 1.0)]);
        }
        // Byte 14 contains the reach in kilometers; byte 15 contains it in hundreds of meters, which overflows for a
        // long reach.
        memory.byte(15).and_then(|hundreds| {
            let single = if matches!(hundreds, 0 | 255) { (14, 1000.0) } else { (15, 100.0) };
            reaches(
                memory,
                [
                    ("single-mode fibre", single.0, single.1),
                    ("OM4", 18, 10.0),
                    ("OM3", 19, 10.0),
                    ("OM2", 16, 10.0),
                    ("OM1", 17, 10.0),
                ],
            )
        })
    })
}

/// The module's highest power in watts. Byte 64 contains the power level: bit 6 means level 4, whose watts are in byte
/// 66 (in tenths); bit 5 means level 3, and bit 1 level 2; if none of these bits is set, the level is 1.
fn max_watts(memory: &ModuleMemory) -> Fact<f64> {
    memory.byte(64).and_then(|options| match options {
        level if level & 0x40 != 0 => memory.byte(66).map(|tenths| f64::from(tenths) / 10.0),
        level if level & 0x20 != 0 => Fact::Known(2.0),
        level if level & 0x02 != 0 => Fact::Known(1.5),
        _ => Fact::Known(1.0),
    })
}

/// Known if the module measures values and calibrates them itself. In byte 92, bit 6 is set if the module measures
/// values, and bit 5 if the values are already calibrated.
fn has_monitors(memory: &ModuleMemory) -> Fact<()> {
    memory.summed(64..95, 95).and_then(|()| memory.byte(92)).and_then(|kind| match kind {
        kind if kind & 0x40 == 0 => Fact::NotApplicable,
        kind if kind & 0x20 == 0 => {
            Fact::Unreadable("the module's values need its own calibration, which isn't applied".into())
        }
        _ => Fact::Known(()),
    })
}

fn of_a2(memory: &ModuleMemory, value: usize, limits: usize, unit: fn(u16) -> f64) -> Fact<Monitor> {
    let limits = memory.summed(A2..A2 + 95, A2 + 95).and_then(|()| memory.words(A2 + limits, 4));
    monitor(memory.words(A2 + value, 1), limits, unit)
}
