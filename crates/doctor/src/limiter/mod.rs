//! Names the one thing that limits a transfer, with its share of the time and the numbers that show it.
//!
//! There are two pure functions: [`transfer::name`] for linerate's own transfers, whose workers assign all of their
//! time to stages, and [`command::name`] for any other program, about which only the kernel's counters are known.
//! docs/guide/limiter.md gives the reasons for the rules and the thresholds.

pub mod command;
mod device;
mod evidence;
mod path;
mod quota;
pub mod transfer;

use std::fmt;

pub use command::CommandEvidence;
pub use device::DeviceBytes;
pub use path::Flows;
pub use transfer::Evidence;

/// The resource or event that limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// A rate limit set by the user.
    RateLimit,
    /// Reading the sources.
    SourceRead,
    /// Opening, creating and naming many small files.
    SmallFiles,
    /// The sender's processors, or its share of them.
    SenderCpu,
    /// The sender's compressor, while the connection could carry more.
    Compression,
    /// A CPU quota of a control group, which stops an end until the quota's next period.
    CpuQuota,
    /// A thread that fills its processor while other processors of the host are idle.
    OneThread,
    /// The rate of the network: packets queue in front of it, it drops the excess, or the sender limits its own rate to
    /// that of the network.
    Network,
    /// The other end's receive window, which allows fewer bytes in flight than the path holds.
    Window,
    /// The sender's send buffer, which holds fewer bytes than the path.
    SendBuffer,
    /// ssh, through which the data goes: the thread of ssh, its window, or the network behind it. linerate can't see
    /// which.
    ThroughSsh,
    /// Lost segments, after each of which the sender slows down.
    Loss,
    /// The receiver's processors, or its share of them.
    ReceiverCpu,
    /// Writing the destination, or getting it onto stable storage.
    DestinationWrite,
    /// The far end's program, for which this end and the network wait.
    FarEndTool,
    /// The transfer ended before anything could be measured.
    TooShort,
    /// None of the measured resources is full.
    Unknown,
    /// The ends wait for the path or for each other, and none of the examined values shows why.
    NotExplained,
}

impl Limiter {
    /// All limiters.
    pub const ALL: [Self; 18] = [
        Self::RateLimit,
        Self::SourceRead,
        Self::SmallFiles,
        Self::SenderCpu,
        Self::Compression,
        Self::CpuQuota,
        Self::OneThread,
        Self::Network,
        Self::Window,
        Self::SendBuffer,
        Self::ThroughSsh,
        Self::Loss,
        Self::ReceiverCpu,
        Self::DestinationWrite,
        Self::FarEndTool,
        Self::TooShort,
        Self::Unknown,
        Self::NotExplained,
    ];

    /// A stable name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "rate-limit",
            Self::SourceRead => "source-read",
            Self::SmallFiles => "small-files",
            Self::SenderCpu => "sender-cpu",
            Self::Compression => "compression",
            Self::CpuQuota => "cpu-quota",
            Self::OneThread => "one-thread",
            Self::Network => "network",
            Self::Window => "window",
            Self::SendBuffer => "send-buffer",
            Self::ThroughSsh => "through-ssh",
            Self::Loss => "loss",
            Self::ReceiverCpu => "receiver-cpu",
            Self::DestinationWrite => "destination-write",
            Self::FarEndTool => "far-end-tool",
            Self::TooShort => "too-short",
            Self::Unknown => "unknown",
            Self::NotExplained => "not-explained",
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
            Self::Compression => "the sender's compression",
            Self::CpuQuota => "the CPU quota",
            Self::OneThread => "one thread",
            Self::Network => "the network",
            Self::Window => "TCP's window",
            Self::SendBuffer => "the send buffer",
            Self::ThroughSsh => "ssh, through which the data goes",
            Self::Loss => "lost segments",
            Self::ReceiverCpu => "the receiver's processors",
            Self::DestinationWrite => "writing the destination",
            Self::FarEndTool => "the far end's program",
            Self::TooShort => "nothing (too short to say)",
            Self::Unknown => "nothing that was measured",
            Self::NotExplained => "not explained",
        })
    }
}

/// The limiter, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The limiter.
    pub limiter: Limiter,
    /// The program, end or host to which [`Limiter::OneThread`] or [`Limiter::CpuQuota`] belongs; `None` for other
    /// limiters.
    pub whose: Option<String>,
    /// Share of the time in which the rest of the transfer waits for the limiter, or in which the limiter is full, 0 to
    /// 1.
    pub share: f64,
    /// The numbers that show the limiter, for people; empty if there are none.
    pub evidence: String,
}

impl Verdict {
    /// A limiter with its share, clamped to 0 to 1, and its evidence.
    fn new(limiter: Limiter, share: f64, evidence: String) -> Self {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        Self { limiter, whose: None, share, evidence }
    }

    fn of(mut self, whose: &str) -> Self {
        self.whose = Some(whose.to_owned());
        self
    }

    /// The limiter without its evidence, as the end of a sentence: `limited by one thread of scp`.
    pub fn clause(&self) -> String {
        match self.limiter {
            Limiter::NotExplained => "limit not explained".into(),
            _ => format!("limited by {}", self.what()),
        }
    }

    /// The limiter without its evidence: `one thread of scp`.
    pub fn what(&self) -> String {
        match &self.whose {
            Some(whose) => format!("{} of {whose}", self.limiter),
            None => self.limiter.to_string(),
        }
    }
}

/// With `{:#}`, the verdict is the end of a sentence: `limited by the network (...)`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&if f.alternate() { self.clause() } else { self.what() })?;
        if self.evidence.is_empty() { Ok(()) } else { write!(f, " ({})", self.evidence) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_their_own() {
        let mut names: Vec<_> = Limiter::ALL.iter().map(|limiter| limiter.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Limiter::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
    }

    #[test]
    fn a_share_is_one_whatever_was_measured() {
        for (measured, share) in [(f64::NAN, 0.0), (-1.0, 0.0), (7.0, 1.0), (0.25, 0.25)] {
            assert_eq!(Verdict::new(Limiter::Loss, measured, String::new()).share, share);
        }
    }

    #[test]
    fn it_reads_as_a_sentence() {
        let verdict = Verdict::new(Limiter::OneThread, 0.98, "98 % of a processor".into()).of("scp");
        assert_eq!(verdict.to_string(), "one thread of scp (98 % of a processor)");
        let network = Verdict::new(Limiter::Network, 1.0, String::new());
        assert_eq!(
            (network.to_string(), network.clause()),
            ("the network".into(), "limited by the network".into())
        );
        let open = Verdict::new(Limiter::NotExplained, 0.9, "no queue".into());
        assert_eq!(open.to_string(), "not explained (no queue)");
        assert_eq!(format!("{open:#}"), "limit not explained (no queue)");
    }
}
