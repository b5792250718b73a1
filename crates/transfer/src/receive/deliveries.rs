//! Tells the client of a transfer between two agents the digests of what is in place.

use linerate_wire::control::{DeliveredContents, Delivery, MAX_DELIVERED, Message};
use linerate_wire::path::RelPath;
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::net::channel::Channel;
use crate::tree::digest::ledger::Told;

/// Digests in one message: of paths of the greatest length, still less than a message may have.
const TOGETHER: usize = 50;
const _: () = assert!(TOGETHER <= MAX_DELIVERED);

/// Gathers digests into messages.
pub struct Deliveries {
    channel: Arc<Channel>,
    waiting: Mutex<Vec<Delivery>>,
    wanted: bool,
}

impl Deliveries {
    /// For the client at the other end of `channel`, where it wants them.
    pub fn new(channel: Arc<Channel>, wanted: bool) -> Self {
        Self { channel, waiting: Mutex::default(), wanted }
    }

    /// Adds a report about the contents of the file at `path` of a source.
    pub fn add(&self, source: u32, path: &RelPath, told: Told) {
        if !self.wanted {
            return;
        }
        let contents = match told {
            Told::Digest(digest) => DeliveredContents::Digest(digest),
            Told::SameAs(source, first) => DeliveredContents::SameAs(source, first),
            Told::Withdrawn => DeliveredContents::Withdrawn,
        };
        let mut waiting = lock(&self.waiting);
        waiting.push(Delivery { source, path: path.clone(), contents });
        if waiting.len() == TOGETHER {
            self.send(std::mem::take(&mut waiting));
        }
    }

    /// Sends what waits.
    pub fn flush(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        if !waiting.is_empty() {
            self.send(waiting);
        }
    }

    fn send(&self, list: Vec<Delivery>) {
        // A client that is gone is noticed where its next message is waited for.
        let _ = self.channel.send(&Message::Delivered(list));
    }
}
