//! One direction of the link, in simulated time: loss, then the queue and the rate, then the delay.

use std::ops::Range;

use super::fifo::{Fifo, LONGEST};
use super::loss::LossDraws;
use super::packet::{PacketShape, cut};
use super::shaper::Shaper;
use super::{SegmentCounts, Wan};
use crate::rate::Rate;

/// The rate in bits per second for which the memory of an open link is allocated.
const OPEN: u64 = 40_000_000_000;

/// The greatest lateness of deliveries, in nanoseconds, for which there is enough memory.
const LATE: u64 = 20_000_000;

/// The longest time in nanoseconds that one piece may occupy the link. A longer super-packet is cut, so that
/// its first segments don't arrive late.
const AT_ONCE: u64 = 750_000;

/// One direction of the link. Times are nanoseconds since an arbitrary moment.
#[derive(Debug)]
pub(crate) struct LinkLine {
    shaper: Option<Shaper>,
    losses: LossDraws,
    /// Nanoseconds between the end of the transmission of a packet and its arrival.
    delay: u64,
    /// The largest part of a super-packet that is queued as one piece, in bytes on the wire.
    at_once: u64,
    fifo: Fifo,
    /// A buffer for a packet that must be cut, or for which the ring has no memory.
    aside: Vec<u8>,
    piece: Vec<u8>,
    is_aside: bool,
    counts: SegmentCounts,
}

/// The time at which a packet was read (`now`), and the last earlier time at which no packet was waiting (`since`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTimes {
    pub(crate) since: u64,
    pub(crate) now: u64,
}

impl LinkLine {
    /// A line with this rate (`None`: open). `seed` determines the lost segments.
    pub(crate) fn new(rate: Option<Rate>, wan: &Wan, seed: u64) -> Self {
        let delay = wan.rtt.one_way_ns();
        let queue = wan.queue_bytes(rate).unwrap_or(0);
        let bits = rate.map_or(OPEN, Rate::bits_per_second);
        let in_time = |ns: u64| u128::from(bits) * u128::from(ns) / 8_000_000_000;
        let memory = in_time(delay + LATE) + u128::from(queue);
        Self {
            shaper: rate.map(|rate| Shaper::new(rate, queue)),
            losses: LossDraws::new(wan.loss, seed),
            delay,
            at_once: u64::try_from(in_time(AT_ONCE)).unwrap_or(u64::MAX),
            fifo: Fifo::new(usize::try_from(memory).unwrap_or(usize::MAX / 2)),
            aside: vec![0; LONGEST],
            piece: Vec::with_capacity(LONGEST),
            is_aside: false,
            counts: SegmentCounts::default(),
        }
    }

    /// The memory for the next packet.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        match self.fifo.room() {
            Some(room) => {
                self.is_aside = false;
                room
            }
            None => {
                self.is_aside = true;
                &mut self.aside
            }
        }
    }

    /// Accepts the packet of this length that was read into [`LinkLine::buffer`].
    pub(crate) fn accept(&mut self, seen: ReadTimes, length: usize) {
        let bytes =
            if self.is_aside { &self.aside[..length.min(LONGEST)] } else { self.fifo.written(length) };
        let Some(shape) = PacketShape::of(bytes) else { return };
        self.counts.segments += shape.segments as u64;
        if self.is_aside {
            self.counts.dropped += shape.segments as u64;
            return;
        }
        let whole = 0..shape.segments;
        let passed = self.losses.pass(shape.segments);
        if passed == shape.segments && self.fits_at_once(&shape, seen.now) {
            let release = self.send(seen, shape.wire_bytes(&whole));
            return self.fifo.push(length, release);
        }
        self.aside[..length].copy_from_slice(self.fifo.written(length));
        self.accept_parts(seen, length, &shape, passed);
    }

    /// The first packet that has arrived by now.
    pub(crate) fn arrived(&self, now: u64) -> Option<&[u8]> {
        self.next_release().filter(|release| *release <= now).and_then(|_| self.fifo.first())
    }

    /// Removes the first packet, which was delivered at this time.
    pub(crate) fn hand_over(&mut self, now: u64) {
        let late = now.saturating_sub(self.fifo.next_release().unwrap_or(now));
        self.counts.latest_ns = self.counts.latest_ns.max(late);
        self.fifo.pop();
    }

    /// The arrival time of the first packet.
    pub(crate) fn next_release(&self) -> Option<u64> {
        self.fifo.next_release()
    }

    /// Counts of all segments so far.
    pub(crate) fn counts(&self) -> SegmentCounts {
        self.counts
    }

    fn accept_parts(&mut self, seen: ReadTimes, length: usize, shape: &PacketShape, mut passed: usize) {
        let mut first = 0;
        loop {
            self.accept_run(seen, length, shape, first..first + passed);
            let lost = first + passed;
            if lost >= shape.segments {
                return;
            }
            self.lose(seen, shape, lost);
            first = lost + 1;
            passed = self.losses.pass(shape.segments - first);
        }
    }

    /// Queues adjacent segments in pieces, as long as the queue has room.
    fn accept_run(&mut self, seen: ReadTimes, length: usize, shape: &PacketShape, run: Range<usize>) {
        let step = usize::try_from(self.at_once / shape.wire_bytes_of_one()).unwrap_or(usize::MAX).max(1);
        let mut first = run.start;
        while first < run.end {
            let wanted = first.saturating_add(step).min(run.end) - first;
            let fitting = self.fitting(shape, seen.now).min(wanted);
            let kept = if self.keep(seen, length, shape, first..first + fitting) { fitting } else { 0 };
            self.counts.dropped += (wanted - kept) as u64;
            first += wanted;
        }
    }

    fn keep(&mut self, seen: ReadTimes, length: usize, shape: &PacketShape, range: Range<usize>) -> bool {
        if range.is_empty() {
            return true;
        }
        cut(&self.aside[..length], shape, range.clone(), &mut self.piece);
        let Some(room) = self.fifo.room() else { return false };
        let length = self.piece.len().min(LONGEST);
        room[..length].copy_from_slice(&self.piece[..length]);
        let release = self.send(seen, shape.wire_bytes(&range));
        self.fifo.push(length, release);
        true
    }

    /// Counts a lost segment, which uses its time on the link but doesn't arrive.
    fn lose(&mut self, seen: ReadTimes, shape: &PacketShape, segment: usize) {
        self.counts.lost += 1;
        if self.fitting(shape, seen.now) > 0 {
            self.send(seen, shape.wire_bytes(&(segment..segment + 1)));
        }
    }

    fn send(&mut self, seen: ReadTimes, bytes: u64) -> u64 {
        let left = self.shaper.as_mut().map_or(seen.now, |shaper| shaper.send(seen.since, seen.now, bytes));
        left.saturating_add(self.delay)
    }

    fn fits_at_once(&self, shape: &PacketShape, now: u64) -> bool {
        let short = shape.segments == 1 || shape.wire_bytes(&(0..shape.segments)) <= self.at_once;
        short && self.fitting(shape, now) >= shape.segments
    }

    /// The number of segments that fit in the queue. An idle link accepts one segment even if the queue is
    /// smaller.
    fn fitting(&self, shape: &PacketShape, now: u64) -> usize {
        let Some(shaper) = &self.shaper else { return usize::MAX };
        let fitting = usize::try_from(shaper.room(now) / shape.wire_bytes_of_one()).unwrap_or(usize::MAX);
        fitting.max(usize::from(shaper.is_idle(now)))
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
