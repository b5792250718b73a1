//! Requests at fixed times, independent of the answers (an open loop). The load measures how long a request that is due
//! at such a time waits for its answer.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{LoadError, joined};
use crate::report::{ConnectionCounts, LoadReport};
use crate::serve::PatientStream;
use crate::window::{Phases, StopFlag, Window};

use super::client::{BLOCK, Transactions, TransactionsResult, meaning};
use super::hello::Role;
use super::server::give;
use super::{PEER_TIMEOUT, check, connect};

/// The longest sleep between two checks of the stop flags.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The greatest number of requests per second of a pair.
const MOST_RATE: f64 = 1e6;

/// The start and end of a load that runs beside another activity.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// The load sets this flag when its first pair is connected.
    pub ready: StopFlag,
    /// The caller sets this flag to end the load's window.
    pub end: StopFlag,
}

/// Requests at fixed times, and their responses. Latencies are counted from the times at which the requests were due,
/// so they include the time in which a request waits for earlier answers.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The load's parameters. Each connection is used for several requests.
    pub load: Transactions,
    /// The number of requests per second of each pair.
    pub rate: f64,
}

impl Scheduled {
    /// Runs all pairs until the end of the window or of the span.
    ///
    /// # Errors
    /// If a server doesn't answer or speaks another protocol.
    pub fn run(&self, span: &Span, stop: &StopFlag) -> Result<TransactionsResult, LoadError> {
        check(&self.load.to, self.load.pairs)?;
        self.load.check_sizes()?;
        if !(self.rate > 0.0 && self.rate <= MOST_RATE) {
            return Err(LoadError::Arguments(format!(
                "--rate {}: it must be above 0, up to {MOST_RATE}",
                self.rate
            )));
        }
        let phases = self.load.window.after(Instant::now());
        let results: Vec<_> = thread::scope(|scope| {
            let start = |place| scope.spawn(move || self.pair(place, phases, span, stop));
            let threads: Vec<_> = (0..self.load.pairs).map(start).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        });
        if stop.is_set() {
            return Err(LoadError::Interrupted);
        }
        let until = Instant::now().clamp(phases.from, phases.until);
        let mut sum =
            TransactionsResult { phases: Some(Phases { until, ..phases }), ..TransactionsResult::default() };
        results.into_iter().try_for_each(|result| result.map(|result| sum.add(result)))?;
        match sum.latency.count() {
            0 => Err(self.load.nothing(&sum)),
            _ => Ok(sum),
        }
    }

    /// The report of a result, over the time that the load took.
    pub fn report(&self, result: &TransactionsResult) -> LoadReport {
        let taken = result.phases.map_or(self.load.window.measured, |phases| phases.until - phases.from);
        let window = Window { measured: taken, ..self.load.window };
        let mut report = Transactions { window, ..self.load.clone() }.report(result);
        report.rate = Some(self.rate * self.load.pairs as f64);
        report
    }

    fn pair(
        &self,
        place: usize,
        phases: Phases,
        span: &Span,
        stop: &StopFlag,
    ) -> Result<TransactionsResult, LoadError> {
        let to = self.load.to[place % self.load.to.len()];
        let connection = connect(to, None).map_err(|error| LoadError::Connect(to, error))?;
        let patient = PatientStream { connection: &connection, stop, patience: PEER_TIMEOUT };
        let broken = |error: std::io::Error| match stop.is_set() {
            true => LoadError::Interrupted,
            false => LoadError::Peer(to.to_string(), meaning(&error)),
        };
        let Transactions { request, response, .. } = self.load;
        patient.write_all(&Role::Transactions { request, response }.encode()).map_err(broken)?;
        span.ready.set();
        let mut seen = seen(to);
        let (sender, receiver) = channel();
        let first = phases.begin + self.at(place as u64) / u32::try_from(self.load.pairs).unwrap_or(1);
        let ended = thread::scope(|scope| {
            let asking = scope.spawn(|| self.ask(&patient, first, phases, span, sender));
            let answered = answers(&patient, response as usize, phases, &receiver, &mut seen);
            // If the thread that reads answers has ended, no more requests can be sent.
            if answered.is_err() {
                drop(receiver);
            }
            joined(asking.join()).and(answered)
        });
        ended.map_err(broken)?;
        Ok(seen)
    }

    /// The time from the first request to the request with this number.
    fn at(&self, number: u64) -> Duration {
        Duration::try_from_secs_f64(number as f64 / self.rate).unwrap_or(Duration::MAX / 4)
    }

    /// Sends each request when it is due, and passes the due time to the thread that reads the answers.
    fn ask(
        &self,
        patient: &PatientStream<'_>,
        first: Instant,
        phases: Phases,
        span: &Span,
        sender: Sender<Instant>,
    ) -> std::io::Result<()> {
        let block = vec![0; BLOCK.min(self.load.request as usize)];
        for number in 0.. {
            let Some(due) = first.checked_add(self.at(number)).filter(|due| *due < phases.until) else {
                break;
            };
            loop {
                let left = due.saturating_duration_since(Instant::now());
                if span.end.is_set() || patient.stop.is_set() {
                    return Ok(());
                }
                if left.is_zero() {
                    break;
                }
                thread::sleep(left.min(STOP_CHECK_INTERVAL));
            }
            // The thread that reads the answers has ended.
            if sender.send(due).is_err() {
                break;
            }
            give(patient, self.load.request as usize, &block)?;
        }
        Ok(())
    }
}

fn seen(to: SocketAddr) -> TransactionsResult {
    let port = ConnectionCounts { port: to.to_string(), attempted: 1, made: 1, failed: 0 };
    TransactionsResult { connections: vec![port], ..TransactionsResult::default() }
}

/// Reads the answers to all requests, in the order of the requests. Only requests that were due in the window count.
fn answers(
    patient: &PatientStream<'_>,
    response: usize,
    phases: Phases,
    due: &Receiver<Instant>,
    seen: &mut TransactionsResult,
) -> std::io::Result<()> {
    let mut buffer = vec![0; BLOCK.min(response)];
    while let Ok(due) = due.recv() {
        patient.take(response, &mut buffer)?;
        if phases.counts(due) {
            seen.latency.record(due.elapsed());
        }
    }
    Ok(())
}
