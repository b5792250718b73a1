//! A link with delay and loss: an emulator in user space between two TUN interfaces, one in each namespace.
//!
//! | file | does |
//! | --- | --- |
//! | `packet.rs` | the segments of a super-packet, and packets that hold only some of the segments |
//! | `loss.rs`, `shaper.rs`, `fifo.rs` | random loss; rate and queue; packets in flight |
//! | `line.rs` | one direction of a link, made of the parts above, in simulated time |
//! | `carry.rs` | two threads for each link, which carry packets from one interface to the other |
//! | `emulator.rs` | starts and ends the process in which the threads of `carry.rs` run |

mod carry;
mod emulator;
mod fifo;
#[doc(hidden)]
pub mod foreign;
mod line;
mod loss;
mod packet;
mod rtt;
mod shaper;

use serde::{Deserialize, Serialize};

pub use carry::serve;
pub(crate) use emulator::{Emulator, counts};
pub use loss::{Loss, LossError};
pub use packet::FRAMING;
pub use rtt::{Rtt, RttError};

use crate::rate::Rate;

/// The subcommand with which a program that makes labs starts itself as an emulator. It runs [`serve`].
pub const SUBCOMMAND: &str = "wan";

/// The smallest length of the queue, in nanoseconds at the link's rate. It applies to short round trips, and equals the
/// length of the queue of a link without an emulator.
const LEAST_QUEUE_NS: u64 = 20_000_000;

/// The rate in bits per second for which TCP windows are sized on an open link.
const WINDOW_RATE: u64 = 10_000_000_000;

/// The lower bound of [`Wan::tcp_buffer_max`], in bytes.
const LEAST_BUFFER: u64 = 128 << 20;

/// Delay and loss of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wan {
    /// The round-trip time that the link adds, half of it in each direction.
    pub rtt: Rtt,
    /// The share of lost segments in each direction.
    pub loss: Loss,
    /// Bytes that may wait at each end of a link with a rate, including headers and framing; `None` for the
    /// bytes of one round trip, or of 20 ms if that is longer.
    pub queue: Option<u64>,
    /// The seed of the random losses. The same seed gives the same losses.
    pub seed: u64,
}

impl Wan {
    /// The queue's size in bytes at this rate; `None` for an open link, which has no queue.
    pub fn queue_bytes(&self, rate: Option<Rate>) -> Option<u64> {
        let time = self.rtt.ns().max(LEAST_QUEUE_NS);
        let carried = |rate: Rate| in_time(rate.bits_per_second(), time);
        rate.map(|rate| self.queue.unwrap_or_else(|| carried(rate)))
    }

    /// The maximum size of TCP buffers, in bytes, with which one connection can fill the link. It is four times the
    /// bytes in flight, because the kernel counts its own overhead and allows a sender twice its window. It is at least
    /// 128 MiB.
    pub(crate) fn tcp_buffer_max(&self, rate: Option<Rate>) -> u64 {
        let bits = rate.map_or(WINDOW_RATE, Rate::bits_per_second);
        (4 * in_time(bits, self.rtt.ns())).clamp(LEAST_BUFFER, i32::MAX as u64)
    }
}

fn in_time(bits_per_second: u64, ns: u64) -> u64 {
    let bytes = u128::from(bits_per_second) * u128::from(ns) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX / 8)
}

/// Counts of the segments in one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentCounts {
    /// The number of segments that were sent.
    pub segments: u64,
    /// The number of segments that the emulator lost on purpose.
    pub lost: u64,
    /// The number of segments that were dropped because the queue was full.
    pub dropped: u64,
    /// The largest delay, in nanoseconds, that a busy processor added to the delivery of a packet.
    pub latest_ns: u64,
}
