//! Pluggable modules, by the contents of their memory: SFF-8472 for SFPs, SFF-8636 for QSFPs, CMIS for newer
//! modules. The values are those that the module states about itself. SFF-8024 lists the codes.

mod cmis;
mod codes;
mod memory;
mod qsfp;
mod sfp;

use serde::{Deserialize, Serialize};

use super::Fact;
use super::link::speed;
use memory::ModuleMemory;

pub(super) use memory::lines;

/// A pluggable module, or a cable with one at each end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// Its form: `SFP`, `QSFP28`, `QSFP-DD`.
    pub form: String,
    /// Its vendor.
    pub vendor: Fact<String>,
    /// The vendor's part number.
    pub part: Fact<String>,
    /// Its connector: `LC`, `RJ45`, `copper pigtail`.
    pub connector: Fact<String>,
    /// The standards that it conforms to: `10GBASE-SR`, `100GBASE-CR4`.
    pub standards: Fact<Vec<String>>,
    /// The kind of cable, if the cable is part of the module.
    pub cable: Fact<CableKind>,
    /// The wavelength of its laser in nanometres.
    pub wavelength_nm: Fact<f64>,
    /// Its reach on each medium; for a cable, the cable's length.
    pub reach: Fact<Vec<ModuleReach>>,
    /// Nominal signalling rate of a lane, in millions of symbols a second.
    pub rate_mbd: Fact<u32>,
    /// The most watts that it may consume, by its power class.
    pub max_watts: Fact<f64>,
    /// Its temperature in degrees Celsius.
    pub temperature: Fact<Monitor>,
    /// Its supply voltage in volts.
    pub voltage: Fact<Monitor>,
    /// Milliwatts of light that it sends, by lane.
    pub tx_power: Fact<Monitor>,
    /// Milliwatts of light that it receives, by lane.
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
    /// Fibre.
    ActiveOptical,
    /// Copper with amplifiers, or fibre: the module doesn't say which.
    Active,
}

/// The reach of a module on one medium.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleReach {
    /// `single-mode fibre`, `OM1` to `OM5`, `copper`, `cable`.
    pub name: String,
    /// Metres.
    pub metres: f64,
}

/// A value that a module measures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Monitor {
    /// The present values: one, or one for each lane.
    pub values: Vec<f64>,
    /// The module's limits.
    pub limits: Fact<Limits>,
}

/// The limits that a module sets for a value.
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
    /// The facts of a module; `text` holds its memory in the form of [`lines`].
    pub(super) fn parse(text: &str) -> Fact<Self> {
        let memory = ModuleMemory::parse(text);
        memory.byte(0).and_then(|form| match form {
            // Soldered modules and the SFPs of wavelength multiplexing use the same layout.
            0x02 | 0x03 | 0x0b => sfp::read(&memory),
            0x0c | 0x0d | 0x11 => qsfp::read(&memory),
            0x18 | 0x19 | 0x1a | 0x1b | 0x1e | 0x1f | 0x20 => cmis::read(&memory),
            other => Fact::Unreadable(format!(
                "a module of the form {other:#04x} (SFF-8024, table 4-1) is unknown here"
            )),
        })
    }

    /// The speed in Mbit/s of the fastest standard that it conforms to; `None` if it names no Ethernet
    /// standard.
    pub fn fastest_mbps(&self) -> Option<u64> {
        self.standards.known()?.iter().map(|name| speed(name)).filter(|mbps| *mbps > 0).max()
    }
}

impl Monitor {
    /// The lowest value. Lanes that are switched off are included.
    pub fn lowest(&self) -> Option<f64> {
        self.values.iter().copied().min_by(f64::total_cmp)
    }
}

/// A monitor from words of the module's memory: one word for each value, and four words for the limits. Both
/// standards have the limits in this order: high alarm, low alarm, high warning, low warning.
fn monitor(values: Fact<Vec<u16>>, limits: Fact<Vec<u16>>, unit: impl Fn(u16) -> f64) -> Fact<Monitor> {
    let limits = limits.and_then(|words| match words.as_slice() {
        // A module without limits has zeros there.
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

/// Degrees Celsius of a signed word in 1/256 of a degree.
fn celsius(word: u16) -> f64 {
    f64::from(word.cast_signed()) / 256.0
}

/// Volts of a word in units of 100 microvolts.
fn volts(word: u16) -> f64 {
    f64::from(word) / 10_000.0
}

/// Milliwatts of a word in units of 0.1 microwatts.
fn milliwatts(word: u16) -> f64 {
    f64::from(word) / 10_000.0
}

/// The reach on each medium. Each medium has its byte in the memory, in units of a number of metres; 0 stands
/// for no reach.
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

/// The signalling rate: a byte in units of 100; if that is 255, another byte in units of 250.
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
