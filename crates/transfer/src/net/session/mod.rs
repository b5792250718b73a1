//! One transfer between two ends: the ends' identities, connections and messages.

mod between;
mod chain;
mod detached;
mod flood;
mod login_relay;
mod opener;
mod partner;
mod reporter;
mod silence;
mod steps;
mod waiting;

use crossbeam_channel::{Receiver, Sender, unbounded};
use linerate_wire::PROTOCOL;
use linerate_wire::control::{Cookie, DetachedJob, Hello, Job, MAX_MESSAGE, Message, Options, Progress};
use linerate_wire::identity::differing;
use linerate_wire::stages::{Stages, Usage};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::between::PartnerChannel;
pub use self::between::new_cookie;
use self::chain::Chaining;
pub use self::chain::LostHost;
pub use self::detached::JobNews;
pub use self::opener::DIAL_TIMEOUT;
use self::opener::Opener;
use self::partner::Partnership;
pub use self::reporter::Reporter;
use self::reporter::{Quiet, ReportSender};
use self::silence::Silence;
pub use self::silence::with_end;
use crate::base::problem::{Observer, TransferError};
use crate::net::channel::{Control, Room};
use crate::net::clock::Counters;
use crate::net::connect::Listener;
use crate::net::control_link::LinkedPeer;
use crate::net::handshake::ConnectionConfig;
use crate::net::keys::Keys;
use crate::net::pulse::Pulse;
use crate::net::routes::{DataRoutes, Interfaces};
use crate::net::stream::{Stream, StreamError};
use crate::net::transport::Registry;

/// The interval at which the waiting loops check their state even if nothing arrives.
pub const TICK: Duration = Duration::from_millis(100);
/// The most data streams of one transfer.
pub const MAX_STREAMS: u32 = 64;
/// Advice to a user who named too many sources for one transfer.
pub(crate) const FEWER: &str = "name the sources' directory with -r, or copy in several runs";

/// The client's parameters of a session.
pub struct Client {
    /// The agent's job.
    pub job: Job,
    /// Set by a signal handler to interrupt the transfer.
    pub interrupted: Arc<AtomicBool>,
    /// Receives problems, changes and notes.
    pub observer: Arc<dyn Observer>,
    /// Records when the far end was last heard, and how long it may be silent. Code that writes to the far
    /// end checks this too.
    pub pulse: Arc<Pulse>,
    /// This end's channels to the agent, if the agent is another thread of this process.
    pub neighbour: Option<Neighbour>,
    /// The interfaces by which data leaves this host.
    pub interfaces: Interfaces,
    /// The addresses of the connection to the agent, if this end is the other of two agents that continue without their
    /// client.
    pub linked: Option<LinkedPeer>,
}

/// The counters of both ends, which can be displayed while the session's thread works.
#[derive(Clone, Default)]
pub struct Meters {
    /// The counters of this end.
    pub local: Arc<Counters>,
    /// The agent's counters, from its last report; used by the client.
    pub remote: Arc<Mutex<Progress>>,
    /// The sending agent's counters, if both ends are agents; `remote` then belongs to the receiving agent.
    pub source: Arc<Mutex<Progress>>,
}

/// One end of a transfer.
pub struct Session {
    control: Control,
    keys: Keys,
    cookie: Cookie,
    nonce: [u8; 8],
    peer: Hello,
    link: Option<ConnectionConfig>,
    registry: Registry,
    listener: Option<Listener>,
    opener: Opener,
    arrivals: (Sender<Stream>, Receiver<Stream>),
    dialed: AtomicU32,
    /// The links over which this end dials; empty if the kernel chooses the link.
    routes: Arc<DataRoutes>,
    /// The number of links over which the other end opens data connections.
    their_routes: u32,
    is_agent: bool,
    /// Whether this end may connect only to the host from which its client has logged in.
    dials_client_alone: bool,
    interrupted: Arc<AtomicBool>,
    observer: Arc<dyn Observer>,
    /// The counters of both ends.
    pub meters: Meters,
    /// The time at which the first data connection was established.
    connected: Option<Instant>,
    report: Option<(Stages, Usage)>,
    /// A message that arrived while another message was expected.
    early: Option<Message>,
    /// The memory reservation of the last message.
    room: Option<Room>,
    /// The number of streams that were passed to the caller and whose workers have not ended.
    admitted: u32,
    cipher: Option<&'static str>,
    reports: flood::FloodGuard,
    silence: Silence,
    /// For an agent whose data goes to or comes from another agent: the state of the connection between the
    /// two agents.
    partnership: Option<Partnership>,
    /// For a client that forwards the messages of two agents: the channel to the other agent, and the time at
    /// which the last progress report was forwarded.
    partner: Option<PartnerChannel>,
    passed_on: Option<Instant>,
    chaining: Option<Chaining>,
    /// The job that continues without its client.
    detached: Option<DetachedJob>,
    /// The other end's address, if the two agents continue without their client.
    linked: Option<LinkedPeer>,
}

/// The channels by which two ends in one process exchange streams.
pub struct Neighbour {
    ours: (Sender<Stream>, Receiver<Stream>),
    theirs: Sender<Stream>,
    registry: Registry,
}

/// The channels of two ends in one process, one value for each end.
pub fn neighbours() -> (Neighbour, Neighbour) {
    let (one, other, registry) = (unbounded(), unbounded(), Registry::default());
    let (to_one, to_other) = (one.0.clone(), other.0.clone());
    let with = |ours, theirs| Neighbour { ours, theirs, registry: registry.clone() };
    (with(one, to_other), with(other, to_one))
}

/// The result of a worker: whether the sender used its stream, and the worker's error.
pub type WorkerEnd = (bool, Result<(), StreamError>);

/// An event of a transfer.
pub enum Event {
    /// The other end has sent a message that the caller must handle.
    Message(Message),
    /// A new data stream has been opened.
    Stream(Stream),
    /// A worker has ended.
    Worker(WorkerEnd),
    /// Nothing happened within a [`TICK`].
    Tick,
}

impl Session {
    /// Starts the client's session, up to the first data stream.
    ///
    /// # Errors
    /// If the far end doesn't speak this protocol, refuses the job, or goes away.
    pub fn client(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        client: Client,
        meters: Meters,
    ) -> Result<Self, TransferError> {
        let Client { job, interrupted, observer, pulse, neighbour, interfaces, linked } = client;
        pulse.beat();
        let mut session = Self::start(reader, writer, observer, interrupted, meters, pulse)?;
        session.linked = linked;
        neighbour.into_iter().for_each(|neighbour| session.stay_within(neighbour));
        let options = job_options(&job).cloned();
        session.take_role(matches!(job, Job::Send { .. }));
        session.send(&Message::Job(job))?;
        if options.as_ref().is_some_and(|options| options.timeout.is_some()) {
            session.limit_has_option();
            session.begin_to_beat();
        }
        session.greet()?;
        if let Some(options) = options {
            session.make_link(options.clear)?;
            session.reach(&options, &interfaces)?;
        }
        Ok(session)
    }

    /// Starts the agent's session, up to the job.
    ///
    /// # Errors
    /// If the client doesn't speak this protocol or goes away, or the connection breaks before the job
    /// arrives.
    pub fn agent(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Result<(Self, Job), TransferError> {
        Self::agent_within(reader, writer, silence::JOB_TIMEOUT, Meters::default())
    }

    fn agent_within(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        patience: Duration,
        meters: Meters,
    ) -> Result<(Self, Job), TransferError> {
        let quiet = Arc::new(Quiet);
        let pulse = Arc::new(Pulse::new(None));
        let mut session = Self::start(reader, writer, quiet, Arc::default(), meters, pulse)?;
        session.is_agent = true;
        session.observer = Arc::new(ReportSender(session.control.channel.clone()));
        session.silence.pulse.limit(Some(patience));
        session.greet()?;
        let job = session.awaiting("its job", Self::receive_job)?;
        session.take_role(matches!(job, Job::Receive { .. } | Job::Discard { .. }));
        session.limit_silence(job_options(&job).and_then(|options| options.timeout));
        // An agent that only answers questions about its host, or only starts a process in the background, sends no
        // signs of life.
        if !matches!(job, Job::Observe | Job::Background) {
            session.begin_to_beat();
        }
        Ok((session, job))
    }

    fn receive_job(&mut self) -> Result<Job, TransferError> {
        let mut first = self.receive()?;
        if first == Message::Between {
            self.partnership = Some(Partnership::default());
            first = self.receive()?;
        } else if let Message::Detached(job) = first {
            (self.partnership, self.detached) = (Some(Partnership::default()), Some(job));
            first = self.receive()?;
        } else if first == Message::Chained {
            self.chaining = Some(Chaining::Host(None));
            first = self.receive()?;
        }
        match first {
            // Only a receiving agent can forward data in a chain or tree.
            Message::Job(job) if self.is_chained() && !matches!(job, Job::Receive { .. }) => {
                Err(out_of_turn())
            }
            // Only these two jobs have data that may go to another agent.
            Message::Job(job @ (Job::Send { .. } | Job::Receive { .. })) => Ok(job),
            Message::Job(job) if self.partnership.is_none() => Ok(job),
            _ => Err(out_of_turn()),
        }
    }

    fn start(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        observer: Arc<dyn Observer>,
        interrupted: Arc<AtomicBool>,
        meters: Meters,
        pulse: Arc<Pulse>,
    ) -> Result<Self, TransferError> {
        let control = Control::start(reader, writer, pulse.clone());
        let keys = Keys::generate().map_err(|error| TransferError::Failed(error.to_string()))?;
        let cookie = random()?;
        let hello = hello(&keys, cookie);
        let session = Self {
            control,
            keys,
            cookie,
            nonce: random()?,
            peer: hello.clone(),
            link: None,
            registry: Registry::default(),
            listener: None,
            opener: Opener::Nobody,
            arrivals: unbounded(),
            dialed: AtomicU32::new(0),
            routes: Arc::default(),
            their_routes: 0,
            is_agent: false,
            dials_client_alone: false,
            interrupted,
            observer,
            meters,
            connected: None,
            report: None,
            early: None,
            room: None,
            reports: flood::FloodGuard::new(),
            admitted: 0,
            cipher: None,
            silence: Silence::new(pulse),
            partnership: None,
            partner: None,
            passed_on: None,
            chaining: None,
            detached: None,
            linked: None,
        };
        session.send(&Message::Hello(hello)).map(|()| session)
    }

    fn greet(&mut self) -> Result<(), TransferError> {
        let first = self.awaiting("its first message", Self::receive)?;
        let Message::Hello(peer) = first else { return Err(out_of_turn()) };
        if peer.protocol != PROTOCOL {
            let other = if self.is_agent { "the client" } else { "the far end" };
            return Err(TransferError::Version(differing(other, &peer.version, peer.protocol)));
        }
        self.peer = peer;
        Ok(())
    }

    /// Connects the session's data streams with another thread of this process.
    pub fn stay_within(&mut self, neighbour: Neighbour) {
        let Neighbour { ours, theirs, registry } = neighbour;
        (self.arrivals, self.registry, self.opener) = (ours, registry, Opener::Within(theirs));
    }

    /// Records in the control channel whether this end receives data, as its job determines.
    fn take_role(&self, receives: bool) {
        self.control.way.receives.store(receives, Ordering::Release);
    }

    /// Sends `message` to the other end.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&self, message: &Message) -> Result<(), TransferError> {
        self.control.channel.send(message).map_err(|error| self.closed(&error))
    }

    /// The writing side of the control channel, which several threads can share.
    pub fn channel(&self) -> Arc<crate::net::channel::Channel> {
        self.control.channel.clone()
    }

    /// A reporter of problems, for threads.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.observer.clone(), &self.meters)
    }

    /// The protection of the payload: a cipher, or `ssh` if the data is sent through ssh; `None` if it isn't encrypted,
    /// and before the first data stream.
    pub fn cipher(&self) -> Option<&'static str> {
        self.cipher
    }

    /// Seconds since the first data connection was established; 0 without a data connection.
    pub fn payload_seconds(&self) -> f64 {
        self.connected.map_or(0.0, |connected| connected.elapsed().as_secs_f64())
    }

    /// True if this end is the agent.
    pub fn is_agent(&self) -> bool {
        self.is_agent
    }

    /// The bytes that the temporary names of this transfer contain.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    /// Cuts all data connections, so that every worker returns.
    pub fn cut(&self) {
        self.registry.cut();
    }
}

fn hello(keys: &Keys, cookie: Cookie) -> Hello {
    let (version, public_key) = (env!("CARGO_PKG_VERSION").into(), keys.public().to_vec());
    Hello { protocol: PROTOCOL, version, public_key, cookie }
}

/// `N` random bytes from the system.
fn random<const N: usize>() -> Result<[u8; N], TransferError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| TransferError::Failed("the system gives no randomness".into()))?;
    Ok(bytes)
}

/// Checks that a job fits into a message; called before any login.
///
/// # Errors
/// If the names of the job's sources are too long in total.
pub fn check_job(job: &Job) -> Result<(), TransferError> {
    check_length(&Message::Job(job.clone()))
}

/// Checks that `message`, which contains the user's sources, is short enough to be sent.
pub(crate) fn check_length(message: &Message) -> Result<(), TransferError> {
    let length = postcard::to_stdvec(message).map_or(usize::MAX, |bytes| bytes.len());
    if length <= MAX_MESSAGE {
        return Ok(());
    }
    Err(TransferError::Arguments(format!(
        "the names of the sources have {length} bytes together, but one transfer can announce at most {MAX_MESSAGE}: {FEWER}"
    )))
}

fn job_options(job: &Job) -> Option<&Options> {
    match job {
        Job::Receive { options, .. } | Job::Send { options, .. } | Job::Discard { options } => Some(options),
        Job::List { .. } | Job::Clean { .. } | Job::Digests { .. } => None,
        Job::Observe | Job::Background | Job::Jobs { .. } | Job::Attach(_) => None,
    }
}

pub(crate) fn out_of_turn() -> TransferError {
    TransferError::Breach("the far end sends an unexpected message".into())
}

fn printable(text: &str) -> String {
    linerate_wire::path::printable(text.as_bytes())
}
