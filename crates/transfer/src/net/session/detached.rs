//! Sessions of a transfer that continues without its client: how the client introduces the two agents to each
//! other.

use linerate_wire::control::{AskedSources, DetachedJob, Job, Listening, MAX_JOB_RECORD, Message, Options};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::opener::Opener;
use super::{Client, Meters, Session, hello, job_options, out_of_turn, silence};
use crate::base::problem::TransferError;
use crate::net::control_link::{ControlLink, LinkedPeer};

/// An agent's message about a detached job.
pub enum JobNews {
    /// A job's record, as JSON.
    Record(Vec<u8>),
    /// The next bytes of a job's events.
    Events(Vec<u8>),
}

impl Session {
    /// Starts the client's session with an agent that will continue without the client, up to that agent's first
    /// message.
    ///
    /// # Errors
    /// If the far end doesn't speak this protocol, leaves no process behind, or goes away.
    pub fn detaching(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        client: Client,
        meters: Meters,
        detached: DetachedJob,
    ) -> Result<Self, TransferError> {
        let Client { job, interrupted, observer, pulse, .. } = client;
        pulse.beat();
        let mut session = Self::start(reader, writer, observer, interrupted, meters, pulse)?;
        session.send(&Message::Job(Job::Background))?;
        // From here on, the agent's messages come from the process that was started in the background, and
        // that process reads this end's messages.
        session.send(&Message::Hello(hello(&session.keys, session.cookie)))?;
        session.send(&Message::Detached(detached))?;
        let has_limit = job_options(&job).is_some_and(|options| options.timeout.is_some());
        session.send(&Message::Job(job))?;
        if has_limit {
            session.limit_has_option();
            session.begin_to_beat();
        }
        session.greet()?;
        session.greet()?;
        Ok(session)
    }

    /// The client: waits until the agent no longer needs the client.
    ///
    /// # Errors
    /// If the agent gives up or goes away before that.
    pub fn wait_until_under_way(&mut self) -> Result<(), TransferError> {
        match self.awaiting("its confirmation that it continues without this process", Self::receive)? {
            Message::UnderWay => Ok(()),
            _ => Err(out_of_turn()),
        }
    }

    /// The client of [`Job::Jobs`] and [`Job::Attach`]: passes each record and each piece of events to `each` until the
    /// list ends.
    ///
    /// # Errors
    /// If the agent gives up or goes away, or `each` fails.
    pub fn receive_jobs(
        &mut self,
        mut each: impl FnMut(JobNews) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.awaiting("the next record of its jobs", |session| {
            while session.last_report().is_none() {
                match session.poll()? {
                    Some(Message::JobRecord(record)) if record.len() <= MAX_JOB_RECORD => {
                        each(JobNews::Record(record))?;
                    }
                    Some(Message::JobEvents(events)) if events.len() <= MAX_JOB_RECORD => {
                        each(JobNews::Events(events))?;
                    }
                    Some(_) => return Err(out_of_turn()),
                    None => {}
                }
            }
            Ok(())
        })
    }

    /// Starts the agent's session with the other agent. The jobs of the two agents agree if both had the same
    /// client.
    ///
    /// # Errors
    /// If the other agent doesn't speak this protocol or goes away.
    pub fn linked_agent(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        peer: LinkedPeer,
        meters: Meters,
        interrupted: Arc<AtomicBool>,
    ) -> Result<(Self, Job), TransferError> {
        let (mut session, job) = Self::agent_within(reader, writer, silence::JOB_TIMEOUT, meters)?;
        if session.detached.is_some() || session.has_partner() || session.is_chained() {
            return Err(session.give_up(out_of_turn()));
        }
        (session.linked, session.interrupted) = (Some(peer), interrupted);
        Ok((session, job))
    }

    /// The job that continues without its client; `None` for an agent that isn't detached.
    pub fn detached(&self) -> Option<&DetachedJob> {
        self.detached.as_ref()
    }

    /// The agent: waits until the client introduces the other agent; returns the client's request to that agent.
    ///
    /// # Errors
    /// If the client goes away, or sends something else.
    pub fn meet_detached_partner(&mut self) -> Result<Option<AskedSources>, TransferError> {
        self.meet_partner()?;
        Ok(self.take_asked())
    }

    /// The agent: waits for the other agent's connection or dials it, as the client decides.
    ///
    /// # Errors
    /// If the client gives up or goes away, or sends something else.
    pub fn meet_for_link(&mut self, options: &Options) -> Result<ControlLink, TransferError> {
        // Messages between the agents are encrypted, even if the user has switched encryption of the data
        // off.
        self.make_link(false)?;
        self.listen_and_report(options, true)?;
        let stream = loop {
            if let Ok(stream) = self.arrivals.1.try_recv() {
                break stream;
            }
            if self.poll()?.is_some() {
                return Err(out_of_turn());
            }
        };
        let dials = matches!(self.opener, Opener::Dial(_));
        ControlLink::of(stream, dials, options.ports).map_err(|error| {
            TransferError::Failed(format!("using the connection to the other host failed: {error}"))
        })
    }

    /// The agent: sends its last message to its client, after which it no longer needs the client.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn go_on_alone(mut self) -> Result<(), TransferError> {
        self.end_to_beat();
        self.send(&Message::UnderWay)
    }

    /// The receiver of two agents without a client: dials the other agent or waits for its connection. The
    /// end that dialled the control channel also dials here.
    pub(super) fn reach_linked(
        &mut self,
        peer: LinkedPeer,
        there: &Listening,
        options: &Options,
    ) -> Result<(), TransferError> {
        let why = if peer.dials {
            let candidates = peer.fit(&there.candidates).into_iter().collect();
            let error = there.error.clone();
            self.reach_directly(&Listening { candidates, further: Vec::new(), client: None, error })?
        } else {
            self.reach_back(there, options)?
        };
        match why {
            None => Ok(()),
            Some(_) if self.interrupted.load(Ordering::Relaxed) => Err(TransferError::Interrupted),
            Some(why) => Err(TransferError::FarEnd(format!(
                "the two hosts have a connection for messages, but can't open one for data: {why}"
            ))),
        }
    }
}
