//! Two agents that continue without their client: each gets its job from the client, and the two have a
//! control channel of their own.
//!
//! The receiving agent treats the sending agent as a pulling client treats its far end: it judges incoming
//! entries by the client's request. The sending agent does only the job that the client has requested.

use linerate_wire::control::{DetachedJob, Job, Options, Totals};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::agent::{receive_selection, send_linked};
use crate::base::problem::TransferError;
use crate::net::control_link::ControlLink;
use crate::net::session::{Meters, Session, out_of_turn};
use crate::send::sender;
use crate::tree::bounds::Bounds;
use crate::tree::filter::FilesFrom;
use crate::tree::source_root::Finding;

/// An agent that has met the other agent. Its client still waits for this agent's last message.
pub struct Met {
    session: Session,
    /// The job's name, and the names of the hosts.
    pub detached: DetachedJob,
    /// Whether this agent sends or receives.
    pub part: AlonePart,
}

/// The part of one of the two agents in the transfer: sender or receiver.
pub enum AlonePart {
    /// This agent sends.
    Sender(SendingPart),
    /// This agent receives.
    Receiver(ReceivingPart),
}

/// The data of the agent that sends.
pub struct SendingPart {
    /// The job, as the client has stated it.
    job: Job,
    listed: Option<FilesFrom>,
    link: ControlLink,
}

/// The data of the agent that receives.
pub struct ReceivingPart {
    /// The sources that the client has requested from the other agent.
    pub sources: Vec<Vec<u8>>,
    /// The destination, as the client has written it.
    pub destination: Vec<u8>,
    /// The options of both agents.
    pub options: Options,
    /// If set, only these paths are wanted.
    pub listed: Option<FilesFrom>,
    /// The control channel to the other agent.
    pub link: ControlLink,
}

/// Serves the client until the two agents have met.
///
/// # Errors
/// The reason why the two agents haven't met; the reason has been sent to the client too.
pub fn meet(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
) -> Result<Met, TransferError> {
    let (mut session, job) = Session::agent(reader, writer)?;
    match meet_other(&mut session, job) {
        Ok((detached, part)) => Ok(Met { session, detached, part }),
        Err(error) => Err(session.give_up(error)),
    }
}

fn meet_other(session: &mut Session, job: Job) -> Result<(DetachedJob, AlonePart), TransferError> {
    let detached = session.detached().cloned().ok_or_else(out_of_turn)?;
    // The sources are looked up while the client is connected, so that the user can still name other sources.
    if let Job::Send { sources, options } = &job {
        let reporter = session.reporter();
        let report = |problem| reporter.problem(problem);
        sender::find_sources(&Bounds::anywhere(), sources, Finding::of(options), &report)?;
    }
    let asked = session.meet_detached_partner()?;
    // The receiver has to know which entries may arrive; the sender only needs its job.
    let (Job::Send { options, .. } | Job::Receive { options, .. }) = &job else { return Err(out_of_turn()) };
    if asked.is_some() != matches!(job, Job::Receive { .. }) {
        return Err(out_of_turn());
    }
    let listed = options.listed.then(|| receive_selection(session)).transpose()?;
    let link = session.meet_for_link(options)?;
    let part = match job {
        Job::Receive { destination, options } => {
            let sources = asked.unwrap_or_default().sources;
            AlonePart::Receiver(ReceivingPart { sources, destination, options, listed, link })
        }
        job => AlonePart::Sender(SendingPart { job, listed, link }),
    };
    Ok((detached, part))
}

impl Met {
    /// Ends the client's session. If the client is gone already, the transfer continues all the same.
    pub fn go_on_alone(self) -> AlonePart {
        let _ = self.session.go_on_alone();
        self.part
    }

    /// Sends the client the reason why this agent doesn't continue.
    pub fn give_up(mut self, error: TransferError) -> TransferError {
        self.session.give_up(error)
    }
}

impl SendingPart {
    /// The sources, as the client has named them.
    pub fn sources(&self) -> &[Vec<u8>] {
        if let Job::Send { sources, .. } = &self.job { sources } else { &[] }
    }

    /// Sends to the other agent the sources that the client has requested; returns the totals of the entries that are
    /// in place there.
    ///
    /// # Errors
    /// The reason why the transfer ended early; the reason has been sent to the other agent too.
    pub fn send(self, meters: Meters, interrupted: Arc<AtomicBool>) -> Result<Totals, TransferError> {
        let ControlLink { reader, writer, peer, last } = self.link;
        let (mut session, asked) = Session::linked_agent(reader, writer, peer, meters, interrupted)?;
        let done = send_linked(&mut session, &self.job, &asked, self.listed.as_ref());
        let done = done.map_err(|error| session.give_up(error));
        drop(session);
        last.wait();
        done
    }
}

#[cfg(test)]
mod tests;
