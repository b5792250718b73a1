//! The limiter of any other program, from the kernel's counters of its processes and its connections.
//!
//! Other programs report no stages. The counters show which resource is full: a thread, the processors, a
//! device that the processes wait for, or a flow that always has something to send. If none at this end is
//! full and the flow is idle, this end waits for the far end's program.

use super::evidence::{percent, rate, ratio};
use super::path::Flows;
use super::{Limiter, Verdict};

/// Share of a processor from which a thread is full: in the rest it waits for its input.
const FULL: f64 = 0.8;
/// Processors up to which a program of several threads may have a single full one.
const ONE: f64 = 1.1;
/// Idle share of a host's processors below which more threads wouldn't find an idle one.
const IDLE: f64 = 0.05;
/// Share of the samples in which a process waits for a device, above which storage limits.
const DISK: f64 = 0.4;
/// Share of the time in which a flow had something to send, above which the path may limit.
const SENDING: f64 = 0.6;
/// Share of a flow's busy time in which the peer took nothing, above which the peer limits.
const NOT_TAKEN: f64 = 0.4;
/// The same where the peer's window was also seen closed: nearly all, since the path shares in the rest.
const MOSTLY_NOT_TAKEN: f64 = 0.8;
/// Share of the samples in which the peer's window was smaller than possible, above which the peer closes it.
const CLOSED: f64 = 0.5;
/// A round trip in microseconds below which the usual windows suffice for 10 Gbit/s: 2 ms need 2.5 MB.
const NEAR: f64 = 2000.0;
/// Share of the user's rate limit below which it isn't what limits the flows.
const REACHED: f64 = 0.7;
/// Programs that copy files one by one.
const COPIERS: [&str; 4] = ["scp", "sftp", "rsync", "rclone"];
/// Seconds below which no limiter can be named.
const TOO_SHORT: f64 = 0.5;

/// One program of the command, or one that the user named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Mean number of processors that it used while it ran.
    pub processors: f64,
    /// Its largest number of threads.
    pub threads: u64,
    /// Share of the samples in which it waited for a device (state D).
    pub disk: f64,
    /// Share of the command's time in which it ran.
    pub present: f64,
}

/// One host that was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// The user's name for it.
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
    /// True where those connections mostly send.
    pub sends: bool,
    /// Seconds in which they were sampled.
    pub seconds: f64,
}

/// A command's option that limits its rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateOption {
    /// The option as given.
    pub option: String,
    /// Bits a second; none where the option's unit is unknown.
    pub bits: Option<f64>,
}

/// Measurements of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandEvidence {
    /// Its duration in seconds.
    pub seconds: f64,
    /// Its option that limits the rate.
    pub paced_by: Option<RateOption>,
    /// The sampled hosts, the command's own first.
    pub hosts: Vec<HostLoad>,
}

/// Names the limiter.
pub fn name(evidence: &CommandEvidence) -> Verdict {
    let Some((near, far)) = evidence.hosts.split_first() else { return too_short() };
    if evidence.seconds < TOO_SHORT || near.programs.is_empty() {
        return too_short();
    }
    full_thread(evidence)
        .or_else(|| full_processors(near))
        .or_else(|| storage(evidence))
        .or_else(|| paced(evidence))
        .or_else(|| small_files(near))
        .or_else(|| path(near))
        .or_else(|| far.iter().find_map(path))
        .or_else(|| far_end(near))
        .unwrap_or_else(|| Verdict::new(Limiter::Unknown, 0.0, figures(near)))
}

fn too_short() -> Verdict {
    Verdict::new(Limiter::TooShort, 0.0, String::new())
}

/// The fullest thread of either end, while its host has idle processors; of several full ones, the fullest
/// limits.
fn full_thread(evidence: &CommandEvidence) -> Option<Verdict> {
    let all = evidence.hosts.iter().flat_map(|host| host.programs.iter().map(move |program| (host, program)));
    let may_be_full =
        |program: &Program| (FULL..=ONE).contains(&program.processors) && program.present >= 0.5;
    let (host, program) = all
        .filter(|(host, program)| host.idle >= IDLE && may_be_full(program))
        .max_by(|a, b| a.1.processors.total_cmp(&b.1.processors))?;
    let share = program.processors.min(1.0);
    let evidence =
        format!("{} of a processor while {} is {} idle", percent(share), host.label(), percent(host.idle));
    Some(Verdict::new(Limiter::OneThread, share, evidence).of(&program.name))
}

/// True limits of all processors: none of the command's host is idle, and the command uses a part of them.
fn full_processors(host: &HostLoad) -> Option<Verdict> {
    let limiter = if host.sends { Limiter::SenderCpu } else { Limiter::ReceiverCpu };
    let used: f64 = host.programs.iter().map(|program| program.processors).sum();
    let evidence = format!(
        "processors {} busy, {} in soft interrupts; the command's programs use {used:.2} processors",
        percent(1.0 - host.idle),
        percent(host.softirq)
    );
    (host.idle < IDLE && used >= 0.2).then(|| Verdict::new(limiter, 1.0 - host.idle, evidence))
}

/// A process at either end that waits for a device.
fn storage(evidence: &CommandEvidence) -> Option<Verdict> {
    let all = evidence.hosts.iter().flat_map(|host| host.programs.iter().map(move |program| (host, program)));
    let waits = all.filter(|(_, program)| program.disk >= DISK);
    let (host, program) = waits.max_by(|a, b| a.1.disk.total_cmp(&b.1.disk))?;
    let limiter = if host.sends { Limiter::SourceRead } else { Limiter::DestinationWrite };
    let evidence = format!(
        "{} waits for a device in {} of the samples; tasks wait for storage {} of the time",
        program.name,
        percent(program.disk),
        percent(host.storage_pressure)
    );
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

/// The path, or the far end's program, where a flow nearly always has something to send.
fn path(host: &HostLoad) -> Option<Verdict> {
    let flows = host.flows.filter(|_| host.sends)?;
    let sending = ratio(flows.busy * 1e-6, host.seconds * flows.number.max(1.0)).min(1.0);
    if sending < SENDING || flows.is_exchange() {
        return None;
    }
    let not_taken = ratio(flows.rwnd_limited, flows.busy);
    // Data that wait for a closed window lengthen the round trip, as a queue does.
    let is_closed = not_taken >= MOSTLY_NOT_TAKEN && flows.window_closed >= CLOSED;
    if is_closed || not_taken >= NOT_TAKEN && flows.rtt < NEAR && !flows.fills_window() {
        let evidence = format!(
            "its receive window is closed for {} of the time in which there is something to send",
            percent(not_taken)
        );
        return Some(Verdict::new(Limiter::FarEndTool, not_taken, evidence));
    }
    Some(flows.name(sending))
}

/// The number of files, where a program that copies sends or receives many small pieces, one or more for each
/// file.
fn small_files(host: &HostLoad) -> Option<Verdict> {
    let flows = host.flows?;
    let mean = flows.small_pieces()?;
    let copies = host.programs.iter().find(|program| COPIERS.contains(&program.name.as_str()))?;
    let share = 1.0 - host.fullest().map_or(0.0, |program| program.processors);
    let evidence = format!(
        "{} sends {:.0} segments a second of {mean:.0} bytes on average, and waits for answers: {}",
        copies.name,
        ratio(flows.data_segments, host.seconds),
        rate(flows.bits)
    );
    Some(Verdict::new(Limiter::SmallFiles, share, evidence))
}

/// The far end's program, where nothing at this end is full and all data are sent.
fn far_end(near: &HostLoad) -> Option<Verdict> {
    let flows = near.flows?;
    let used = near.fullest().map_or(0.0, |program| program.processors);
    let idle = if near.sends { "has sent all its data" } else { "waits for data" };
    let evidence = format!("this end {idle}: {}, {}", figures(near), rate(flows.bits));
    (used < FULL).then(|| Verdict::new(Limiter::FarEndTool, 1.0 - used, evidence))
}

fn figures(host: &HostLoad) -> String {
    let program =
        host.fullest().map(|of| format!("{} uses {} of a processor", of.name, percent(of.processors)));
    let program = program.unwrap_or_else(|| "no program was sampled".into());
    format!("{program}, {} is {} idle", host.label(), percent(host.idle))
}

impl HostLoad {
    fn fullest(&self) -> Option<&Program> {
        self.programs.iter().max_by(|a, b| a.processors.total_cmp(&b.processors))
    }

    fn label(&self) -> String {
        if self.name.is_empty() { "the host".into() } else { format!("host {}", self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, processors: f64, disk: f64) -> Program {
        Program { name: name.into(), processors, threads: 1, disk, present: 1.0 }
    }

    /// scp with ssh, ten seconds of sending, `busy` of them with something to send.
    fn host(ssh: f64, busy: f64) -> HostLoad {
        HostLoad {
            idle: 0.52,
            programs: vec![program("scp", 0.1, 0.0), program("ssh", ssh, 0.0)],
            flows: Some(Flows {
                number: 1.0,
                bits: 1e9,
                busy: busy * 1e6,
                rtt: 300.0,
                min_rtt: 50.0,
                segment_size: 1448.0,
                segments: 1e6,
                ..Flows::default()
            }),
            sends: true,
            seconds: 10.0,
            ..HostLoad::default()
        }
    }

    fn verdict(host: HostLoad) -> Verdict {
        name(&CommandEvidence { seconds: 10.0, paced_by: None, hosts: vec![host] })
    }

    #[test]
    fn one_full_thread_is_named_with_its_program() {
        let full = verdict(host(0.98, 9.0));
        assert_eq!(full.to_string(), "one thread of ssh (98 % of a processor while the host is 52 % idle)");
        assert_eq!(full.limiter, Limiter::OneThread);
    }

    #[test]
    fn the_far_ends_thread_is_found_where_it_is_sampled() {
        let far = HostLoad {
            name: "b".into(),
            programs: vec![program("sshd", 0.97, 0.0)],
            sends: false,
            ..host(0.0, 0.0)
        };
        let both = CommandEvidence { seconds: 10.0, paced_by: None, hosts: vec![host(0.5, 1.0), far] };
        let named = name(&both);
        assert_eq!((named.limiter, named.whose.as_deref()), (Limiter::OneThread, Some("sshd")));
        assert!(named.evidence.contains("host b"), "{}", named.evidence);
    }

    #[test]
    fn all_processors_are_more_than_one_thread() {
        let busy = HostLoad { idle: 0.01, ..host(0.97, 1.0) };
        assert_eq!(verdict(busy.clone()).limiter, Limiter::SenderCpu);
        assert_eq!(verdict(HostLoad { sends: false, ..busy }).limiter, Limiter::ReceiverCpu);
    }

    #[test]
    fn a_device_is_the_source_or_the_destination_by_where_the_data_go() {
        let waits = HostLoad { programs: vec![program("scp", 0.1, 0.8)], ..host(0.1, 1.0) };
        assert_eq!(verdict(waits.clone()).limiter, Limiter::SourceRead);
        assert_eq!(verdict(HostLoad { sends: false, ..waits }).limiter, Limiter::DestinationWrite);
    }

    #[test]
    fn a_flow_with_something_to_send_is_the_paths() {
        assert_eq!(verdict(host(0.3, 9.5)).limiter, Limiter::Network);
        let mut not_taken = host(0.3, 9.5);
        not_taken.flows.as_mut().unwrap().rwnd_limited = 9e6;
        assert_eq!(verdict(not_taken.clone()).limiter, Limiter::FarEndTool);
        // 1 Gbit/s at 0.3 ms are 37 kB.
        not_taken.flows.as_mut().unwrap().window_size = 65536.0;
        assert_eq!(verdict(not_taken.clone()).limiter, Limiter::Window);
        not_taken.flows.as_mut().unwrap().window_size = 3e6;
        assert_eq!(verdict(not_taken.clone()).limiter, Limiter::FarEndTool);
        not_taken.flows.as_mut().unwrap().rtt = 50_000.0;
        not_taken.flows.as_mut().unwrap().min_rtt = 50_000.0;
        assert_eq!(verdict(not_taken).limiter, Limiter::Window);
    }

    #[test]
    fn a_window_that_the_peer_closes_is_no_queue() {
        // Measured of a program on an empty path that sleeps 20 ms after each 256 KiB.
        let mut slow = host(0.01, 4.048);
        slow.seconds = 4.1;
        let flows = slow.flows.as_mut().unwrap();
        (flows.bits, flows.rtt, flows.min_rtt) = (102.1e6, 20_239.0, 1.0);
        (flows.rwnd_limited, flows.window_closed) = (3.92e6, 0.95);
        let named = verdict(slow.clone());
        assert_eq!(named.limiter, Limiter::FarEndTool);
        assert!(named.evidence.starts_with("its receive window is closed for 97 %"), "{}", named.evidence);
        let flows = slow.flows.as_mut().unwrap();
        flows.window_closed = 0.1;
        assert_eq!(verdict(slow.clone()).limiter, Limiter::Network, "a queue");
        let flows = slow.flows.as_mut().unwrap();
        (flows.min_rtt, flows.window_size) = (20_000.0, 250e3);
        assert_eq!(verdict(slow).limiter, Limiter::Window, "a small one, that stays as it is");
    }

    #[test]
    fn an_answer_for_each_file_is_no_full_network() {
        let mut tiny = host(0.03, 10.0);
        let flows = tiny.flows.as_mut().unwrap();
        (flows.bits, flows.rtt) = (712e3, 6700.0);
        assert_eq!(verdict(tiny.clone()).limiter, Limiter::FarEndTool);
        let flows = tiny.flows.as_mut().unwrap();
        (flows.data_segments, flows.data) = (3000.0, 300e3);
        let named = verdict(tiny.clone());
        assert_eq!(named.limiter, Limiter::SmallFiles);
        assert!(
            named.evidence.starts_with("scp sends 300 segments a second of 100 bytes"),
            "{}",
            named.evidence
        );
        tiny.programs[0].name = "psql".into();
        assert_eq!(verdict(tiny).limiter, Limiter::FarEndTool);
    }

    #[test]
    fn an_idle_end_waits_for_the_other() {
        let idle = verdict(host(0.2, 1.0));
        assert_eq!(idle.limiter, Limiter::FarEndTool);
        assert!(idle.evidence.contains("ssh uses 20 % of a processor"), "{}", idle.evidence);
        assert_eq!(verdict(HostLoad { flows: None, ..host(0.2, 0.0) }).limiter, Limiter::Unknown);
    }

    #[test]
    fn the_users_own_limit_is_named_where_nothing_is_full() {
        let paced = |host, bits| {
            let pace = RateOption { option: "--bwlimit".into(), bits };
            name(&CommandEvidence { seconds: 10.0, paced_by: Some(pace), hosts: vec![host] }).limiter
        };
        assert_eq!(paced(host(0.2, 9.0), None), Limiter::RateLimit);
        assert_eq!(paced(host(0.99, 9.0), None), Limiter::OneThread);
        assert_eq!(paced(host(0.2, 9.0), Some(1.05e9)), Limiter::RateLimit);
        assert_eq!(paced(host(0.2, 9.0), Some(8e9)), Limiter::Network, "1 Gbit/s isn't near it");
    }

    #[test]
    fn nothing_is_said_of_an_instant_or_of_nothing() {
        assert_eq!(name(&CommandEvidence::default()).limiter, Limiter::TooShort);
        let short = CommandEvidence { seconds: 0.1, paced_by: None, hosts: vec![host(0.9, 1.0)] };
        assert_eq!(name(&short).limiter, Limiter::TooShort);
    }
}
