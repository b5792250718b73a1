//! The limiter of linerate's own transfers.
//!
//! Each end's workers assign all of their time to stages, and the scheduler counts how long they ran or waited for a
//! processor. In the rest of the time the workers were blocked in the socket: at the sender because the path takes no
//! more data, at the receiver because no data arrives. An end whose workers are seldom blocked in the socket is the
//! limiter, named by its largest stage. If both ends are mostly blocked, the path between them limits.

use linerate_wire::stages::{Stages, Usage};

use super::evidence::{percent, rate, ratio};
use super::path::Flows;
use super::quota::QuotaStops;
use super::{DeviceBytes, Limiter, Verdict};

/// Share of the time in which the user's rate limit held the sender, above which it is the limiter.
const PACED: f64 = 0.2;
/// Share of the sender's time in which it kept its rate a little below the path's, above which the path limits.
const HELD: f64 = 0.3;
/// Share of the whole time that passed after the last byte was sent, at or above which stable storage is the limiter.
const SETTLING: f64 = 0.5;
/// The least share of its time that a limiting end spends on its own work. In a pipeline the limiting stage
/// is full except for its start and the jitter of the others.
const LOADED: f64 = 0.8;
/// Like `LOADED`, if the scheduler's counters are unknown: then copying in the socket looks like waiting.
const LOADED_UNCLOCKED: f64 = 0.5;
/// Share of the sender's busy time in which the receiver's window held it, below which the receiver keeps up.
const TAKEN: f64 = 0.1;
/// Share of the sender's busy time in which the receiver's window held it, above which a loaded receiver doesn't keep
/// up.
const LATE: f64 = 0.3;
/// Share of the sender's time that compression takes, at or above which compression limits.
const COMPRESSING: f64 = 0.4;
/// Share of the time in which the path has data in flight, at or above which neither compression nor the files limit
/// the transfer.
const FED: f64 = 0.95;
/// Share of the workers' time in which they have nothing to send, above which most workers have no more work.
const LEAST_IDLE_SHARE: f64 = 0.5;
const SENDER: &str = "sender";
/// Share of the time in which an end's workers were ready without a processor, above which other programs
/// take the processors.
const STARVED: f64 = 0.2;
/// Share of a processor at or above which a worker counts as full.
const FULL: f64 = 0.8;
/// Idle share of a host's processors above which a full thread limits by itself.
const IDLE: f64 = 0.05;
/// Busy share of a host's processors above which they are full.
const BUSY: f64 = 0.95;
/// Mean size of an entry in bytes below which the number of files matters, not their bytes.
const SMALL: f64 = 65536.0;
/// Share of an end's time that small files take, above which they limit.
const FILES: f64 = 0.4;
/// Workers' time in nanoseconds below which no limiter can be named.
const TOO_SHORT: u64 = 20_000_000;

/// Measurements of a transfer, so far or as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// The sender's stages.
    pub sender: Stages,
    /// The receiver's stages.
    pub receiver: Stages,
    /// Resources that the sender's process used, if they are known.
    pub sender_usage: Option<Usage>,
    /// Resources that the receiver's process used, if they are known.
    pub receiver_usage: Option<Usage>,
    /// The transfer's duration in seconds.
    pub seconds: f64,
    /// True if the data goes through ssh, whose connection linerate can't see.
    pub through_ssh: bool,
    /// True if both ends are one process on one host.
    pub within: bool,
    /// Bytes that this process read from devices and wrote to them, if both ends are this process.
    pub devices: Option<DeviceBytes>,
}

impl Evidence {
    /// The evidence of a transfer that has run for `seconds` seconds. `within` is true if both ends are one process.
    pub fn under_way(sender: Stages, receiver: Stages, seconds: f64, within: bool) -> Self {
        // A worker reads its thread's time and the state of its TCP connection together. If it has only the former, the
        // data goes through ssh.
        let through_ssh = !within && sender.clocked > 0 && sender.tcp_looks == 0;
        Self { sender, receiver, seconds, through_ssh, within, ..Self::default() }
    }
}

/// Names the limiter.
pub fn name(evidence: &Evidence) -> Verdict {
    let Evidence { sender, receiver, seconds, .. } = evidence;
    if sender.lifetime < TOO_SHORT || receiver.lifetime < TOO_SHORT {
        return Verdict::new(Limiter::TooShort, 0.0, String::new());
    }
    let from = EndTimes::of(sender, evidence.sender_usage, SENDER, *seconds);
    let to = EndTimes::of(receiver, evidence.receiver_usage, "receiver", *seconds);
    paced(&from)
        .or_else(|| flows(evidence).full_port())
        .or_else(|| stopped(evidence))
        .or_else(|| settling(evidence, &to))
        .or_else(|| held(evidence, &from, &to))
        .unwrap_or_else(|| by_load(evidence, &from, &to))
        .by_devices(evidence)
}

impl Verdict {
    /// Corrects a verdict about storage. Within a host one worker may read and write a range at once: the devices'
    /// bytes show whether it waits for reading or for writing.
    fn by_devices(self, evidence: &Evidence) -> Self {
        let is_storage = matches!(self.limiter, Limiter::SourceRead | Limiter::DestinationWrite);
        let Some(devices) = evidence.devices.filter(|_| evidence.within && is_storage) else { return self };
        match devices.limiter().filter(|limiter| *limiter != self.limiter) {
            Some(limiter) => {
                let figures =
                    format!("the files take {} of the time; {}", percent(self.share), devices.words());
                Self::new(limiter, self.share, figures)
            }
            None => self,
        }
    }
}

fn paced(sender: &EndTimes) -> Option<Verdict> {
    let evidence = format!("it held the sender for {} of the time", percent(sender.limit));
    (sender.limit >= PACED).then(|| Verdict::new(Limiter::RateLimit, sender.limit, evidence))
}

/// The verdict of the CPU quota that stopped an end in most periods. If quotas stopped both ends, the end that was
/// stopped more often counts.
fn stopped(evidence: &Evidence) -> Option<Verdict> {
    let Evidence { sender, receiver, seconds, .. } = evidence;
    let from = QuotaStops::of_end(sender, *seconds).verdict("the sender");
    let to = QuotaStops::of_end(receiver, *seconds).verdict("the receiver");
    let to = to.filter(|_| !takes_all(sender));
    from.into_iter().chain(to).max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Stable storage, if most of the time passed after the last byte.
fn settling(evidence: &Evidence, receiver: &EndTimes) -> Option<Verdict> {
    let Evidence { sender, seconds, .. } = evidence;
    // From memory to memory, the path's queues empty in this time.
    if evidence.receiver.write == 0 {
        return None;
    }
    let settled = 1.0 - ratio(sender.span as f64 * 1e-9, *seconds);
    if sender.span == 0 || *seconds <= 0.0 || settled < SETTLING {
        return None;
    }
    let figures = format!("{} of the time passed after the last byte was sent", percent(settled));
    small_files(evidence, receiver).or(Some(Verdict::new(Limiter::DestinationWrite, settled, figures)))
}

/// The path, if the sender limits its rate to that of the path. A loaded receiver that closes its window is an
/// exception: it causes the same queue as a slow path.
fn held(evidence: &Evidence, sender: &EndTimes, receiver: &EndTimes) -> Option<Verdict> {
    let is_path = sender.held >= HELD && sender.load() < LOADED;
    let is_late = window_share(&evidence.sender) >= LATE && receiver.load() >= LOADED;
    let flows = Flows { held: sender.held, ..flows(evidence) };
    (is_path && !is_late).then(|| flows.name(sender.held))
}

/// The receiver's load if it may have limited the transfer; otherwise 0.
fn receiver_load(sender: &Stages, receiver: &EndTimes) -> f64 {
    if takes_all(sender) { 0.0 } else { receiver.load() }
}

/// True if the sender's TCP hardly ever met a full window: then the receiver accepted all data, even if its threads ran
/// late.
fn takes_all(sender: &Stages) -> bool {
    sender.tcp_looks > 0 && window_share(sender) < TAKEN
}

/// Share of the time with something to send in which the receiver's window was full.
fn window_share(sender: &Stages) -> f64 {
    ratio(sender.tcp_rwnd_limited as f64, sender.tcp_busy as f64)
}

fn by_load(evidence: &Evidence, from: &EndTimes, to: &EndTimes) -> Verdict {
    let enough = if from.clocked && to.clocked { LOADED } else { LOADED_UNCLOCKED };
    let (sending, receiving) = (from.load(), receiver_load(&evidence.sender, to));
    if sending.max(receiving) < enough && !evidence.within {
        return on_the_path(evidence, 1.0 - sending.max(receiving));
    }
    let (end, is_sender) = if sending > receiving { (from, true) } else { (to, false) };
    small_files(evidence, end).unwrap_or_else(|| end.name(is_sender))
}

fn on_the_path(evidence: &Evidence, share: f64) -> Verdict {
    let flows = flows(evidence);
    if !evidence.through_ssh {
        return flows.name(share);
    }
    let figures = format!(
        "both ends wait for it {} of the time; {}; the cause is ssh's one thread, its window or the network behind it",
        percent(share),
        rate(flows.bits)
    );
    Verdict::new(Limiter::ThroughSsh, share, figures)
}

fn small_files(evidence: &Evidence, end: &EndTimes) -> Option<Verdict> {
    let (bytes, entries) = (evidence.sender.bytes as f64, evidence.sender.entries as f64);
    let (mean, share) = (ratio(bytes, entries), end.files);
    if entries < 1.0 || mean >= SMALL || share < FILES {
        return None;
    }
    let evidence = format!(
        "{mean:.0} bytes on average, {:.0} files a second; \
         opening, reading and creating them takes {} of the {}'s time",
        ratio(entries, evidence.seconds),
        percent(share),
        end.whose
    );
    Some(Verdict::new(Limiter::SmallFiles, share, evidence))
}

fn flows(evidence: &Evidence) -> Flows {
    let Stages { tcp_looks, .. } = evidence.sender;
    let Evidence { sender, receiver, seconds, .. } = evidence;
    let mean = |sum: u64| ratio(sum as f64, tcp_looks as f64);
    Flows {
        number: ratio(sender.lifetime as f64, sender.span as f64).max(1.0),
        bits: ratio(on_the_wire(receiver.bytes.min(sender.bytes), sender) as f64 * 8.0, *seconds),
        busy: sender.tcp_busy as f64,
        rwnd_limited: sender.tcp_rwnd_limited as f64,
        sndbuf_limited: sender.tcp_sndbuf_limited as f64,
        retransmits: sender.tcp_retransmits as f64,
        segments: sender.tcp_segments as f64,
        rtt: mean(sender.tcp_rtt),
        min_rtt: mean(sender.tcp_min_rtt),
        segment_size: mean(sender.tcp_segment_size),
        delivery_rate: mean(sender.tcp_delivery_rate),
        send_buffer_full: mean(sender.tcp_send_buffer_full),
        send_buffer: mean(sender.tcp_send_buffer),
        in_flight: mean(sender.tcp_in_flight),
        waiting: ratio(sender.socket as f64, sender.lifetime.saturating_sub(sender.queue) as f64),
        link: sender.link as f64,
        ..Flows::default()
    }
}

/// The bytes that a payload takes on the wire: fewer if it is compressed.
fn on_the_wire(payload: u64, sender: &Stages) -> u64 {
    let wire = payload as f64 * ratio(sender.wire as f64, sender.bytes as f64);
    if sender.packed > 0 { wire as u64 } else { payload }
}

/// Share of the time in which the path had data in flight, if the sender compressed and the share is at least `FED`;
/// otherwise 0. If the path nearly always had data, waiting for the compressor delayed nothing.
fn fed(sender: &Stages) -> f64 {
    let busy = ratio(sender.tcp_busy as f64 * 1e3, sender.lifetime as f64).min(1.0);
    if sender.packed > 0 && busy >= FED { busy } else { 0.0 }
}

/// Share of the time in which the socket blocked the last busy worker, if three conditions hold; otherwise 0. The share
/// is at least `FED`, the files are large, and most workers have nothing left to send. Such workers don't wait for the
/// files. `blocked` is the share of all workers' time in which the socket blocked them.
fn last_ones(sender: &Stages, blocked: f64) -> f64 {
    let of_one = (blocked * ratio(sender.lifetime as f64, sender.span as f64)).min(1.0);
    let is_large = ratio(sender.bytes as f64, sender.entries as f64) >= SMALL;
    let are_idle = ratio(sender.queue as f64, sender.lifetime as f64) >= LEAST_IDLE_SHARE;
    if is_large && are_idle && of_one >= FED { of_one } else { 0.0 }
}

/// Share of the time in which an end waits for the path.
fn starved(stages: &Stages, blocked: f64, is_sender: bool) -> f64 {
    if is_sender { blocked.max(fed(stages)).max(last_ones(stages, blocked)) } else { blocked }
}

/// One end's time, as shares of its workers' time.
struct EndTimes {
    whose: &'static str,
    /// True if the scheduler's counters are known.
    clocked: bool,
    /// Mean number of concurrent workers.
    workers: f64,
    /// Share of the time spent running.
    cpu: f64,
    /// Share of the time spent ready to run, without a processor.
    waited: f64,
    /// Share of the time spent blocked in the socket.
    starved_by_path: f64,
    /// Share of the time spent blocked while reading or writing files, or waiting for the scan.
    blocked_in_files: f64,
    /// Share of the time spent reading or writing files, or waiting for the scan, blocked or not.
    files: f64,
    /// Share of the time spent compressing or decompressing.
    compress: f64,
    /// Uncompressed payload bytes for each byte on the wire.
    smaller: f64,
    /// Share of the time spent waiting for the rate limit.
    limit: f64,
    /// Share of the time spent sending at a rate kept a little below the path's.
    held: f64,
    /// Idle share of the host's processors; `None` if it is unknown.
    idle: Option<f64>,
    /// Processors of the host; `None` if their number is unknown.
    processors: Option<f64>,
    /// The share of the host's processor time that the process used.
    used: f64,
    bits: f64,
}

impl EndTimes {
    fn of(stages: &Stages, usage: Option<Usage>, whose: &'static str, seconds: f64) -> Self {
        let life = stages.lifetime as f64;
        let share = |time: u64| ratio(time as f64, life).min(1.0);
        let of_clocked = |time: u64| ratio(time as f64, stages.clocked as f64).min(1.0);
        let (cpu, waited) = (of_clocked(stages.cpu), of_clocked(stages.waited));
        let files = (share(stages.queue) + share(stages.read) + share(stages.write)).min(1.0);
        let (socket, compress) = (share(stages.socket), share(stages.compress));
        // A sender waits for the threads that compress. At a receiver, decompression is the workers' own work, like the
        // cipher.
        let (is_sender, cipher) = (whose == SENDER, share(stages.cipher));
        let cipher = if is_sender { cipher } else { cipher + compress };
        // The running time outside of the stages that never block is divided among the other stages in proportion.
        let ran = (cpu + waited - cipher).max(0.0);
        let blocked = |stage: f64| (stage - ran * ratio(stage, socket + files)).max(0.0);
        let processors = usage.map(|usage| f64::from(usage.processors.max(1)));
        Self {
            whose,
            clocked: stages.clocked > 0,
            workers: ratio(life, stages.span as f64).max(1.0),
            cpu: if stages.clocked > 0 { cpu } else { cipher },
            waited,
            starved_by_path: starved(stages, blocked(socket), is_sender),
            blocked_in_files: blocked(files),
            files,
            compress,
            smaller: ratio(stages.bytes as f64, stages.wire as f64),
            limit: share(stages.limit),
            held: share(stages.held),
            idle: (stages.host_time > 0)
                .then(|| 1.0 - ratio(stages.host_busy as f64, stages.host_time as f64)),
            processors: processors.or_else(|| {
                (stages.host_time > 0)
                    .then(|| (stages.host_time as f64 * 1e-9 / seconds.max(1e-3)).round().max(1.0))
            }),
            used: usage
                .map_or(0.0, |usage| ratio(usage.cpu_seconds, seconds * f64::from(usage.processors.max(1)))),
            bits: ratio(stages.bytes as f64 * 8.0, seconds),
        }
    }

    /// Share of the time in which this end doesn't wait for the path.
    fn load(&self) -> f64 {
        if self.used >= BUSY { 1.0 } else { 1.0 - self.starved_by_path }
    }

    /// The limiter at this end, by its largest share.
    fn name(&self, is_sender: bool) -> Verdict {
        let busy = (self.cpu + self.waited).min(1.0);
        if self.blocked_in_files > busy {
            return self.storage(is_sender);
        }
        if is_sender && self.compress >= COMPRESSING {
            return self.compression();
        }
        let starved = self.waited >= STARVED;
        if !starved && self.cpu + self.waited >= FULL && self.has_idle_processors() {
            return self.one_thread();
        }
        let limiter = if is_sender { Limiter::SenderCpu } else { Limiter::ReceiverCpu };
        Verdict::new(limiter, busy, self.processor_figures())
    }

    fn storage(&self, is_sender: bool) -> Verdict {
        let (limiter, what) = match is_sender {
            true => (Limiter::SourceRead, "finding and reading the files"),
            false => (Limiter::DestinationWrite, "writing the files"),
        };
        let evidence =
            format!("{what} takes {} of the {}'s time; {}", percent(self.files), self.whose, rate(self.bits));
        Verdict::new(limiter, self.blocked_in_files, evidence)
    }

    fn compression(&self) -> Verdict {
        let evidence = format!(
            "it takes {} of the sender's time, and leaves {} of the bytes",
            percent(self.compress),
            percent(ratio(1.0, self.smaller))
        );
        Verdict::new(Limiter::Compression, self.compress, evidence)
    }

    fn one_thread(&self) -> Verdict {
        let (each, idle) = (percent(self.cpu), percent(self.idle.unwrap_or(0.0)));
        let evidence = format!("{each} of a processor while the host is {idle} idle");
        let verdict = Verdict::new(Limiter::OneThread, self.cpu, evidence);
        if self.workers < 1.5 {
            verdict.of(&format!("the {}", self.whose))
        } else {
            verdict.of(&format!("each stream at the {}", self.whose))
        }
    }

    /// True if more threads would have found an idle processor.
    fn has_idle_processors(&self) -> bool {
        self.idle.is_some_and(|idle| idle >= IDLE)
            && self.processors.is_some_and(|processors| self.workers + 0.5 < processors)
    }

    fn processor_figures(&self) -> String {
        let mut figures =
            format!("its {:.0} workers ran for {} of their time", self.workers, percent(self.cpu));
        if self.clocked {
            figures += &format!(" and were ready without a processor for {}", percent(self.waited));
        }
        if let Some(idle) = self.idle {
            // If workers wait while processors are idle, they wait for work of low priority to yield, which it does
            // only after a moment.
            let yielding = self.waited >= STARVED && idle >= IDLE;
            let niced = if yielding { ", work at a lower priority included" } else { "" };
            figures += &format!("; the host was {} idle{niced}", percent(idle));
        }
        figures + &format!("; {}", rate(self.bits))
    }
}

#[cfg(test)]
mod tests;
