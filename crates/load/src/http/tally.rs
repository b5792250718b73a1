//! The counts of users.

use crate::latency::LatencyHistogram;
use crate::report::{ConnectionCounts, Errors};
use crate::window::Phases;

/// Bytes in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounts {
    /// Payload of replies with a status of success.
    pub payload: u64,
    /// Heads, chunk framing, and replies with any other status.
    pub framing: u64,
    /// Bytes of sent requests.
    pub sent: u64,
}

/// The counts of a worker's users, or of all users.
#[derive(Clone, Debug, Default)]
pub struct UserTally {
    /// Times of the requests whose replies ended in the window.
    pub latency: LatencyHistogram,
    /// The times of the run.
    pub phases: Option<Phases>,
    /// Bytes in the window.
    pub counts: ByteCounts,
    /// Connections by server, over the whole run.
    pub connections: Vec<ConnectionCounts>,
    /// Errors over the whole run.
    pub errors: Errors,
    /// The reason for the first failure.
    pub reason: Option<String>,
}

impl UserTally {
    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.latency.add(&other.latency);
        self.counts.payload += other.counts.payload;
        self.counts.framing += other.counts.framing;
        self.counts.sent += other.counts.sent;
        other.connections.into_iter().for_each(|one| one.add_to(&mut self.connections));
        for (status, count) in other.errors.statuses {
            *self.errors.statuses.entry(status).or_default() += count;
        }
        self.errors.timeouts += other.errors.timeouts;
        self.errors.broken += other.errors.broken;
        self.reason = self.reason.take().or(other.reason);
    }
}
