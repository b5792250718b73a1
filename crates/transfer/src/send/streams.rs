//! The number of data streams: fixed by the user, or found by trials.

use linerate_wire::control::Options;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::auto::{Advice, Controller, FIRST, FIRST_FAR, Glance, LONG_ROUND_TRIP};
use crate::net::clock::Counters;
use crate::net::pace::Pace;
use crate::net::session::{MAX_STREAMS, Session};
use crate::net::stream::Stream;
use crate::send::compressing::Compressing;
use crate::send::transmission::Transmission;

/// The bytes and files that one stream can send before a second stream would be established. For less, one
/// stream is used.
const LITTLE: (u64, u64) = (1 << 20, 64);

/// The number of streams of one transfer.
pub struct Streams {
    /// The number of streams at the beginning.
    pub first: u32,
    auto: Option<Controller>,
    /// True if one stream compresses all data and has proved to be enough.
    is_alone: bool,
}

impl Streams {
    /// The number of streams according to `options`. `counters` contain what the scan has found so far.
    pub fn new(options: &Options, counters: &Counters) -> Self {
        if let Some(fixed) = options.streams {
            return Self::fixed(fixed.clamp(1, MAX_STREAMS));
        }
        let found = counters.found.get();
        let (bytes, files) = LITTLE;
        let is_little =
            counters.scanned.load(Ordering::Acquire) && found.bytes <= bytes && found.files <= files;
        if is_little {
            return Self::fixed(1);
        }
        // If everything is compressed, a single stream compresses best, because it sees all data.
        let first = if options.compression.level.is_always() { 1 } else { FIRST };
        Self { first, auto: Some(Controller::new(first, Instant::now())), is_alone: false }
    }

    /// A fixed number of `first` streams.
    pub fn fixed(first: u32) -> Self {
        Self { first, auto: None, is_alone: false }
    }

    /// The number of streams that are expected soon, which determines the size of a large file's parts.
    pub fn planned(&self) -> u32 {
        if self.auto.is_some() { FIRST_FAR } else { self.first }
    }

    /// Handles a new stream. The first stream shows whether the path is long.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn meet(&mut self, session: &Session, stream: &Stream) -> Result<(), TransferError> {
        let round_trip = stream.tcp_info().map_or(0, |tcp| tcp.min_rtt_us);
        let is_far = Duration::from_micros(round_trip.into()) >= LONG_ROUND_TRIP;
        let is_first = self.auto.as_ref().is_some_and(|controller| controller.streams() == self.first);
        self.widen(session, if is_first && is_far { FIRST_FAR } else { 0 })
    }

    /// Requests streams until there are at least `least` streams, and at least one for each link.
    fn widen(&mut self, session: &Session, least: u32) -> Result<(), TransferError> {
        let widens = !self.is_alone && !session.is_tunnelled();
        let Some(controller) = self.auto.as_mut().filter(|_| widens) else { return Ok(()) };
        let (links, streams) = (session.routes(), controller.streams());
        controller.keep_at_least(links);
        controller.begin_with(streams.max(least).max(links));
        session.more(controller.streams() - streams)
    }

    /// Adds or drops streams if that helps; `running` is the current number.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn adjust(
        &mut self,
        session: &Session,
        shared: &Transmission<'_>,
        running: u32,
    ) -> Result<(), TransferError> {
        self.widen(session, 0)?;
        let Some(controller) = &mut self.auto else { return Ok(()) };
        if session.is_tunnelled() {
            return Ok(());
        }
        if !self.is_alone && shared.compressing.as_ref().is_some_and(Compressing::is_alone) {
            self.is_alone = true;
            controller.begin_with(1);
            shared.leave.store(running.saturating_sub(1), Ordering::Release);
        }
        let glance = Glance {
            at: Instant::now(),
            sender: shared.counters.stages(),
            receiver: lock(&session.meters.remote).stages,
            is_held: shared.pace.as_ref().is_some_and(Pace::is_holding),
        };
        if shared.pace.as_ref().is_some_and(Pace::is_trying) {
            // While the pace tries a higher rate, the gain of a new stream can't be measured.
            controller.put_off(glance);
            return Ok(());
        }
        match controller.advise(glance) {
            Advice::Keep => {}
            Advice::Add(count) => session.more(count)?,
            // Fewer streams than requested may exist.
            Advice::Drop(_) => {
                shared.leave.store(running.saturating_sub(controller.streams()), Ordering::Release)
            }
        }
        Ok(())
    }
}
