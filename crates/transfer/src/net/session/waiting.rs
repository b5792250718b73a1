//! Waits for the other end: for messages, streams, and the end of the transfer.

use crossbeam_channel::{Receiver, never, select};
use linerate_wire::control::{ControlError, Message, Problem, Progress};
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::opener::Opener;
use super::{Event, MAX_STREAMS, Session, TICK, WorkerEnd, out_of_turn, printable};
use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::channel::{Incoming, Room};
use crate::net::stream::Stream;

impl Session {
    /// Waits for the next event, at most for a [`TICK`]. This method itself handles messages about
    /// connections and counters.
    ///
    /// # Errors
    /// If the other end gave up or is gone, or the user interrupts.
    pub fn next(&mut self, workers: &Receiver<WorkerEnd>) -> Result<Event, TransferError> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            self.look()?;
            let message = select! {
                recv(self.control.incoming) -> incoming => match incoming {
                    Ok(Incoming::Message(message, room)) => {
                        self.heard();
                        self.room = Some(room);
                        message
                    }
                    Ok(Incoming::Closed(error)) => return Err(self.closed(&error)),
                    Err(_) => return Err(gone()),
                },
                recv(self.arrivals.1) -> stream => match stream {
                    Ok(stream) => return self.admit(stream),
                    Err(_) => return Ok(Event::Tick),
                },
                recv(workers) -> end => match end {
                    Ok(end) => {
                        self.admitted = self.admitted.saturating_sub(1);
                        return Ok(Event::Worker(end));
                    }
                    Err(_) => return Ok(Event::Tick),
                },
                default(TICK) => return Ok(Event::Tick),
            };
            if let Some(message) = self.handle(message)? {
                return Ok(Event::Message(message));
            }
            // The agent's last message has arrived although its work isn't complete.
            if self.report.is_some() {
                return Err(out_of_turn());
            }
        }
    }

    /// Takes the memory reservation of the last message. Code that keeps a message after reading the next
    /// message must keep the reservation too.
    pub fn take_room(&mut self) -> Option<Room> {
        self.room.take()
    }

    /// Passes a new stream to the caller. The other end has proven its identity, but may have opened too many
    /// streams, which is an error.
    fn admit(&mut self, stream: Stream) -> Result<Event, TransferError> {
        self.admitted += 1;
        self.cipher = self.cipher.or(stream.cipher());
        self.heard();
        if self.admitted > MAX_STREAMS {
            let message = format!("the far end opens more than {MAX_STREAMS} data streams");
            return Err(TransferError::Breach(message));
        }
        Ok(Event::Stream(stream))
    }

    /// Handles messages about connections and counters; returns all other messages.
    pub(super) fn handle(&mut self, message: Message) -> Result<Option<Message>, TransferError> {
        let receives = self.control.way.receives.load(Ordering::Acquire);
        match message {
            Message::Abort { reason, kind } => {
                self.observer.far_end_gave_up();
                return Err(TransferError::from_abort(printable(&reason), kind));
            }
            Message::Progress(progress) => self.progressed(progress)?,
            Message::Problem(problem) if !self.is_agent || receives && self.has_partner() => {
                self.hear_of(problem, receives);
            }
            Message::Changes(changes) if !self.is_agent && !receives => self.observer.changes(changes),
            Message::Report { stages, mut usage } if !self.is_agent => {
                if !usage.cpu_seconds.is_finite() {
                    usage.cpu_seconds = 0.0;
                }
                self.report = Some((stages, usage));
            }
            Message::MoreStreams(count) if receives && self.partner.is_none() => {
                if let Opener::Dial(address) = self.opener {
                    self.dial_more(address, count);
                }
            }
            Message::Routes(count) if self.is_agent && !receives => {
                self.their_routes = count.min(MAX_STREAMS)
            }
            // In a chain or tree, data may use only the path that the client chose. Two agents without a
            // client already have a connection.
            Message::ConnectBack { .. } | Message::UseTunnel if self.is_chained() => {
                return Err(out_of_turn());
            }
            Message::UseTunnel if self.linked.is_some() || self.detached.is_some() => {
                return Err(out_of_turn());
            }
            Message::ConnectBack { candidates } if self.is_agent => self.connect_back(&candidates)?,
            Message::NextLost(lost) if !self.is_agent => self.next_is_lost(lost)?,
            Message::UseTunnel if self.is_agent => self.tunnel()?,
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    fn progressed(&mut self, progress: Progress) -> Result<(), TransferError> {
        if !self.reports.is_welcome() {
            return Err(TransferError::FarEnd("the far end sends too many progress messages".into()));
        }
        *lock(&self.meters.remote) = progress;
        self.pass_progress_on(progress);
        Ok(())
    }

    /// Reports a problem of the far end, and counts it. The client knows the sender's problems, so a
    /// receiving agent only counts them. The count may explain why entries are missing.
    fn hear_of(&mut self, problem: Problem, receives: bool) {
        if self.is_agent {
            return self.reporter().count(problem.kind);
        }
        if receives && self.partner.is_some() {
            self.pass_on(&Message::Problem(problem.clone()));
        }
        self.reporter().far_problem(problem);
    }

    /// Waits for a message that the caller must handle.
    ///
    /// # Errors
    /// The errors of [`Session::next`].
    pub fn receive(&mut self) -> Result<Message, TransferError> {
        match self.early.take() {
            Some(message) => Ok(message),
            None => self.receive_within(Duration::MAX),
        }
    }

    pub(super) fn receive_within(&mut self, patience: Duration) -> Result<Message, TransferError> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if let Some(message) = self.poll()? {
                return Ok(message);
            }
        }
        Err(TransferError::FarEnd("the far end doesn't answer".into()))
    }

    /// Waits for a [`TICK`]; returns a message that arrived, unless this layer has handled it.
    pub(super) fn poll(&mut self) -> Result<Option<Message>, TransferError> {
        self.poll_within(TICK)
    }

    pub(super) fn poll_within(&mut self, patience: Duration) -> Result<Option<Message>, TransferError> {
        self.poll_until(&never(), patience)
    }

    /// Waits as [`Session::poll_within`] does, but only until the other side of `ended` is dropped.
    pub(super) fn poll_until(
        &mut self,
        ended: &Receiver<Infallible>,
        patience: Duration,
    ) -> Result<Option<Message>, TransferError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(TransferError::Interrupted);
        }
        self.look()?;
        select! {
            recv(self.control.incoming) -> incoming => match incoming {
                Ok(Incoming::Message(message, room)) => {
                    self.heard();
                    self.room = Some(room);
                    self.handle(message)
                }
                Ok(Incoming::Closed(error)) => Err(self.closed(&error)),
                Err(_) => Err(gone()),
            },
            recv(ended) -> _ => Ok(None),
            default(patience) => Ok(None),
        }
    }

    /// The error for a closed control channel. If a signal is about to end this program, the same signal may have ended
    /// the remote shell a moment earlier, so such a closed channel counts as an interruption.
    pub(super) fn closed(&self, error: &ControlError) -> TransferError {
        let begun = Instant::now();
        while begun.elapsed() < TICK {
            if self.interrupted.load(Ordering::Relaxed) {
                return TransferError::Interrupted;
            }
            thread::sleep(Duration::from_millis(5));
        }
        match error {
            ControlError::TooLong(_) | ControlError::Decode(_) => {
                TransferError::Breach(format!("the far end breaks the protocol: {error}"))
            }
            // Unread messages in a broken channel may still contain the reason.
            _ => TransferError::Cut(error.to_string()),
        }
    }
}

fn gone() -> TransferError {
    TransferError::FarEnd("the far end ended early".into())
}
