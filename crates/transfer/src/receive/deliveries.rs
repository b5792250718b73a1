//! Reports the digests of files that are in place to the client of a transfer between two agents.

use linerate_wire::control::{DeliveredContents, Delivery, MAX_DELIVERED, Message};
use linerate_wire::path::RelPath;
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::net::channel::Channel;
use crate::tree::digest::ledger::Reported;

/// The number of digests in one message. Even if all paths have the greatest length, the message stays within the limit
/// of its size.
const TOGETHER: usize = 50;
const _: () = assert!(TOGETHER <= MAX_DELIVERED);

/// Collects digests, and sends them to the client in messages.
pub struct Deliveries {
    channel: Arc<Channel>,
    waiting: Mutex<Vec<Delivery>>,
    wanted: bool,
}

impl Deliveries {
    /// Collects digests for the client at the other end of `channel`; does nothing unless `wanted` is set.
    pub fn new(channel: Arc<Channel>, wanted: bool) -> Self {
        Self { channel, waiting: Mutex::default(), wanted }
    }

    /// Adds a report about the contents of the file at `path` of a source.
    pub fn add(&self, source: u32, path: &RelPath, reported: Reported) {
        if !self.wanted {
            return;
        }
        let contents = match reported {
            Reported::Digest(digest) => DeliveredContents::Digest(digest),
            Reported::SameAs(source, first) => DeliveredContents::SameAs(source, first),
            Reported::Withdrawn => DeliveredContents::Withdrawn,
        };
        let mut waiting = lock(&self.waiting);
        waiting.push(Delivery { source, path: path.clone(), contents });
        if waiting.len() == TOGETHER {
            self.send(std::mem::take(&mut waiting));
        }
    }

    /// Sends the reports that were collected.
    pub fn flush(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        if !waiting.is_empty() {
            self.send(waiting);
        }
    }

    fn send(&self, list: Vec<Delivery>) {
        // If the client is gone, the code that waits for its next message reports the error.
        let _ = self.channel.send(&Message::Delivered(list));
    }
}
