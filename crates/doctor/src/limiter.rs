//! Names the one stage that holds a transfer back.
//!
//! Each end's workers give all of their time to stages. A sender that mostly waits for its socket is held back by
//! what follows it, one that doesn't by its own busiest stage; a receiver that mostly waits for its socket is fed
//! too slowly, by the network where the sender waits as well.

use linerate_wire::stages::{Stages, Usage};
use std::fmt;

/// Share of a worker's time in the socket from which it counts as waiting.
const WAITS: f64 = 0.5;
/// Share of the time in which the user's rate limit held the sender, from which it is the limiter.
const LIMITED: f64 = 0.2;
/// Processor use of an end, over all its processors, from which it is the limiter.
const BUSY: f64 = 0.85;
/// Share of the whole time that passed after the last byte, from which stable storage is the limiter.
const SETTLING: f64 = 0.5;
/// Mean size of an entry in bytes below which the files' number counts, not their bytes.
const SMALL: u64 = 64 << 10;
/// Workers' time in nanoseconds below which nothing can be said.
const TOO_SHORT: u64 = 20_000_000;

/// What holds a transfer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// The user's own rate limit.
    RateLimit,
    /// Reading the sources.
    SourceRead,
    /// Opening, making and naming many small files.
    SmallFiles,
    /// The sender's processors.
    SenderCpu,
    /// The network: neither end has anything to do but wait for it.
    Network,
    /// The receiver's processors.
    ReceiverCpu,
    /// Writing the destination, or getting it onto stable storage.
    DestinationWrite,
    /// It was over before anything could be seen.
    TooShort,
}

impl Limiter {
    /// A stable name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "rate-limit",
            Self::SourceRead => "source-read",
            Self::SmallFiles => "small-files",
            Self::SenderCpu => "sender-cpu",
            Self::Network => "network",
            Self::ReceiverCpu => "receiver-cpu",
            Self::DestinationWrite => "destination-write",
            Self::TooShort => "too-short",
        }
    }
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RateLimit => "the rate limit that was set",
            Self::SourceRead => "reading the source",
            Self::SmallFiles => "the number of small files",
            Self::SenderCpu => "the sender's processors",
            Self::Network => "the network",
            Self::ReceiverCpu => "the receiver's processors",
            Self::DestinationWrite => "writing the destination",
            Self::TooShort => "nothing (too short to say)",
        })
    }
}

/// What is known of a transfer, so far or as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// The sender's stages.
    pub sender: Stages,
    /// The receiver's stages.
    pub receiver: Stages,
    /// What the sender's process used, where it is known.
    pub sender_usage: Option<Usage>,
    /// What the receiver's process used, where it is known.
    pub receiver_usage: Option<Usage>,
    /// Seconds of the transfer.
    pub seconds: f64,
}

/// Names the limiter.
pub fn limiter(evidence: &Evidence) -> Limiter {
    let Evidence { sender, receiver, .. } = evidence;
    if sender.lifetime < TOO_SHORT || receiver.lifetime < TOO_SHORT {
        return Limiter::TooShort;
    }
    let by_stage = stage_limiter(sender, receiver, evidence);
    let many_small = sender.entries > 0 && sender.bytes / sender.entries < SMALL;
    match by_stage {
        Limiter::SourceRead | Limiter::DestinationWrite if many_small => Limiter::SmallFiles,
        other => other,
    }
}

fn stage_limiter(sender: &Stages, receiver: &Stages, evidence: &Evidence) -> Limiter {
    if share(sender.limit, sender) >= LIMITED {
        return Limiter::RateLimit;
    }
    if settling(sender, evidence.seconds) >= SETTLING {
        return Limiter::DestinationWrite;
    }
    if busy(evidence.sender_usage, evidence.seconds) >= BUSY {
        return Limiter::SenderCpu;
    }
    if busy(evidence.receiver_usage, evidence.seconds) >= BUSY {
        return Limiter::ReceiverCpu;
    }
    let (sender_waits, receiver_waits) = (share(sender.socket, sender), share(receiver.socket, receiver));
    if sender_waits >= WAITS && receiver_waits >= WAITS {
        return Limiter::Network;
    }
    if sender_waits >= receiver_waits { receiver_stage(receiver) } else { sender_stage(sender) }
}

/// The busiest of the stages in which the sender itself works; the scanner's time is reading too.
fn sender_stage(sender: &Stages) -> Limiter {
    if sender.cipher > sender.read + sender.queue { Limiter::SenderCpu } else { Limiter::SourceRead }
}

fn receiver_stage(receiver: &Stages) -> Limiter {
    if receiver.cipher > receiver.write { Limiter::ReceiverCpu } else { Limiter::DestinationWrite }
}

fn share(part: u64, of: &Stages) -> f64 {
    part as f64 / of.lifetime.max(1) as f64
}

fn settling(sender: &Stages, seconds: f64) -> f64 {
    let streaming = sender.lifetime as f64 * 1e-9 / sender.workers.max(1) as f64;
    if seconds > 0.0 { 1.0 - streaming / seconds } else { 0.0 }
}

fn busy(usage: Option<Usage>, seconds: f64) -> f64 {
    let Some(usage) = usage else { return 0.0 };
    let available = seconds * f64::from(usage.processors.max(1));
    if available > 0.0 { usage.cpu_seconds / available } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sender(read: u64, cipher: u64, socket: u64) -> Stages {
        let percent = SECOND / 100;
        let queue = SECOND - (read + cipher + socket) * percent;
        Stages {
            workers: 1,
            lifetime: SECOND,
            queue,
            read: read * percent,
            cipher: cipher * percent,
            socket: socket * percent,
            bytes: SECOND,
            entries: 100,
            ..Stages::default()
        }
    }

    fn receiver(socket: u64, cipher: u64, write: u64) -> Stages {
        let percent = SECOND / 100;
        Stages {
            workers: 1,
            lifetime: SECOND,
            socket: socket * percent,
            cipher: cipher * percent,
            write: write * percent,
            bytes: SECOND,
            entries: 100,
            ..Stages::default()
        }
    }

    fn named(sender: Stages, receiver: Stages) -> Limiter {
        limiter(&Evidence { sender, receiver, seconds: 1.0, ..Evidence::default() })
    }

    #[test]
    fn each_stage_is_named_where_the_others_wait_for_it() {
        assert_eq!(named(sender(10, 10, 80), receiver(80, 10, 10)), Limiter::Network);
        assert_eq!(named(sender(80, 10, 10), receiver(80, 10, 10)), Limiter::SourceRead);
        assert_eq!(named(sender(10, 80, 10), receiver(80, 10, 10)), Limiter::SenderCpu);
        assert_eq!(named(sender(10, 10, 80), receiver(10, 10, 80)), Limiter::DestinationWrite);
        assert_eq!(named(sender(10, 10, 80), receiver(10, 80, 10)), Limiter::ReceiverCpu);
        assert_eq!(named(sender(10, 10, 10), receiver(80, 10, 10)), Limiter::SourceRead, "a slow scanner");
    }

    #[test]
    fn small_files_are_told_from_slow_storage() {
        let small = |stages: Stages| Stages { entries: 1_000_000, ..stages };
        assert_eq!(named(small(sender(80, 10, 10)), receiver(80, 10, 10)), Limiter::SmallFiles);
        assert_eq!(named(small(sender(10, 10, 80)), receiver(10, 10, 80)), Limiter::SmallFiles);
        assert_eq!(named(small(sender(10, 10, 80)), receiver(80, 10, 10)), Limiter::Network);
    }

    #[test]
    fn the_users_own_limit_comes_first() {
        let limited = Stages { limit: SECOND / 2, ..sender(10, 10, 20) };
        assert_eq!(named(limited, receiver(90, 5, 5)), Limiter::RateLimit);
    }

    #[test]
    fn a_long_wait_for_storage_is_the_destinations() {
        let evidence = Evidence {
            sender: sender(10, 10, 80),
            receiver: receiver(80, 10, 10),
            seconds: 10.0,
            ..Evidence::default()
        };
        assert_eq!(limiter(&evidence), Limiter::DestinationWrite);
    }

    #[test]
    fn a_full_processor_is_named_before_the_waiting_that_it_causes() {
        let usage = Usage { cpu_seconds: 3.9, peak_rss_bytes: 0, processors: 4 };
        let evidence = Evidence {
            sender: sender(10, 10, 80),
            receiver: receiver(80, 10, 10),
            receiver_usage: Some(usage),
            seconds: 1.0,
            ..Evidence::default()
        };
        assert_eq!(limiter(&evidence), Limiter::ReceiverCpu);
    }

    #[test]
    fn nothing_is_said_of_an_instant() {
        assert_eq!(named(Stages::default(), Stages::default()), Limiter::TooShort);
    }
}
