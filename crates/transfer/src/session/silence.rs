//! Whether the other end is still there: each tells its counters once a second, and gives up where it hears nothing.

use linerate_wire::control::Message;
use std::time::{Duration, Instant};

use super::Session;
use crate::problem::TransferError;

/// How often an end tells that it is there.
const BEAT: Duration = Duration::from_secs(1);
/// How soon the end of work elsewhere is noticed.
const MOMENT: Duration = Duration::from_millis(1);

/// When the other end was last heard, and when this one last spoke.
#[derive(Default)]
pub(super) struct Silence {
    /// How long it may last; `None` for ever.
    longest: Option<Duration>,
    /// When a message came; none before there was a data connection.
    heard: Option<Instant>,
    spoke: Option<Instant>,
    /// Payload that had moved by then.
    bytes: u64,
}

impl Session {
    /// From now on an end that says nothing for so many seconds is given up, once there is a data connection.
    pub fn limit_silence(&mut self, seconds: Option<u32>) {
        self.silence.longest = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    }

    /// There is a data connection.
    pub(super) fn connected(&mut self) {
        self.silence.heard = Some(Instant::now());
    }

    /// The other end is there.
    pub(super) fn heard(&mut self) {
        self.silence.heard = self.silence.heard.map(|_| Instant::now());
    }

    /// Tells the other end that this one is there, and looks how long that one has been silent. Called often.
    ///
    /// # Errors
    /// Where that is too long.
    pub(super) fn beat(&mut self) -> Result<(), TransferError> {
        let (Some(longest), Some(heard)) = (self.silence.longest, self.silence.heard) else { return Ok(()) };
        if self.silence.spoke.is_some_and(|spoke| spoke.elapsed() < BEAT) {
            return Ok(());
        }
        self.silence.spoke = Some(Instant::now());
        let progress = Message::Progress(self.meters.local.progress());
        // An end that is gone is noticed where its next message is waited for.
        let _ = self.control.channel.send_if_free(&progress);
        let bytes = self.meters.local.stages().bytes;
        if std::mem::replace(&mut self.silence.bytes, bytes) != bytes {
            self.heard();
        } else if heard.elapsed() > longest {
            return Err(TransferError::Cut(format!(
                "nothing was heard of the far end for {} s (--timeout)",
                longest.as_secs()
            )));
        }
        if self.registry.is_dead(longest) {
            return Err(TransferError::Cut(format!(
                "the far end is there, and for {} s (--timeout) a data connection to it has been dead",
                longest.as_secs()
            )));
        }
        Ok(())
    }

    /// Does `work` on a thread of its own, while this one goes on telling the other end that it is there.
    ///
    /// # Errors
    /// Where the other end is gone, or speaks out of turn.
    pub fn meanwhile<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Result<T, TransferError> {
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            while !working.is_finished() {
                self.stand_by()?;
            }
            working.join().map_err(|_| TransferError::Failed("this end failed while it finished".into()))
        })
    }

    /// Waits a moment, in which nothing is to come but news.
    ///
    /// # Errors
    /// Where something else comes, or the other end is gone.
    pub fn stand_by(&mut self) -> Result<(), TransferError> {
        match self.poll_within(MOMENT)? {
            None => Ok(()),
            Some(_) => Err(super::out_of_turn()),
        }
    }
}
