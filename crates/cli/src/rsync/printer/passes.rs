//! With `--delete-before`, a command has two passes, one that only deletes and one that transfers. Their output looks like
//! that of one pass.

use linerate_transfer::lock::lock;
use linerate_wire::control::Change;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Line;

/// The state that the two passes share.
#[derive(Default)]
pub struct Passes {
    /// Set once the pass that only deletes has created the destination.
    made_top: AtomicBool,
    /// The paths and messages of printed errors, because both passes find the same errors in the sources. `None` if there
    /// is only one pass.
    errors: Option<Mutex<BTreeSet<(String, String)>>>,
}

impl Passes {
    /// The passes of this command line.
    pub fn of(line: &Line) -> Self {
        Self { errors: line.deletes_before().then(Mutex::default), ..Self::default() }
    }

    /// Stores that the pass that only deletes has created the destination.
    pub fn make_top(&self) {
        self.made_top.store(true, Ordering::Relaxed);
    }

    /// True if the pass that only deletes has created the destination.
    pub fn have_made_top(&self) -> bool {
        self.made_top.load(Ordering::Relaxed)
    }

    /// The change. If an earlier pass has created the destination, the destination's own change becomes that of a new
    /// directory, as in a single pass.
    pub fn with_made_top<'c>(&self, change: &'c Change) -> Cow<'c, Change> {
        let is_top = change.directory && change.path.is_root() && change.item != Change::MADE;
        if is_top && self.have_made_top() {
            return Cow::Owned(Change { item: *b"cd+++++++++", ..change.clone() });
        }
        Cow::Borrowed(change)
    }

    /// True if this error was printed already. Remembers the error.
    pub fn repeat(&self, path: &str, message: &str) -> bool {
        self.errors.as_ref().is_some_and(|errors| !lock(errors).insert((path.into(), message.into())))
    }
}
