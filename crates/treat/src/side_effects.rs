//! Settings that a step changes as a side effect: they are read before the step, and restored after the step was
//! undone.

use linerate_doctor::remedy::Setting;

use crate::Controls;
use crate::course;
use crate::journal::{Beside, TreatmentJournal};
use crate::port::MovedControls;

/// The largest number of differing settings that a message names.
const NAMED: usize = 3;

/// The settings that a step has changed as a side effect, when the step is about to be undone.
pub struct BesideStep {
    /// The values that these settings get: those from before the step, or those that somebody else has set.
    wanted: Vec<Beside>,
    /// The settings that somebody else has changed since the step, as ends of sentences.
    others: Vec<String>,
}

/// The settings that a change of this setting may change as a side effect, if they can be read, with their values.
pub fn values(controls: &mut dyn Controls, setting: &Setting) -> Vec<Beside> {
    let all = controls.beside(setting);
    all.into_iter().filter_map(|setting| read(controls, setting)).collect()
}

/// The same settings as in `all`, with their present values.
pub fn again(controls: &mut dyn Controls, all: &[Beside]) -> Vec<Beside> {
    all.iter().filter_map(|one| read(controls, one.setting.clone())).collect()
}

fn read(controls: &mut dyn Controls, setting: Setting) -> Option<Beside> {
    let value = controls.read(&setting).ok()?;
    Some(Beside { setting, value })
}

/// Restores values.
///
/// # Errors
/// The settings that differ nevertheless, as the end of a sentence.
pub fn restore(controls: &mut dyn Controls, all: &[Beside]) -> Result<(), String> {
    reported(differing(controls, all))
}

fn differing(controls: &mut dyn Controls, all: &[Beside]) -> Vec<String> {
    let back = |one: &Beside| {
        if one.setting.is_derived() && !is_of_kind(controls, one) {
            return None;
        }
        let why = course::restore(controls, &one.setting, &one.value).err()?;
        Some(format!("{} was {} before: {why}", one.setting, one.value))
    };
    all.iter().filter_map(back).collect()
}

/// True if a setting that only the kernel makes still has the same kind, such as the same discipline: an object
/// of another kind, which somebody has chosen, has its own values.
fn is_of_kind(controls: &mut dyn Controls, one: &Beside) -> bool {
    let kind = |value: &str| value.split_whitespace().next().map(str::to_owned);
    controls.read(&one.setting).is_ok_and(|now| kind(&now) == kind(&one.value))
}

fn reported(differing: Vec<String>) -> Result<(), String> {
    if differing.is_empty() {
        return Ok(());
    }
    let more = differing.len().saturating_sub(NAMED);
    let named: Vec<_> = differing.into_iter().take(NAMED).collect();
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    Err(format!("the setting itself is restored, but {}{more}", named.join("; ")))
}

/// Finds the settings that a step has changed as a side effect, before anything is undone. If `is_careful` is set,
/// settings that somebody else has changed stay as they are.
pub fn of_step(
    journal: &TreatmentJournal,
    controls: &mut MovedControls<'_>,
    step: usize,
    is_careful: bool,
) -> BesideStep {
    let mut found = BesideStep { wanted: Vec::new(), others: Vec::new() };
    // The interrupts of a port that is gone may belong to another port now.
    if controls.is_gone(&journal.head.steps[step].setting) {
        return found;
    }
    for Beside { setting, value } in journal.beside(step) {
        if is_balanced(controls, setting, value) {
            continue;
        }
        let own = journal.head.steps.iter().position(|step| step.setting == *setting);
        // The step of this setting reports the value that somebody else has set.
        let foreign =
            own.filter(|_| is_careful).and_then(|own| course::set_by_others(journal, controls, own));
        if let Some(value) = foreign {
            found.wanted.push(Beside { setting: setting.clone(), value });
            continue;
        }
        let after = journal.beside_after(step, setting).filter(|_| is_careful && !setting.is_derived());
        match controls.read(setting).ok().zip(after) {
            Some((now, after))
                if own.is_none()
                    && !is_adapted(setting, &now, after)
                    && !setting.is_same(&now, after)
                    && !setting.is_same(&now, value) =>
            {
                found.others.push(format!(
                    "{setting} is {now}, which somebody else has set since then; --force restores {value}"
                ));
                found.wanted.push(Beside { setting: setting.clone(), value: now });
            }
            _ => found.wanted.push(Beside { setting: setting.clone(), value: value.clone() }),
        }
    }
    found
}

/// True for an interrupt while irqbalance runs, which would move it again.
fn is_balanced(controls: &mut dyn Controls, setting: &Setting, value: &str) -> bool {
    matches!(setting, Setting::IrqAffinity { .. }) && controls.look(setting, value).is_err()
}

/// True if the driver itself may have changed a port's coalescing, because it adapts it to the packets.
fn is_adapted(setting: &Setting, now: &str, after: &str) -> bool {
    let adapts = |value: &str| value.contains("adaptive-rx on") || value.contains("adaptive-tx on");
    matches!(setting, Setting::Coalescing { .. }) && adapts(now) && adapts(after)
}

impl BesideStep {
    /// Restores the settings.
    ///
    /// # Errors
    /// The settings that differ nevertheless, as the end of a sentence.
    pub fn restore(&self, controls: &mut dyn Controls) -> Result<(), String> {
        reported([differing(controls, &self.wanted), self.others.clone()].concat())
    }
}
