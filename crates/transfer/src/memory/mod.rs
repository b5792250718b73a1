//! Transfers into memory, from memory or from files that are read again and again, through the same streams as
//! transfers of files. From memory, they show the throughput of the path and the cipher without the influence of
//! storage.

pub mod feed;

use linerate_wire::control::{Message, Options, Totals};
use linerate_wire::frame::{FrameKind, Header, WINDOW_LOG};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::problem::TransferError;
use crate::memory::feed::{Feed, Files};
use crate::net::clock::{Clock, Counters, Stage};
use crate::net::crew::Crew;
use crate::net::session::{Event, Session, WorkerEnd, out_of_turn};
use crate::net::stream::{DATA_FRAME, FrameHandler, Stream, StreamError, total};

/// The number of streams if the user doesn't state it.
pub const DEFAULT_STREAMS: u32 = 2;

/// When a measurement ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After N bytes.
    Bytes(u64),
    /// After a time.
    Time(Duration),
}

/// Sends bytes from memory, or repeatedly the contents of `files`, until `until`; returns the number of bytes
/// that arrived and the number of streams that were used.
///
/// # Errors
/// If the far end fails or goes away, or a file can't be read.
pub fn send(
    session: &mut Session,
    options: &Options,
    until: Until,
    files: Option<&Files>,
) -> Result<(u64, u32), TransferError> {
    if session.wait_for_ready()?.0 {
        return Err(out_of_turn());
    }
    let counters = session.meters.local.clone();
    let left = AtomicU64::new(if let Until::Bytes(bytes) = until { bytes } else { u64::MAX });
    let deadline = if let Until::Time(time) = until { Some(Instant::now() + time) } else { None };
    let streams = options.streams.unwrap_or(DEFAULT_STREAMS).max(1);
    session.more(streams - 1)?;
    let used = thread::scope(|scope| {
        let work = |stream: Stream| (true, pour(stream, Feed::of(files), &left, deadline, &counters));
        let mut crew = Crew::new(scope, work);
        let driven = drive(session, &mut crew, |crew| Ok(crew.used == 0 || crew.running > 0));
        if driven.is_err() {
            session.cut();
        }
        driven.map(|_| crew.used)
    })?;
    session.send(&Message::Sent { totals: Totals::default(), streams: used, complete: true })?;
    Ok((session.wait_for_commit()?.bytes, used))
}

/// Receives bytes and discards them.
///
/// # Errors
/// If the far end fails or goes away.
pub fn discard(session: &mut Session) -> Result<(), TransferError> {
    session.send(&Message::Ready { offers: false, window: WINDOW_LOG })?;
    let counters = session.meters.local.clone();
    thread::scope(|scope| {
        let mut crew = Crew::new(scope, |stream| drain(stream, &counters));
        let mut announced = None;
        let driven = loop {
            match drive(session, &mut crew, |crew| crew.is_awaited(announced)) {
                Ok(Some(streams)) => announced = Some(streams),
                other => break other.map(drop),
            }
        };
        session.cut();
        driven
    })?;
    let bytes = counters.payload();
    session.send(&Message::Committed(Totals { bytes, ..Totals::default() }))
}

/// Runs the crew while `on` returns true; returns early with the number of streams that [`Message::Sent`] announces.
fn drive<'scope, W: Fn(Stream) -> WorkerEnd + Send + Sync + 'scope>(
    session: &mut Session,
    crew: &mut Crew<'scope, '_, W>,
    on: impl Fn(&mut Crew<'scope, '_, W>) -> Result<bool, TransferError>,
) -> Result<Option<u32>, TransferError> {
    while on(crew)? {
        match session.next(crew.ends())? {
            Event::Stream(stream) => crew.hire(stream),
            Event::Worker(end) => crew.ended(end, session.is_tunnelled())?,
            Event::Message(Message::Sent { streams, .. }) => return Ok(Some(streams)),
            Event::Message(_) => return Err(out_of_turn()),
            Event::Tick => session.report_progress()?,
        }
    }
    Ok(None)
}

fn pour(
    stream: Stream,
    mut feed: Feed<'_>,
    left: &AtomicU64,
    deadline: Option<Instant>,
    counters: &Counters,
) -> Result<(), StreamError> {
    counters.leaves_by(stream.link_rate());
    let (mut writer, mut clock) = (stream.into_writer(), Clock::start());
    // Bytes that no link can compress.
    let mut payload = vec![0; DATA_FRAME];
    aws_lc_rs::rand::fill(&mut payload).map_err(|_| StreamError::Protocol("no randomness"))?;
    while deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let take = |left: u64| left.checked_sub(left.min(DATA_FRAME as u64)).filter(|_| left > 0);
        let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else { break };
        let payload = &mut payload[..before.min(DATA_FRAME as u64) as usize];
        feed.fill(payload, &mut clock)?;
        writer.send(FrameKind::Data, payload, &mut clock)?;
        clock.bytes(payload.len() as u64);
        clock.flush_with(counters, || writer.tcp_info());
    }
    let tcp = writer.end(&mut clock)?;
    clock.finish(counters, tcp);
    Ok(())
}

fn drain(stream: Stream, counters: &Counters) -> WorkerEnd {
    let mut drain = Drain { clock: Clock::start() };
    let mut reader = stream.into_reader(None);
    let result = reader.run(&mut drain);
    drain.clock.finish(counters, None);
    (reader.is_used(), result)
}

struct Drain {
    clock: Clock,
}

impl FrameHandler for Drain {
    fn start(&mut self, header: Header) -> Result<(), StreamError> {
        match header.kind {
            FrameKind::Data | FrameKind::End => Ok(()),
            _ => Err(StreamError::Protocol("files, although only data without files was announced")),
        }
    }

    fn payload(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<(), StreamError> {
        self.clock.bytes(total(pieces));
        Ok(())
    }

    fn done(&mut self, _: FrameKind) -> Result<(), StreamError> {
        self.clock.lap(Stage::Cipher);
        Ok(())
    }

    fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }
}
