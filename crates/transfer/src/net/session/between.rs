//! A client's session with one of two agents that exchange the data directly.

use linerate_wire::control::{AskedSources, Cookie, Listening, Message, Partner, Progress};
use linerate_wire::stages::{Stages, Usage};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Client, Meters, Session, job_options, out_of_turn, random};
use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::channel::Channel;
use linerate_wire::control::Job;

/// The shortest time between two progress reports that are forwarded to the other agent.
const NEWS: Duration = Duration::from_millis(50);

impl Session {
    /// Starts the client's session with one agent, up to the agent's first message. If the job has a timeout, the
    /// client sends this agent once a second the other agent's progress, which is in `progress`.
    ///
    /// # Errors
    /// If the far end doesn't speak this protocol or goes away.
    pub fn between(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        client: Client,
        meters: Meters,
        progress: Arc<Mutex<Progress>>,
    ) -> Result<Self, TransferError> {
        let Client { job, interrupted, observer, pulse, neighbour: _, interfaces: _, linked: _ } = client;
        pulse.beat();
        let mut session = Self::start(reader, writer, observer, interrupted, meters, pulse)?;
        session.take_role(matches!(job, Job::Send { .. }));
        session.control.way.both.store(true, Ordering::Release);
        let has_limit = job_options(&job).is_some_and(|options| options.timeout.is_some());
        session.send(&Message::Between)?;
        session.send(&Message::Job(job))?;
        if has_limit {
            session.limit_has_option();
            session.begin_to_beat_with(move || *lock(&progress));
        }
        session.greet()?;
        Ok(session)
    }

    /// Introduces `other` as the other end of the data. From now on, messages of this agent that are meant
    /// for all ends are forwarded to `other`.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn name_partner(
        &mut self,
        other: &Session,
        cookie: Cookie,
        asked: Option<AskedSources>,
    ) -> Result<(), TransferError> {
        self.partner = Some(other.channel());
        let public_key = other.peer.public_key.clone();
        self.send(&Message::Partner(Partner { public_key, cookie, asked }))
    }

    /// Waits for the addresses at which the agent listens.
    ///
    /// # Errors
    /// If the agent goes away, or sends something else.
    pub fn hear_listening(&mut self) -> Result<Listening, TransferError> {
        match self.awaiting("its data port", Self::receive)? {
            Message::Listening(listening) => Ok(listening),
            _ => Err(out_of_turn()),
        }
    }

    /// Makes the agent dial the other agent at these addresses; `None` if that worked, else the reason why not.
    ///
    /// # Errors
    /// If the agent goes away.
    pub fn have_dial(&mut self, candidates: Vec<SocketAddr>) -> Result<Option<String>, TransferError> {
        self.send(&Message::ConnectBack { candidates })?;
        self.answer_to_connect_back()
    }

    /// Makes the agent send its data through the control channel, or receive it there.
    ///
    /// # Errors
    /// If the agent goes away.
    pub fn have_tunnel(&mut self) -> Result<(), TransferError> {
        self.control.way.open.store(true, Ordering::Release);
        self.send(&Message::UseTunnel)
    }

    /// The bytes of the stream through the agent's channel, to be read by a separate thread.
    pub fn tunnelled(&self) -> crossbeam_channel::Receiver<Vec<u8>> {
        self.control.tunnel.clone()
    }

    /// The next message that isn't only a progress report; `None` if no such message arrives within a short
    /// time.
    ///
    /// # Errors
    /// If the agent gave up or is gone, or the user interrupts.
    pub fn hear(&mut self) -> Result<Option<Message>, TransferError> {
        match self.early.take() {
            Some(message) => Ok(Some(message)),
            None => self.poll(),
        }
    }

    /// The agent's last message, if it has arrived.
    pub fn last_report(&self) -> Option<(Stages, Usage)> {
        self.report
    }

    /// Forwards to the other agent a message that is intended for every end.
    pub(super) fn pass_on(&self, message: &Message) {
        if let Some(partner) = &self.partner {
            // If the other agent is gone, that agent's own session notices it.
            let _ = partner.send(message);
        }
    }

    /// Forwards this agent's counters to the other agent, at most 20 times a second: an honest end sends new counters
    /// less often.
    pub(super) fn pass_progress_on(&mut self, progress: Progress) {
        let is_new = self.passed_on.is_none_or(|last| last.elapsed() >= NEWS);
        if let Some(partner) = self.partner.as_ref().filter(|_| is_new) {
            self.passed_on = Some(Instant::now());
            // If the other agent is gone, that agent's own session notices it.
            let _ = partner.send_if_free(&Message::Progress(progress));
        }
    }
}

/// The channel to the other agent of a transfer between two agents.
pub(super) type PartnerChannel = Arc<Channel>;

/// Makes a cookie for both agents' data ports.
///
/// # Errors
/// If the system's random number generator fails.
pub fn new_cookie() -> Result<Cookie, TransferError> {
    random()
}
