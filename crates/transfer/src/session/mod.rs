//! One transfer between two ends: who they are, how they are connected, what they say to each other.

mod reach;
mod reporter;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select, unbounded};
use linerate_wire::PROTOCOL;
use linerate_wire::control::{
    ControlError, Cookie, Hello, Job, MAX_SOURCES, Message, Options, Progress, Source, Totals,
};
use linerate_wire::entry::Entry;
use linerate_wire::stages::{Stages, Usage};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use self::reach::Opener;
pub use self::reporter::Reporter;
use self::reporter::{Quiet, Teller};
use crate::channel::{Control, Incoming};
use crate::clock::{Counters, process_usage};
use crate::connect::{Link, Listener};
use crate::keys::Keys;
use crate::problem::{Observer, TransferError};
use crate::source::lock;
use crate::stream::{Stream, StreamError};
use crate::transport::Registry;

/// How long the end of a channel waits for the reason that may still be in it.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often the loops look around without being woken.
pub const TICK: Duration = Duration::from_millis(100);
/// Control messages from the agent that may follow its last word for the transfer.
const REPORT_TIME: Duration = Duration::from_secs(30);
/// Data streams of one transfer at most.
pub const MAX_STREAMS: u32 = 64;

/// What the client gives to a session.
pub struct Client {
    /// What the agent is to do.
    pub job: Job,
    /// Set by a signal handler.
    pub interrupted: Arc<AtomicBool>,
    /// Where news go.
    pub observer: Arc<dyn Observer>,
}

/// Both ends' counters, for whoever shows them while the session's thread works.
#[derive(Clone, Default)]
pub struct Meters {
    /// This end's.
    pub local: Arc<Counters>,
    /// The agent's, as it last told; used by the client.
    pub remote: Arc<Mutex<Progress>>,
}

/// One end of a transfer.
pub struct Session {
    control: Control,
    keys: Keys,
    cookie: Cookie,
    nonce: [u8; 8],
    peer: Hello,
    link: Option<Link>,
    registry: Registry,
    listener: Option<Listener>,
    opener: Opener,
    arrivals: (Sender<Stream>, Receiver<Stream>),
    dialed: AtomicU32,
    is_agent: bool,
    interrupted: Arc<AtomicBool>,
    observer: Arc<dyn Observer>,
    /// Both ends' counters.
    pub meters: Meters,
    /// When the first data connection stood.
    pub connected: Option<Instant>,
    report: Option<(Stages, Usage)>,
    /// What came while something else was waited for.
    early: Option<Message>,
}

/// How a worker ended: whether its stream carried anything, and its error.
pub type WorkerEnd = (bool, Result<(), StreamError>);

/// What happens in a transfer.
pub enum Event {
    /// The other end said something that is the caller's to handle.
    Message(Message),
    /// A data stream is there.
    Stream(Stream),
    /// A worker has ended.
    Worker(WorkerEnd),
    /// Nothing, for a while.
    Tick,
}

impl Session {
    /// The client's end, up to the first data stream.
    ///
    /// # Errors
    /// Where the far end doesn't speak this protocol, refuses the job, or goes away.
    pub fn client(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        client: Client,
        meters: Meters,
    ) -> Result<Self, TransferError> {
        let Client { job, interrupted, observer } = client;
        let mut session = Self::start(reader, writer, observer, interrupted, meters)?;
        let options = job_options(&job).cloned();
        session.send(&Message::Job(job))?;
        session.greet()?;
        if let Some(options) = options {
            session.make_link(options.clear)?;
            session.reach(&options)?;
        }
        Ok(session)
    }

    /// The agent's end, up to the job.
    ///
    /// # Errors
    /// Where the client doesn't speak this protocol or goes away.
    pub fn agent(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Result<(Self, Job), TransferError> {
        let quiet = Arc::new(Quiet);
        let mut session = Self::start(reader, writer, quiet, Arc::default(), Meters::default())?;
        session.is_agent = true;
        session.observer = Arc::new(Teller(session.control.channel.clone()));
        session.greet()?;
        let Message::Job(job) = session.receive()? else { return Err(out_of_turn()) };
        Ok((session, job))
    }

    fn start(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        observer: Arc<dyn Observer>,
        interrupted: Arc<AtomicBool>,
        meters: Meters,
    ) -> Result<Self, TransferError> {
        let control = Control::start(reader, writer);
        let keys = Keys::generate().map_err(|error| TransferError::Failed(error.to_string()))?;
        let (mut cookie, mut nonce) = (Cookie::default(), [0; 8]);
        aws_lc_rs::rand::fill(&mut cookie)
            .and_then(|()| aws_lc_rs::rand::fill(&mut nonce))
            .map_err(|_| TransferError::Failed("the system gives no randomness".into()))?;
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            public_key: keys.public().to_vec(),
            cookie,
        };
        let session = Self {
            control,
            keys,
            cookie,
            nonce,
            peer: hello.clone(),
            link: None,
            registry: Registry::default(),
            listener: None,
            opener: Opener::Nobody,
            arrivals: unbounded(),
            dialed: AtomicU32::new(0),
            is_agent: false,
            interrupted,
            observer,
            meters,
            connected: None,
            report: None,
            early: None,
        };
        session.send(&Message::Hello(hello))?;
        Ok(session)
    }

    fn greet(&mut self) -> Result<(), TransferError> {
        let Message::Hello(peer) = self.receive()? else { return Err(out_of_turn()) };
        if peer.protocol != PROTOCOL {
            return Err(TransferError::Version(format!(
                "the far end runs linerate {} (protocol {}), this end {} (protocol {PROTOCOL}): \
                 install the same version on both",
                linerate_wire::path::printable(peer.version.as_bytes()),
                peer.protocol,
                env!("CARGO_PKG_VERSION"),
            )));
        }
        self.peer = peer;
        Ok(())
    }

    /// Waits for the next event, at most for a [`TICK`]. What concerns connections and counters is done here.
    ///
    /// # Errors
    /// Where the other end gave up or is gone, or the user interrupts.
    pub fn next(&mut self, workers: &Receiver<WorkerEnd>) -> Result<Event, TransferError> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            let message = select! {
                recv(self.control.incoming) -> incoming => match incoming {
                    Ok(Incoming::Message(message)) => message,
                    Ok(Incoming::Closed(error)) => return Err(self.closed(&error)),
                    Err(_) => return Err(TransferError::FarEnd("the far end went away".into())),
                },
                recv(self.arrivals.1) -> stream => match stream {
                    Ok(stream) => {
                        self.connected.get_or_insert_with(Instant::now);
                        return Ok(Event::Stream(stream));
                    }
                    Err(_) => return Ok(Event::Tick),
                },
                recv(workers) -> end => match end {
                    Ok(end) => return Ok(Event::Worker(end)),
                    Err(_) => return Ok(Event::Tick),
                },
                default(TICK) => return Ok(Event::Tick),
            };
            if let Some(message) = self.handle(message)? {
                return Ok(Event::Message(message));
            }
        }
    }

    /// Does what is this layer's to do; gives back what isn't.
    fn handle(&mut self, message: Message) -> Result<Option<Message>, TransferError> {
        match message {
            Message::Abort { reason, kind } => {
                return Err(TransferError::from_abort(printable(&reason), kind));
            }
            Message::Progress(progress) => *lock(&self.meters.remote) = progress,
            Message::Problem(problem) if !self.is_agent => self.reporter().problem(problem),
            Message::Report { stages, mut usage } if !self.is_agent => {
                if !usage.cpu_seconds.is_finite() {
                    usage.cpu_seconds = 0.0;
                }
                self.report = Some((stages, usage));
            }
            Message::MoreStreams(count) => {
                if let Opener::Dial(address) = self.opener {
                    self.dial_more(address, count);
                }
            }
            Message::ConnectBack { candidates } if self.is_agent => self.connect_back(&candidates)?,
            Message::UseTunnel if self.is_agent => self.tunnel()?,
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// Waits for a message that is the caller's to handle.
    ///
    /// # Errors
    /// As [`Session::next`].
    pub fn receive(&mut self) -> Result<Message, TransferError> {
        if let Some(message) = self.early.take() {
            return Ok(message);
        }
        self.receive_within(Duration::MAX)
    }

    fn receive_within(&mut self, patience: Duration) -> Result<Message, TransferError> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            let message = match self.control.incoming.recv_timeout(TICK) {
                Ok(Incoming::Message(message)) => message,
                Ok(Incoming::Closed(error)) => return Err(self.closed(&error)),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TransferError::FarEnd("the far end went away".into()));
                }
            };
            if let Some(message) = self.handle(message)? {
                return Ok(message);
            }
        }
        Err(TransferError::FarEnd("the far end doesn't answer".into()))
    }

    /// The signal that ends this program may have ended the remote shell a moment before.
    fn closed(&self, error: &ControlError) -> TransferError {
        let begun = Instant::now();
        while begun.elapsed() < TICK {
            if self.interrupted.load(Ordering::Relaxed) {
                return TransferError::Interrupted;
            }
            thread::sleep(Duration::from_millis(5));
        }
        TransferError::FarEnd(error.to_string())
    }

    /// Says something to the other end.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn send(&self, message: &Message) -> Result<(), TransferError> {
        self.control.channel.send(message).map_err(|error| self.closed(&error))
    }

    /// The writing side alone, for threads.
    pub fn channel(&self) -> Arc<crate::channel::Channel> {
        self.control.channel.clone()
    }

    /// Where problems go, for threads.
    pub fn reporter(&self) -> Reporter {
        Reporter { observer: self.observer.clone(), counters: self.meters.local.clone() }
    }

    /// True for the end that ssh started.
    pub fn is_agent(&self) -> bool {
        self.is_agent
    }

    /// The agent: tell how far this end is.
    ///
    /// # Errors
    /// Where the client is gone.
    pub fn tell_progress(&self) -> Result<(), TransferError> {
        if !self.is_agent {
            return Ok(());
        }
        self.send(&Message::Progress(self.meters.local.progress()))
    }

    /// Which key the temporary names of this transfer have.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    /// Cuts all data connections, so that every worker returns.
    pub fn cut(&self) {
        self.registry.cut();
    }

    /// Tells the other end why this one gives up; where a connection broke, the other end's reason comes first.
    pub fn give_up(&mut self, error: TransferError) -> TransferError {
        let error = self.last_words(error);
        // An end that is gone needs no reason.
        let _ = self.send(&Message::Abort { reason: error.to_string(), kind: error.abort_kind() });
        error
    }

    /// A broken connection may only be the trace of a reason that is still in the control channel.
    fn last_words(&mut self, error: TransferError) -> TransferError {
        if !matches!(error, TransferError::Cut(_)) {
            return error;
        }
        let begun = Instant::now();
        while let Some(left) = LAST_WORDS.checked_sub(begun.elapsed()) {
            match self.control.incoming.recv_timeout(left) {
                Ok(Incoming::Message(message)) => match self.handle(message) {
                    Err(reason) => return reason,
                    Ok(_) => continue,
                },
                Ok(Incoming::Closed(_)) | Err(_) => break,
            }
        }
        error
    }

    /// The agent's last message.
    ///
    /// # Errors
    /// Where the client is gone.
    pub fn tell_report(&self) -> Result<(), TransferError> {
        self.tell_progress()?;
        self.send(&Message::Report { stages: self.meters.local.stages(), usage: process_usage() })
    }

    /// The client: waits for the agent's last message.
    ///
    /// # Errors
    /// Where the agent goes away before.
    pub fn wait_for_report(&mut self) -> Result<(Stages, Usage), TransferError> {
        let begun = Instant::now();
        while begun.elapsed() < REPORT_TIME {
            if let Some(report) = self.report.take() {
                return Ok(report);
            }
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            match self.control.incoming.recv_timeout(TICK) {
                Ok(Incoming::Message(message)) => drop(self.handle(message)?),
                Ok(Incoming::Closed(error)) => return Err(self.closed(&error)),
                Err(_) => {}
            }
        }
        Err(TransferError::FarEnd("the far end doesn't report".into()))
    }

    /// The client of [`Job::List`]: hands each entry to `each` until the list ends.
    ///
    /// # Errors
    /// Where the agent gives up or goes away.
    pub fn receive_list(&mut self, mut each: impl FnMut(&[u8], &Entry)) -> Result<(), TransferError> {
        while self.report.is_none() {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            match self.control.incoming.recv_timeout(TICK) {
                Ok(Incoming::Message(message)) => match self.handle(message)? {
                    Some(Message::Listed { path, entry }) => each(&path, &entry),
                    Some(_) => return Err(out_of_turn()),
                    None => {}
                },
                Ok(Incoming::Closed(error)) => return Err(self.closed(&error)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The sender: waits until the receiver has a place for everything.
    ///
    /// # Errors
    /// Where it has none, or goes away.
    pub fn wait_for_ready(&mut self) -> Result<(), TransferError> {
        match self.receive()? {
            Message::Ready => Ok(()),
            _ => Err(out_of_turn()),
        }
    }

    /// The sender: waits until everything is in place, and says what is.
    ///
    /// # Errors
    /// Where the receiver gave up or goes away.
    pub fn wait_for_commit(&mut self) -> Result<Totals, TransferError> {
        loop {
            match self.receive()? {
                Message::Committed(landed) => return Ok(landed),
                Message::Skip { .. } => {}
                _ => return Err(out_of_turn()),
            }
        }
    }

    /// The sources that the sender announces.
    ///
    /// # Errors
    /// Where there are none or too many.
    pub fn receive_sources(&mut self) -> Result<Vec<Source>, TransferError> {
        let Message::Sources(sources) = self.receive()? else { return Err(out_of_turn()) };
        if sources.is_empty() || sources.len() > MAX_SOURCES {
            return Err(TransferError::Failed("the far end announces no sources, or too many".into()));
        }
        Ok(sources)
    }
}

fn job_options(job: &Job) -> Option<&Options> {
    match job {
        Job::Receive { options, .. } | Job::Send { options, .. } | Job::Discard { options } => Some(options),
        Job::List { .. } | Job::Observe => None,
    }
}

pub(crate) fn out_of_turn() -> TransferError {
    TransferError::FarEnd("the far end answers out of turn".into())
}

fn printable(text: &str) -> String {
    linerate_wire::path::printable(text.as_bytes())
}
