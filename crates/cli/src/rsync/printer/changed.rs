//! Sources that changed while they were read. rsync doesn't notice that a file changed, and counts a file that became
//! shorter as an error.

use std::sync::atomic::{AtomicBool, Ordering};

use linerate_transfer::{CHANGED, SHORTER};

use crate::exit::Code;

/// The ways in which sources changed.
#[derive(Default)]
pub(super) struct ChangedSources {
    /// Set once a file that had changed was copied.
    mixed: AtomicBool,
    /// Set once a file was left out because it had become shorter.
    shorter: AtomicBool,
    /// Set once an entry was left out because it had vanished.
    vanished: AtomicBool,
}

impl ChangedSources {
    /// Records the message about an entry; false if the message isn't about a changed source.
    pub(super) fn note(&self, message: &str) -> bool {
        let kind = match message {
            CHANGED => &self.mixed,
            SHORTER => &self.shorter,
            _ if message.starts_with("vanished") => &self.vanished,
            _ => return false,
        };
        kind.store(true, Ordering::Relaxed);
        true
    }

    /// The code for a run in which sources changed; `has_errors` is true if other errors were printed.
    pub(super) fn code(&self, has_errors: bool) -> Code {
        let has = |kind: &AtomicBool| kind.load(Ordering::Relaxed);
        match () {
            () if has(&self.shorter) => Code::Partial,
            () if has(&self.mixed) && !has(&self.vanished) && !has_errors => Code::Done,
            () => Code::Changed,
        }
    }
}
