//! Pluggable modules, by the contents of their memory: SFF-8472 for SFPs, SFF-8636 for QSFPs, CMIS for newer modules.
//! The module itself states all values. SFF-8024 lists the codes that modules use.

mod cmis;
mod codes;
mod memory;
mod qsfp;
mod sfp;

use serde::{Deserialize, Serialize};

use super::Fact;
use super::link_modes::speed;
use memory::ModuleMemory;

pub(super) use memory::lines;

/// A pluggable module, or a cable with a module at each end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The module's form: `SFP`, `QSFP28`, `QSFP-DD`.
    pub form: String,
    /// The name of the module's vendor.
    pub vendor: Fact<String>,
    /// The vendor's part number.
    pub part: Fact<String>,
    /// The module's connector: `LC`, `RJ45`, `copper pigtail`.
    pub connector: Fact<String>,
    /// The standards to which the module conforms: `10GBASE-SR`, `100GBASE-CR4`.
    pub standards: Fact<Vec<String>>,
    /// The kind of cable, if a cable is part of the module.
    pub cable: Fact<CableKind>,
    /// The wavelength of the module's laser in nanometers.
    pub wavelength_nm: Fact<f64>,
    /// The module's reach on each medium; for a cable, the cable's length.
    pub reach: Fact<Vec<ModuleReach>>,
    /// The nominal signaling rate of a lane in megabaud (millions of symbols per second).
    pub rate_mbd: Fact<u32>,
    /// The highest power, in watts, that a module of its power class may consume.
    pub max_watts: Fact<f64>,
    /// The module's temperature in degrees Celsius.
    pub temperature: Fact<Monitor>,
    /// The module's supply voltage in volts.
    pub voltage: Fact<Monitor>,
    /// The optical power that the module sends, in milliwatts, for each lane.
    pub tx_power: Fact<Monitor>,
    /// The optical power that the module receives, in milliwatts, for each lane.
    pub rx_power: Fact<Monitor>,
}

/// The kind of a cable that ends in modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CableKind {
    /// Copper without amplifiers: Twinax, direct attach.
    PassiveCopper,
    /// Copper with amplifiers.
    ActiveCopper,
    /// Optical fibre.
    ActiveOptical,
    /// Copper with amplifiers, or optical fibre: the module doesn't state which.
    Active,
}

/// The reach of a module on one medium.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleReach {
    /// The medium: `single-mode fibre`, `OM1` to `OM5`, `copper`, `cable`.
    pub name: String,
    /// The reach on this medium in meters.
    pub metres: f64,
}

/// A value that the module measures itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Monitor {
    /// The present values: one, or one for each lane.
    pub values: Vec<f64>,
    /// The limits that the module sets for this value.
    pub limits: Fact<Limits>,
}

/// The limits that a module sets for a value that it measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Below this value, the module may not work.
    pub low_alarm: f64,
    /// Below this value, the module is outside of its normal operation.
    pub low_warning: f64,
    /// Above this value, the module is outside of its normal operation.
    pub high_warning: f64,
    /// Above this value, the module may not work.
    pub high_alarm: f64,
}

impl Module {
    /// The facts about a module. `text` contains the module's memory in the form of [`lines`].
    pub(super) fn parse(text: &str) -> Fact<Self> {
        let memory = ModuleMemory::parse(text);
        memory.byte(0).and_then(|form| match form {
            // Soldered modules, and SFPs for wavelength multiplexing, use the same layout.
            0x02 | 0x03 | 0x0b => sfp::read(&memory),
            0x0c | 0x0d | 0x11 => qsfp::read(&memory),
            0x18 | 0x19 | 0x1a | 0x1b | 0x1e | 0x1f | 0x20 => cmis::read(&memory),
            other => Fact::Unreadable(format!(
                "a module of the form {other:#04x} (SFF-8024, table 4-1) is unknown here"
            )),
        })
    }

    /// The speed in Mbit/s of the fastest standard to which the module conforms; `None` if the module names no Ethernet
    /// standard.
    pub fn fastest_mbps(&self) -> Option<u64> {
        self.standards.known()?.iter().map(|name| speed(name)).filter(|mbps| *mbps > 0).max()
    }
}

impl Monitor {
    /// The lowest of the present values, including those of lanes that are switched off.
    pub fn lowest(&self) -> Option<f64> {
        self.values.iter().copied().min_by(f64::total_cmp)
    }
}

/// A monitor from words of the module's memory: one word for each value, and four words for the limits. SFF-8472 and
/// SFF-8636 have the limits in this order: high alarm, low alarm, high warning, low warning.
fn monitor(values: Fact<Vec<u16>>, limits: Fact<Vec<u16>>, unit: impl Fn(u16) -> f64) -> Fact<Monitor> {
    let limits = limits.and_then(|words| match words.as_slice() {
        // In a module without limits, these bytes are zeros.
        [0, 0, 0, 0] => Fact::NotApplicable,
        [high_alarm, low_alarm, high_warning, low_warning] => Fact::Known(Limits {
            low_alarm: unit(*low_alarm),
            low_warning: unit(*low_warning),
            high_warning: unit(*high_warning),
            high_alarm: unit(*high_alarm),
        }),
        _ => Fact::NotApplicable,
    });
    values.map(|words| Monitor { values: words.into_iter().map(unit).collect(), limits })
}

/// Converts a signed word in units of 1/256 of a degree to degrees Celsius.
fn celsius(word: u16) -> f64 {
    f64::from(word.cast_signed()) / 256.0
}

/// Converts a word in units of 100 microvolts to volts.
fn volts(word: u16) -> f64 {
    f64::from(word) / 10_000.0
}

/// Converts a word in units of 0.1 microwatts to milliwatts.
fn milliwatts(word: u16) -> f64 {
    f64::from(word) / 10_000.0
}

/// The reach on each medium. `media` has, for each medium, its name, the offset of its byte, and the number of meters
/// that one unit of this byte means. If the byte is 0, the module states no reach on this medium.
fn reaches<const N: usize>(memory: &ModuleMemory, media: [(&str, usize, f64); N]) -> Fact<Vec<ModuleReach>> {
    let mut all = Vec::new();
    for (name, at, metres) in media {
        match memory.byte(at) {
            Fact::Known(0) => {}
            Fact::Known(units) => {
                all.push(ModuleReach { name: name.to_owned(), metres: f64::from(units) * metres });
            }
            other => return other.map(|_| Vec::new()),
        }
    }
    if all.is_empty() { Fact::NotApplicable } else { Fact::Known(all) }
}

/// The signaling rate in megabaud: the byte at `at` in units of 100 megabaud; if this byte is 255, the byte at `more`
/// in units of 250 megabaud.
fn rate(memory: &ModuleMemory, at: usize, more: usize) -> Fact<u32> {
    memory.byte(at).and_then(|hundreds| match hundreds {
        0 => Fact::NotApplicable,
        255 => memory.byte(more).map(|units| u32::from(units) * 250),
        hundreds => Fact::Known(u32::from(hundreds) * 100),
    })
}

/// The fact if the condition is true, otherwise not applicable.
fn only_if<T>(condition: Fact<bool>, fact: impl FnOnce() -> Fact<T>) -> Fact<T> {
    condition.and_then(|holds| if holds { fact() } else { Fact::NotApplicable })
}

#[cfg(test)]
mod tests;
