//! A transfer between two agents, which their client coordinates. Only the agents' messages pass through the client,
//! unless neither agent can connect to the other: then their encrypted data passes through the client too.

pub mod addresses;
mod course;
mod meeting;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use linerate_wire::control::{Delivery, Message, Progress, Source, Tally, Totals};
use linerate_wire::stages::{Stages, Usage};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::channel::Channel;
use crate::net::session::{Session, TICK, out_of_turn};
use course::{Course, Fate};
pub use meeting::{DataWay, introduce, meet, meet_alone};

/// How long to wait for the reason of a broken connection. An agent that knows the reason sends it at once; an agent
/// that only sees the connection break waits itself before it reports the break.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The most bytes that may go from the receiver to the sender in a stream through the client: a few handshakes.
const MAX_BACK: usize = 64 << 10;

/// The most bytes of digests and paths that a receiver may report are `REPORTED`, plus `REPORTED_EACH` for each file
/// that the sender has found. `REPORTED` is needed because a digest may arrive before the file is counted, and
/// again in a second round.
const REPORTED: u64 = 64 << 20;
const REPORTED_EACH: u64 = 4 << 10;
/// Bytes that are counted for each digest in addition to its path.
const DIGEST_OVERHEAD: usize = 64;

/// One of the two agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarRole {
    /// The agent that sends.
    Sender,
    /// The agent that receives.
    Receiver,
}

/// The reason why a transfer between two agents ended early.
#[derive(Debug)]
pub struct FarError {
    /// The agent that reported the error, or that was lost.
    pub role: FarRole,
    /// The error that ended the transfer.
    pub error: TransferError,
}

/// The result of a transfer between two agents.
pub struct CarriedSums {
    /// The sources, as the sender announced them.
    pub sources: Vec<Source>,
    /// True if the destination takes each source under its own name; this is known only if digests are reported.
    pub within: bool,
    /// The entries in place, as the receiver counts them.
    pub landed: Totals,
    /// The entries that the sender has found.
    pub sent: Totals,
    /// The number of streams that carried data.
    pub streams: u32,
    /// The sender's figures: its resource usage, and values that only the sender knows.
    pub sender: FarSums,
    /// The receiver's figures: its resource usage, and values that only the receiver knows.
    pub receiver: FarSums,
    /// Seconds since the two agents were connected.
    pub payload_seconds: f64,
}

/// The figures that an agent reports at its end.
pub struct FarSums {
    /// Times of the agent's stages, and resource usage of its process.
    pub report: (Stages, Usage),
    /// The other figures that the agent reports.
    pub tally: Tally,
}

/// How a client wants a transfer between two agents to be done.
#[derive(Clone, Copy, Debug)]
pub struct Carriage {
    /// The agents send digests of files.
    pub digests: bool,
    /// The receiver may request a second round.
    pub verify: bool,
    /// The way by which the data travels.
    pub way: DataWay,
}

/// Forwards the messages of two agents that have met, until both have sent their last message. `delivered`
/// receives the digests of files that are in place.
///
/// # Errors
/// If either agent gives up, is lost or breaks the protocol. The reason has been sent to the other agent.
pub fn carry(
    sender: &mut Session,
    receiver: &mut Session,
    carriage: Carriage,
    delivered: &(dyn Fn(Delivery) + Sync),
) -> Result<CarriedSums, FarError> {
    let begun = Instant::now();
    let shared = Shared {
        course: Mutex::new(Course::new(carriage)),
        failed: Mutex::default(),
        over: AtomicBool::new(false),
        reported: AtomicU64::new(0),
        source: sender.meters.remote.clone(),
        delivered,
    };
    let (to_sender, to_receiver) = (sender.channel(), receiver.channel());
    let (from_sender, from_receiver) = (sender.tunnelled(), receiver.tunnelled());
    let (one, other) = (&mut *sender, &mut *receiver);
    thread::scope(|scope| {
        let shared = &shared;
        if carriage.way == DataWay::Through {
            let (to_sender, to_receiver) = (to_sender.clone(), to_receiver.clone());
            scope.spawn(move || shared.pump(&from_sender, &to_receiver, FarRole::Sender));
            scope.spawn(move || shared.pump(&from_receiver, &to_sender, FarRole::Receiver));
        }
        let carrying = scope.spawn(move || shared.carry(one, &to_receiver, FarRole::Sender));
        shared.carry(other, &to_sender, FarRole::Receiver);
        // The other thread ends together with this thread: after the last message, or if either thread fails.
        let _ = carrying.join();
        shared.over.store(true, Ordering::Release);
    });
    if let Some((failed, _)) = lock(&shared.failed).take() {
        return Err(failed);
    }
    let course = shared.course.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let reports = (sender.last_report(), receiver.last_report());
    course.end(reports, begun.elapsed().as_secs_f64()).ok_or(FarError {
        role: FarRole::Receiver,
        error: TransferError::FarEnd("the receiver ended before everything was in place".into()),
    })
}

/// Sends both agents, which are on the hosts `from` and `to`, the reason why the transfer ends. If the agent that
/// failed knows a better reason, that reason is used.
pub fn give_up(
    (sender, receiver): (&mut Session, &mut Session),
    (from, to): (&str, &str),
    FarError { role, error }: FarError,
) -> FarError {
    let (blamed, other, host) = match role {
        FarRole::Sender => (sender, receiver, from),
        FarRole::Receiver => (receiver, sender, to),
    };
    let error = blamed.give_up(error);
    let reason = if matches!(error, TransferError::Interrupted) {
        error.to_string()
    } else {
        format!("{host}: {error}")
    };
    // An agent that is gone needs no reason.
    let _ = other.send(&Message::Abort { reason, kind: error.abort_kind() });
    FarError { role, error }
}

/// All data that the threads of a carried transfer share.
struct Shared<'a> {
    course: Mutex<Course>,
    /// The failure to report, and the time at which the first failure was noticed.
    failed: Mutex<Option<(FarError, Instant)>>,
    over: AtomicBool,
    /// The bytes of the digests and paths that were reported so far. Their limit depends on the sender's progress,
    /// `source`.
    reported: AtomicU64,
    source: Arc<Mutex<Progress>>,
    delivered: &'a (dyn Fn(Delivery) + Sync),
}

impl Shared<'_> {
    /// Forwards the messages of the agent in `role` to the other agent, until the last message or a failure.
    fn carry(&self, session: &mut Session, to_other: &Arc<Channel>, role: FarRole) {
        while session.last_report().is_none() && !self.is_given_up() {
            let done = session
                .hear()
                .and_then(|message| message.map_or(Ok(None), |message| self.take(message, role)));
            let failed = match done {
                Ok(None) => continue,
                Ok(Some(message)) => match to_other.send(&message) {
                    Ok(()) => continue,
                    Err(error) => {
                        FarError { role: role.other(), error: TransferError::Cut(error.to_string()) }
                    }
                },
                Err(error) => FarError { role, error },
            };
            return self.fail(failed);
        }
        if session.last_report().is_some() && !self.is_given_up() && !lock(&self.course).is_committed() {
            self.fail(FarError { role, error: out_of_turn() });
        }
    }

    /// Handles a message that is meant for the client; returns a message that is meant for the other agent.
    fn take(&self, message: Message, role: FarRole) -> Result<Option<Message>, TransferError> {
        match lock(&self.course).judge(&message, role)? {
            Fate::HandOn => return Ok(Some(message)),
            Fate::Keep => {}
        }
        let Message::Delivered(list) = message else { return Ok(None) };
        let reported: usize =
            list.iter().map(|reported| reported.path.as_bytes().len() + DIGEST_OVERHEAD).sum();
        let all = self.reported.fetch_add(reported as u64, Ordering::Relaxed) + reported as u64;
        if all > REPORTED + self.found().saturating_mul(REPORTED_EACH) {
            return Err(TransferError::Breach("the far end sends more digests than there are files".into()));
        }
        list.into_iter().for_each(self.delivered);
        Ok(None)
    }

    /// Forwards the bytes that the agent in `role` sends to the other agent; the agents have encrypted these bytes.
    fn pump(&self, from: &Receiver<Vec<u8>>, to: &Arc<Channel>, role: FarRole) {
        let mut back = 0;
        while !self.over.load(Ordering::Acquire) {
            let bytes = match from.recv_timeout(TICK) {
                Ok(bytes) => bytes,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            back += bytes.len();
            if role == FarRole::Receiver && back > MAX_BACK {
                return self.fail(FarError { role, error: out_of_turn() });
            }
            if to.send(&Message::Tunnel(bytes)).is_err() {
                // The agent's own messages state the reason.
                return;
            }
        }
    }

    /// The number of files that the sender has found.
    fn found(&self) -> u64 {
        lock(&self.source).found.files
    }

    /// Records a failure. The first failure is kept, unless it may be the consequence of a failure that is reported a
    /// little later.
    fn fail(&self, failure: FarError) {
        let mut failed = lock(&self.failed);
        match &mut *failed {
            Some((first, _)) if is_trace(&first.error) && !is_trace(&failure.error) => *first = failure,
            Some(_) => {}
            none => *none = Some((failure, Instant::now())),
        }
    }

    fn is_given_up(&self) -> bool {
        match &*lock(&self.failed) {
            None => false,
            Some((failed, since)) => !is_trace(&failed.error) || since.elapsed() > LAST_WORDS,
        }
    }
}

/// True for a broken connection, which may be only the consequence of a failure that hasn't been reported
/// yet.
fn is_trace(error: &TransferError) -> bool {
    matches!(error, TransferError::Cut(_))
}

impl FarRole {
    fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}
