//! The workers of one end, a thread for each data stream.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::Arc;
use std::thread::Scope;

use crate::base::problem::TransferError;
use crate::net::session::WorkerEnd;
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
}

impl<'scope, 'env, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope> Crew<'scope, 'env, W> {
    /// No worker yet; each will do `work` on its stream.
    pub fn new(scope: &'scope Scope<'scope, 'env>, work: W) -> Self {
        Self { scope, work: Arc::new(work), ends: unbounded(), running: 0, used: 0 }
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

    /// Counts a worker that has ended. Where its stream is the `only` one, it can't have been one too many.
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
