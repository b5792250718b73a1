//! QSFP-DD, OSFP and other modules of the Common Management Interface Specification (OIF-CMIS-05.2). The kernel returns
//! the lower half of the memory and the upper page 00h, so the values in other pages are unreadable.

use super::codes::connector;
use super::{CableKind, Module, ModuleMemory, ModuleReach, celsius, monitor, only_if, volts};
use crate::facts::Fact;

pub(super) fn read(memory: &ModuleMemory) -> Fact<Module> {
    let single = |at, unit: fn(u16) -> f64| monitor(memory.words(at, 1), elsewhere("limits", 2), unit);
    let cable = memory.byte(85).map(cable);
    let is_copper = cable.clone().map(|cable| cable == Some(CableKind::PassiveCopper));
    let has_light = is_copper.map(|is_copper| !is_copper);
    let is_measured = |at| memory.word(at).map(|value| value != 0);
    memory.summed(128..222, 222).and_then(|()| memory.byte(0)).map(|form| Module {
        form: name(form).into(),
        vendor: memory.text(129..145),
        part: memory.text(148..164),
        connector: memory.byte(203).and_then(connector),
        standards: Fact::Unreadable("the applications of CMIS modules aren't decoded".into()),
        wavelength_nm: only_if(has_light.clone(), || elsewhere("wavelength", 1)),
        reach: reach(memory),
        rate_mbd: Fact::NotApplicable,
        max_watts: max_watts(memory),
        temperature: only_if(is_measured(14), || single(14, celsius)),
        voltage: only_if(is_measured(16), || single(16, volts)),
        tx_power: only_if(has_light.clone(), || elsewhere("light", 0x11)),
        rx_power: only_if(has_light, || elsewhere("light", 0x11)),
        cable: cable.and_then(|cable| cable.map_or(Fact::NotApplicable, Fact::Known)),
    })
}

fn elsewhere<T>(what: &str, page: u8) -> Fact<T> {
    Fact::Unreadable(format!("the module's {what} are in page {page:02x}h, which the kernel's answer lacks"))
}

fn name(form: u8) -> &'static str {
    match form {
        0x18 => "QSFP-DD",
        0x19 => "OSFP",
        0x1a | 0x1f => "SFP-DD",
        0x1b => "DSFP",
        0x1e => "QSFP with CMIS",
        _ => "SFP with CMIS",
    }
}

/// The kind of cable, from the media type of the module's applications.
fn cable(media: u8) -> Option<CableKind> {
    match media {
        3 => Some(CableKind::PassiveCopper),
        4 => Some(CableKind::Active),
        _ => None,
    }
}

/// The length of a cable, from byte 202: a number in bits 5 to 0, times 0.1, 1, 10 or 100 meters.
fn reach(memory: &ModuleMemory) -> Fact<Vec<ModuleReach>> {
    memory.byte(202).and_then(|length| match length & 0x3f {
        0 => Fact::NotApplicable,
        number => {
            let unit = [0.1, 1.0, 10.0, 100.0][usize::from(length >> 6)];
            Fact::Known(vec![ModuleReach { name: "cable".into(), metres: f64::from(number) * unit }])
        }
    })
}

/// The module's highest power in watts, from byte 201, in quarters of a watt. If byte 201 is 0, as in some
/// modules, byte 200 contains the power class.
fn max_watts(memory: &ModuleMemory) -> Fact<f64> {
    let class = memory.byte(200).and_then(|class| {
        match [1.5, 3.5, 7.0, 8.0, 10.0, 12.0, 14.0].get(usize::from(class >> 5)) {
            Some(watts) => Fact::Known(*watts),
            // Class 8 means more than 14 W.
            None => Fact::Unreadable("the module is of class 8 and doesn't state its watts".into()),
        }
    });
    memory.byte(201).and_then(|quarters| match quarters {
        0 => class,
        quarters => Fact::Known(f64::from(quarters) / 4.0),
    })
}
