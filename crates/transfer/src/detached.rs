//! Two agents that go on without their client: each has its job from that, and the two have a control channel of their own.
//!
//! The one that receives then is to the other one what a client is that pulls: it judges what comes as such, by what the client has
//! asked for. The other one does what the client has told it, and nothing else.

use linerate_wire::control::{DetachedJob, Job, Options, Totals};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::agent::{receive_selection, send_linked};
use crate::base::problem::TransferError;
use crate::net::link::ControlLink;
use crate::net::session::{Meters, Session, out_of_turn};
use crate::send::sender;
use crate::tree::bounds::Bounds;
use crate::tree::filter::FilesFrom;
use crate::tree::source_root::Finding;

/// An agent that has met the other one; its client still waits for its last word.
pub struct Met {
    session: Session,
    /// The job's name, and the hosts'.
    pub detached: DetachedJob,
    /// The part of this end.
    pub part: AlonePart,
}

/// The part of one of the two agents.
pub enum AlonePart {
    /// It sends.
    Sender(SendingPart),
    /// It receives.
    Receiver(ReceivingPart),
}

/// The part of the agent that sends.
pub struct SendingPart {
    /// As the client has told it.
    job: Job,
    listed: Option<FilesFrom>,
    link: ControlLink,
}

/// The part of the agent that receives.
pub struct ReceivingPart {
    /// The sources that the client has asked the other one for.
    pub sources: Vec<Vec<u8>>,
    /// The destination.
    pub destination: Vec<u8>,
    /// The options of both.
    pub options: Options,
    /// The only paths that the client wants.
    pub listed: Option<FilesFrom>,
    /// The way to the other one.
    pub link: ControlLink,
}

/// Hears the client, until the two agents have met.
///
/// # Errors
/// The reason why they haven't; the client has it too.
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
    // Found before the client goes, who can still name others.
    if let Job::Send { sources, options } = &job {
        let reporter = session.reporter();
        let tell = |problem| reporter.problem(problem);
        sender::find_sources(&Bounds::anywhere(), sources, Finding::of(options), &tell)?;
    }
    let asked = session.meet_detached_partner()?;
    // Who receives has to know what may come, and who sends is asked for nothing but its job.
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
    /// Lets the client go; if it is gone already, the transfer goes on all the same.
    pub fn go_on_alone(self) -> AlonePart {
        let _ = self.session.go_on_alone();
        self.part
    }

    /// Tells the client why this end doesn't go on.
    pub fn give_up(mut self, error: TransferError) -> TransferError {
        self.session.give_up(error)
    }
}

impl SendingPart {
    /// The sources, as the client has named them.
    pub fn sources(&self) -> &[Vec<u8>] {
        if let Job::Send { sources, .. } = &self.job { sources } else { &[] }
    }

    /// Sends to the other agent what the client has told it to; returns what is in place there.
    ///
    /// # Errors
    /// The reason why it ended early; the other agent has it too.
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
