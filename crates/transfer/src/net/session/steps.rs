//! The messages of a transfer in their order, from the announced sources to the final report.

use linerate_wire::control::{
    ControlError, Digested, Leftover, MAX_DIGESTED, MAX_SOURCES, Message, Source, Totals,
};
use linerate_wire::entry::Entry;
use linerate_wire::filter::ListedPath;
use linerate_wire::stages::{Stages, Usage};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Session, out_of_turn};
use crate::base::problem::TransferError;
use crate::net::channel::Incoming;
use crate::net::clock::process_usage;

/// The approximate length in bytes of each message with a part of a list of files.
const SELECTED_BYTES: usize = 256 << 10;
/// How long to wait, after a connection has broken, for a message with the reason that may still be in the
/// control channel.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long the agent's last message may take after the transfer itself has ended.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);

impl Session {
    /// The client of [`linerate_wire::control::Job::List`]: passes each entry to `each` until the list ends.
    ///
    /// # Errors
    /// If the agent gives up or goes away.
    pub fn receive_list(&mut self, mut each: impl FnMut(&[u8], &Entry, u64)) -> Result<(), TransferError> {
        self.awaiting("the next entry of its list", |session| {
            while session.report.is_none() {
                match session.poll()? {
                    Some(Message::Listed { path, entry, size }) => each(&path, &entry, size),
                    Some(_) => return Err(out_of_turn()),
                    None => {}
                }
            }
            Ok(())
        })
    }

    /// The client of [`linerate_wire::control::Job::Clean`]: passes each leftover to `each` until the list ends.
    ///
    /// # Errors
    /// If the agent gives up or goes away.
    pub fn receive_leftovers(&mut self, mut each: impl FnMut(&Leftover)) -> Result<(), TransferError> {
        self.awaiting("the next entry of its list of remains", |session| {
            while session.report.is_none() {
                match session.poll()? {
                    Some(Message::Leftover(left)) => each(&left),
                    Some(_) => return Err(out_of_turn()),
                    None => {}
                }
            }
            Ok(())
        })
    }

    /// The client of [`linerate_wire::control::Job::Digests`]: passes the entries to `each` until the list ends.
    ///
    /// # Errors
    /// If the agent gives up or goes away, or `each` fails.
    pub fn receive_digests(
        &mut self,
        mut each: impl FnMut(Vec<Digested>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.awaiting("the next entries with their digests", |session| {
            while session.report.is_none() {
                match session.poll()? {
                    Some(Message::Digested(found)) if found.len() <= MAX_DIGESTED => each(found)?,
                    Some(_) => return Err(out_of_turn()),
                    None => {}
                }
            }
            Ok(())
        })
    }

    /// The sender: waits until the receiver has a destination for each source. Returns whether all entries must be
    /// offered first, and the receiver's longest window.
    ///
    /// # Errors
    /// If the receiver has no destination for a source, or goes away.
    pub fn wait_for_ready(&mut self) -> Result<(bool, u8), TransferError> {
        match self.awaiting("its confirmation that the destination takes every source", Self::receive)? {
            Message::Ready { offers, window } => Ok((offers, window)),
            _ => Err(out_of_turn()),
        }
    }

    /// The sender of digests: waits for the receiver's message whether the destination takes the sources under their
    /// own names.
    ///
    /// # Errors
    /// If the receiver gave up or goes away.
    pub fn keeps_source_names(&mut self) -> Result<bool, TransferError> {
        match self.awaiting("the names of the destinations", Self::receive)? {
            Message::Within(within) => Ok(within),
            _ => Err(out_of_turn()),
        }
    }

    /// The sender of data that doesn't come from files: waits until all data has arrived; returns the totals
    /// that the receiver counted.
    ///
    /// # Errors
    /// If the receiver gave up or goes away.
    pub fn wait_for_commit(&mut self) -> Result<Totals, TransferError> {
        match self.awaiting("its confirmation that everything is in place", Self::receive)? {
            Message::Committed(landed) => Ok(landed),
            _ => Err(out_of_turn()),
        }
    }

    /// The client of an agent that sends: sends the agent the list of paths to transfer. No other paths are
    /// transferred.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn send_selection(&self, listed: impl Iterator<Item = ListedPath>) -> Result<(), TransferError> {
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        for path in listed {
            bytes += path.path.as_bytes().len() + 8;
            waiting.push(path);
            if bytes >= SELECTED_BYTES {
                bytes = 0;
                self.send(&Message::Select(std::mem::take(&mut waiting)))?;
            }
        }
        if !waiting.is_empty() {
            self.send(&Message::Select(waiting))?;
        }
        self.send(&Message::Select(Vec::new()))
    }

    /// The agent that sends: receives the list of paths to transfer, and passes each path to `each`.
    ///
    /// # Errors
    /// If the client is gone, or `each` fails.
    pub fn receive_selection(
        &mut self,
        mut each: impl FnMut(ListedPath) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        loop {
            let Message::Select(paths) = self.receive()? else { return Err(out_of_turn()) };
            if paths.is_empty() {
                return Ok(());
            }
            paths.into_iter().try_for_each(&mut each)?;
        }
    }

    /// Waits for the sources that the sender announces.
    ///
    /// # Errors
    /// If there are no sources, or too many.
    pub fn receive_sources(&mut self) -> Result<Vec<Source>, TransferError> {
        let announced = self.awaiting("the list of its sources", Self::receive)?;
        let Message::Sources(sources) = announced else { return Err(out_of_turn()) };
        if sources.is_empty() || sources.len() > MAX_SOURCES {
            return Err(TransferError::BadData("the far end announces no sources, or too many".into()));
        }
        Ok(sources)
    }

    /// Reports this end's progress to the other end. An agent and each receiver do so: a client displays the
    /// progress, and a sender chooses the number of streams by it.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn report_progress(&self) -> Result<(), TransferError> {
        if !self.is_agent && !self.control.way.receives.load(Ordering::Acquire) {
            return Ok(());
        }
        self.send(&Message::Progress(self.meters.local.progress()))
    }

    /// Sends the agent's last message.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn send_report(&mut self) -> Result<(), TransferError> {
        self.end_to_beat();
        self.report_progress()?;
        self.report_tally()?;
        self.send(&Message::Report { stages: self.meters.local.stages(), usage: process_usage() })
    }

    /// The client: waits for the agent's last message.
    ///
    /// # Errors
    /// If the agent goes away before that.
    pub fn wait_for_report(&mut self) -> Result<(Stages, Usage), TransferError> {
        let begun = Instant::now();
        self.awaiting("its report after the transfer", |session| {
            while begun.elapsed() < REPORT_TIMEOUT {
                if let Some(report) = session.report.take() {
                    return Ok(report);
                }
                // Other messages arrive too late to matter, and are ignored.
                drop(session.poll()?);
            }
            Err(TransferError::FarEnd("the far end sends no report".into()))
        })
    }

    /// Sends the other end the reason why this one gives up. If a connection broke, this end first waits for
    /// a message in which the other end states the reason.
    pub fn give_up(&mut self, error: TransferError) -> TransferError {
        let error = self.last_words(error);
        // If the other end is gone, the message can't be sent and isn't needed.
        let _ = self.send(&Message::Abort { reason: error.to_string(), kind: error.abort_kind() });
        error
    }

    /// A broken connection may be only the consequence of a failure whose reason is still in the control channel.
    fn last_words(&mut self, error: TransferError) -> TransferError {
        if !matches!(error, TransferError::Cut(_)) {
            return error;
        }
        let begun = Instant::now();
        while let Some(left) = LAST_WORDS.checked_sub(begun.elapsed()) {
            match self.control.incoming.recv_timeout(left) {
                Ok(Incoming::Message(message, _)) => match self.handle(message) {
                    Err(reason) => return reason,
                    Ok(_) => continue,
                },
                Ok(Incoming::Closed(breach @ (ControlError::TooLong(_) | ControlError::Decode(_)))) => {
                    return self.closed(&breach);
                }
                Ok(Incoming::Closed(_)) | Err(_) => break,
            }
        }
        error
    }
}
