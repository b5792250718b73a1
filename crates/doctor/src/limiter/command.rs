//! The limiter of any other program, from the kernel's counters of its processes and its connections.
//!
//! Other programs report no stages. The counters show which resource is full: a thread, the processors, a device that
//! the processes wait for, or a flow that always has something to send. If none of them is full and the flow is idle,
//! the far end's program limits, provided that the far end was sampled too; otherwise the rate is not explained.

use super::evidence::{percent, rate, ratio, time};
use super::path::Flows;
use super::quota::QuotaStops;
use super::{DeviceBytes, Limiter, Verdict};
use linerate_host::QuotaUse;
use linerate_host::sample::ThreadUse;

/// Share of a processor at or above which a thread counts as full: in the rest of the time it waits for its input.
const FULL: f64 = 0.8;
/// The most processors that a program may use if only one of its threads is full.
const ONE: f64 = 1.1;
/// Idle share of a host's processors below which more threads wouldn't find an idle one.
const IDLE: f64 = 0.05;
/// Share of the time in which a thread runs or is ready to run, at or above which it waits for nothing but a processor.
const READY: f64 = 0.8;
/// Waiting time, in seconds for each second of running, at or above which threads lack processors: without the waiting,
/// they would do their work in two thirds of the time.
const WAITING: f64 = 0.5;
/// Processors below which a command uses, or lacks, next to nothing.
const A_PART: f64 = 0.2;
/// Share of the processors' time in soft interrupts at or above which the network's own work fills the processors. This
/// work delays threads, but isn't counted as their waiting.
const SOFTIRQ: f64 = 0.25;
/// Share of the samples in which a process waits for a device, above which storage limits.
const DISK: f64 = 0.4;
/// Share of the time in which a flow had something to send, above which the path may limit.
const SENDING: f64 = 0.6;
/// Share of the samples with bytes that wait to be sent, below which the program hands over less than the path takes.
const HANDED_OVER: f64 = 0.1;
/// Share of a flow's busy time in which the other end took nothing, above which the other end limits.
const NOT_TAKEN: f64 = 0.4;
/// Share of the samples in which received bytes weren't read yet, above which this end doesn't wait for more bytes.
const UNREAD: f64 = 0.3;
/// Like `NOT_TAKEN`, over any round trip, if the other end's window was also seen closed. This threshold is higher,
/// because the path may cause a part of such waiting.
const MOSTLY_NOT_TAKEN: f64 = 0.8;
/// Share of the samples in which the other end's window was smaller than possible, above which the other end closes it.
const CLOSED: f64 = 0.5;
/// A round trip in microseconds below which the usual windows suffice for 10 Gbit/s: 2 ms need 2.5 MB.
const SHORT_ROUND_TRIP: f64 = 2000.0;
/// Share of the user's rate limit that flows must reach; below it, the rate limit isn't their limiter.
const REACHED: f64 = 0.7;
/// Programs that copy files one by one.
const COPIERS: [&str; 4] = ["scp", "sftp", "rsync", "rclone"];
/// Seconds below which no limiter can be named.
const TOO_SHORT: f64 = 0.5;

/// One program of the command, or one that the user named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The program's name.
    pub name: String,
    /// Mean number of processors that it used while it ran.
    pub processors: f64,
    /// Its largest number of threads.
    pub threads: u64,
    /// The use of processors by its threads, if the threads were sampled.
    pub thread_use: Option<ThreadUse>,
    /// Share of the samples in which it waited for a device (state D).
    pub disk: f64,
    /// Share of the command's time in which it ran.
    pub present: f64,
}

/// One host that was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// The user's name for the host.
    pub name: String,
    /// Idle share of its processors.
    pub idle: f64,
    /// Share of its processors' time in soft interrupts, where the kernel does most of the network's work.
    pub softirq: f64,
    /// Share of the time in which some task waited for storage (pressure).
    pub storage_pressure: f64,
    /// The programs that were sampled there.
    pub programs: Vec<Program>,
    /// The connections that carried most of the bytes.
    pub flows: Option<Flows>,
    /// True if the connections of `flows` mostly send.
    pub sends: bool,
    /// Seconds in which the connections of `flows` were sampled.
    pub seconds: f64,
    /// The CPU quota that stopped the sampled processes' control groups most often.
    pub quota: Option<QuotaUse>,
}

/// A command's option that limits its rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateOption {
    /// The option as the user gave it.
    pub option: String,
    /// The limit in bits a second; `None` if the option's unit is unknown.
    pub bits: Option<f64>,
}

/// Measurements of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandEvidence {
    /// The command's duration in seconds.
    pub seconds: f64,
    /// The command's option that limits the rate.
    pub paced_by: Option<RateOption>,
    /// The sampled hosts, the command's own first.
    pub hosts: Vec<HostLoad>,
    /// Bytes that the command read from devices and wrote to them, if they are known.
    pub devices: Option<DeviceBytes>,
}

/// Names the limiter.
pub fn name(evidence: &CommandEvidence) -> Verdict {
    let Some((near, far)) = evidence.hosts.split_first() else { return too_short() };
    if evidence.seconds < TOO_SHORT || near.programs.is_empty() {
        return too_short();
    }
    full_port(near)
        .or_else(|| stopped(evidence))
        .or_else(|| full_thread(evidence))
        .or_else(|| full_processors(near))
        .or_else(|| storage(evidence))
        .or_else(|| paced(evidence))
        .or_else(|| small_files(near))
        .or_else(|| path(near))
        .or_else(|| far.iter().find_map(path))
        .or_else(|| far_end(near, far))
        .or_else(|| not_explained(near))
        .unwrap_or_else(|| Verdict::new(Limiter::Unknown, 0.0, figures(near)))
}

fn too_short() -> Verdict {
    Verdict::new(Limiter::TooShort, 0.0, String::new())
}

/// The network, if the command's port has no room for more payload.
fn full_port(near: &HostLoad) -> Option<Verdict> {
    near.flows.filter(|_| near.sends)?.full_port()
}

/// The verdict of a CPU quota that stopped a host's programs for most of the time.
fn stopped(evidence: &CommandEvidence) -> Option<Verdict> {
    let of =
        |host: &HostLoad| QuotaStops::of_host(host.quota.as_ref()?, evidence.seconds).verdict(&host.label());
    evidence.hosts.iter().filter_map(of).max_by(|a, b| a.share.total_cmp(&b.share))
}

/// The fullest thread of either end, while its host has idle processors. If several are full, the fullest
/// limits.
fn full_thread(evidence: &CommandEvidence) -> Option<Verdict> {
    let all = evidence.hosts.iter().flat_map(|host| host.programs.iter().map(move |program| (host, program)));
    let full =
        |host: &HostLoad, program: &Program| program.full_thread(|| host.sends && path(host).is_none());
    let (host, program, share) = all
        .filter(|(host, _)| host.idle >= IDLE)
        .filter_map(|(host, program)| Some((host, program, full(host, program)?)))
        .max_by(|a, b| a.2.total_cmp(&b.2))?;
    let evidence =
        format!("{} of a processor while {} is {} idle", percent(share), host.label(), percent(host.idle));
    Some(Verdict::new(Limiter::OneThread, share, evidence).of(&program.name))
}

/// The verdict for the processors, if hardly any of the host's processors is idle, and the command lacks processors.
fn full_processors(host: &HostLoad) -> Option<Verdict> {
    let limiter = if host.sends { Limiter::SenderCpu } else { Limiter::ReceiverCpu };
    let used: f64 = host.programs.iter().map(|program| program.processors).sum();
    let waiting: f64 = host.programs.iter().filter_map(|program| Some(program.thread_use?.waiting)).sum();
    let evidence = format!(
        "processors {} busy, {} in soft interrupts; the command's programs use {used:.2} processors, and could use {waiting:.2} more",
        percent(1.0 - host.idle),
        percent(host.softirq)
    );
    (host.idle < IDLE && host.lacks_processors(used))
        .then(|| Verdict::new(limiter, 1.0 - host.idle, evidence))
}

/// A process at either end that waits for a device.
fn storage(evidence: &CommandEvidence) -> Option<Verdict> {
    let all = evidence.hosts.iter().flat_map(|host| host.programs.iter().map(move |program| (host, program)));
    let waits = all.filter(|(_, program)| program.disk >= DISK);
    let (host, program) = waits.max_by(|a, b| a.1.disk.total_cmp(&b.1.disk))?;
    let waits = format!(
        "{} waits for a device in {} of the samples; tasks wait for storage {} of the time",
        program.name,
        percent(program.disk),
        percent(host.storage_pressure)
    );
    // Only a connection, or the bytes of devices, shows whether the process reads or writes.
    let (limiter, evidence) = match (host.flows, evidence.devices) {
        (None, Some(devices)) => {
            (devices.limiter().unwrap_or(Limiter::NotExplained), format!("{waits}; {}", devices.words()))
        }
        _ if host.sends => (Limiter::SourceRead, waits),
        _ => (Limiter::DestinationWrite, waits),
    };
    Some(Verdict::new(limiter, program.disk, evidence))
}

fn paced(evidence: &CommandEvidence) -> Option<Verdict> {
    let near = evidence.hosts.first()?;
    let share = 1.0 - near.fullest().map_or(0.0, |program| program.processors);
    let RateOption { option, bits } = evidence.paced_by.as_ref()?;
    let had = near.flows.map(|flows| flows.bits);
    if had.zip(*bits).is_some_and(|(had, most)| had < REACHED * most) {
        return None;
    }
    Some(Verdict::new(
        Limiter::RateLimit,
        share,
        format!("{option} was given, and no resource is full: {}", figures(near)),
    ))
}

/// The path, or the far end's program, if a flow nearly always has something to send.
fn path(host: &HostLoad) -> Option<Verdict> {
    let flows = host.flows.filter(|_| host.sends)?;
    let sending = host.sending();
    if sending < SENDING || flows.is_exchange() {
        return None;
    }
    let not_taken = ratio(flows.rwnd_limited, flows.busy);
    // Data that waits for a closed window lengthens the round trip, as a queue does.
    let is_closed = not_taken >= MOSTLY_NOT_TAKEN && flows.window_closed >= CLOSED;
    if is_closed || not_taken >= NOT_TAKEN && flows.rtt < SHORT_ROUND_TRIP && !flows.fills_window() {
        let evidence = format!(
            "its receive window is closed for {} of the time in which there is something to send",
            percent(not_taken)
        );
        return Some(Verdict::new(Limiter::FarEndTool, not_taken, evidence));
    }
    let named = flows.name(sending);
    // Everything that the program has handed over is in flight, so the path would take more.
    let is_the_paths = matches!(named.limiter, Limiter::Loss | Limiter::Network);
    if is_the_paths && flows.in_flight > 0.0 && flows.waiting < HANDED_OVER {
        let evidence = format!(
            "there is something in flight for {} of the time, but the program hands over no more: bytes wait to be sent in {} of the \
             samples; {}",
            percent(sending),
            percent(flows.waiting),
            rate(flows.bits)
        );
        return Some(Verdict::new(Limiter::NotExplained, sending, evidence));
    }
    Some(named)
}

/// The number of files, if a program that copies sends or receives many small pieces, one or more for each
/// file.
fn small_files(host: &HostLoad) -> Option<Verdict> {
    let flows = host.flows?;
    let mean = flows.small_pieces()?;
    let copies = host.copier()?;
    let share = 1.0 - host.fullest().map_or(0.0, |program| program.processors);
    let evidence = format!(
        "{} sends {:.0} segments a second of {mean:.0} bytes on average, and waits for answers: {}",
        copies.name,
        ratio(flows.data_segments, host.seconds),
        rate(flows.bits)
    );
    Some(Verdict::new(Limiter::SmallFiles, share, evidence))
}

/// The far end's program, if the connection has nothing to carry and this end has no more work.
fn far_end(near: &HostLoad, far: &[HostLoad]) -> Option<Verdict> {
    if near.sends { waits_for_answers(near) } else { waits_for_data(near, far) }
}

/// A copying program sends as long as the other end accepts data. Over a short round trip only the other end's program
/// can make it wait.
fn waits_for_answers(near: &HostLoad) -> Option<Verdict> {
    let flows = near.flows.filter(|flows| flows.rtt > 0.0 && flows.rtt < SHORT_ROUND_TRIP)?;
    let used = near.fullest().map_or(0.0, |program| program.processors);
    let copies = near.copier().filter(|_| near.sending() < SENDING && used < FULL)?;
    let evidence = format!(
        "{} has sent all that it may, and waits for answers: it had something to send for {} of the time, round trip {}; {}, {}",
        copies.name,
        percent(near.sending()),
        time(flows.rtt),
        figures(near),
        rate(flows.bits)
    );
    Some(Verdict::new(Limiter::FarEndTool, 1.0 - near.sending().max(used), evidence))
}

/// The far end's program, if the far end was sampled too and has nothing to send, while this end reads all that
/// arrives.
fn waits_for_data(near: &HostLoad, far: &[HostLoad]) -> Option<Verdict> {
    let flows = near.flows.filter(|flows| flows.unread < UNREAD)?;
    let idle = far.iter().find(|host| host.sends && host.flows.is_some() && host.sending() < SENDING)?;
    let evidence = format!(
        "this end reads all that arrives, and {} has something to send for {} of the time: {}, {}",
        idle.label(),
        percent(idle.sending()),
        figures(idle),
        rate(flows.bits)
    );
    Some(Verdict::new(Limiter::FarEndTool, 1.0 - idle.sending(), evidence))
}

/// A verdict with the values that were examined, if there is a connection and none of the values shows why it waits.
fn not_explained(near: &HostLoad) -> Option<Verdict> {
    let flows = near.flows?;
    let waits = match near.sends {
        true if flows.is_exchange() => {
            "this end sends less than a segment at a time, and waits for the answer".to_owned()
        }
        true => format!("this end has something to send for {} of the time", percent(near.sending())),
        false if flows.unread >= UNREAD => {
            format!("received bytes wait to be read in {} of the samples", percent(flows.unread))
        }
        false => "this end reads all that arrives, and can't see what limits the far end or the path".into(),
    };
    let used = near.fullest().map_or(0.0, |program| program.processors).min(1.0);
    let evidence = format!("{waits}; no program waits for a device: {}, {}", figures(near), rate(flows.bits));
    Some(Verdict::new(Limiter::NotExplained, 1.0 - used, evidence))
}

fn figures(host: &HostLoad) -> String {
    let program =
        host.fullest().map(|of| format!("{} uses {} of a processor", of.name, percent(of.processors)));
    let program = program.unwrap_or_else(|| "no program was sampled".into());
    format!("{program}, {} is {} idle", host.label(), percent(host.idle))
}

impl Program {
    /// Share of a processor that the program's one full thread uses; `None` if no thread is full. If the threads of a
    /// program weren't sampled, its time may be that of many threads, none of them full. Then the time counts as that
    /// of a full thread only if `nothing_else` returns true: no other limiter was found.
    fn full_thread(&self, nothing_else: impl Fn() -> bool) -> Option<f64> {
        let is_one = (FULL..=ONE).contains(&self.processors);
        let share = match self.thread_use {
            Some(threads) if self.threads > 1 => Some(threads.fullest).filter(|share| *share >= FULL),
            None if self.threads > 1 => Some(self.processors).filter(|_| is_one && nothing_else()),
            _ => Some(self.processors).filter(|_| is_one),
        };
        share.filter(|_| self.present >= 0.5).map(|share| share.min(1.0))
    }
}

impl HostLoad {
    /// True if the command's threads, which use `used` processors, mostly wait for a processor. On a host that other
    /// programs keep busy, a thread that needs little usually gets it at once.
    fn lacks_processors(&self, used: f64) -> bool {
        let all: Vec<ThreadUse> = self.programs.iter().filter_map(|program| program.thread_use).collect();
        if all.is_empty() || self.softirq >= SOFTIRQ {
            return used >= A_PART;
        }
        let running: f64 = all.iter().map(|threads| threads.running).sum();
        let waiting: f64 = all.iter().map(|threads| threads.waiting).sum();
        all.iter().any(|threads| threads.most_ready >= READY)
            || waiting >= A_PART && waiting >= WAITING * running
    }

    fn fullest(&self) -> Option<&Program> {
        self.programs.iter().max_by(|a, b| a.processors.total_cmp(&b.processors))
    }

    fn copier(&self) -> Option<&Program> {
        self.programs.iter().find(|program| COPIERS.contains(&program.name.as_str()))
    }

    /// Share of the time in which the host's connections had something to send.
    fn sending(&self) -> f64 {
        let Some(flows) = self.flows else { return 0.0 };
        ratio(flows.busy * 1e-6, self.seconds * flows.number.max(1.0)).min(1.0)
    }

    fn label(&self) -> String {
        if self.name.is_empty() { "the host".into() } else { format!("host {}", self.name) }
    }
}

#[cfg(test)]
mod tests;
