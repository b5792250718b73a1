//! The large files that are being received, by their numbers, and the numbers of files that were given up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::assembly::Assembly;

/// The most large files that may be begun but not complete: many times the number that a sender's queue and
/// workers hold.
const MAX_UNFINISHED: usize = 1024;
/// The most given-up files whose numbers are remembered. They are remembered because parts of the files may still
/// arrive.
const MAX_GIVEN_UP: usize = 1 << 20;

/// The large files of a transfer that arrive in several parts.
#[derive(Default)]
pub struct Assemblies {
    open: HashMap<u64, Arc<Assembly>>,
    given_up: HashSet<u64>,
}

/// The state of a file that arrives in several parts.
pub(super) enum Standing {
    /// The file hasn't been begun.
    New,
    /// The file is being received.
    Open(Arc<Assembly>),
    /// The file was given up; further parts of it are dropped.
    GivenUp,
}

impl Assemblies {
    pub(super) fn standing(&self, number: u64) -> Standing {
        match self.open.get(&number) {
            Some(assembly) => Standing::Open(assembly.clone()),
            None if self.given_up.contains(&number) => Standing::GivenUp,
            None => Standing::New,
        }
    }

    /// True if no further file may be begun.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX_UNFINISHED || self.given_up.len() >= MAX_GIVEN_UP
    }

    /// True if a file with this number may be begun.
    pub(super) fn has_room_for(&self, number: u64) -> bool {
        !self.is_full() && matches!(self.standing(number), Standing::New)
    }

    pub(super) fn begin(&mut self, number: u64, assembly: Arc<Assembly>) {
        self.open.insert(number, assembly);
    }

    /// Removes a file from the list, because all its parts have arrived.
    pub(super) fn finish(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Gives up a file: removes it from storage, and remembers only its number.
    pub(super) fn give_up(&mut self, number: u64) {
        if let Some(assembly) = self.open.remove(&number) {
            assembly.give_up();
        }
        self.given_up.insert(number);
    }

    /// Gives up all files, so that no later run resumes them.
    pub fn discard(&mut self) {
        self.open.drain().for_each(|(_, assembly)| assembly.give_up());
    }

    /// The files that are being received.
    pub fn open(&self) -> impl Iterator<Item = &Arc<Assembly>> {
        self.open.values()
    }
}
