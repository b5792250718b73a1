//! Collects reports of changes into messages.

use linerate_wire::control::Change;

use crate::net::session::Reporter;

/// The most changes in one message.
const MOST_WAITING: usize = 512;
/// The approximate limit of the bytes of one message.
const REPORTED_BYTES: usize = 128 << 10;

/// Collects reports of changes into messages.
pub struct ChangeReports {
    reporter: Reporter,
    far_away: bool,
    waiting: Vec<Change>,
    bytes: usize,
}

impl ChangeReports {
    /// Reports that are sent to the observer of `reporter`; `far_away` is true if that observer is a client at the
    /// other end.
    pub fn new(reporter: Reporter, far_away: bool) -> Self {
        Self { reporter, far_away, waiting: Vec::new(), bytes: 0 }
    }

    /// True if the user is at the other end.
    pub fn is_reported_far_away(&self) -> bool {
        self.far_away
    }

    /// Adds one change, which is reported soon, together with others.
    pub fn report(&mut self, change: Change) {
        self.bytes += 64 + 2 * change.path.as_bytes().len();
        self.waiting.push(change);
        if self.waiting.len() >= MOST_WAITING || self.bytes >= REPORTED_BYTES {
            self.flush();
        }
    }

    /// Reports the changes that were collected.
    pub fn flush(&mut self) {
        self.bytes = 0;
        if !self.waiting.is_empty() {
            self.reporter.changes(std::mem::take(&mut self.waiting));
        }
    }
}
