//! Request/response over one connection, or with a new connection for each request.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{LoadError, joined};
use crate::latency::LatencyHistogram;
use crate::pace::{WorkPace, interval};
use crate::report::{ConnectionCounts, Errors, LoadReport};
use crate::serve::PatientStream;
use crate::window::{Phases, StopFlag, Window};

use super::hello::Role;
use super::server::give;
use super::{PEER_TIMEOUT, check, connect};

/// The greatest size of a read or write, in bytes.
pub(super) const BLOCK: usize = 64 * 1024;
/// The pause after a failed connection.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// How transactions use connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStyle {
    /// All requests of a pair use one connection (netperf's TCP_RR).
    Kept,
    /// Each transaction has a new connection: connect, request, response, close (netperf's TCP_CRR).
    Each,
}

/// A load of requests and responses.
#[derive(Clone, Debug)]
pub struct Transactions {
    /// The addresses of the servers; pairs are distributed over them.
    pub to: Vec<SocketAddr>,
    /// The number of concurrent pairs.
    pub pairs: usize,
    /// The size of a request in bytes.
    pub request: u32,
    /// The size of a response in bytes.
    pub response: u32,
    /// How transactions use connections.
    pub style: ConnectionStyle,
    /// The number of transactions per second of each pair; `None` for no limit.
    pub pace: Option<f64>,
    /// The timing of the load.
    pub window: Window,
}

/// The counts of a pair, or of all pairs.
#[derive(Clone, Debug, Default)]
pub struct TransactionsResult {
    /// The durations of the transactions that ended in the window.
    pub latency: LatencyHistogram,
    /// The times at which the phases of the run begin and end.
    pub phases: Option<Phases>,
    /// The connections by server.
    pub connections: Vec<ConnectionCounts>,
    /// The transactions that failed.
    pub errors: Errors,
    /// The reason of the first failure.
    pub reason: Option<String>,
}

impl Transactions {
    /// Runs all pairs until the end of the window.
    ///
    /// # Errors
    /// If a server doesn't answer or speaks another protocol.
    pub fn run(&self, stop: &StopFlag) -> Result<TransactionsResult, LoadError> {
        check(&self.to, self.pairs)?;
        self.check_sizes()?;
        let phases = self.window.after(Instant::now());
        let results: Vec<_> = thread::scope(|scope| {
            let pairs = (0..self.pairs).map(|i| self.to[i % self.to.len()]);
            let threads: Vec<_> = pairs.map(|to| scope.spawn(move || self.pair(to, phases, stop))).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        });
        if stop.is_set() {
            return Err(LoadError::Interrupted);
        }
        let mut sum = TransactionsResult { phases: Some(phases), ..TransactionsResult::default() };
        results.into_iter().try_for_each(|result| result.map(|result| sum.add(result)))?;
        match sum.latency.count() {
            0 => Err(self.nothing(&sum)),
            _ => Ok(sum),
        }
    }

    pub(super) fn check_sizes(&self) -> Result<(), LoadError> {
        if self.request == 0 || self.response == 0 {
            return Err(LoadError::Arguments("a request and a response have at least one byte".into()));
        }
        Ok(())
    }

    pub(super) fn nothing(&self, sum: &TransactionsResult) -> LoadError {
        let reason = sum.reason.clone().unwrap_or_else(|| "the window is shorter than a transaction".into());
        LoadError::Peer(self.to[0].to_string(), format!("no transaction ended in the window: {reason}"))
    }

    fn pair(&self, to: SocketAddr, phases: Phases, stop: &StopFlag) -> Result<TransactionsResult, LoadError> {
        let mut pair = PairThread {
            load: self,
            to,
            stop,
            buffer: vec![0; BLOCK],
            seen: TransactionsResult {
                connections: vec![ConnectionCounts { port: to.to_string(), ..ConnectionCounts::default() }],
                ..TransactionsResult::default()
            },
        };
        match self.style {
            ConnectionStyle::Kept => pair.kept(phases)?,
            ConnectionStyle::Each => pair.each(phases)?,
        }
        Ok(pair.seen)
    }

    /// The report of a result.
    pub fn report(&self, result: &TransactionsResult) -> LoadReport {
        let kind = if self.style == ConnectionStyle::Kept { "rr" } else { "crr" };
        let (count, seconds) = (result.latency.count(), self.window.measured.as_secs_f64());
        let mut report = LoadReport::new(kind, count * u64::from(self.response), seconds)
            .with_transactions(count, result.latency.summary());
        report.window = result.phases.as_ref().map(Phases::counted);
        report.bytes_out = Some(count * u64::from(self.request));
        report.connections.clone_from(&result.connections);
        report.warnings.extend(result.warning());
        report.errors = Some(result.errors.clone());
        report
    }
}

impl TransactionsResult {
    pub(crate) fn add(&mut self, other: Self) {
        self.latency.add(&other.latency);
        other.connections.into_iter().for_each(|one| one.add_to(&mut self.connections));
        self.errors.timeouts += other.errors.timeouts;
        self.errors.broken += other.errors.broken;
        self.reason = self.reason.take().or(other.reason);
    }

    fn warning(&self) -> Option<String> {
        let failed = self.errors.timeouts
            + self.errors.broken
            + self.connections.iter().map(|connections| connections.failed).sum::<u64>();
        let reason = self.reason.as_deref().unwrap_or("no reason given");
        (failed > 0).then(|| format!("{failed} transactions failed, the first: {reason}"))
    }

    fn failed(&mut self, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::TimedOut => self.errors.timeouts += 1,
            _ => self.errors.broken += 1,
        }
        self.reason.get_or_insert_with(|| meaning(error));
    }
}

/// A message for users about an error of a pair.
pub(super) fn meaning(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!(
            "no reply within {} s; does the server have a worker (--workers) for each pair?",
            PEER_TIMEOUT.as_secs()
        ),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the other end closed the connection early; is it `linerate serve rr` of the same version, with a worker \
             (--workers) for each pair?"
                .into()
        }
        io::ErrorKind::AddrNotAvailable => {
            "no local port is free, because closed connections still use them; a larger net.ipv4.ip_local_port_range or \
             more addresses at the server help"
                .into()
        }
        _ => error.to_string(),
    }
}

struct PairThread<'a> {
    load: &'a Transactions,
    to: SocketAddr,
    stop: &'a StopFlag,
    buffer: Vec<u8>,
    seen: TransactionsResult,
}

impl PairThread<'_> {
    fn kept(&mut self, phases: Phases) -> Result<(), LoadError> {
        let connection = self.connect().map_err(|error| LoadError::Connect(self.to, error))?;
        let patient = PatientStream { connection: &connection, stop: self.stop, patience: PEER_TIMEOUT };
        let Transactions { request, response, .. } = *self.load;
        let hello = Role::Transactions { request, response }.encode();
        patient.write_all(&hello).map_err(|error| self.broken(&error))?;
        self.repeat(phases, |pair| {
            pair.exchange(&patient).map_err(|error| pair.broken(&error))?;
            Ok(true)
        })
    }

    /// Makes a connection for each transaction. Counts a failed transaction, and continues with the next one,
    /// because failures are part of the result.
    fn each(&mut self, phases: Phases) -> Result<(), LoadError> {
        self.repeat(phases, |pair| {
            let done = pair.single();
            if let Err(error) = &done {
                pair.seen.reason.get_or_insert_with(|| meaning(error));
                thread::sleep(RECONNECT_INTERVAL);
            }
            Ok(done.is_ok())
        })
    }

    /// Runs transactions when they are due, until the end of the window, and counts those that end in the window.
    fn repeat(
        &mut self,
        phases: Phases,
        mut transaction: impl FnMut(&mut Self) -> Result<bool, LoadError>,
    ) -> Result<(), LoadError> {
        let mut pace = self.load.pace.map(|rate| WorkPace::new(interval(rate), phases.begin));
        let mut begun = Instant::now();
        while !phases.is_over(begun) && !self.stop.is_set() {
            if let Some(pace) = &mut pace {
                thread::sleep(pace.due().min(phases.until).saturating_duration_since(begun));
                begun = Instant::now();
                pace.step(begun);
            }
            let done = transaction(self)?;
            let now = Instant::now();
            if done && phases.counts(now) {
                self.seen.latency.record(now - begun);
            }
            begun = now;
        }
        Ok(())
    }

    fn exchange(&mut self, patient: &PatientStream<'_>) -> io::Result<()> {
        give(patient, self.load.request as usize, &self.buffer)?;
        patient.take(self.load.response as usize, &mut self.buffer)
    }

    /// Sends the hello and the request in one segment if they fit. The server closes the connection first, so
    /// that its ports and not this host's are in TIME_WAIT.
    fn single(&mut self) -> io::Result<()> {
        let connection = self.connect()?;
        let patient = PatientStream { connection: &connection, stop: self.stop, patience: PEER_TIMEOUT };
        let done = self.ask_once(&patient);
        if let Err(error) = &done {
            self.seen.failed(error);
        }
        done
    }

    fn ask_once(&mut self, patient: &PatientStream<'_>) -> io::Result<()> {
        let Transactions { request, response, .. } = *self.load;
        let hello = Role::Single { request, response }.encode();
        let first = (hello.len() + request as usize).min(self.buffer.len());
        self.buffer[..hello.len()].copy_from_slice(&hello);
        patient.write_all(&self.buffer[..first])?;
        give(patient, hello.len() + request as usize - first, &self.buffer)?;
        patient.take(response as usize, &mut self.buffer)?;
        match patient.read(&mut self.buffer)? {
            0 => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the reply is longer than requested")),
        }
    }

    fn connect(&mut self) -> io::Result<std::net::TcpStream> {
        let counts = &mut self.seen.connections[0];
        counts.attempted += 1;
        let connection = connect(self.to, None);
        match &connection {
            Ok(_) => counts.made += 1,
            Err(_) => counts.failed += 1,
        }
        connection
    }

    fn broken(&self, error: &io::Error) -> LoadError {
        if self.stop.is_set() {
            return LoadError::Interrupted;
        }
        LoadError::Peer(self.to.to_string(), meaning(error))
    }
}
