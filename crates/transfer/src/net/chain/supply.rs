//! Notices that the host before this one withholds data.
//!
//! That host may be hostile: it can claim that it has forwarded everything, or keep its connections open
//! without sending. So this host trusts only the source, which reports how many bytes it has sent, and
//! whether these were all. Time counts only while this host has nothing to forward or write.

use linerate_wire::sealed::MAX_SEALED;
use linerate_wire::stages::Stages;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::host::ChainHost;
use super::patience;

/// The source reports its progress once a second. If the number of sent bytes in these reports stays the same for this
/// time, the source isn't sending.
const SENDING: Duration = Duration::from_secs(3);
/// Bytes that the source counts as sent and that may still be on their way: for each of up to 64 streams, the
/// source collects a part before it sends it.
const ON_THEIR_WAY: u64 = 64 * MAX_SEALED as u64;
/// The overhead of TLS and frames, which the source counts and this host doesn't, is less than this fraction
/// (1/64) of the bytes that the source has sent.
const OVERHEAD_DIVISOR: u64 = 64;
/// After the source has sent everything, the rest must arrive with at least this share of the source's rate.
/// In a chain of honest hosts the source sends no faster than the slowest host accepts data, so the rest
/// arrives at about the source's rate.
const LEAST_RATE_SHARE: f64 = 0.125;

/// Watches the data that comes from the host before this one.
pub struct Supply {
    host: Arc<ChainHost>,
    patience: Duration,
    looked: Instant,
    accepted: u64,
    /// For how long no data has arrived although the source has sent more.
    still: Duration,
    /// The bytes that the source has sent, and when that number last changed.
    sent: (u64, Instant),
    /// Set once the source has sent everything: the bytes that had been accepted at the beginning of the
    /// current period, and the length of the period so far.
    rest: Option<(u64, Duration)>,
}

impl Supply {
    /// The supply of `host`; `timeout` is the user's limit for a silent end. `None` for the first host, which
    /// gets its data from the source.
    pub fn new(host: Arc<ChainHost>, timeout: Duration, now: Instant) -> Option<Self> {
        let patience = patience(host.hosts(), timeout);
        let (accepted, still, sent, rest) = (host.accepted(), Duration::ZERO, (0, now), None);
        let is_first = host.is_first();
        (!is_first).then_some(Self { host, patience, looked: now, accepted, still, sent, rest })
    }

    /// Checks whether the host before this one withholds data. Called as long as some streams haven't arrived or
    /// haven't ended. `source` has the source's counters; `is_all` is true once the source has sent everything.
    ///
    /// # Errors
    /// If the host before this one has withheld data for too long.
    pub fn look(&mut self, source: &Stages, is_all: bool, now: Instant) -> Result<(), String> {
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        let idle = if self.host.is_busy() { Duration::ZERO } else { passed };
        if source.wire != self.sent.0 {
            self.sent = (source.wire, now);
        }
        let accepted = self.host.accepted();
        let is_new = std::mem::replace(&mut self.accepted, accepted) != accepted;
        if is_new {
            self.still = Duration::ZERO;
        } else if is_all || self.is_behind(now) {
            self.still += idle;
        }
        if self.still > self.patience {
            let seconds = self.patience.as_secs();
            return Err(format!(
                "the previous host has sent nothing for {seconds} s, although the source has sent more"
            ));
        }
        if is_all { self.look_at_the_rest(source, idle) } else { Ok(()) }
    }

    /// True if the source is sending, and many of the bytes that it has sent haven't arrived.
    fn is_behind(&self, now: Instant) -> bool {
        let (sent, last) = self.sent;
        let much = ON_THEIR_WAY + sent / OVERHEAD_DIVISOR;
        now.saturating_duration_since(last) < SENDING && sent.saturating_sub(self.accepted) > much
    }

    fn look_at_the_rest(&mut self, source: &Stages, idle: Duration) -> Result<(), String> {
        let (before, time) = self.rest.get_or_insert((self.accepted, Duration::ZERO));
        *time += idle;
        if *time < self.patience || source.span == 0 {
            return Ok(());
        }
        let rate = source.wire as f64 / Duration::from_nanos(source.span).as_secs_f64();
        let came = self.accepted.saturating_sub(*before) as f64 / time.as_secs_f64();
        (*before, *time) = (self.accepted, Duration::ZERO);
        if came >= LEAST_RATE_SHARE * rate {
            return Ok(());
        }
        let seconds = self.patience.as_secs();
        Err(format!(
            "the source has sent everything, but for {seconds} s the previous host has passed the data on at less than an eighth of the source's rate"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::ChainProgress;
    use super::super::source::ChainSource;
    use super::*;
    use linerate_wire::control::ChainLink;

    const MIB: u64 = 1 << 20;
    /// The patience with the second of two hosts, in seconds.
    const SECOND_HOST_TIMEOUT: u64 = 14;

    /// The second of two hosts, to which parts come from the source.
    struct Bed {
        source: ChainSource,
        host: Arc<ChainHost>,
        so_far: ChainProgress,
        /// The number of parts that have arrived.
        parts: u64,
        supply: Supply,
        begun: Instant,
        sent: Stages,
    }

    impl Bed {
        fn new() -> Self {
            let (source, begun) = (ChainSource::new(2).unwrap(), Instant::now());
            let host = Arc::new(host(&source, 1));
            let supply = Supply::new(host.clone(), Duration::from_secs(5), begun).unwrap();
            Self {
                source,
                host,
                so_far: ChainProgress::default(),
                parts: 0,
                supply,
                begun,
                sent: Stages::default(),
            }
        }

        /// Makes this number of MiB arrive from the host before.
        fn comes(&mut self, mib: u64) {
            let mut part = Vec::new();
            for _ in 0..4 * mib {
                self.source.seal((0, self.parts), &[7; MAX_SEALED], &mut part);
                self.host.open(&part, &mut self.so_far).unwrap();
                self.parts += 1;
            }
        }

        /// Runs the check at this second of simulated time.
        fn look(&mut self, is_all: bool, second: u64) -> Result<(), String> {
            self.supply.look(&self.sent, is_all, self.begun + Duration::from_secs(second))
        }

        fn looks_good(&mut self, is_all: bool, seconds: std::ops::Range<u64>) -> bool {
            seconds.into_iter().all(|second| self.look(is_all, second).is_ok())
        }
    }

    fn host(source: &ChainSource, place: u8) -> ChainHost {
        let key = source.key(place.into()).unwrap().clone();
        ChainHost::new(ChainLink { previous: Vec::new(), cookie: [0; 16], key, place, hosts: 2 }, Vec::new())
            .unwrap()
    }

    #[test]
    fn the_first_host_gets_its_data_from_the_source_itself() {
        let source = ChainSource::new(2).unwrap();
        assert!(Supply::new(Arc::new(host(&source, 0)), Duration::ZERO, Instant::now()).is_none());
    }

    #[test]
    fn a_host_that_passes_nothing_on_while_the_source_sends_is_noticed() {
        let mut bed = Bed::new();
        bed.comes(1);
        for second in 1..=SECOND_HOST_TIMEOUT {
            bed.sent.wire = 20 * MIB * second;
            assert_eq!(bed.look(false, second), Ok(()), "{second}");
        }
        bed.sent.wire += MIB;
        let second = SECOND_HOST_TIMEOUT + 1;
        let why = (0..3).find_map(|more| bed.look(false, second + more).err()).unwrap();
        assert!(why.contains("the previous host has sent nothing for 14 s"), "{why}");
    }

    #[test]
    fn nothing_is_missed_of_a_source_that_sends_nothing_or_little() {
        let mut bed = Bed::new();
        bed.sent.wire = 100 * MIB;
        assert!(bed.looks_good(false, 1..100), "it has stopped, maybe before a host that hangs");
        let mut bed = Bed::new();
        for second in 1..100 {
            bed.sent.wire = 100_000 * second;
            assert_eq!(bed.look(false, second), Ok(()), "it collects a part for each stream");
        }
    }

    #[test]
    fn the_time_of_a_host_that_is_busy_itself_does_not_count() {
        let mut bed = Bed::new();
        let host = bed.host.clone();
        host.busy(|| assert!(bed.looks_good(true, 0..100)));
        assert!(bed.looks_good(true, 100..100 + SECOND_HOST_TIMEOUT));
        assert!(bed.look(true, 101 + SECOND_HOST_TIMEOUT).is_err());
    }

    #[test]
    fn the_rest_comes_at_the_rate_of_the_source_or_not_much_below() {
        let mut bed = Bed::new();
        // The source's rate is 10 MiB per second.
        bed.sent = Stages { wire: 1000 * MIB, span: 100_000_000_000, ..Stages::default() };
        for second in 0..3 * SECOND_HOST_TIMEOUT {
            bed.comes(2);
            assert_eq!(bed.look(true, second), Ok(()));
        }
        let slow = (3 * SECOND_HOST_TIMEOUT..6 * SECOND_HOST_TIMEOUT).find_map(|second| {
            bed.comes(1);
            bed.look(true, second).err()
        });
        assert!(slow.unwrap().contains("less than an eighth"));
    }
}
