//! A login's own process, which hands the client's messages to one that outlives it, and back.

use crossbeam_channel::{bounded, select};
use linerate_wire::control;
use std::io::{Read, Write};
use std::thread;

use super::Session;
use crate::base::problem::TransferError;
use crate::net::channel::Incoming;

impl Session {
    /// Hands on messages in both directions until either end has closed.
    ///
    /// # Errors
    /// None: whoever is left notices.
    pub fn relay(
        &mut self,
        mut to: impl Write,
        mut from: impl Read + Send + 'static,
    ) -> Result<(), TransferError> {
        let (channel, (over, is_over)) = (self.channel(), bounded(1));
        thread::spawn(move || {
            while let Ok(message) = control::read(&mut from) {
                if channel.send(&message).is_err() {
                    break;
                }
            }
            // Whoever waits for it may have ended.
            let _ = over.send(());
        });
        loop {
            select! {
                recv(self.control.incoming) -> incoming => match incoming {
                    Ok(Incoming::Message(message, _room)) if control::write(&mut to, &message).is_ok() => {}
                    _ => return Ok(()),
                },
                recv(is_over) -> _ => return Ok(()),
            }
        }
    }
}
