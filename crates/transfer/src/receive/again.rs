//! Requests the second round of a transfer, in which files that are damaged on stable storage are sent again.

use crossbeam_channel::{Sender, bounded};
use linerate_wire::control::Message;

use crate::base::problem::TransferError;
use crate::net::session::{Session, TICK};
use crate::receive::commit::ToCommit;
use crate::receive::proof::Verifier;

/// Commits all files that have arrived, and requests the damaged files again; false if no file is damaged.
///
/// # Errors
/// If the sender is gone.
pub fn ask(
    session: &mut Session,
    verifier: &Verifier<'_>,
    finished: &Sender<ToCommit>,
) -> Result<bool, TransferError> {
    settle(session, finished)?;
    let names = verifier.take_differing();
    if names.is_empty() {
        return Ok(false);
    }
    session.begin_round();
    session.send(&Message::Again(names))?;
    Ok(true)
}

/// Waits until the committer has processed all messages in its queue. If the committer fails, its error is reported
/// when the committer ends.
fn settle(session: &mut Session, finished: &Sender<ToCommit>) -> Result<(), TransferError> {
    let (done, settled) = bounded(1);
    if finished.send(ToCommit::Settle(done)).is_err() {
        return Ok(());
    }
    while settled.recv_timeout(TICK).is_err_and(|error| error.is_timeout()) {
        session.report_progress()?;
        session.check()?;
    }
    Ok(())
}
