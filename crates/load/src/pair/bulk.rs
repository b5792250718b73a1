//! Bulk between endpoint pairs, counted at the receiver.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::Instant;

use socket2::SockRef;

use crate::error::{LoadError, joined};
use crate::pace::{WorkPace, interval};
use crate::report::{ConnectionCounts, LoadReport, PairReport, per_second};
use crate::serve::PatientStream;
use crate::window::{Phases, StopFlag, Window};

use super::client::meaning;
use super::hello::{ReceiverTally, Role, TALLY};
use super::{PATIENCE, check, connect};

/// Bytes of a write, like iperf3's block.
const BLOCK: usize = 128 * 1024;
/// Bytes of a write at a set rate, so that the rate is smooth.
const SMALL_BLOCK: usize = 16 * 1024;

/// The amount to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Data for this time; the receivers don't count the warm-up.
    Time(Window),
    /// This number of bytes by all pairs together; all of them count.
    Bytes(u64),
}

/// A bulk load in clear text, as from one process of one host to one of another.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// The receivers; pairs are spread over them.
    pub to: Vec<SocketAddr>,
    /// The number of pairs, each a connection and a thread.
    pub pairs: usize,
    /// The amount to send.
    pub amount: Amount,
    /// Socket buffers at both ends in bytes; none for the kernel's own tuning.
    pub window: Option<u32>,
    /// True to send small segments at once (TCP_NODELAY).
    pub no_delay: bool,
    /// Bytes a second of each pair; none for no limit.
    pub pace: Option<f64>,
}

/// The counts of the receivers.
#[derive(Clone, Debug, Default)]
pub struct BulkResult {
    /// The receiver of each pair, and its counts.
    pub pairs: Vec<PairReport>,
    /// The times of the run, if a time was asked for.
    pub phases: Option<Phases>,
    /// The smallest buffers at the sending and at the receiving end, as getsockopt(2) reports them: twice the
    /// usable size.
    pub buffers: (u64, u64),
}

impl Bulk {
    /// Sends with all pairs, and collects the receivers' counts.
    ///
    /// # Errors
    /// If a receiver doesn't answer, speaks another protocol or ends early.
    pub fn run(&self, stop: &StopFlag) -> Result<BulkResult, LoadError> {
        check(&self.to, self.pairs)?;
        let begin = Instant::now();
        let sent: Vec<_> = thread::scope(|scope| {
            let start = |i| scope.spawn(move || self.pair(i, begin, stop));
            let threads: Vec<_> = (0..self.pairs).map(start).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        });
        if stop.is_set() {
            return Err(LoadError::Interrupted);
        }
        let phases = match self.amount {
            Amount::Time(window) => Some(window.after(begin)),
            Amount::Bytes(_) => None,
        };
        let mut result = BulkResult { pairs: Vec::new(), phases, buffers: (u64::MAX, u64::MAX) };
        for sent in sent {
            let (pair, buffers) = sent?;
            result.pairs.push(pair);
            result.buffers = (result.buffers.0.min(buffers.0), result.buffers.1.min(buffers.1));
        }
        Ok(result)
    }

    fn pair(
        &self,
        place: usize,
        begin: Instant,
        stop: &StopFlag,
    ) -> Result<(PairReport, (u64, u64)), LoadError> {
        let to = self.to[place % self.to.len()];
        let connection = connect(to, self.window).map_err(|error| LoadError::Connect(to, error))?;
        let patient = PatientStream { connection: &connection, stop, patience: PATIENCE };
        let sent = self.send(&patient, place as u64, begin);
        let tally = sent.map_err(|error| LoadError::Peer(to.to_string(), meaning(&error)))?;
        let buffer = SockRef::from(&connection).send_buffer_size().unwrap_or_default() as u64;
        let seconds = tally.nanos as f64 * 1e-9;
        let bits_per_second = per_second(tally.bytes as f64 * 8.0, seconds);
        let pair = PairReport { to: to.to_string(), bytes: tally.bytes, seconds, bits_per_second };
        Ok((pair, (buffer, tally.buffer)))
    }

    fn send(&self, patient: &PatientStream<'_>, place: u64, begin: Instant) -> io::Result<ReceiverTally> {
        let connection = patient.connection;
        connection.set_nodelay(self.no_delay)?;
        let role = Role::Bulk { warm_up_us: self.warm_up_us(), window: self.window.unwrap_or(0) };
        patient.write_all(&role.encode())?;
        let sent = match self.amount {
            Amount::Time(window) => self.send_for(patient, window.after(begin))?,
            Amount::Bytes(bytes) => send_bytes(patient, share(bytes, self.pairs as u64, place))?,
        };
        connection.shutdown(Shutdown::Write)?;
        let mut tally = [0; TALLY];
        patient.fill(&mut tally)?;
        believable(ReceiverTally::decode(&tally), sent)
    }

    fn warm_up_us(&self) -> u64 {
        match self.amount {
            Amount::Time(window) => u64::try_from(window.warm_up.as_micros()).unwrap_or(u64::MAX),
            Amount::Bytes(_) => 0,
        }
    }

    /// Returns the number of sent bytes.
    fn send_for(&self, patient: &PatientStream<'_>, phases: Phases) -> io::Result<u64> {
        let mut sent = 0;
        let block = vec![0; if self.pace.is_some() { SMALL_BLOCK } else { BLOCK }];
        let of_block = |bytes_per_second| interval(bytes_per_second / block.len() as f64);
        let mut pace = self.pace.map(|rate| WorkPace::new(of_block(rate), phases.begin));
        let mut now = Instant::now();
        while !phases.is_over(now) {
            if let Some(pace) = &mut pace {
                thread::sleep(pace.due().min(phases.until).saturating_duration_since(now));
                pace.step(Instant::now());
                patient.write_all(&block)?;
                sent += block.len() as u64;
            } else {
                sent += patient.write(&block)? as u64;
            }
            now = Instant::now();
        }
        Ok(sent)
    }

    /// The report.
    pub fn report(&self, result: &BulkResult) -> LoadReport {
        let bytes = result.pairs.iter().map(|pair| pair.bytes).sum();
        let seconds = result.pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
        let mut report = LoadReport::new("pairs", bytes, seconds);
        report.window = result.phases.as_ref().map(Phases::counted);
        for pair in &result.pairs {
            let one = ConnectionCounts { port: pair.to.clone(), attempted: 1, made: 1, failed: 0 };
            one.add_to(&mut report.connections);
        }
        report.fairness = fairness(&result.pairs);
        report.warnings.extend(self.smaller_window(result.buffers));
        report.pairs.clone_from(&result.pairs);
        report
    }

    /// The kernel doubles the requested size for its own bookkeeping (socket(7)).
    fn smaller_window(&self, (sending, receiving): (u64, u64)) -> Option<String> {
        let window = u64::from(self.window?);
        let given = sending.min(receiving) / 2;
        (given < window).then(|| {
            format!(
                "a window of {window} bytes was asked for and the kernel gave {given}; raise net.core.wmem_max at the \
                 sender and net.core.rmem_max at the receiver"
            )
        })
    }
}

/// The slowest pair's rate over the fastest's.
fn fairness(pairs: &[PairReport]) -> Option<f64> {
    let rates = || pairs.iter().map(|pair| pair.bits_per_second);
    let (least, most) = (rates().reduce(f64::min)?, rates().reduce(f64::max)?);
    (most > 0.0).then(|| least / most)
}

/// The share of `bytes` that the pair at `place` of `pairs` sends.
fn share(bytes: u64, pairs: u64, place: u64) -> u64 {
    bytes / pairs + u64::from(place < bytes % pairs)
}

/// Returns the number of sent bytes.
fn send_bytes(patient: &PatientStream<'_>, bytes: u64) -> io::Result<u64> {
    let block = vec![0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        left -= patient.write(&block[..length])? as u64;
    }
    Ok(bytes)
}

/// A receiver may not count more than it was sent.
fn believable(tally: ReceiverTally, sent: u64) -> io::Result<ReceiverTally> {
    if tally.bytes <= sent {
        return Ok(tally);
    }
    let message = format!("it reports {} received bytes, but {sent} were sent", tally.bytes);
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (bytes, pairs) in [(10, 3), (0, 4), (7, 8), (1 << 40, 7)] {
            let sum: u64 = (0..pairs).map(|place| share(bytes, pairs, place)).sum();
            assert_eq!(sum, bytes);
        }
    }

    #[test]
    fn fairness_is_the_slowest_over_the_fastest() {
        let pair =
            |bits_per_second| PairReport { to: String::new(), bytes: 1, seconds: 1.0, bits_per_second };
        assert_eq!(fairness(&[pair(5.0), pair(10.0)]), Some(0.5));
        assert_eq!(fairness(&[]), None);
    }

    #[test]
    fn a_smaller_window_than_asked_for_is_told() {
        let bulk = Bulk {
            to: Vec::new(),
            pairs: 1,
            amount: Amount::Bytes(1),
            window: Some(1 << 20),
            no_delay: false,
            pace: None,
        };
        let warning = bulk.smaller_window((425_984, 2 << 20)).unwrap();
        assert!(warning.contains("212992"), "{warning}");
        assert_eq!(bulk.smaller_window((2 << 20, 2 << 20)), None);
    }
}
