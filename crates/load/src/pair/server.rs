//! The server of endpoint pairs: `linerate serve rr`.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::serve::{PatientStream, Service};
use crate::window::StopFlag;

use super::PATIENCE;
use super::hello::{HELLO, ReceiverTally, Role};

/// The default number of connections that are served at once.
pub const WORKERS: usize = 256;
/// Bytes of a read, like iperf3's block.
const BLOCK: usize = 128 * 1024;
/// The longest silence of a client between two transactions.
const IDLE: Duration = Duration::from_secs(60);

/// Answers requests and counts bulk.
pub struct PairService;

impl Service for PairService {
    fn serve(&self, connection: TcpStream, stop: &StopFlag) {
        let patient = PatientStream { connection: &connection, stop, patience: PATIENCE };
        let mut hello = [0; HELLO];
        if patient.fill(&mut hello).is_err() {
            return;
        }
        // A client that goes away early is no error of the server; a stranger is dropped.
        let _ = match Role::decode(&hello) {
            Some(Role::Transactions { request, response }) => {
                let patient = PatientStream { patience: IDLE, ..patient };
                answer(&patient, request as usize, response as usize, usize::MAX)
            }
            Some(Role::Single { request, response }) => {
                answer(&patient, request as usize, response as usize, 1)
            }
            Some(Role::Bulk { warm_up_us, window }) => {
                count(&patient, Duration::from_micros(warm_up_us), window)
            }
            None => Ok(()),
        };
    }
}

/// The longest request and response, in bytes.
const LONGEST: usize = 1 << 30;

/// Requests have at least one byte: otherwise a hello of 28 bytes would be answered for ever.
fn answer(patient: &PatientStream<'_>, request: usize, response: usize, times: usize) -> io::Result<()> {
    if !(1..=LONGEST).contains(&request) || response > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut buffer = vec![0; request.max(response).clamp(1, BLOCK)];
    for _ in 0..times {
        patient.take(request, &mut buffer)?;
        give(patient, response, &buffer)?;
    }
    Ok(())
}

/// Sends this number of arbitrary bytes.
pub(super) fn give(patient: &PatientStream<'_>, mut bytes: usize, buffer: &[u8]) -> io::Result<()> {
    while bytes > 0 {
        let length = bytes.min(buffer.len());
        patient.write_all(&buffer[..length])?;
        bytes -= length;
    }
    Ok(())
}

fn count(patient: &PatientStream<'_>, warm_up: Duration, window: u32) -> io::Result<()> {
    let socket = SockRef::from(patient.connection);
    if window > 0 {
        socket.set_recv_buffer_size(window as usize)?;
    }
    let mut tally = receive(patient, warm_up)?;
    tally.buffer = socket.recv_buffer_size()? as u64;
    patient.write_all(&tally.encode())
}

fn receive(patient: &PatientStream<'_>, warm_up: Duration) -> io::Result<ReceiverTally> {
    let (mut buffer, mut tally, mut from) = (vec![0; BLOCK], ReceiverTally::default(), None);
    loop {
        let n = patient.read(&mut buffer)?;
        if n == 0 {
            return Ok(tally);
        }
        let now = Instant::now();
        let from = *from.get_or_insert(now + warm_up);
        if now >= from {
            tally.bytes += n as u64;
            tally.nanos = u64::try_from((now - from).as_nanos()).unwrap_or(u64::MAX);
        }
    }
}
