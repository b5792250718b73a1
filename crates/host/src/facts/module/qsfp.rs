//! QSFPs: SFF-8636. The lower half of the memory begins at byte 0; the upper pages 00h to 03h follow from byte 128 on.

use super::codes::{QSFP_40G, connector, standards};
use super::{
    CableKind, Module, ModuleMemory, Monitor, celsius, milliwatts, monitor, only_if, rate, reaches, volts,
};
use crate::facts::Fact;

/// The offset of page 03h, which contains the limits.
const LIMITS: usize = 512;
/// The number of optical lanes.
const LANES: usize = 4;
/// The code of revision 2.8 of the standard, the first revision in which the module states which values it measures.
const TELLS: u8 = 8;
/// The code for a cable that can't be separated from the module.
const FIXED: u8 = 0x23;

pub(super) fn read(memory: &ModuleMemory) -> Fact<Module> {
    memory.summed(128..191, 191).and_then(|()| memory.byte(147)).and_then(|technology| {
        // Technologies from 10 on are copper.
        let technology = technology >> 4;
        let is_light = technology < 10;
        let is_fixed = memory.byte(130).map(|connector| connector == FIXED);
        let cable = only_if(is_fixed.clone(), || Fact::Known(cable(technology)));
        let light = |condition| only_if(Fact::Known(is_light), || condition);
        memory.byte(128).map(|form| Module {
            form: if form == 0x11 { "QSFP28" } else { "QSFP" }.into(),
            vendor: memory.text(148..164),
            part: memory.text(168..184),
            connector: memory.byte(130).and_then(connector),
            standards: standards(memory, [(131, QSFP_40G)], 192, false),
            // The unit is 0.05 nm.
            wavelength_nm: only_if(Fact::Known(is_light), || {
                memory.word(186).map(|units| f64::from(units) / 20.0)
            }),
            reach: reach(memory, &is_fixed),
            rate_mbd: rate(memory, 140, 222),
            max_watts: max_watts(memory),
            temperature: only_if(measures(memory, 0x20, 22), || lanes(memory, 22, 1, 0, celsius)),
            voltage: only_if(measures(memory, 0x10, 26), || lanes(memory, 26, 1, 16, volts)),
            tx_power: light(memory.is_set(220, 0x04)).and_then(|is_measured| {
                only_if(Fact::Known(is_measured), || lanes(memory, 50, LANES, 64, milliwatts))
            }),
            rx_power: light(measures(memory, 0x20, 22)).and_then(|is_measured| {
                only_if(Fact::Known(is_measured), || lanes(memory, 34, LANES, 48, milliwatts))
            }),
            cable,
        })
    })
}

/// The kind of cable, from byte 147, bits 7 to 4.
fn cable(technology: u8) -> CableKind {
    match technology {
        0..=9 => CableKind::ActiveOptical,
        10 | 11 => CableKind::PassiveCopper,
        _ => CableKind::ActiveCopper,
    }
}

fn reach(memory: &ModuleMemory, is_fixed: &Fact<bool>) -> Fact<Vec<super::ModuleReach>> {
    is_fixed.clone().and_then(|is_fixed| {
        if is_fixed {
            return reaches(memory, [("cable", 146, 1.0)]);
        }
        reaches(
            memory,
            [
                ("single-mode fibre", 142, 1000.0),
                ("OM4", 146, 2.0),
                ("OM3", 143, 2.0),
                ("OM2", 144, 1.0),
                ("OM1", 145, 1.0),
            ],
        )
    })
}

/// The module's highest power in watts. Byte 129 contains the power class: bit 5 is class 8, whose watts are
/// in byte 107; bits 1 and 0 are classes 5 to 7; bits 7 and 6 are classes 1 to 4.
fn max_watts(memory: &ModuleMemory) -> Fact<f64> {
    memory.byte(129).and_then(|class| match (class & 0x20, class & 3, class >> 6) {
        (0x20, _, _) => memory.byte(107).map(|tenths| f64::from(tenths) / 10.0),
        (_, 1, _) => Fact::Known(4.0),
        (_, 2, _) => Fact::Known(4.5),
        (_, 3, _) => Fact::Known(5.0),
        (_, _, 0) => Fact::Known(1.5),
        (_, _, 1) => Fact::Known(2.0),
        (_, _, 2) => Fact::Known(2.5),
        _ => Fact::Known(3.5),
    })
}

/// True if the module measures a value: the value's bit in byte 220 is set or, in an earlier revision, the
/// value isn't 0.
fn measures(memory: &ModuleMemory, bit: u8, value: usize) -> Fact<bool> {
    memory.byte(1).and_then(|revision| match revision {
        TELLS.. => memory.is_set(220, bit),
        _ => memory.word(value).map(|value| value != 0),
    })
}

/// A monitor whose values are in the lower half of the memory, and whose limits are in page 03h. Modules with flat
/// memory have no page 03h.
fn lanes(
    memory: &ModuleMemory,
    at: usize,
    count: usize,
    limits: usize,
    unit: fn(u16) -> f64,
) -> Fact<Monitor> {
    let is_paged = memory.byte(2).map(|status| status & 4 == 0);
    monitor(memory.words(at, count), only_if(is_paged, || memory.words(LIMITS + limits, 4)), unit)
}
