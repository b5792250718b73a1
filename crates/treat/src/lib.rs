//! Treatment: changes a host's settings as the doctor proposes, and can undo the changes.
//!
//! A [`plan`] finds the changes that the host can make. A [`journal`] on disk has each value from before its change.
//! From the journal, a [`course`] can undo all changes; so can the [`undo_timer`], a process that waits for the user's
//! confirmation. Settings are read and written through [`Controls`].

pub mod course;
pub mod journal;
mod live;
pub mod owner;
pub mod persist;
pub mod plan;
pub mod port;
mod side_effects;
pub mod surroundings;
#[cfg(test)]
mod testing;
pub mod undo_timer;

use linerate_doctor::remedy::{HostBounds, Setting};

pub use live::LiveControls;

use port::PortIdentity;

/// Checks that a value is the one that was set again.
fn is_back(now: &str, setting: &Setting, before: &str) -> Result<(), String> {
    if setting.is_same(now, before) {
        Ok(())
    } else {
        Err(format!("the kernel reports {now}, although {before} was set"))
    }
}

/// The settings of a host.
pub trait Controls {
    /// The present value of a setting.
    ///
    /// # Errors
    /// The reason, as the end of a sentence, if the setting can't be read.
    fn read(&mut self, setting: &Setting) -> Result<String, String>;

    /// Sets a value: a new one, or one that [`Controls::read`] has returned before.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), String>;

    /// Checks that a former value holds again, as it did before.
    ///
    /// # Errors
    /// The difference, as the end of a sentence.
    fn check_back(&mut self, setting: &Setting, before: &str) -> Result<(), String> {
        is_back(&self.read(setting)?, setting, before)
    }

    /// Other settings, which the kernel or a driver may change as a side effect when this one is changed.
    fn beside(&mut self, setting: &Setting) -> Vec<Setting>;

    /// Checks whether this host can have the new value; changes nothing.
    ///
    /// # Errors
    /// The reason why not, as the end of a sentence.
    fn look(&mut self, setting: &Setting, new: &str) -> Result<(), String>;

    /// The host's memory and its isolated processors, as far as they are known.
    fn bounds(&mut self) -> HostBounds {
        HostBounds::default()
    }

    /// All ports of this network namespace.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    fn ports(&mut self) -> Result<Vec<PortIdentity>, String>;
}
