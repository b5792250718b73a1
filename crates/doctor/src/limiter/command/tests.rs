use super::*;

fn program(name: &str, processors: f64, disk: f64) -> Program {
    Program { name: name.into(), processors, threads: 1, thread_use: None, disk, present: 1.0 }
}

/// scp with ssh, which sends for ten seconds; in `busy` seconds of these it has something to send.
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
    name(&CommandEvidence { seconds: 10.0, hosts: vec![host], ..CommandEvidence::default() })
}

#[test]
fn one_full_thread_is_named_with_its_program() {
    let full = verdict(host(0.98, 9.0));
    assert_eq!(full.to_string(), "one thread of ssh (98 % of a processor while the host is 52 % idle)");
    assert_eq!(full.limiter, Limiter::OneThread);
}

#[test]
fn a_full_port_limits_although_a_thread_is_full() {
    let at = |link, sends| {
        let mut full = HostLoad { sends, ..host(0.98, 9.0) };
        full.flows.as_mut().unwrap().link = link;
        verdict(full).limiter
    };
    assert_eq!(at(1.06e9, true), Limiter::Network);
    assert_eq!(at(1.25e9, true), Limiter::OneThread);
    assert_eq!(at(1.06e9, false), Limiter::OneThread, "the port of the other end sends");
}

#[test]
fn the_far_ends_thread_is_found_where_it_is_sampled() {
    let far = HostLoad {
        name: "b".into(),
        programs: vec![program("sshd", 0.97, 0.0)],
        sends: false,
        ..host(0.0, 0.0)
    };
    let both =
        CommandEvidence { seconds: 10.0, hosts: vec![host(0.5, 1.0), far], ..CommandEvidence::default() };
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

/// cp within a host has no connection that shows in which direction the data goes.
#[test]
fn without_a_connection_the_devices_bytes_show_what_is_waited_for() {
    let named = |read, written| {
        let host = HostLoad { programs: vec![program("cp", 0.1, 0.9)], flows: None, ..host(0.1, 0.0) };
        let devices = Some(DeviceBytes { read, written });
        name(&CommandEvidence { seconds: 10.0, hosts: vec![host], devices, ..CommandEvidence::default() })
            .limiter
    };
    assert_eq!(named(60_000_000, 0), Limiter::SourceRead);
    assert_eq!(named(0, 60_000_000), Limiter::DestinationWrite);
    assert_eq!(named(60_000_000, 60_000_000), Limiter::NotExplained, "both");
}

#[test]
fn a_flow_with_something_to_send_is_the_paths() {
    assert_eq!(verdict(host(0.3, 9.5)).limiter, Limiter::NotExplained, "a queue of less than a millisecond");
    let mut queued = host(0.3, 9.5);
    queued.flows.as_mut().unwrap().rtt = 3000.0;
    assert_eq!(verdict(queued).limiter, Limiter::Network);
    let mut not_taken = host(0.3, 9.5);
    not_taken.flows.as_mut().unwrap().rwnd_limited = 9e6;
    assert_eq!(verdict(not_taken.clone()).limiter, Limiter::FarEndTool);
    // 1 Gbit/s at a round trip of 0.3 ms are 37 kB in flight.
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
    // Measured with a program on an empty path, which sleeps 20 ms after each 256 KiB.
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

/// `pv -L 5m | nc` over 40 ms, with the internet's losses.
#[test]
fn a_program_that_hands_over_little_is_not_limited_by_the_path() {
    let mut paced = host(0.03, 10.0);
    let flows = paced.flows.as_mut().unwrap();
    (flows.bits, flows.rtt, flows.min_rtt) = (40e6, 40_100.0, 40_000.0);
    (flows.retransmits, flows.segments, flows.in_flight) = (20.0, 40_000.0, 200e3);
    flows.waiting = 0.02;
    let named = verdict(paced.clone());
    assert_eq!(named.limiter, Limiter::NotExplained);
    assert!(
        named.evidence.contains("hands over no more: bytes wait to be sent in 2 %"),
        "{}",
        named.evidence
    );
    paced.flows.as_mut().unwrap().waiting = 0.9;
    assert_eq!(verdict(paced).limiter, Limiter::Loss);
}

#[test]
fn an_answer_for_each_file_is_no_full_network() {
    let mut tiny = host(0.03, 10.0);
    let flows = tiny.flows.as_mut().unwrap();
    (flows.bits, flows.rtt) = (712e3, 6700.0);
    let named = verdict(tiny.clone());
    assert_eq!(named.limiter, Limiter::NotExplained);
    assert!(named.evidence.starts_with("this end sends less than a segment at a time"), "{}", named.evidence);
    let flows = tiny.flows.as_mut().unwrap();
    (flows.data_segments, flows.data) = (3000.0, 300e3);
    let named = verdict(tiny.clone());
    assert_eq!(named.limiter, Limiter::SmallFiles);
    assert!(named.evidence.starts_with("scp sends 300 segments a second of 100 bytes"), "{}", named.evidence);
    tiny.programs[0].name = "psql".into();
    assert_eq!(verdict(tiny).limiter, Limiter::NotExplained);
}

#[test]
fn an_idle_copier_waits_for_the_far_end_and_other_programs_for_anything() {
    let idle = host(0.2, 1.0);
    let named = verdict(idle.clone());
    assert_eq!(named.limiter, Limiter::FarEndTool);
    assert!(named.evidence.starts_with("scp has sent all that it may"), "{}", named.evidence);
    // Over a long round trip the answers themselves may take the time.
    let mut long = idle.clone();
    long.flows.as_mut().unwrap().rtt = 50_000.0;
    assert_eq!(verdict(long).limiter, Limiter::NotExplained);
    let mut other = idle;
    other.programs[0].name = "bash".into();
    let named = verdict(other);
    assert_eq!(named.limiter, Limiter::NotExplained);
    assert!(named.evidence.starts_with("this end has something to send for 10 %"), "{}", named.evidence);
    assert_eq!(verdict(HostLoad { flows: None, ..host(0.2, 0.0) }).limiter, Limiter::Unknown);
}

#[test]
fn the_far_ends_program_is_named_where_it_is_seen_to_have_nothing_to_send() {
    let near = || HostLoad { sends: false, ..host(0.2, 0.0) };
    let far = |busy| HostLoad { name: "b".into(), ..host(0.2, busy) };
    let both = |near: HostLoad, far: HostLoad| {
        name(&CommandEvidence { seconds: 10.0, hosts: vec![near, far], ..CommandEvidence::default() })
    };
    let named = both(near(), far(1.0));
    assert_eq!(named.limiter, Limiter::FarEndTool);
    assert!(
        named.evidence.contains("host b has something to send for 10 % of the time"),
        "{}",
        named.evidence
    );
    assert_eq!(verdict(near()).limiter, Limiter::NotExplained, "the far end isn't sampled");
    assert_ne!(both(near(), far(9.5)).limiter, Limiter::FarEndTool, "it sends");
    // A file system in user space takes the received bytes slowly, while its writer sleeps.
    let mut unread = near();
    unread.flows.as_mut().unwrap().unread = 0.8;
    let named = both(unread, far(1.0));
    assert_eq!(named.limiter, Limiter::NotExplained);
    assert!(named.evidence.starts_with("received bytes wait to be read in 80 %"), "{}", named.evidence);
}

#[test]
fn a_quota_is_named_before_what_it_makes_of_a_command() {
    let quota = QuotaUse {
        quota: linerate_host::CpuQuota { group: "/low".into(), processors: 0.9, period_us: 100_000 },
        throttling: linerate_host::Throttling { periods: 100, throttled: 78, throttled_us: 9 },
    };
    // Without the quota, one thread would seem full, or the far end slow.
    for used in [0.88, 0.1] {
        let named = verdict(HostLoad { quota: Some(quota.clone()), ..host(used, 1.0) });
        assert_eq!((named.limiter, named.share), (Limiter::CpuQuota, 0.78), "{used}");
        assert_eq!(named.whose.as_deref(), Some("the host"));
    }
    let seldom = linerate_host::Throttling { throttled: 20, ..quota.throttling };
    let seldom = QuotaUse { throttling: seldom, ..quota };
    assert_eq!(verdict(HostLoad { quota: Some(seldom), ..host(0.98, 9.0) }).limiter, Limiter::OneThread);
}

#[test]
fn the_users_own_limit_is_named_where_nothing_is_full() {
    let paced = |host, bits| {
        let pace = RateOption { option: "--bwlimit".into(), bits };
        name(&CommandEvidence { seconds: 10.0, paced_by: Some(pace), hosts: vec![host], devices: None })
            .limiter
    };
    assert_eq!(paced(host(0.2, 9.0), None), Limiter::RateLimit);
    assert_eq!(paced(host(0.99, 9.0), None), Limiter::OneThread);
    assert_eq!(paced(host(0.2, 9.0), Some(1.05e9)), Limiter::RateLimit);
    assert_eq!(paced(host(0.2, 9.0), Some(8e9)), Limiter::NotExplained, "1 Gbit/s isn't near it");
}

#[test]
fn nothing_is_said_of_an_instant_or_of_nothing() {
    assert_eq!(name(&CommandEvidence::default()).limiter, Limiter::TooShort);
    let short = CommandEvidence { seconds: 0.1, hosts: vec![host(0.9, 1.0)], ..CommandEvidence::default() };
    assert_eq!(name(&short).limiter, Limiter::TooShort);
}

/// iperf3 -R -P 8: each of its threads uses an eighth of a processor.
#[test]
fn many_threads_that_are_not_full_are_not_one_full_thread() {
    let of = |fullest| {
        let thread_use = Some(ThreadUse { fullest, most_ready: fullest, running: 0.96, waiting: 0.01 });
        let iperf3 = Program { threads: 9, thread_use, ..program("iperf3", 0.96, 0.0) };
        HostLoad { programs: vec![iperf3], sends: false, ..host(0.0, 9.0) }
    };
    assert_eq!(verdict(of(0.12)).limiter, Limiter::NotExplained);
    let full = verdict(of(0.94));
    assert_eq!(full.to_string(), "one thread of iperf3 (94 % of a processor while the host is 52 % idle)");
    let mut unknown = of(0.0);
    unknown.programs[0].thread_use = None;
    assert_eq!(verdict(unknown).limiter, Limiter::NotExplained, "a receiver's path shows nothing");
}

/// Other programs fill all processors of the host; the command needs a quarter of a processor.
#[test]
fn a_busy_host_whose_command_gets_its_processor_is_not_the_limiter() {
    let of = |waiting, most_ready, softirq| {
        let mut busy = HostLoad { idle: 0.0, softirq, ..host(0.25, 9.5) };
        busy.programs[1].thread_use = Some(ThreadUse { fullest: 0.25, most_ready, running: 0.25, waiting });
        let flows = busy.flows.as_mut().unwrap();
        (flows.rwnd_limited, flows.window_size) = (9e6, 65536.0);
        verdict(busy).limiter
    };
    assert_eq!(of(0.02, 0.27, 0.01), Limiter::Window);
    assert_eq!(of(0.2, 0.45, 0.01), Limiter::SenderCpu, "waits nearly as long as it runs");
    assert_eq!(of(0.19, 0.4, 0.01), Limiter::Window);
    assert_eq!(of(0.02, 0.9, 0.01), Limiter::SenderCpu, "it could always run");
    assert_eq!(of(0.02, 0.27, 0.4), Limiter::SenderCpu, "the kernel's network work");
    let mut starved = HostLoad { idle: 0.0, ..host(0.06, 0.6) };
    starved.programs[1].thread_use =
        Some(ThreadUse { fullest: 0.06, most_ready: 0.97, running: 0.06, waiting: 0.91 });
    assert_eq!(verdict(starved).limiter, Limiter::SenderCpu, "others have a higher weight");
}
