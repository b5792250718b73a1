//! The process that ssh starts for a login forwards messages between the client and a process that outlives
//! the login.

use crossbeam_channel::{bounded, select};
use linerate_wire::control;
use std::io::{Read, Write};
use std::thread;

use super::Session;
use crate::base::problem::TransferError;
use crate::net::channel::Incoming;

impl Session {
    /// Forwards messages in both directions until either end has closed.
    ///
    /// # Errors
    /// None: if one end closes its channel, the other end notices that.
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
            // The receiver of this message may have ended.
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
