//! The workers of one end, with one thread for each data stream.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::Arc;
use std::thread::Scope;
use std::time::Instant;

use crate::base::problem::TransferError;
use crate::net::session::{DIAL_TIMEOUT, WorkerEnd};
use crate::net::stream::{Stream, StreamError};

/// The running workers of one end.
pub struct Crew<'scope, 'env, W> {
    scope: &'scope Scope<'scope, 'env>,
    work: Arc<W>,
    ends: (Sender<WorkerEnd>, Receiver<WorkerEnd>),
    /// The number of workers that haven't ended.
    pub running: u32,
    /// The number of streams that carried data and have ended.
    pub used: u32,
    /// The time since which no worker has been running although streams haven't arrived.
    missing: Option<Instant>,
}

impl<'scope, 'env, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope> Crew<'scope, 'env, W> {
    /// A crew without workers; each worker will do `work` on its stream.
    pub fn new(scope: &'scope Scope<'scope, 'env>, work: W) -> Self {
        Self { scope, work: Arc::new(work), ends: unbounded(), running: 0, used: 0, missing: None }
    }

    /// The queue that gets the results of workers that have ended, for
    /// [`crate::net::session::Session::next`].
    pub fn ends(&self) -> &Receiver<WorkerEnd> {
        &self.ends.1
    }

    /// Starts a worker on `stream`.
    pub fn hire(&mut self, stream: Stream) {
        let (work, ends) = (self.work.clone(), self.ends.0.clone());
        self.running += 1;
        self.scope.spawn(move || {
            let end = work(stream);
            // `work` has a share of data that the workers have in common. It is dropped before the result is sent,
            // because another thread may be waiting for the last share to be dropped.
            drop(work);
            let _ = ends.send(end);
        });
    }

    /// For a receiver: true while one of the streams that the sender has used hasn't ended; `sent` is the number of
    /// these streams, `None` until the sender has stated it.
    ///
    /// # Errors
    /// If a stream hasn't arrived within the time that connecting takes: its connection broke before any data
    /// arrived.
    pub fn is_awaited(&mut self, sent: Option<u32>) -> Result<bool, TransferError> {
        let Some(sent) = sent else { return Ok(true) };
        if self.used >= sent {
            return Ok(false);
        }
        if self.running > 0 {
            self.missing = None;
            return Ok(true);
        }
        if self.missing.get_or_insert_with(Instant::now).elapsed() <= DIAL_TIMEOUT {
            return Ok(true);
        }
        let missing = sent - self.used;
        Err(TransferError::Cut(format!(
            "{missing} of {sent} data connections broke before any data arrived on them"
        )))
    }

    /// Handles the end of a worker. A stream that broke before it carried any data is ignored, unless it is the `only`
    /// one.
    ///
    /// # Errors
    /// If the stream broke and was the only one or had carried data, if it carried data that isn't allowed, or if the
    /// worker failed.
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
