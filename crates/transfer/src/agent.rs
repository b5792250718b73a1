//! The far end: does the job that the client names, and answers questions about its host.

use linerate_wire::control::{AbortKind, Job, Message, Options};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;

use crate::problem::TransferError;
use crate::session::Session;
use crate::{memory, receiver, sender};

/// What the agent can say about its host, as JSON of the `host` crate's types.
pub trait HostObserver {
    /// Facts.
    fn facts(&self) -> Vec<u8>;
    /// Processor times.
    fn cpu(&self) -> Vec<u8>;
}

/// Serves one client on `reader` and `writer`, until its job is done.
///
/// # Errors
/// What ended the job early; the client was told.
pub fn serve(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    host: &dyn HostObserver,
) -> Result<(), TransferError> {
    let (mut session, job) = Session::agent(reader, writer)?;
    let done = perform(&mut session, job, host);
    done.map_err(|error| session.give_up(error))
}

fn perform(session: &mut Session, job: Job, host: &dyn HostObserver) -> Result<(), TransferError> {
    match job {
        Job::Receive { destination, options } => {
            session.offer(&options)?;
            receiver::run(session, &destination, &options, |_| Ok(()))?;
            session.tell_report()
        }
        Job::Send { sources, options } => send(session, &sources, &options),
        Job::List { sources, recursive } => list(session, &sources, recursive),
        Job::Discard { options } => {
            session.offer(&options)?;
            memory::discard(session)?;
            session.tell_report()
        }
        Job::Observe => observe(session, host),
    }
}

fn send(session: &mut Session, sources: &[Vec<u8>], options: &Options) -> Result<(), TransferError> {
    let reporter = session.reporter();
    let found = sender::find_sources(sources, options.recursive, true, &|problem| reporter.problem(problem))?;
    session.offer(options)?;
    sender::run(session, &found, options)?;
    session.tell_report()
}

fn list(session: &mut Session, sources: &[Vec<u8>], recursive: bool) -> Result<(), TransferError> {
    let reporter = session.reporter();
    let tell = |problem| reporter.problem(problem);
    let found = sender::find_sources(sources, recursive, true, &tell)?;
    let channel = session.channel();
    sender::survey(&found, &session.meters.local, &tell, |path, entry| {
        let listed = Message::Listed { path: path.as_os_str().as_bytes().to_vec(), entry: entry.clone() };
        // A client that is gone is noticed below.
        let _ = channel.send(&listed);
    });
    session.tell_report()
}

fn observe(session: &mut Session, host: &dyn HostObserver) -> Result<(), TransferError> {
    loop {
        let answer = match session.receive() {
            Ok(Message::AskFacts) => host.facts(),
            Ok(Message::AskCpu) => host.cpu(),
            Ok(_) => {
                let reason = "only questions about the host are answered here".to_owned();
                session.send(&Message::Abort { reason, kind: AbortKind::Failed })?;
                continue;
            }
            // The client has asked all that it wanted to know.
            Err(_) => return Ok(()),
        };
        session.send(&Message::Answer(answer))?;
    }
}
