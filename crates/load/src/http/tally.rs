//! The counts of HTTP users: bytes, durations of requests, connections and errors.

use crate::latency::LatencyHistogram;
use crate::report::{ConnectionCounts, Errors};
use crate::window::Phases;

/// Numbers of bytes in the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounts {
    /// The payload of successful replies.
    pub payload: u64,
    /// The bytes of heads, of chunk framing, and of unsuccessful replies.
    pub framing: u64,
    /// The bytes of requests.
    pub sent: u64,
}

/// The counts of a worker's users, or of all users.
#[derive(Clone, Debug, Default)]
pub struct UserTally {
    /// The durations of the requests whose replies ended in the window.
    pub latency: LatencyHistogram,
    /// The times at which the phases of the run begin and end.
    pub phases: Option<Phases>,
    /// The numbers of bytes in the window.
    pub counts: ByteCounts,
    /// The connections by server, over the whole run.
    pub connections: Vec<ConnectionCounts>,
    /// Errors over the whole run.
    pub errors: Errors,
    /// The reason of the first failure.
    pub reason: Option<String>,
}

impl UserTally {
    /// Adds the counts of other users.
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
