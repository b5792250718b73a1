//! Detects whether the other end is still alive. An agent, and with `--timeout` also the client, sends its counters
//! once a second. Each end gives up if no message of the other end arrives for too long.

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, never};
use linerate_wire::control::{Message, Progress};
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::partner::Partnership;
use super::{Session, TICK};
use crate::base::problem::TransferError;
use crate::net::channel::Channel;
use crate::net::pulse::Pulse;

/// How often an end sends its counters, and checks whether the other end has sent any.
const BEAT: Duration = Duration::from_secs(1);
/// If this end hasn't checked for this long, its process was stopped, and the other end's signs of life are still to be
/// read. A process that only lacks processor time checks more often.
const ASLEEP: Duration = BEAT.saturating_mul(5);
/// How long a client may be silent until its job arrives; the job has the user's own limit. The client
/// sends its first two messages without waiting for the agent.
pub(super) const JOB_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause before an operation that another process prevents is tried again.
const MOMENT: Duration = Duration::from_millis(1);

/// The name of the message that is expected by default.
const ANYTHING: &str = "more of the transfer";

/// Returns a function that runs `work`, and a channel that is closed when `work` ends, even by a panic. The
/// channel is for [`Session::stand_by_until`].
pub fn with_end<T>(work: impl FnOnce() -> T) -> (impl FnOnce() -> T, Receiver<Infallible>) {
    let (end, ended) = bounded(0);
    let work = move || {
        let _end: Sender<Infallible> = end;
        work()
    };
    (work, ended)
}

/// How long the other end has been silent, and how long it may be.
pub(super) struct Silence {
    /// When the other end was last heard.
    pub(super) pulse: Arc<Pulse>,
    /// True if the user can change the limit with an option.
    has_option: bool,
    looked: Option<Instant>,
    /// The number of payload bytes that had been transferred at the last check.
    bytes: u64,
    awaited: &'static str,
    /// Sends this end's signs of life.
    heart: Option<Heart>,
}

impl Silence {
    pub(super) fn new(pulse: Arc<Pulse>) -> Self {
        Self { pulse, has_option: false, looked: None, bytes: 0, awaited: ANYTHING, heart: None }
    }
}

/// A thread that sends this end's counters once a second, even if other threads take long to find, read or write files.
/// The thread ends when this value is dropped.
struct Heart {
    _stop: Sender<()>,
}

impl Heart {
    fn start(channel: &Arc<Channel>, progress: impl Fn() -> Progress + Send + 'static) -> Self {
        let (stop, stopped) = bounded(0);
        // The channel is closed when the session ends, so this thread must not hold a strong reference to it.
        let channel = Arc::downgrade(channel);
        thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(BEAT) {
                let Some(channel) = channel.upgrade() else { return };
                // If the other end is gone, the wait for its next message reports it.
                if channel.send_if_free(&Message::Progress(progress())).is_err() {
                    return;
                }
            }
        });
        Self { _stop: stop }
    }
}

impl Session {
    /// Sets the time after which a silent other end is given up; `None` means never. The time comes from the
    /// user's `--timeout`, or from the job.
    pub(super) fn limit_silence(&mut self, seconds: Option<u32>) {
        self.silence.has_option = seconds.is_some();
        self.silence.pulse.limit(seconds.map(|seconds| Duration::from_secs(seconds.into())));
    }

    /// Records that the user can change the limit with an option.
    pub(super) fn limit_has_option(&mut self) {
        self.silence.has_option = true;
    }

    /// Starts to send this end's counters once a second.
    pub(super) fn begin_to_beat(&mut self) {
        let counters = self.meters.local.clone();
        self.begin_to_beat_with(move || counters.progress());
    }

    /// Starts to send `progress` once a second, in place of this end's own progress.
    pub(super) fn begin_to_beat_with(&mut self, progress: impl Fn() -> Progress + Send + 'static) {
        self.silence.heart = Some(Heart::start(&self.control.channel, progress));
    }

    /// Stops sending counters, because this end is about to send its last message.
    pub(super) fn end_to_beat(&mut self) {
        self.silence.heart = None;
    }

    /// Records that the other end was heard.
    pub(super) fn heard(&mut self) {
        self.silence.pulse.beat();
    }

    /// Runs `work`, during which the other end must send `what`. If the other end stays silent, the error
    /// message names `what`.
    pub(crate) fn awaiting<T>(&mut self, what: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.silence.awaited, what);
        let done = work(self);
        self.silence.awaited = before;
        done
    }

    /// Checks how long the other end has been silent. This is called often.
    ///
    /// # Errors
    /// If the other end has been silent for longer than the limit.
    pub(super) fn look(&mut self) -> Result<(), TransferError> {
        self.partnership.as_ref().map_or(Ok(()), Partnership::take_fault)?;
        let silence = &mut self.silence;
        let Some(longest) = silence.pulse.longest() else { return Ok(()) };
        // Unread messages of the far end show that the far end is alive.
        if silence.looked.is_some_and(|looked| looked.elapsed() < BEAT) || !self.control.incoming.is_empty() {
            return Ok(());
        }
        let slept = silence.looked.replace(Instant::now()).is_some_and(|looked| looked.elapsed() > ASLEEP);
        if slept {
            silence.pulse.beat();
        }
        let bytes = self.meters.local.stages().bytes;
        if std::mem::replace(&mut silence.bytes, bytes) != bytes {
            silence.pulse.beat();
        }
        let (seconds, option) = (longest.as_secs(), if silence.has_option { " (--timeout)" } else { "" });
        if !silence.pulse.is_there() {
            return Err(TransferError::Cut(format!(
                "the far end sent nothing for {seconds} s{option}, while this end waited for {}: the far end hangs, or the path to it is broken{}",
                silence.awaited,
                if silence.has_option { "; if it is only slow, give a longer --timeout" } else { "" }
            )));
        }
        if self.registry.is_dead(longest) {
            return Err(TransferError::Cut(format!(
                "the far end answers, but a data connection to it has had no acknowledgement for {seconds} s{option}"
            )));
        }
        Ok(())
    }

    /// Runs `work` on a separate thread, while this thread continues to read the other end's messages.
    ///
    /// # Errors
    /// If the other end is gone, or sends a message that isn't allowed now.
    pub fn meanwhile<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Result<T, TransferError> {
        std::thread::scope(|scope| {
            let (work, ended) = with_end(work);
            let working = scope.spawn(work);
            self.stand_by_until(&ended)?;
            working
                .join()
                .map_err(|_| TransferError::Failed("this end failed in the last step of the transfer".into()))
        })
    }

    /// Waits until the other side of `ended` is dropped. Until then only progress reports may arrive.
    ///
    /// # Errors
    /// If another message arrives, or the other end is gone.
    pub fn stand_by_until(&mut self, ended: &Receiver<Infallible>) -> Result<(), TransferError> {
        while ended.try_recv() == Err(TryRecvError::Empty) {
            self.nothing_but_progress(ended, TICK)?;
        }
        Ok(())
    }

    /// Waits for a millisecond, in which only progress reports may arrive.
    ///
    /// # Errors
    /// If another message arrives, or the other end is gone.
    pub fn stand_by(&mut self) -> Result<(), TransferError> {
        self.nothing_but_progress(&never(), MOMENT)
    }

    /// Checks the messages that have arrived; only progress reports are allowed.
    ///
    /// # Errors
    /// If another message has arrived, or the other end is gone.
    pub fn check(&mut self) -> Result<(), TransferError> {
        self.nothing_but_progress(&never(), Duration::ZERO)
    }

    fn nothing_but_progress(
        &mut self,
        ended: &Receiver<Infallible>,
        patience: Duration,
    ) -> Result<(), TransferError> {
        match self.poll_until(ended, patience)? {
            None => Ok(()),
            Some(_) => Err(super::out_of_turn()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Meters;
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_agent_whose_client_is_cut_off_before_its_job_ends() {
        let (client, agent) = UnixStream::pair().unwrap();
        let agent = || agent.try_clone().unwrap();
        let patience = Duration::from_secs(1);
        let ended = Session::agent_within(agent(), agent(), patience, Meters::default()).map(|_| ());
        assert!(matches!(ended, Err(TransferError::Cut(_))), "{ended:?}");
        drop(client);
    }
}
