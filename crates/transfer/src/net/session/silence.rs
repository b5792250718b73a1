//! Whether the other end is still there: each sends its counters once a second, and gives up if it hears
//! nothing.

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use linerate_wire::control::{Message, Progress};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::Session;
use super::partner::Partnership;
use crate::base::problem::TransferError;
use crate::net::channel::Channel;
use crate::net::pulse::Pulse;

/// How often an end sends a sign of life, and looks for the other's.
const BEAT: Duration = Duration::from_secs(1);
/// How long a client may be silent before its job has come, which names the user's limit. The client sends both of its first
/// messages before the agent runs.
pub(super) const UNTIL_JOB: Duration = Duration::from_secs(30);
/// How soon the end of work elsewhere is noticed.
const MOMENT: Duration = Duration::from_millis(1);

/// The message that is awaited by default.
const ANYTHING: &str = "more of the transfer";

/// How long the other end has been silent, and may be.
pub(super) struct Silence {
    /// When it was heard.
    pub(super) pulse: Arc<Pulse>,
    /// The user has an option for how long it may be silent.
    has_option: bool,
    looked: Option<Instant>,
    /// Payload that had moved by then.
    bytes: u64,
    awaited: &'static str,
    /// Says that this end is there.
    heart: Option<Heart>,
}

impl Silence {
    pub(super) fn new(pulse: Arc<Pulse>) -> Self {
        Self { pulse, has_option: false, looked: None, bytes: 0, awaited: ANYTHING, heart: None }
    }
}

/// A thread that sends this end's counters once a second, whatever the others do: files may take long to be
/// found, read or written. It ends when this is dropped.
struct Heart {
    _stop: Sender<()>,
}

impl Heart {
    fn start(channel: &Arc<Channel>, news: impl Fn() -> Progress + Send + 'static) -> Self {
        let (stop, stopped) = bounded(0);
        // The channel ends with the session, not with this thread.
        let channel = Arc::downgrade(channel);
        thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(BEAT) {
                let Some(channel) = channel.upgrade() else { return };
                // An end that is gone is noticed where its next message is waited for.
                if channel.send_if_free(&Message::Progress(news())).is_err() {
                    return;
                }
            }
        });
        Self { _stop: stop }
    }
}

impl Session {
    /// From now on an end that says nothing for this time is given up: the user's `--timeout`, or what a job has.
    pub(super) fn limit_silence(&mut self, seconds: Option<u32>) {
        self.silence.has_option = seconds.is_some();
        self.silence.pulse.limit(seconds.map(|seconds| Duration::from_secs(seconds.into())));
    }

    /// The job has an option for how long the other end may be silent.
    pub(super) fn limit_has_option(&mut self) {
        self.silence.has_option = true;
    }

    /// From now on this end says once a second that it is there.
    pub(super) fn begin_to_beat(&mut self) {
        let counters = self.meters.local.clone();
        self.begin_to_beat_with(move || counters.progress());
    }

    /// From now on this end says once a second that it is there, with `news` in place of its own progress.
    pub(super) fn begin_to_beat_with(&mut self, news: impl Fn() -> Progress + Send + 'static) {
        self.silence.heart = Some(Heart::start(&self.control.channel, news));
    }

    /// This end has said its last word.
    pub(super) fn end_to_beat(&mut self) {
        self.silence.heart = None;
    }

    /// Notes that the other end is there.
    pub(super) fn heard(&mut self) {
        self.silence.pulse.beat();
    }

    /// Does `work`, in which `what` is to come of the other end: it is named where nothing does.
    pub(crate) fn awaiting<T>(&mut self, what: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.silence.awaited, what);
        let done = work(self);
        self.silence.awaited = before;
        done
    }

    /// Looks how long the other end has been silent. Called often.
    ///
    /// # Errors
    /// If that is too long.
    pub(super) fn look(&mut self) -> Result<(), TransferError> {
        self.partnership.as_ref().map_or(Ok(()), Partnership::take_fault)?;
        let silence = &mut self.silence;
        let Some(longest) = silence.pulse.longest() else { return Ok(()) };
        // Unread bytes of the far end show that it was there.
        if silence.looked.is_some_and(|looked| looked.elapsed() < BEAT) || !self.control.incoming.is_empty() {
            return Ok(());
        }
        silence.looked = Some(Instant::now());
        let bytes = self.meters.local.stages().bytes;
        if std::mem::replace(&mut silence.bytes, bytes) != bytes {
            silence.pulse.beat();
        }
        let (seconds, option) = (longest.as_secs(), if silence.has_option { " (--timeout)" } else { "" });
        if !silence.pulse.is_there() {
            return Err(TransferError::Cut(format!(
                "nothing was heard of the far end for {seconds} s{option}, where {} was to come: it hangs, or the path to it \
                 is gone{}",
                silence.awaited,
                if silence.has_option {
                    "; where it is merely slow, a longer --timeout waits for it"
                } else {
                    ""
                }
            )));
        }
        if self.registry.is_dead(longest) {
            return Err(TransferError::Cut(format!(
                "the far end is there, and for {seconds} s{option} a data connection to it has been dead"
            )));
        }
        Ok(())
    }

    /// Does `work` on a thread of its own, while this one goes on hearing the other end.
    ///
    /// # Errors
    /// If the other end is gone, or speaks out of turn.
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
    /// If something else comes, or the other end is gone.
    pub fn stand_by(&mut self) -> Result<(), TransferError> {
        match self.poll_within(MOMENT)? {
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
