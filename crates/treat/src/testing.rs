//! A simulated host for tests: its settings are a table.

use std::collections::BTreeMap;

use linerate_doctor::remedy::{HostBounds, Setting};

use crate::Controls;
use crate::journal::PlannedStep;
use crate::port::PortIdentity;

/// The settings of a simulated host, and its failures when they are changed.
#[derive(Default)]
pub struct Pretended {
    /// All settings.
    pub values: BTreeMap<Setting, String>,
    /// A setting that can't be changed.
    pub refused: Option<Setting>,
    /// A value that a setting can't have.
    pub refused_value: Option<(Setting, String)>,
    /// A setting that gets this value instead of the requested one.
    pub rounded: Option<(Setting, String)>,
    /// The number of accesses after which the program dies.
    pub dies_after: Option<usize>,
    /// The settings that [`Controls::look`] refuses, with the reason.
    pub impossible: BTreeMap<Setting, String>,
    /// Settings that a change of another setting changes as a side effect: the cause, the setting, the value.
    pub reset: Vec<(Setting, Setting, String)>,
    /// True if a port's discipline has a quantum that the kernel computes from the MTU.
    pub quantum: bool,
    /// The host's ports.
    pub ports: Vec<PortIdentity>,
}

/// A sysctl's setting.
pub fn sysctl(key: &str) -> Setting {
    Setting::Sysctl { key: key.into() }
}

impl Pretended {
    /// A host with the former values of these steps.
    pub fn of(steps: &[PlannedStep]) -> Self {
        let values = steps.iter().map(|step| (step.setting.clone(), step.before.clone())).collect();
        Self { values, ..Self::default() }
    }

    /// Sets the quantum of a port's discipline as the kernel does. A discipline that somebody has chosen has no such
    /// quantum.
    fn make_quantum(&mut self, port: &str) {
        let [mtu, qdisc, quantum] = [
            Setting::Mtu { port: port.into() },
            Setting::Qdisc { port: port.into() },
            Setting::Quantum { port: port.into() },
        ];
        let mtu: u32 = self.values[&mtu].parse().unwrap();
        match self.values[&qdisc].as_str() {
            "fq_codel" => drop(self.values.insert(quantum, format!("fq_codel {}", mtu + 14))),
            _ => drop(self.values.remove(&quantum)),
        }
    }

    fn remade(&mut self, setting: &Setting, value: &str) -> bool {
        self.make_quantum(setting.port().unwrap_or_default());
        self.values.get(setting).is_some_and(|now| now == value)
    }

    fn live_on(&mut self) {
        match &mut self.dies_after {
            // Unlike `panic!`, this call prints no message, which would be in every test's output.
            Some(0) => std::panic::resume_unwind(Box::new("killed")),
            Some(left) => *left -= 1,
            None => {}
        }
    }
}

impl Controls for Pretended {
    fn read(&mut self, setting: &Setting) -> Result<String, String> {
        self.live_on();
        self.values.get(setting).cloned().ok_or_else(|| "there is no such setting".into())
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), String> {
        self.live_on();
        let is_refused = self.refused_value.as_ref().is_some_and(|(of, it)| of == setting && it == value);
        if is_refused || self.refused.as_ref() == Some(setting) {
            return Err("Invalid argument".into());
        }
        if self.quantum && setting.is_derived() && !self.remade(setting, value) {
            return Err("the kernel takes it from the MTU".into());
        }
        let rounded = self.rounded.take_if(|(of, _)| of == setting).map(|(_, value)| value);
        self.values.insert(setting.clone(), rounded.unwrap_or_else(|| value.to_owned()));
        let is_reset = |(cause, beside, _): &&(Setting, Setting, String)| {
            cause == setting && !(self.quantum && beside.is_derived())
        };
        for (_, beside, value) in self.reset.iter().filter(is_reset) {
            self.values.insert(beside.clone(), value.clone());
        }
        if self.quantum && matches!(setting, Setting::Qdisc { .. }) {
            self.make_quantum(setting.port().unwrap_or_default());
        }
        // The program may also die after the change and before the journal's entry.
        self.live_on();
        Ok(())
    }

    fn beside(&mut self, setting: &Setting) -> Vec<Setting> {
        self.reset
            .iter()
            .filter(|(cause, ..)| cause == setting)
            .map(|(_, beside, _)| beside.clone())
            .collect()
    }

    fn look(&mut self, setting: &Setting, _new: &str) -> Result<(), String> {
        self.impossible.get(setting).map_or(Ok(()), |why| Err(why.clone()))
    }

    fn bounds(&mut self) -> HostBounds {
        HostBounds { memory: Some(1 << 30), page: None, isolated: [7].into() }
    }

    fn ports(&mut self) -> Result<Vec<PortIdentity>, String> {
        Ok(self.ports.clone())
    }
}
