//! Measures how much time a worker spends in each stage. A worker owns a [`Clock`], and periodically adds the
//! clock's values to the shared [`Counters`].

use linerate_host::{CpuTimes, QuotaMeter};
use linerate_sys::tcp::TcpInfo;
use linerate_sys::usage::{UsageOf, usage};
use linerate_wire::stages::{Stages, Usage};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::base::totals::SharedTotals;
use crate::net::spent::Spent;

/// How often a worker asks the kernel for its thread's times and its connection's counters. Each query takes
/// a few microseconds.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);
/// If a stream's rate is held, at most this much of the time between two frames counts as held.
const PUNCTUAL: Duration = Duration::from_millis(10);
/// How often an end reads the processor times of its host.
const HOST: Duration = Duration::from_millis(200);

/// The stages that a worker's time is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for the scanner.
    Queue,
    /// Opening and reading sources.
    Read,
    /// Compressing or decompressing.
    Compress,
    /// Encrypting or decrypting, and checksums.
    Cipher,
    /// Writing to the socket, or waiting until the pace permits the next send.
    Socket,
    /// Creating and writing files.
    Write,
    /// Waiting because of the user's rate limit.
    Limit,
}

/// How one stream has spent its time since its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamTimes {
    /// All time except waiting for work.
    pub busy: Duration,
    /// The part of `busy` spent waiting for the connection, or because of the user's rate limit.
    pub wait: Duration,
    /// The part of `busy` spent compressing.
    pub compress: Duration,
    /// Payload bytes before compression.
    pub plain: u64,
    /// Bytes that the connection carried, including records and frames.
    pub wire: u64,
}

impl StreamTimes {
    fn count(&mut self, stage: Stage, time: Duration) {
        match stage {
            Stage::Queue => return,
            Stage::Socket | Stage::Limit => self.wait += time,
            Stage::Compress => self.compress += time,
            Stage::Read | Stage::Cipher | Stage::Write => {}
        }
        self.busy += time;
    }

    /// The times and bytes that were added after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            wait: self.wait.saturating_sub(earlier.wait),
            compress: self.compress.saturating_sub(earlier.compress),
            plain: self.plain.saturating_sub(earlier.plain),
            wire: self.wire.saturating_sub(earlier.wire),
        }
    }
}

/// The times of one worker. Each call of [`Clock::lap`] adds the time since the previous call to one stage.
pub struct Clock {
    begun: Instant,
    last: Instant,
    stages: Stages,
    times: StreamTimes,
    spent: Spent,
    tcp: TcpInfo,
    /// The size in bytes of the largest TCP window that the other end has announced, and how much of it was
    /// already added to the counters.
    window: u64,
    flushed_window: u64,
    looked: Instant,
    /// The end of the time for which the clock knows whether the rate was held.
    held: Instant,
}

impl Clock {
    /// Starts now, for the calling thread.
    pub fn start() -> Self {
        let now = Instant::now();
        let stages = Stages { workers: 1, ..Stages::default() };
        Self {
            begun: now,
            last: now,
            stages,
            times: StreamTimes::default(),
            spent: Spent::start(),
            tcp: TcpInfo::default(),
            window: 0,
            flushed_window: 0,
            looked: now,
            held: now,
        }
    }

    /// Adds the time since the last lap to `stage`.
    pub fn lap(&mut self, stage: Stage) {
        let now = Instant::now();
        self.times.count(stage, now - self.last);
        let nanoseconds = nanoseconds(now - self.last);
        self.last = now;
        *match stage {
            Stage::Queue => &mut self.stages.queue,
            Stage::Read => &mut self.stages.read,
            Stage::Compress => &mut self.stages.compress,
            Stage::Cipher => &mut self.stages.cipher,
            Stage::Socket => &mut self.stages.socket,
            Stage::Write => &mut self.stages.write,
            Stage::Limit => &mut self.stages.limit,
        } += nanoseconds;
    }

    /// Counts payload bytes.
    pub fn bytes(&mut self, bytes: u64) {
        self.stages.bytes += bytes;
        self.times.plain += bytes;
    }

    /// Counts bytes that the connection carries.
    pub fn wire(&mut self, bytes: usize) {
        self.stages.wire += bytes as u64;
        self.times.wire += bytes as u64;
    }

    /// Counts bytes that are sent compressed, by their length before compression.
    pub fn packed(&mut self, plain: usize) {
        self.stages.packed += plain as u64;
    }

    /// All times of the stream so far.
    pub fn times(&self) -> StreamTimes {
        self.times
    }

    /// Counts entries.
    pub fn entries(&mut self, entries: u64) {
        self.stages.entries += entries;
    }

    /// Records whether the pace held the rate below the path's since the last call. At most 10 ms since the last call
    /// count as held: if the call comes later, the stream itself was late.
    pub fn hold(&mut self, is_held: bool) {
        if is_held {
            self.stages.held += nanoseconds((self.last - self.held).min(PUNCTUAL));
        }
        self.held = self.last;
    }

    /// Adds the values since the last call of this method to `counters`.
    pub fn flush(&mut self, counters: &Counters) {
        self.stages.lifetime = nanoseconds(self.last - self.begun);
        counters.add(&self.stages, self.begun, self.last);
        counters.windows.fetch_add(self.window - self.flushed_window, Ordering::Relaxed);
        self.flushed_window = self.window;
        self.begun = self.last;
        self.stages = Stages::default();
    }

    /// Adds the clock's values to `counters` as [`Clock::flush`] does, and periodically also the kernel's
    /// values for the thread and its connection.
    pub fn flush_with(&mut self, counters: &Counters, tcp: impl FnOnce() -> Option<TcpInfo>) {
        if self.last - self.looked >= QUERY_INTERVAL {
            self.look(tcp());
        }
        self.flush(counters);
    }

    /// Adds the last values to `counters` when the worker ends, with the connection's final TCP counters.
    pub fn finish(mut self, counters: &Counters, tcp: Option<TcpInfo>) {
        self.look(tcp);
        self.flush(counters);
    }

    fn look(&mut self, tcp: Option<TcpInfo>) {
        let passed = nanoseconds(self.last - self.looked);
        self.looked = self.last;
        if let Some((cpu, waited)) = self.spent.since_last() {
            self.stages.clocked += passed;
            self.stages.cpu += cpu;
            self.stages.waited += waited;
        }
        if let Some(tcp) = tcp {
            self.look_at(tcp);
        }
    }

    fn look_at(&mut self, tcp: TcpInfo) {
        let (before, stages) = (self.tcp, &mut self.stages);
        stages.tcp_busy += tcp.busy_us.saturating_sub(before.busy_us);
        stages.tcp_rwnd_limited += tcp.rwnd_limited_us.saturating_sub(before.rwnd_limited_us);
        stages.tcp_sndbuf_limited += tcp.sndbuf_limited_us.saturating_sub(before.sndbuf_limited_us);
        // These two counters of the kernel are 32 bits wide, and wrap around.
        stages.tcp_retransmits += u64::from(tcp.retransmits.wrapping_sub(before.retransmits));
        stages.tcp_segments += u64::from(tcp.segments.wrapping_sub(before.segments));
        stages.tcp_looks += 1;
        stages.tcp_rtt += u64::from(tcp.rtt_us);
        stages.tcp_min_rtt += u64::from(tcp.min_rtt_us);
        stages.tcp_delivery_rate += tcp.delivery_rate;
        stages.tcp_segment_size += u64::from(tcp.segment_size);
        stages.tcp_send_buffer += tcp.send_buffer.size;
        stages.tcp_in_flight += tcp.in_flight;
        stages.tcp_send_buffer_full += u64::from(tcp.has_limited_its_writer());
        self.window = self.window.max(tcp.peer_window);
        self.tcp = tcp;
    }
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One end's counters, shared by its threads.
#[derive(Default)]
pub struct Counters {
    stages: Mutex<Stages>,
    host: Mutex<HostTimes>,
    /// The rate of the port that the streams use, in bits a second; 0 if it is unknown.
    link: AtomicU64,
    /// The size in bytes of the largest TCP window that the other end announced, summed over this end's
    /// streams.
    windows: AtomicU64,
    /// When the first worker started.
    first: Mutex<Option<Instant>>,
    /// True once an agent has answered at the far end.
    pub reached: AtomicBool,
    /// Entries that the scanner found.
    pub found: SharedTotals,
    /// True once the scanner is done.
    pub scanned: AtomicBool,
    /// Entries that are in place.
    pub landed: SharedTotals,
    /// Entries of `landed` that existed before and weren't sent.
    pub unchanged: SharedTotals,
    /// Bytes of changed files that the receiver already had, and that weren't sent.
    pub matched: AtomicU64,
    /// Entries that aren't at the destination: problems of the kinds `Failed` and `Skipped`.
    pub failed: AtomicU64,
    /// Entries whose source changed or vanished during the transfer.
    pub changed: AtomicU64,
    /// Entries that the sender doesn't have, but that could not be deleted.
    pub not_deleted: AtomicU64,
    /// Properties of entries at the destination that could not be kept.
    pub not_kept: AtomicU64,
}

impl Counters {
    fn add(&self, more: &Stages, from: Instant, to: Instant) {
        let mut first = lock(&self.first);
        if first.is_none() {
            lock(&self.host).now(Stages::default());
        }
        let span = nanoseconds(to.saturating_duration_since(*first.get_or_insert(from)));
        drop(first);
        let mut sum = lock(&self.stages);
        sum.span = sum.span.max(span);
        sum.workers += more.workers;
        sum.lifetime += more.lifetime;
        sum.queue += more.queue;
        sum.read += more.read;
        sum.cipher += more.cipher;
        sum.socket += more.socket;
        sum.write += more.write;
        sum.limit += more.limit;
        sum.held += more.held;
        sum.compress += more.compress;
        sum.bytes += more.bytes;
        sum.wire += more.wire;
        sum.packed += more.packed;
        sum.entries += more.entries;
        sum.tcp_busy += more.tcp_busy;
        sum.tcp_rwnd_limited += more.tcp_rwnd_limited;
        sum.tcp_sndbuf_limited += more.tcp_sndbuf_limited;
        sum.tcp_retransmits += more.tcp_retransmits;
        sum.tcp_segments += more.tcp_segments;
        sum.tcp_looks += more.tcp_looks;
        sum.tcp_rtt += more.tcp_rtt;
        sum.tcp_min_rtt += more.tcp_min_rtt;
        sum.tcp_delivery_rate += more.tcp_delivery_rate;
        sum.tcp_segment_size += more.tcp_segment_size;
        sum.tcp_send_buffer += more.tcp_send_buffer;
        sum.tcp_in_flight += more.tcp_in_flight;
        sum.tcp_send_buffer_full += more.tcp_send_buffer_full;
        sum.clocked += more.clocked;
        sum.cpu += more.cpu;
        sum.waited += more.waited;
    }

    /// Replaces these values by the progress that another sending end reports.
    pub fn mirror(&self, source: &linerate_wire::control::Progress) {
        *lock(&self.stages) = source.stages;
        self.found.set(source.found);
        self.scanned.store(source.scanned, Ordering::Release);
    }

    /// Counts bytes of a changed file that the receiver already has.
    pub fn matches(&self, bytes: u64) {
        self.unchanged.bytes(bytes);
        self.matched.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records the rate of the port that a stream uses.
    pub fn leaves_by(&self, bits: Option<u64>) {
        self.link.fetch_max(bits.unwrap_or(0), Ordering::Relaxed);
    }

    /// True if no entry failed, was skipped, or changed during the transfer.
    pub fn has_no_problem(&self) -> bool {
        self.failed.load(Ordering::Relaxed) == 0 && self.changed.load(Ordering::Relaxed) == 0
    }

    /// The sums of all stages so far.
    pub fn stages(&self) -> Stages {
        let stages = Stages { link: self.link.load(Ordering::Relaxed), ..*lock(&self.stages) };
        lock(&self.host).now(stages)
    }

    /// The payload so far in bytes, and the time in which the workers had work, summed over the workers.
    pub fn worked(&self) -> (u64, Duration) {
        let stages = lock(&self.stages);
        (stages.bytes, Duration::from_nanos(stages.lifetime.saturating_sub(stages.queue)))
    }

    /// The size in bytes of the largest TCP window that the other end announced, summed over this end's
    /// streams. 0 before Linux 5.4.
    pub fn windows(&self) -> u64 {
        self.windows.load(Ordering::Relaxed)
    }

    /// The payload so far, in bytes.
    pub fn payload(&self) -> u64 {
        lock(&self.stages).bytes
    }

    /// All counters, as a message for the other end.
    pub fn progress(&self) -> linerate_wire::control::Progress {
        linerate_wire::control::Progress {
            stages: self.stages(),
            found: self.found.get(),
            scanned: self.scanned.load(Ordering::Acquire),
            landed: self.landed.get(),
        }
    }
}

/// The times of the processors that this process may use, and its CPU quotas, both measured from the first query on.
#[derive(Default)]
struct HostTimes {
    first: Option<CpuTimes>,
    quota: Option<QuotaMeter>,
    last: Stages,
    read: Option<Instant>,
}

impl HostTimes {
    /// Adds the values of the host to `stages`.
    fn now(&mut self, stages: Stages) -> Stages {
        if self.read.is_none_or(|read| read.elapsed() >= HOST) {
            self.read = Some(Instant::now());
            self.read_processors();
            self.read_quota();
        }
        let Stages { host_busy, host_time, quota, quota_period, quota_stops, quota_stopped, .. } = self.last;
        Stages { host_busy, host_time, quota, quota_period, quota_stops, quota_stopped, ..stages }
    }

    fn read_processors(&mut self) {
        // If the times can't be read, the values stay as they are.
        let Ok(now) = CpuTimes::of_own_processors() else { return };
        let passed = now.since(self.first.get_or_insert_with(|| now.clone()));
        // Processes of a lower priority (nice) give way to this one, so their time doesn't count as busy.
        let busy = passed.busy() - passed.nice;
        (self.last.host_busy, self.last.host_time) = ((busy * 1e9) as u64, (passed.total() * 1e9) as u64);
    }

    fn read_quota(&mut self) {
        let meter = self.quota.get_or_insert_with(|| QuotaMeter::start(Path::new("/")));
        let Some(used) = meter.since_start() else { return };
        self.last.quota = (used.quota.processors * 1e9) as u64;
        self.last.quota_period = used.quota.period_us.saturating_mul(1000);
        self.last.quota_stops = used.throttling.throttled;
        self.last.quota_stopped = used.throttling.throttled_us.saturating_mul(1000);
    }
}

/// The processor time that this process and its ended children have used so far, the largest memory of this process,
/// and the number of processors that it may use.
pub fn process_usage() -> Usage {
    let own = usage(UsageOf::Process);
    let children = usage(UsageOf::Children);
    Usage {
        cpu_seconds: own.cpu_seconds + children.cpu_seconds,
        peak_rss_bytes: own.peak_rss_bytes,
        processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
    }
}
