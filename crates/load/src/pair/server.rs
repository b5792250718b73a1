//! The server of endpoint pairs: `linerate serve rr`.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::serve::{PatientStream, Service};
use crate::window::StopFlag;

use super::hello::{HELLO, ReceiverTally, Role};
use super::{PEER_TIMEOUT, datagram};

/// The default number of connections that are served at the same time.
pub const WORKERS: usize = 256;
/// The size of a read in bytes, equal to iperf3's block.
const BLOCK: usize = 128 * 1024;
/// The longest time that a client may be idle between two transactions.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Answers requests and counts bulk data.
pub struct PairService;

impl Service for PairService {
    fn serve(&self, connection: TcpStream, stop: &StopFlag) {
        let patient = PatientStream { connection: &connection, stop, patience: PEER_TIMEOUT };
        let mut hello = [0; HELLO];
        if patient.fill(&mut hello).is_err() {
            return;
        }
        // A client that closes the connection early doesn't cause an error of the server. A connection that
        // doesn't begin with a hello is closed.
        let _ = match Role::decode(&hello) {
            Some(Role::Transactions { request, response }) => {
                let patient = PatientStream { patience: IDLE_TIMEOUT, ..patient };
                answer(&patient, request as usize, response as usize, usize::MAX)
            }
            Some(Role::Single { request, response }) => {
                answer(&patient, request as usize, response as usize, 1)
            }
            Some(Role::Bulk { ramp_us, window }) => {
                count(&patient, Duration::from_micros(ramp_us.min(LONGEST_US)), window)
            }
            Some(Role::SendFor { us, window }) => send(
                &patient,
                window,
                Some(Instant::now() + Duration::from_micros(us.min(LONGEST_US))),
                u64::MAX,
            ),
            Some(Role::SendBytes { bytes, window }) => send(&patient, window, None, bytes),
            Some(Role::Datagrams { ramp_us, window, port }) => {
                datagram::count(&patient, Duration::from_micros(ramp_us.min(LONGEST_US)), window, port)
            }
            None => Ok(()),
        };
    }
}

/// The longest time that a client may request, in microseconds: two days.
const LONGEST_US: u64 = 172_800_000_000;
/// The greatest size of a request or a response, in bytes.
const LONGEST: usize = 1 << 30;

/// Answers requests of `request` bytes. A request has at least one byte; otherwise the server would send
/// endless answers to a hello of 28 bytes.
fn answer(patient: &PatientStream<'_>, request: usize, response: usize, times: usize) -> io::Result<()> {
    let is_fit = |bytes: usize| (1..=LONGEST).contains(&bytes);
    if !is_fit(request) || !is_fit(response) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut buffer = vec![0; request.max(response).clamp(1, BLOCK)];
    for _ in 0..times {
        patient.take(request, &mut buffer)?;
        give(patient, response, &buffer)?;
    }
    Ok(())
}

/// Sends `bytes` arbitrary bytes.
pub(super) fn give(patient: &PatientStream<'_>, mut bytes: usize, buffer: &[u8]) -> io::Result<()> {
    while bytes > 0 {
        let length = bytes.min(buffer.len());
        patient.write_all(&buffer[..length])?;
        bytes -= length;
    }
    Ok(())
}

/// Sends until a time has passed or a number of bytes is sent, and then shuts down the sending direction.
fn send(patient: &PatientStream<'_>, window: u32, until: Option<Instant>, bytes: u64) -> io::Result<()> {
    if window > 0 {
        SockRef::from(patient.connection).set_send_buffer_size(window as usize)?;
    }
    let (block, mut left) = (vec![0; BLOCK], bytes);
    while left > 0 && until.is_none_or(|until| Instant::now() < until) {
        let length = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        left -= patient.write(&block[..length])? as u64;
    }
    patient.connection.shutdown(Shutdown::Write)?;
    // The client closes the connection first, when it has read everything.
    match patient.read(&mut [0; 1])? {
        0 => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn count(patient: &PatientStream<'_>, ramp: Duration, window: u32) -> io::Result<()> {
    let socket = SockRef::from(patient.connection);
    if window > 0 {
        socket.set_recv_buffer_size(window as usize)?;
    }
    let mut tally = receive(patient, ramp)?;
    tally.buffer = socket.recv_buffer_size()? as u64;
    patient.write_all(&tally.encode())
}

/// Counts the bytes that arrive after the ramp, until the other end ends.
pub(super) fn receive(patient: &PatientStream<'_>, ramp: Duration) -> io::Result<ReceiverTally> {
    let (mut buffer, mut tally, mut from) = (vec![0; BLOCK], ReceiverTally::default(), None);
    loop {
        let n = patient.read(&mut buffer)?;
        if n == 0 {
            return Ok(tally);
        }
        let now = Instant::now();
        let from = *from.get_or_insert(now + ramp);
        if now >= from {
            tally.bytes += n as u64;
            tally.nanos = u64::try_from((now - from).as_nanos()).unwrap_or(u64::MAX);
        }
    }
}
