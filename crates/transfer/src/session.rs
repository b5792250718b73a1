//! One transfer between two ends: who they are, how they are connected, what they say to each other.

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select, unbounded};
use linerate_wire::PROTOCOL;
use linerate_wire::control::{
    ControlError, Cookie, Hello, Job, Listening, MAX_SOURCES, Message, Options, Problem, ProblemKind,
    Progress, Source, Totals,
};
use linerate_wire::entry::Entry;
use linerate_wire::stages::{Stages, Usage};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::channel::{Control, Incoming};
use crate::clock::{Counters, process_usage};
use crate::connect::{Link, Listener, candidates, dial};
use crate::keys::{Keys, Pinned};
use crate::problem::{Observer, TransferError};
use crate::source::lock;
use crate::stream::{Stream, StreamError};
use crate::transport::{Registry, Transport, Tunnel};

/// How long an address may take to answer.
const DIAL_TIME: Duration = Duration::from_secs(4);
/// How long a far end that connects back may take for all addresses.
const CONNECT_BACK_TIME: Duration = Duration::from_secs(12);
/// How long the end of a channel waits for the reason that may still be in it.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often the loops look around without being woken.
pub const TICK: Duration = Duration::from_millis(100);
/// Addresses of the other end that are tried.
const MAX_CANDIDATES: usize = 8;
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
}

/// How this end gets more data streams.
enum Opener {
    /// Not yet known.
    Nobody,
    /// It connects.
    Dial(SocketAddr),
    /// It asks the other end to connect.
    Ask,
    /// There is one stream and no more.
    Tunnel,
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
        let mut cookie = Cookie::default();
        aws_lc_rs::rand::fill(&mut cookie)
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

    fn make_link(&mut self, clear: bool) -> Result<Link, TransferError> {
        let failed = |error| TransferError::Failed(format!("the far end's key can't be used: {error}"));
        let pinned: Pinned = self.keys.pin(&self.peer.public_key).map_err(failed)?;
        let link = Link { pinned, clear, registry: self.registry.clone() };
        self.link = Some(link.clone());
        Ok(link)
    }

    fn listen(&mut self, ports: Option<(u16, u16)>) -> std::io::Result<u16> {
        let Some(link) = self.link.clone() else { return Err(std::io::ErrorKind::NotConnected.into()) };
        let listener = Listener::start(Listener::bind(ports)?, self.cookie, link, self.arrivals.0.clone())?;
        let port = listener.port();
        self.listener = Some(listener);
        Ok(port)
    }

    /// The agent: accept data connections and tell where.
    ///
    /// # Errors
    /// Where the client is gone.
    pub fn offer(&mut self, options: &Options) -> Result<(), TransferError> {
        self.make_link(options.clear)?;
        let (client, own) = ssh_addresses();
        let listening = match self.listen(options.ports) {
            Ok(port) => Listening { candidates: candidates(own, port), client, error: None },
            Err(error) => Listening { candidates: Vec::new(), client, error: Some(error.to_string()) },
        };
        self.opener = Opener::Ask;
        self.send(&Message::Listening(listening))
    }

    /// The client: connect to the agent, else have it connect here, else go through the control channel.
    fn reach(&mut self, options: &Options) -> Result<(), TransferError> {
        let Message::Listening(there) = self.receive()? else { return Err(out_of_turn()) };
        let Some(direct) = self.reach_directly(&there)? else { return Ok(()) };
        self.observer.note(&format!("{direct}; asking the far end to connect back"));
        let Some(back) = self.reach_back(&there, options)? else { return Ok(()) };
        let ports =
            options.ports.map_or("a TCP port (choose it with --port-range)".to_owned(), |(first, last)| {
                format!("a TCP port of {first}-{last}")
            });
        self.observer.note(&format!(
            "warning: {back}; the data goes through ssh, on one stream, and will be slow: open {ports} \
             from one host to the other"
        ));
        self.send(&Message::UseTunnel)?;
        self.tunnel()
    }

    /// `None` where it worked, else why not.
    fn reach_directly(&mut self, there: &Listening) -> Result<Option<String>, TransferError> {
        if let Some(error) = &there.error {
            return Ok(Some(format!("the far end can't listen for data: {}", printable(error))));
        }
        let Some(link) = self.link.clone() else { return Err(out_of_turn()) };
        let mut why = "the far end has no address for data".to_owned();
        for &address in there.candidates.iter().take(MAX_CANDIDATES) {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            match dial(address, &self.peer.cookie, &link, DIAL_TIME) {
                Ok(stream) => {
                    self.opener = Opener::Dial(address);
                    self.arrived(stream);
                    return Ok(None);
                }
                Err(error) => why = format!("the data port {address} can't be reached ({error})"),
            }
        }
        Ok(Some(why))
    }

    /// `None` where it worked, else why not.
    fn reach_back(&mut self, there: &Listening, options: &Options) -> Result<Option<String>, TransferError> {
        let port = match self.listen(options.ports) {
            Ok(port) => port,
            Err(error) => return Ok(Some(format!("this end can't listen for data: {error}"))),
        };
        let candidates = candidates(there.client, port);
        self.opener = Opener::Ask;
        self.send(&Message::ConnectBack { candidates })?;
        match self.receive_within(CONNECT_BACK_TIME)? {
            Message::ConnectedBack { error: None } => {}
            Message::ConnectedBack { error: Some(error) } => return Ok(Some(printable(&error))),
            _ => return Err(out_of_turn()),
        }
        match self.arrivals.1.recv_timeout(DIAL_TIME) {
            Ok(stream) => {
                self.arrived(stream);
                Ok(None)
            }
            Err(_) => Ok(Some("no connection came back".to_owned())),
        }
    }

    fn tunnel(&mut self) -> Result<(), TransferError> {
        self.listener = None;
        self.opener = Opener::Tunnel;
        self.control.tunnel_open.store(true, Ordering::Release);
        let tunnel =
            Tunnel::new(self.control.channel.clone(), self.control.tunnel.clone(), self.registry.clone());
        self.arrived(Stream::new(Transport::Tunnel(tunnel), None, Vec::new()));
        Ok(())
    }

    fn arrived(&mut self, stream: Stream) {
        self.connected.get_or_insert_with(Instant::now);
        // This end holds the other side of the queue, so it is open.
        let _ = self.arrivals.0.send(stream);
    }

    /// Gets `count` more data streams; they come as [`Event::Stream`].
    ///
    /// # Errors
    /// Where the other end is gone.
    pub fn more(&self, count: u32) -> Result<(), TransferError> {
        match self.opener {
            _ if count == 0 => Ok(()),
            Opener::Dial(address) => {
                self.dial_more(address, count);
                Ok(())
            }
            Opener::Ask => self.send(&Message::MoreStreams(count)),
            Opener::Nobody | Opener::Tunnel => Ok(()),
        }
    }

    fn dial_more(&self, address: SocketAddr, count: u32) {
        for _ in 0..count {
            if self.dialed.fetch_add(1, Ordering::Relaxed) >= MAX_STREAMS {
                return;
            }
            let (Some(link), cookie) = (self.link.clone(), self.peer.cookie) else { return };
            let arrivals = self.arrivals.0.clone();
            // A stream that can't be opened isn't missed: the others take its work.
            thread::spawn(move || {
                dial(address, &cookie, &link, DIAL_TIME).map(|stream| arrivals.send(stream))
            });
        }
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

    fn connect_back(&mut self, candidates: &[SocketAddr]) -> Result<(), TransferError> {
        let there = Listening { candidates: candidates.to_vec(), client: None, error: None };
        let error = self.reach_directly(&there)?;
        self.send(&Message::ConnectedBack { error })
    }

    /// Waits for a message that is the caller's to handle.
    ///
    /// # Errors
    /// As [`Session::next`].
    pub fn receive(&mut self) -> Result<Message, TransferError> {
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

    /// True where there is one stream and no other will come.
    pub fn is_tunnelled(&self) -> bool {
        matches!(self.opener, Opener::Tunnel)
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
        &self.cookie
    }

    /// Connections to this end's data port that were turned away.
    pub fn strangers(&self) -> u64 {
        self.listener.as_ref().map_or(0, Listener::strangers)
    }

    /// How the data travels, for people.
    pub fn route(&self) -> String {
        match self.opener {
            Opener::Dial(address) => format!("from here to {address}"),
            Opener::Ask => "from the far end to here".to_owned(),
            Opener::Tunnel | Opener::Nobody => "through ssh".to_owned(),
        }
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

/// Tells problems with single entries, and counts them.
#[derive(Clone)]
pub struct Reporter {
    observer: Arc<dyn Observer>,
    counters: Arc<Counters>,
}

impl Reporter {
    /// Tells one.
    pub fn problem(&self, problem: Problem) {
        let counter = match problem.kind {
            ProblemKind::Failed | ProblemKind::Skipped => &self.counters.failed,
            ProblemKind::Changed => &self.counters.changed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.observer.problem(problem);
    }
}

/// An agent tells its client.
struct Teller(Arc<crate::channel::Channel>);

impl Observer for Teller {
    fn problem(&self, problem: Problem) {
        // A client that is gone is noticed where its next message is waited for.
        let _ = self.0.send(&Message::Problem(problem));
    }

    fn note(&self, _: &str) {}
}

struct Quiet;

impl Observer for Quiet {
    fn problem(&self, _: Problem) {}

    fn note(&self, _: &str) {}
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

/// The addresses of the ssh connection that started this process: the client's, and this host's.
fn ssh_addresses() -> (Option<IpAddr>, Option<IpAddr>) {
    let Ok(variable) = std::env::var("SSH_CONNECTION") else { return (None, None) };
    let mut words = variable.split_ascii_whitespace();
    let mut address =
        || words.next().and_then(|word| word.split('%').next()).and_then(|word| word.parse().ok());
    let client = address();
    address();
    (client, address())
}
