//! Datagrams (UDP) between endpoint pairs, at a given rate. The receiver measures loss, order and jitter.
//! Each pair also has a TCP connection, over which the ends agree on the parameters and exchange the counts.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::{LoadError, joined};
use crate::report::{ConnectionCounts, DatagramCounts, LoadReport, PairReport, per_second};
use crate::serve::{PatientStream, STOP_CHECK_INTERVAL};
use crate::window::{Phases, StopFlag, Window};

use super::client::meaning;
use super::hello::{DATAGRAM_TALLY, DatagramTally, Role};
use super::{PEER_TIMEOUT, check, connect};

/// The size of the smallest datagram in bytes. A datagram holds its number and the time at which it was sent.
pub const SMALLEST_DATAGRAM: u32 = 16;
/// The largest payload, in bytes, of a UDP datagram over IPv4.
pub const LARGEST_DATAGRAM: u32 = 65_507;
/// A sender that is late by more than this time skips the datagrams that it missed.
const MOST_LATE: Duration = Duration::from_millis(10);
/// The pause of a sender while its socket's queue is full.
const FULL_QUEUE_INTERVAL: Duration = Duration::from_micros(100);
/// The time to wait for datagrams in flight after the sender has ended.
const LAST: Duration = Duration::from_millis(500);
/// The server's answer when it listens for datagrams.
const READY: [u8; 1] = [1];

/// A load of datagrams.
#[derive(Clone, Debug)]
pub struct Datagrams {
    /// The addresses of the receivers; pairs are distributed over them.
    pub to: Vec<SocketAddr>,
    /// The number of pairs. Each pair has a socket and a thread.
    pub pairs: usize,
    /// The timing of the load.
    pub window: Window,
    /// The size of a datagram's payload in bytes.
    pub size: u32,
    /// The rate of each pair in payload bytes per second; `None` for no limit.
    pub rate: Option<f64>,
    /// The size of socket buffers at both ends in bytes; `None` for the kernel's default.
    pub buffer: Option<u32>,
}

impl Datagrams {
    /// Runs all pairs, and reports the receivers' counts.
    ///
    /// # Errors
    /// If a receiver doesn't answer, speaks another protocol, or no datagram arrives.
    pub fn run(&self, stop: &StopFlag) -> Result<LoadReport, LoadError> {
        check(&self.to, self.pairs)?;
        if !(SMALLEST_DATAGRAM..=LARGEST_DATAGRAM).contains(&self.size) {
            let (least, most) = (SMALLEST_DATAGRAM, LARGEST_DATAGRAM);
            return Err(LoadError::Arguments(format!(
                "--datagram {}: it must be {least} to {most} bytes",
                self.size
            )));
        }
        let phases = self.window.after(Instant::now());
        let sent: Vec<_> = thread::scope(|scope| {
            let start = |i: usize| scope.spawn(move || self.pair(self.to[i % self.to.len()], phases, stop));
            let threads: Vec<_> = (0..self.pairs).map(start).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        });
        if stop.is_set() {
            return Err(LoadError::Interrupted);
        }
        let pairs = sent.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(report(&pairs, phases))
    }

    fn pair(&self, to: SocketAddr, phases: Phases, stop: &StopFlag) -> Result<PairReport, LoadError> {
        let connection = connect(to, None).map_err(|error| LoadError::Connect(to, error))?;
        let patient = PatientStream { connection: &connection, stop, patience: PEER_TIMEOUT };
        let tally = self.send(&patient, to, phases);
        let tally = tally.map_err(|error| LoadError::Peer(to.to_string(), meaning(&error)))?;
        if tally.received == 0 && !stop.is_set() {
            let reason = "no datagram arrived in the window; does a firewall let UDP to that port through?";
            return Err(LoadError::Peer(to.to_string(), reason.into()));
        }
        let seconds = tally.nanos as f64 * 1e-9;
        let bits_per_second = per_second(tally.bytes as f64 * 8.0, seconds);
        let datagrams = Some(counts(&tally, seconds));
        Ok(PairReport {
            to: to.to_string(),
            bytes: tally.bytes,
            seconds,
            bits_per_second,
            back: false,
            datagrams,
        })
    }

    fn send(&self, patient: &PatientStream<'_>, to: SocketAddr, phases: Phases) -> io::Result<DatagramTally> {
        let socket = UdpSocket::bind(SocketAddr::new(patient.connection.local_addr()?.ip(), 0))?;
        socket.connect(to)?;
        socket.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
        if let Some(buffer) = self.buffer {
            SockRef::from(&socket).set_send_buffer_size(buffer as usize)?;
        }
        let ramp_us = u64::try_from(self.window.ramp.as_micros()).unwrap_or(u64::MAX);
        let (window, port) = (self.buffer.unwrap_or(0), socket.local_addr()?.port());
        patient.write_all(&Role::Datagrams { ramp_us, window, port }.encode())?;
        let mut ready = [0; READY.len()];
        patient.fill(&mut ready)?;
        let sent = self.stream(&socket, phases, patient.stop)?;
        patient.write_all(&sent.to_be_bytes())?;
        let mut tally = [0; DATAGRAM_TALLY];
        patient.fill(&mut tally)?;
        believable(DatagramTally::decode(&tally), sent)
    }

    /// Sends each datagram when it is due, and returns the number of datagrams.
    fn stream(&self, socket: &UdpSocket, phases: Phases, stop: &StopFlag) -> io::Result<u64> {
        let mut datagram = vec![0; self.size as usize];
        let interval = self.rate.map(|rate| f64::from(self.size) / rate);
        let (mut sent, mut due, mut now) = (0_u64, phases.begin, Instant::now());
        while !phases.is_over(now) && !stop.is_set() {
            if let Some(interval) = interval {
                if due > now {
                    thread::sleep(due.min(phases.until).saturating_duration_since(now));
                    now = Instant::now();
                    continue;
                }
                due += Duration::try_from_secs_f64(interval).unwrap_or(Duration::MAX / 4);
                due = due.max(now.checked_sub(MOST_LATE).unwrap_or(now));
            }
            let at = u64::try_from((now - phases.begin).as_nanos()).unwrap_or(u64::MAX);
            datagram[..8].copy_from_slice(&sent.to_be_bytes());
            datagram[8..16].copy_from_slice(&at.to_be_bytes());
            match socket.send(&datagram) {
                Ok(_) => sent += 1,
                Err(error) if is_full(&error) => thread::sleep(FULL_QUEUE_INTERVAL),
                Err(error) => return Err(error),
            }
            now = Instant::now();
        }
        Ok(sent)
    }
}

fn is_full(error: &io::Error) -> bool {
    let full = error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error());
    full || matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Returns an error if a receiver's count is larger than the number of sent datagrams.
fn believable(tally: DatagramTally, sent: u64) -> io::Result<DatagramTally> {
    if tally.received.saturating_add(tally.lost) <= sent {
        return Ok(tally);
    }
    let DatagramTally { received, lost, .. } = tally;
    let message =
        format!("the receiver reports {received} received and {lost} lost datagrams, but {sent} were sent");
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

fn counts(tally: &DatagramTally, seconds: f64) -> DatagramCounts {
    DatagramCounts {
        received: tally.received,
        lost: tally.lost,
        reordered: tally.reordered,
        per_second: per_second(tally.received as f64, seconds),
        jitter_us: tally.jitter_nanos as f64 * 1e-3,
    }
}

fn report(pairs: &[PairReport], phases: Phases) -> LoadReport {
    let bytes = pairs.iter().map(|pair| pair.bytes).sum();
    let seconds = pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
    let mut report = LoadReport::new("udp", bytes, seconds);
    report.window = Some(phases.counted());
    let all = pairs.iter().filter_map(|pair| pair.datagrams);
    report.datagrams = all.reduce(DatagramCounts::with);
    for pair in pairs {
        let one = ConnectionCounts { port: pair.to.clone(), attempted: 1, made: 1, failed: 0 };
        one.add_to(&mut report.connections);
    }
    report.fairness = super::bulk::fairness(pairs);
    report.pairs = pairs.to_vec();
    report
}

/// The server's side: counts datagrams from this port of the client, until the client reports over TCP how
/// many it has sent.
pub(super) fn count(patient: &PatientStream<'_>, ramp: Duration, window: u32, port: u16) -> io::Result<()> {
    let here = patient.connection.local_addr()?;
    let socket = Socket::new(Domain::for_address(here), Type::DGRAM, Some(Protocol::UDP))?;
    // Each pair has its own socket at this port; the kernel selects it by the other end's address.
    socket.set_reuse_address(true)?;
    if window > 0 {
        socket.set_recv_buffer_size(window as usize)?;
    }
    socket.bind(&here.into())?;
    socket.connect(&SocketAddr::new(patient.connection.peer_addr()?.ip(), port).into())?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    patient.write_all(&READY)?;
    let mut counting = Counting::new(ramp);
    let sent = counting.receive(&socket.into(), patient)?;
    patient.write_all(&counting.tally(sent).encode())
}

/// The state of a receiver of datagrams.
struct Counting {
    ramp: Duration,
    begun: Option<Instant>,
    /// The number of the first datagram that counts, and its time.
    first: Option<(u64, Instant)>,
    last: Instant,
    highest: u64,
    /// The transit time of the last datagram, in nanoseconds. The clocks of sender and receiver may differ by a
    /// constant offset, which is part of this time.
    transit: Option<i128>,
    jitter: f64,
    tally: DatagramTally,
}

impl Counting {
    fn new(ramp: Duration) -> Self {
        Self {
            ramp,
            begun: None,
            first: None,
            last: Instant::now(),
            highest: 0,
            transit: None,
            jitter: 0.0,
            tally: DatagramTally::default(),
        }
    }

    /// Receives until the client has ended, and returns the number of datagrams that it sent.
    fn receive(&mut self, socket: &UdpSocket, patient: &PatientStream<'_>) -> io::Result<u64> {
        let mut buffer = vec![0; LARGEST_DATAGRAM as usize];
        let (mut sent, mut ended, mut look, mut heard) =
            (None, Instant::now(), Instant::now(), Instant::now());
        loop {
            match socket.recv(&mut buffer) {
                Ok(length) => {
                    heard = Instant::now();
                    self.add(&buffer[..length], heard);
                }
                // The client's port may already be closed.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if is_full(&error) => {}
                Err(error) => return Err(error),
            }
            let now = Instant::now();
            match sent {
                Some(sent) if self.is_whole(sent) || now - ended.max(heard) > LAST => return Ok(sent),
                None if now - look > Duration::from_millis(20) => {
                    look = now;
                    sent = end(patient)?;
                    ended = now;
                }
                _ => {}
            }
            if patient.stop.is_set() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }

    fn is_whole(&self, sent: u64) -> bool {
        self.first.is_some_and(|(first, _)| self.tally.received >= sent.saturating_sub(first))
    }

    fn add(&mut self, datagram: &[u8], now: Instant) {
        let Some((head, _)) = datagram.split_first_chunk::<16>() else { return };
        let [number, at] = [&head[..8], &head[8..]]
            .map(|eight| eight.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)));
        let begun = *self.begun.get_or_insert(now);
        if now < begun + self.ramp {
            return;
        }
        let (first, _) = *self.first.get_or_insert((number, now));
        // This datagram precedes the first datagram that is counted.
        if number < first {
            return;
        }
        self.tally.received += 1;
        self.tally.bytes += datagram.len() as u64;
        self.last = now;
        if number < self.highest {
            self.tally.reordered += 1;
        }
        self.highest = self.highest.max(number);
        let transit = (now - begun).as_nanos() as i128 - i128::from(at);
        if let Some(before) = self.transit.replace(transit) {
            self.jitter += ((transit - before).abs() as f64 - self.jitter) / 16.0;
        }
    }

    fn tally(&self, sent: u64) -> DatagramTally {
        let Some((first, begun)) = self.first else { return DatagramTally::default() };
        let lost = sent.saturating_sub(first).saturating_sub(self.tally.received);
        let nanos = u64::try_from((self.last - begun).as_nanos()).unwrap_or(u64::MAX);
        DatagramTally { lost, nanos, jitter_nanos: self.jitter as u64, ..self.tally }
    }
}

/// The number of datagrams that the client sent; `None` while the client is still sending.
fn end(patient: &PatientStream<'_>) -> io::Result<Option<u64>> {
    let mut first = [0];
    patient.connection.set_nonblocking(true)?;
    let seen = patient.connection.peek(&mut first);
    patient.connection.set_nonblocking(false)?;
    match seen {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => {
            let mut sent = [0; 8];
            patient.fill(&mut sent)?;
            Ok(Some(u64::from_be_bytes(sent)))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(number: u64, at_ms: u64) -> Vec<u8> {
        let mut bytes = [number.to_be_bytes(), (at_ms * 1_000_000).to_be_bytes()].concat();
        bytes.resize(100, 0);
        bytes
    }

    #[test]
    fn losses_order_and_jitter_are_those_of_the_datagrams() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut counting = Counting::new(ms(10));
        for (number, at, arrived) in
            [(0, 0, 0), (1, 5, 5), (2, 10, 10), (4, 20, 20), (3, 15, 21), (6, 30, 30)]
        {
            counting.add(&datagram(number, at), begin + ms(arrived));
        }
        counting.add(&datagram(1, 5), begin + ms(31));
        counting.add(b"short", begin + ms(32));
        let tally = counting.tally(8);
        assert_eq!((tally.received, tally.lost, tally.reordered, tally.bytes), (4, 2, 1, 400));
        assert_eq!(tally.nanos, 20_000_000);
        // The transit times are longer than the first one by 0, 0, 6 and 0 ms.
        let jitter = 6e6 / 16.0;
        assert!((tally.jitter_nanos as f64 - (jitter + (6e6 - jitter) / 16.0)).abs() < 1e4, "{tally:?}");
        assert!(believable(tally, 6).is_ok() && believable(tally, 5).is_err());
    }
}
