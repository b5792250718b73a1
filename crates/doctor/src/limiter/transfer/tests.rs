use super::*;

const SECOND: u64 = 1_000_000_000;
const PERCENT: u64 = SECOND / 100;

/// A worker's second, in percent: reading, in the cipher, in the socket. `cpu` and `waited` are the parts of the second
/// in which it ran, and in which it was ready to run.
fn sender(read: u64, cipher: u64, socket: u64, cpu: u64, waited: u64) -> Stages {
    Stages {
        queue: SECOND - (read + cipher + socket) * PERCENT,
        read: read * PERCENT,
        cipher: cipher * PERCENT,
        socket: socket * PERCENT,
        ..end(cpu, waited)
    }
}

fn receiver(socket: u64, cipher: u64, write: u64, cpu: u64, waited: u64) -> Stages {
    Stages { socket: socket * PERCENT, cipher: cipher * PERCENT, write: write * PERCENT, ..end(cpu, waited) }
}

/// The stages of an end on a host of 4 processors, 2 of which are idle.
fn end(cpu: u64, waited: u64) -> Stages {
    Stages {
        workers: 1,
        lifetime: SECOND,
        span: SECOND,
        clocked: SECOND,
        cpu: cpu * PERCENT,
        waited: waited * PERCENT,
        bytes: SECOND,
        entries: 100,
        host_busy: 2 * SECOND,
        host_time: 4 * SECOND,
        ..Stages::default()
    }
}

fn verdict(sender: Stages, receiver: Stages) -> Verdict {
    name(&Evidence { sender, receiver, seconds: 1.0, ..Evidence::default() })
}

fn named(sender: Stages, receiver: Stages) -> Limiter {
    verdict(sender, receiver).limiter
}

#[test]
fn a_full_port_limits_although_the_workers_wait_for_processors() {
    // Measured on two processors that carry both ends: a worker runs for half of its time, and waits for a processor in
    // the other half.
    let at = |link| {
        let busy = Stages { link, tcp_looks: 1, tcp_segment_size: 1448, ..sender(20, 40, 40, 53, 43) };
        named(busy, receiver(80, 10, 10, 53, 43))
    };
    assert_eq!(at(8_500_000_000), Limiter::Network);
    assert_eq!(at(10_000_000_000), Limiter::SenderCpu);
    assert_eq!(at(0), Limiter::SenderCpu);
}

fn idle_sender() -> Stages {
    sender(5, 5, 90, 15, 1)
}

fn idle_receiver() -> Stages {
    receiver(90, 5, 5, 15, 1)
}

#[test]
fn what_cannot_be_seen_through_ssh_is_not_the_networks() {
    let waits = |through_ssh| {
        let (sender, receiver) = (sender(5, 5, 90, 10, 0), receiver(90, 5, 5, 10, 0));
        name(&Evidence { sender, receiver, seconds: 1.0, through_ssh, ..Evidence::default() })
    };
    assert_eq!(waits(false).limiter, Limiter::NotExplained);
    let named = waits(true);
    assert_eq!(named.limiter, Limiter::ThroughSsh);
    assert!(named.evidence.contains("ssh's one thread, its window"), "{}", named.evidence);
    // A slow end is seen all the same.
    let (slow, fast) = (sender(90, 5, 5, 10, 0), receiver(90, 5, 5, 10, 0));
    let read = name(&Evidence {
        sender: slow,
        receiver: fast,
        seconds: 1.0,
        through_ssh: true,
        ..Evidence::default()
    });
    assert_eq!(read.limiter, Limiter::SourceRead);
}

#[test]
fn each_end_is_named_where_the_other_waits_for_it() {
    assert_eq!(named(idle_sender(), idle_receiver()), Limiter::NotExplained);
    assert_eq!(named(sender(85, 5, 10, 15, 1), idle_receiver()), Limiter::SourceRead);
    assert_eq!(named(sender(10, 5, 5, 15, 1), idle_receiver()), Limiter::SourceRead, "a slow scan");
    assert_eq!(named(idle_sender(), receiver(10, 5, 85, 15, 1)), Limiter::DestinationWrite);
}

#[test]
fn a_full_thread_is_one_where_processors_are_idle() {
    let full = verdict(sender(20, 50, 30, 97, 2), idle_receiver());
    assert_eq!(
        full.to_string(),
        "one thread of the sender (97 % of a processor while the host is 50 % idle)"
    );
    let full = verdict(idle_sender(), receiver(20, 50, 30, 97, 2));
    assert_eq!(full.what(), "one thread of the receiver");
    let busy = |stages: Stages| Stages { host_busy: stages.host_time, ..stages };
    assert_eq!(named(busy(sender(20, 50, 30, 97, 2)), idle_receiver()), Limiter::SenderCpu);
    assert_eq!(named(idle_sender(), busy(receiver(20, 50, 30, 97, 2))), Limiter::ReceiverCpu);
}

#[test]
fn as_many_full_threads_as_processors_are_the_processors() {
    let four = |stages: Stages| Stages {
        workers: 4,
        lifetime: 4 * stages.lifetime,
        read: 4 * stages.read,
        cipher: 4 * stages.cipher,
        socket: 4 * stages.socket,
        ..stages
    };
    assert_eq!(named(four(sender(20, 50, 30, 97, 2)), idle_receiver()), Limiter::SenderCpu);
}

#[test]
fn who_gets_no_processor_is_named_so() {
    let starved = verdict(sender(20, 30, 50, 20, 75), idle_receiver());
    assert_eq!((starved.limiter, starved.share), (Limiter::SenderCpu, 0.95));
    assert!(starved.evidence.contains("ready without a processor for 75 %"), "{}", starved.evidence);
    assert!(
        starved.evidence.ends_with("50 % idle, work at a lower priority included; 8.00 Gbit/s"),
        "{}",
        starved.evidence
    );
    assert_eq!(named(idle_sender(), receiver(50, 30, 20, 20, 75)), Limiter::ReceiverCpu);
}

#[test]
fn copying_is_no_waiting() {
    // 10 Gbit/s: much of the time in the stages is work, and both ends still wait.
    assert_eq!(named(sender(15, 25, 60, 55, 2), receiver(45, 25, 30, 55, 2)), Limiter::NotExplained);
}

#[test]
fn the_compressor_limits_where_it_takes_the_senders_time() {
    let packing = |percent: u64| Stages {
        compress: percent * PERCENT,
        queue: 2 * PERCENT,
        wire: SECOND / 4,
        packed: SECOND,
        ..sender(5, 5, 88 - percent, 10 + percent, 1)
    };
    let named = verdict(packing(80), idle_receiver());
    assert_eq!(named.limiter, Limiter::Compression);
    assert!(named.evidence.contains("leaves 25 % of the bytes"), "{named}");
    assert_ne!(verdict(packing(20), idle_receiver()).limiter, Limiter::Compression);
    // The path always had something to carry, however often the sender waited for its compressor.
    let fed = |percent: u64| Stages { tcp_busy: percent * 10_000, ..packing(50) };
    assert_eq!(verdict(fed(90), idle_receiver()).limiter, Limiter::Compression);
    assert_ne!(verdict(fed(99), idle_receiver()).limiter, Limiter::Compression);
}

#[test]
fn without_the_scheduler_the_stages_alone_tell() {
    let blind = |stages: Stages| Stages { clocked: 0, cpu: 0, waited: 0, ..stages };
    assert_eq!(
        named(blind(sender(20, 20, 60, 0, 0)), blind(receiver(60, 20, 20, 0, 0))),
        Limiter::NotExplained
    );
    assert_eq!(named(blind(sender(80, 10, 10, 0, 0)), blind(idle_receiver())), Limiter::SourceRead);
    let sealing = named(blind(sender(5, 85, 10, 0, 0)), blind(idle_receiver()));
    assert!(matches!(sealing, Limiter::SenderCpu | Limiter::OneThread), "{sealing:?}");
}

#[test]
fn small_files_differ_from_slow_storage() {
    let small = |stages: Stages| Stages { entries: 1_000_000, ..stages };
    assert_eq!(named(small(sender(80, 10, 10, 60, 2)), idle_receiver()), Limiter::SmallFiles);
    assert_eq!(named(small(idle_sender()), receiver(10, 5, 85, 90, 2)), Limiter::SmallFiles);
    assert_eq!(named(small(idle_sender()), idle_receiver()), Limiter::NotExplained);
}

#[test]
fn a_rate_is_only_held_where_the_path_limits() {
    let held = |share: u64, stages: Stages| Stages { held: share * PERCENT, ..stages };
    let busy = || receiver(10, 70, 20, 90, 2);
    let full = |stages: Stages| Stages { tcp_looks: 10, tcp_busy: 100, tcp_rwnd_limited: 20, ..stages };
    assert_eq!(named(full(held(20, idle_sender())), busy()), Limiter::OneThread);
    let lossy = |stages: Stages| Stages {
        tcp_looks: 10,
        tcp_segments: 10_000,
        tcp_retransmits: 100,
        tcp_rtt: 200_000,
        tcp_min_rtt: 200_000,
        tcp_segment_size: 14_480,
        bytes: 1_000_000,
        ..stages
    };
    assert_eq!(verdict(lossy(held(20, idle_sender())), idle_receiver()).limiter, Limiter::Loss);
    assert_eq!(verdict(lossy(held(80, idle_sender())), idle_receiver()).limiter, Limiter::Network);
    let named = verdict(full(held(80, idle_sender())), busy());
    assert_eq!((named.limiter, named.share), (Limiter::Network, 0.8));
    // Measured on a virtual link without a rate, whose queue was the receiver's: its thread ran for 96 % of the time.
    let late = Stages { tcp_rwnd_limited: 41, ..full(held(57, idle_sender())) };
    assert_eq!(verdict(late, busy()).what(), "one thread of the receiver");
    assert_eq!(verdict(late, idle_receiver()).limiter, Limiter::Network);
}

#[test]
fn the_users_own_limit_comes_first() {
    let limited = Stages { limit: SECOND / 2, ..sender(10, 10, 20, 10, 1) };
    assert_eq!(
        verdict(limited, idle_receiver()),
        Verdict {
            limiter: Limiter::RateLimit,
            whose: None,
            share: 0.5,
            evidence: "it held the sender for 50 % of the time".into(),
        }
    );
}

#[test]
fn a_long_wait_for_storage_is_the_destinations() {
    let evidence =
        Evidence { sender: idle_sender(), receiver: idle_receiver(), seconds: 10.0, ..Evidence::default() };
    let verdict = name(&evidence);
    assert_eq!((verdict.limiter, verdict.share), (Limiter::DestinationWrite, 0.9));
    let memory = Stages { write: 0, ..idle_receiver() };
    let drains = name(&Evidence { receiver: memory, ..evidence });
    assert_ne!(drains.limiter, Limiter::DestinationWrite, "nothing is written");
    // Streams that began later don't cause such a wait.
    let late = Stages { workers: 8, span: 10 * SECOND, ..idle_sender() };
    assert_eq!(name(&Evidence { sender: late, ..evidence }).limiter, Limiter::NotExplained);
}

#[test]
fn the_path_is_looked_at_where_both_wait() {
    let tcp = Stages {
        tcp_busy: 900_000,
        tcp_rwnd_limited: 800_000,
        tcp_retransmits: 0,
        tcp_looks: 10,
        tcp_rtt: 10 * 50_000,
        tcp_min_rtt: 10 * 50_000,
        tcp_segment_size: 10 * 1448,
        tcp_segments: 10_000,
        bytes: 1_000_000,
        entries: 1,
        ..idle_sender()
    };
    let window = verdict(tcp, idle_receiver());
    assert_eq!(window.limiter, Limiter::Window);
    assert!(window.evidence.contains("about 50.0 kB in flight, round trip 50 ms"), "{}", window.evidence);
    let lossy = Stages { tcp_rwnd_limited: 0, tcp_retransmits: 100, ..tcp };
    assert_eq!(named(lossy, idle_receiver()), Limiter::Loss);
    // A receiver that doesn't read isn't a limit by the window.
    assert_eq!(named(tcp, receiver(5, 5, 90, 10, 1)), Limiter::DestinationWrite);
}

#[test]
fn a_quota_is_named_at_the_end_that_it_stops() {
    let stops = |stops: u64, stages: Stages| Stages {
        quota: SECOND * 15 / 100,
        quota_period: SECOND / 10,
        quota_stops: stops,
        quota_stopped: stops * SECOND * 85 / 1000,
        ..stages
    };
    // The kernel counts the stopped workers as ready without a processor, or as blocked in whatever they do.
    for stopped in [sender(5, 5, 90, 12, 80), sender(60, 5, 35, 12, 0)] {
        let named = verdict(stops(9, stopped), idle_receiver());
        assert!(named.limiter == Limiter::CpuQuota && (named.share - 0.9).abs() < 1e-9, "{named}");
        assert_eq!(named.what(), "the CPU quota of the sender");
    }
    let receiver = stops(8, receiver(60, 20, 20, 12, 80));
    assert_eq!(verdict(idle_sender(), receiver).what(), "the CPU quota of the receiver");
    assert_eq!(
        verdict(stops(9, idle_sender()), receiver).what(),
        "the CPU quota of the sender",
        "it was stopped more"
    );
    // The sender never met a full window, so the receiver accepted everything that came.
    let taken = Stages { tcp_looks: 5, tcp_busy: 900_000, ..idle_sender() };
    assert_ne!(named(taken, receiver), Limiter::CpuQuota);
    assert_eq!(
        named(stops(4, sender(20, 50, 30, 97, 2)), idle_receiver()),
        Limiter::OneThread,
        "seldom stopped"
    );
}

#[test]
fn a_small_send_buffer_is_named_by_the_looks_at_it() {
    let small = Stages {
        tcp_looks: 100,
        tcp_busy: 900_000,
        tcp_rtt: 100 * 20_600,
        tcp_min_rtt: 100 * 20_100,
        tcp_segment_size: 100 * 1448,
        tcp_segments: 10_000,
        tcp_send_buffer: 100 * 65_536,
        tcp_in_flight: 100 * 66_608,
        tcp_send_buffer_full: 96,
        ..idle_sender()
    };
    let named = verdict(small, idle_receiver());
    assert_eq!(named.limiter, Limiter::SendBuffer);
    assert!(
        named.evidence.contains("it has 65.5 kB") && named.evidence.contains("in 96 % of"),
        "{}",
        named.evidence
    );
    let open = verdict(Stages { tcp_send_buffer_full: 3, ..small }, idle_receiver());
    assert_eq!(open.limiter, Limiter::NotExplained);
    let queue = Stages { tcp_rtt: 100 * 40_000, ..small };
    assert_eq!(verdict(queue, idle_receiver()).limiter, Limiter::Network);
}

#[test]
fn a_receiver_that_takes_all_is_only_late() {
    let late = receiver(20, 5, 75, 30, 60);
    assert_eq!(named(idle_sender(), late), Limiter::ReceiverCpu);
    let taken = Stages { tcp_looks: 5, tcp_busy: 900_000, tcp_rwnd_limited: 20_000, ..idle_sender() };
    assert_eq!(named(taken, late), Limiter::NotExplained);
}

#[test]
fn nothing_is_said_of_an_instant() {
    assert_eq!(named(Stages::default(), Stages::default()), Limiter::TooShort);
}

/// A worker within a host reads and writes a range at once, and the receiver's share of the time doesn't show which of
/// the two it waits for.
#[test]
fn within_a_host_the_devices_bytes_show_what_is_waited_for() {
    let named = |read, written| {
        let verdict = Verdict::new(Limiter::DestinationWrite, 0.9, String::new());
        let devices = Some(DeviceBytes { read, written });
        verdict.by_devices(&Evidence { within: true, devices, ..Evidence::default() }).limiter
    };
    assert_eq!(named(60_000_000, 0), Limiter::SourceRead);
    assert_eq!(named(0, 60_000_000), Limiter::DestinationWrite);
    assert_eq!(named(60_000_000, 60_000_000), Limiter::DestinationWrite);
}

/// Sixteen workers send one file of 8 MB beside others' traffic: all but the last one soon have nothing left to do.
#[test]
fn workers_without_work_do_not_wait_for_the_files() {
    let second = 1_000_000_000;
    let of = |socket: u64, entries| {
        let stages =
            Stages { workers: 16, lifetime: 160 * second, span: 10 * second, ..sender(0, 0, 0, 0, 0) };
        let idle = Stages { queue: 150 * second, clocked: 160 * second, ..stages };
        Stages { socket: socket * second, bytes: 8_000_000, entries, tcp_looks: 1, ..idle }
    };
    assert_ne!(named(of(10, 1), idle_receiver()), Limiter::SourceRead);
    assert_eq!(named(of(2, 1), idle_receiver()), Limiter::SourceRead, "a slow scan");
    assert_eq!(named(of(10, 10_000), idle_receiver()), Limiter::SmallFiles);
}
