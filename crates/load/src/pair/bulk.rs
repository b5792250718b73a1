//! Bulk transfer between endpoint pairs, counted by the receiver.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::error::{LoadError, joined};
use crate::pace::{WorkPace, interval};
use crate::report::{ConnectionCounts, LoadReport, PairReport, per_second};
use crate::serve::PatientStream;
use crate::window::{Phases, StopFlag, Window};

use super::client::meaning;
use super::hello::{ReceiverTally, Role, TALLY};
use super::server::receive;
use super::{PEER_TIMEOUT, check, connect};

/// The size of a write in bytes, equal to iperf3's block.
const BLOCK: usize = 128 * 1024;
/// The size of a write in bytes if a rate is set; it is small, so that the rate is even.
const SMALL_BLOCK: usize = 16 * 1024;

/// The amount of data that a load sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The time for which data is sent. The receivers don't count the ramp.
    Time(Window),
    /// The number of bytes that all pairs send together; all of them are counted.
    Bytes(u64),
}

/// The end or ends that send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The client sends.
    #[default]
    Out,
    /// The server sends.
    Back,
    /// Both ends send, each over a separate connection.
    Both,
}

/// A bulk load without encryption, between one process of one host and one process of another host.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// The addresses of the servers; pairs are distributed over them.
    pub to: Vec<SocketAddr>,
    /// The number of pairs. Each pair has a connection and a thread for each direction.
    pub pairs: usize,
    /// The end or ends that send.
    pub direction: Direction,
    /// The amount of data to send.
    pub amount: Amount,
    /// The size of socket buffers at both ends in bytes; `None` for the kernel's automatic tuning.
    pub window: Option<u32>,
    /// Whether small segments are sent at once (TCP_NODELAY).
    pub no_delay: bool,
    /// The rate limit of each pair in bytes per second; `None` for no limit.
    pub pace: Option<f64>,
}

/// A pair whose connection is established.
struct ConnectedPair {
    place: usize,
    /// Whether the server sends.
    back: bool,
    to: SocketAddr,
    connection: TcpStream,
}

/// The results of a bulk load, as the receivers counted them.
#[derive(Clone, Debug, Default)]
pub struct BulkResult {
    /// The receiver and the counts of each pair.
    pub pairs: Vec<PairReport>,
    /// The times of the run's phases, if the load is limited by a time.
    pub phases: Option<Phases>,
    /// The size in bytes of the smallest buffer at the sending end, and of the smallest at the receiving end.
    /// getsockopt(2) reports these sizes, which are twice the usable sizes.
    pub buffers: (u64, u64),
}

impl Bulk {
    /// Runs all pairs, and collects the receivers' counts.
    ///
    /// # Errors
    /// If a receiver doesn't answer, speaks another protocol or ends early.
    pub fn run(&self, stop: &StopFlag) -> Result<BulkResult, LoadError> {
        check(&self.to, self.pairs)?;
        let connected = self.connect_all()?;
        // The run begins only when all pairs are connected, because a pair whose first packet was lost would otherwise
        // have less time.
        let begin = Instant::now();
        let sent: Vec<_> = thread::scope(|scope| {
            let start = |pair: ConnectedPair| scope.spawn(move || self.pair(&pair, begin, stop));
            let threads: Vec<_> = connected.into_iter().map(start).collect();
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

    /// Connects all pairs.
    fn connect_all(&self) -> Result<Vec<ConnectedPair>, LoadError> {
        let one = |place: usize, back: bool| {
            let to = self.to[place % self.to.len()];
            let connection = connect(to, self.window).map_err(|error| LoadError::Connect(to, error))?;
            Ok(ConnectedPair { place, back, to, connection })
        };
        thread::scope(|scope| {
            let backs = self.direction.backs().iter();
            let all = backs.flat_map(|back| (0..self.pairs).map(move |place| (place, *back)));
            let threads: Vec<_> = all.map(|(place, back)| scope.spawn(move || one(place, back))).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        })
    }

    fn pair(
        &self,
        pair: &ConnectedPair,
        begin: Instant,
        stop: &StopFlag,
    ) -> Result<(PairReport, (u64, u64)), LoadError> {
        let ConnectedPair { place, back, to, connection } = pair;
        let (place, back, to) = (*place, *back, *to);
        let patient = PatientStream { connection, stop, patience: PEER_TIMEOUT };
        let counted = match back {
            true => self.receive(&patient, place as u64),
            false => self.send(&patient, place as u64, begin),
        };
        let tally = counted.map_err(|error| LoadError::Peer(to.to_string(), meaning(&error)))?;
        let socket = SockRef::from(connection);
        let own = if back { socket.recv_buffer_size() } else { socket.send_buffer_size() };
        let own = own.unwrap_or_default() as u64;
        let seconds = tally.nanos as f64 * 1e-9;
        let bits_per_second = per_second(tally.bytes as f64 * 8.0, seconds);
        let bytes = tally.bytes;
        let pair = PairReport { to: to.to_string(), bytes, seconds, bits_per_second, back, datagrams: None };
        Ok((pair, if back { (u64::MAX, own) } else { (own, tally.buffer) }))
    }

    /// Receives and counts the bytes that the server sends.
    fn receive(&self, patient: &PatientStream<'_>, place: u64) -> io::Result<ReceiverTally> {
        let window = self.window.unwrap_or(0);
        let (role, ramp) = match self.amount {
            Amount::Time(Window { ramp, measured }) => {
                let us = u64::try_from((ramp + measured).as_micros()).unwrap_or(u64::MAX);
                (Role::SendFor { us, window }, ramp)
            }
            Amount::Bytes(bytes) => {
                let bytes = share(bytes, self.pairs as u64, place);
                (Role::SendBytes { bytes, window }, Duration::ZERO)
            }
        };
        patient.write_all(&role.encode())?;
        let tally = receive(patient, ramp)?;
        match self.amount {
            // An early end means that the server is an older version, which closes the connection on an
            // unknown message.
            Amount::Bytes(bytes) if tally.bytes < share(bytes, self.pairs as u64, place) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Amount::Time(_) if tally.bytes == 0 && !patient.stop.is_set() => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            _ => Ok(tally),
        }
    }

    fn send(&self, patient: &PatientStream<'_>, place: u64, begin: Instant) -> io::Result<ReceiverTally> {
        let connection = patient.connection;
        connection.set_nodelay(self.no_delay)?;
        let role = Role::Bulk { ramp_us: self.ramp_us(), window: self.window.unwrap_or(0) };
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

    fn ramp_us(&self) -> u64 {
        match self.amount {
            Amount::Time(window) => u64::try_from(window.ramp.as_micros()).unwrap_or(u64::MAX),
            Amount::Bytes(_) => 0,
        }
    }

    /// Sends data for the duration of the run, and returns the number of bytes sent.
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

    /// The report of a result.
    pub fn report(&self, result: &BulkResult) -> LoadReport {
        let bytes = result.pairs.iter().map(|pair| pair.bytes).sum();
        let seconds = result.pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
        let mut report = LoadReport::new("pairs", bytes, seconds);
        report.window = result.phases.as_ref().map(Phases::counted);
        for pair in &result.pairs {
            let one = ConnectionCounts { port: pair.to.clone(), attempted: 1, made: 1, failed: 0 };
            one.add_to(&mut report.connections);
        }
        let back = result.pairs.iter().filter(|pair| pair.back).map(|pair| pair.bytes).sum();
        report.bytes_back = Some(back);
        report.fairness = fairness(&result.pairs);
        report.warnings.extend(self.smaller_window(result.buffers));
        report.pairs.clone_from(&result.pairs);
        report
    }

    /// A warning if the kernel gave a smaller buffer than requested. The kernel doubles the requested size
    /// for its own bookkeeping (socket(7)).
    fn smaller_window(&self, (sending, receiving): (u64, u64)) -> Option<String> {
        let window = u64::from(self.window?);
        let given = sending.min(receiving) / 2;
        (given < window).then(|| {
            format!(
                "a window of {window} bytes was requested, but the kernel gave {given}; raise net.core.wmem_max at the \
                 sender and net.core.rmem_max at the receiver"
            )
        })
    }
}

impl Direction {
    /// For each connection of a pair, whether the server sends on it.
    fn backs(self) -> &'static [bool] {
        match self {
            Self::Out => &[false],
            Self::Back => &[true],
            Self::Both => &[false, true],
        }
    }
}

/// The slowest pair's rate divided by the fastest pair's rate, in the direction in which they differ more.
pub(super) fn fairness(pairs: &[PairReport]) -> Option<f64> {
    let of = |back: bool| {
        let rates = || pairs.iter().filter(|pair| pair.back == back).map(|pair| pair.bits_per_second);
        let (least, most) = (rates().reduce(f64::min)?, rates().reduce(f64::max)?);
        (most > 0.0).then(|| least / most)
    };
    [of(false), of(true)].into_iter().flatten().reduce(f64::min)
}

/// The share of `bytes` that the pair with the index `place` of `pairs` pairs sends.
fn share(bytes: u64, pairs: u64, place: u64) -> u64 {
    bytes / pairs + u64::from(place < bytes % pairs)
}

/// Sends `bytes` bytes, and returns the number of bytes sent.
fn send_bytes(patient: &PatientStream<'_>, bytes: u64) -> io::Result<u64> {
    let block = vec![0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        left -= patient.write(&block[..length])? as u64;
    }
    Ok(bytes)
}

/// Returns an error if a receiver's count is larger than the number of sent bytes.
fn believable(tally: ReceiverTally, sent: u64) -> io::Result<ReceiverTally> {
    if tally.bytes <= sent {
        return Ok(tally);
    }
    let message = format!("the server reports {} received bytes, but {sent} were sent", tally.bytes);
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pair_begins_before_all_are_connected() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = |backlog| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&here.into()).unwrap();
            socket.listen(backlog).unwrap();
            std::net::TcpListener::from(socket)
        };
        // The second server's listen queue is full, so its kernel drops the first packet of the pair's
        // connection.
        let (quick, slow) = (listen(8), listen(0));
        let [first, second] = [&quick, &slow].map(|server| server.local_addr().unwrap());
        let in_its_way = TcpStream::connect(second).unwrap();
        let window = Window { ramp: Duration::ZERO, measured: Duration::from_millis(50) };
        let bulk = Bulk {
            to: vec![first, second],
            pairs: 2,
            direction: Direction::Out,
            amount: Amount::Time(window),
            window: None,
            no_delay: false,
            pace: None,
        };
        thread::scope(|scope| {
            let load = scope.spawn(move || bulk.run(&StopFlag::default()));
            let (mut begins, _) = quick.accept().unwrap();
            begins.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let silent = std::io::Read::read(&mut begins, &mut [0; 1]).unwrap_err();
            assert_eq!(silent.kind(), io::ErrorKind::WouldBlock, "the other isn't connected yet");
            drop((in_its_way, slow.accept().unwrap()));
            begins.set_read_timeout(None).unwrap();
            let last = slow.accept().unwrap();
            assert_eq!(std::io::Read::read(&mut begins, &mut [0; 1]).unwrap(), 1);
            drop((begins, last));
            assert!(load.join().unwrap().is_err(), "these servers answer nothing");
        });
    }

    #[test]
    fn shares_add_up() {
        for (bytes, pairs) in [(10, 3), (0, 4), (7, 8), (1 << 40, 7)] {
            let sum: u64 = (0..pairs).map(|place| share(bytes, pairs, place)).sum();
            assert_eq!(sum, bytes);
        }
    }

    #[test]
    fn fairness_is_the_slowest_over_the_fastest() {
        let pair = |bits_per_second, back| PairReport {
            to: String::new(),
            bytes: 1,
            seconds: 1.0,
            bits_per_second,
            back,
            datagrams: None,
        };
        assert_eq!(fairness(&[pair(5.0, false), pair(10.0, false)]), Some(0.5));
        assert_eq!(fairness(&[pair(5.0, false), pair(10.0, true)]), Some(1.0));
        assert_eq!(fairness(&[]), None);
    }

    #[test]
    fn a_smaller_window_than_asked_for_is_reported() {
        let bulk = Bulk {
            to: Vec::new(),
            pairs: 1,
            direction: Direction::Out,
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
