//! The workers of one end, a thread for each data stream.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::Arc;
use std::thread::Scope;
use std::time::Instant;

use crate::base::problem::TransferError;
use crate::net::session::{DIAL_TIME, WorkerEnd};
use crate::net::stream::{Stream, StreamError};

/// Workers under way.
pub struct Crew<'scope, 'env, W> {
    scope: &'scope Scope<'scope, 'env>,
    work: Arc<W>,
    ends: (Sender<WorkerEnd>, Receiver<WorkerEnd>),
    /// Workers that have not ended.
    pub running: u32,
    /// Streams that have carried data to their end.
    pub used: u32,
    /// Since when streams are missing while no worker runs.
    missing: Option<Instant>,
}

impl<'scope, 'env, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope> Crew<'scope, 'env, W> {
    /// A crew without workers; each will do `work` on its stream.
    pub fn new(scope: &'scope Scope<'scope, 'env>, work: W) -> Self {
        Self { scope, work: Arc::new(work), ends: unbounded(), running: 0, used: 0, missing: None }
    }

    /// How the workers ended, for [`crate::net::session::Session::next`].
    pub fn ends(&self) -> &Receiver<WorkerEnd> {
        &self.ends.1
    }

    /// Starts a worker on `stream`.
    pub fn hire(&mut self, stream: Stream) {
        let (work, ends) = (self.work.clone(), self.ends.0.clone());
        self.running += 1;
        self.scope.spawn(move || {
            let end = work(stream);
            // The share in the work goes first: what the others wait for may hang on it.
            drop(work);
            let _ = ends.send(end);
        });
    }

    /// True at a receiver while a stream of those that the sender says it has used hasn't ended; `None` while the sender
    /// hasn't said how many they are.
    ///
    /// # Errors
    /// If one of them is missing for longer than a connection takes to be made: it broke before anything came.
    pub fn is_awaited(&mut self, sent: Option<u32>) -> Result<bool, TransferError> {
        let Some(sent) = sent else { return Ok(true) };
        if self.used >= sent {
            return Ok(false);
        }
        if self.running > 0 {
            self.missing = None;
            return Ok(true);
        }
        if self.missing.get_or_insert_with(Instant::now).elapsed() <= DIAL_TIME {
            return Ok(true);
        }
        let missing = sent - self.used;
        Err(TransferError::Cut(format!(
            "{missing} of {sent} data connections broke before anything came on them"
        )))
    }

    /// Counts a worker that has ended. One whose stream brought nothing was one too many, unless it is the `only` one.
    ///
    /// # Errors
    /// If its stream broke after it had carried data, or carried what it may not.
    pub fn ended(&mut self, end: WorkerEnd, only: bool) -> Result<(), TransferError> {
        self.running -= 1;
        match end {
            (_, Ok(())) => self.used += 1,
            (false, Err(StreamError::Io(_) | StreamError::Cut)) if !only => {}
            (_, Err(error @ (StreamError::Io(_) | StreamError::Cut))) => {
                return Err(TransferError::Cut(error.to_string()));
            }
            (_, Err(error @ (StreamError::Protocol(_) | StreamError::Refused(_)))) => {
                return Err(TransferError::BadData(error.to_string()));
            }
            (_, Err(error)) => return Err(TransferError::Failed(error.to_string())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};
    use std::thread;

    #[test]
    fn a_stream_that_breaks_is_one_too_many_only_where_nothing_came_on_it() {
        thread::scope(|scope| {
            let mut crew = Crew::new(scope, |_| (true, Ok(())));
            let mut ended = |used, error, only| {
                crew.running += 1;
                crew.ended((used, Err(error)), only).is_ok()
            };
            let reset = || StreamError::Io(Error::from(ErrorKind::ConnectionReset));
            assert!(ended(false, reset(), false) && ended(false, StreamError::Cut, false));
            assert!(!ended(true, reset(), false) && !ended(true, StreamError::Cut, false));
            assert!(!ended(false, reset(), true));
            let damaged = StreamError::Record(Error::from(ErrorKind::InvalidData));
            assert!(!ended(false, damaged, false));
        });
    }
}
