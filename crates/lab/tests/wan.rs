//! Tests of real links with delay and loss.

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{NOBODY, Program, can_make_labs, on, remains, text, wait_for_line, within};
use linerate_lab::{End, Lab, LabError, LabOptions, SegmentCounts, Wan, down, status, sweep};
use linerate_sys::{netns, tcp::TcpInfo};
use linerate_testing::{has, skip};

/// The share of TCP's payload in the 1538 bytes that Ethernet needs for a packet of 1500.
const PAYLOAD: f64 = 1448.0 / 1538.0;

/// A lock for tests that measure, so that they don't disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ready() -> bool {
    can_make_labs() && linerate_testing::has_tun()
}

fn options(name: &str, link: &str, rtt: &str, loss: &str) -> LabOptions {
    let wan =
        Wan { rtt: rtt.parse().expect("a time"), loss: loss.parse().expect("a share"), ..Wan::default() };
    LabOptions { wan: Some(wan), linerate: Some(common::example()), ..common::options(name, link) }
}

/// The addresses of an end, including IPv6 if the kernel has it.
fn addresses(lab: &Lab, end: End) -> Vec<IpAddr> {
    [Some(lab.address(end)), lab.address6(end).map(IpAddr::from)].into_iter().flatten().collect()
}

/// The result of `open` in the namespace of an end.
fn inside<T: Send>(lab: &Lab, end: End, open: impl FnOnce() -> std::io::Result<T> + Send) -> T {
    let namespace = File::open(lab.host(end).namespace_path()).expect("the lab is up");
    netns::inside(namespace.as_fd(), open).and_then(|opened| opened).expect("it opens")
}

fn udp(lab: &Lab, end: End, address: IpAddr) -> UdpSocket {
    let socket = inside(lab, end, || UdpSocket::bind((address, 0)));
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).expect("root may");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket");
    socket
}

/// The median of round trips of small datagrams.
fn median_rtt(lab: &Lab, near: IpAddr, far: IpAddr) -> Duration {
    let (near, far) = (udp(lab, End::A, near), udp(lab, End::B, far));
    let to = far.local_addr().expect("bound");
    let trip = || {
        let begin = Instant::now();
        near.send_to(&[7; 64], to).expect("sent");
        let (length, from) = far.recv_from(&mut [0; 100]).expect("arrives");
        far.send_to(&[7; 64][..length], from).expect("sent");
        near.recv(&mut [0; 100]).expect("comes back");
        begin.elapsed()
    };
    let mut trips: Vec<Duration> = (0..21).map(|_| trip()).collect();
    trips.sort();
    trips[trips.len() / 2]
}

#[test]
fn a_round_trip_takes_what_was_asked() {
    if !ready() {
        return;
    }
    let _alone = alone();
    let lab = Lab::up(&options("rtt", "1gbit", "50ms", "0%")).expect("a lab");
    for (near, far) in addresses(&lab, End::A).into_iter().zip(addresses(&lab, End::B)) {
        let mut medians = Vec::new();
        // Other tests may have the processors for a moment.
        let held = (0..5).any(|_| {
            medians.push(median_rtt(&lab, near, far));
            medians.last().is_some_and(|median| (50_000..51_000).contains(&median.as_micros()))
        });
        assert!(held, "{far}: {medians:?}");
        assert!(medians.iter().all(|median| median.as_millis() >= 50), "{far}: {medians:?}");
    }
    assert_eq!(status().expect("readable").iter().filter(|l| l.description.wan.is_some()).count().min(1), 1);
    let memory = text(&on(&lab, End::A, &["cat", "/proc/sys/net/ipv4/tcp_rmem"]));
    assert!(memory.contains("134217728"), "{memory}");
}

#[test]
fn datagrams_are_lost_as_asked() {
    if !ready() {
        return;
    }
    let _alone = alone();
    const SENT: u64 = 150_000;
    let lab = Lab::up(&options("loss", "open", "2ms", "1%")).expect("a lab");
    for (near, far) in addresses(&lab, End::A).into_iter().zip(addresses(&lab, End::B)) {
        let (near, far) = (udp(&lab, End::A, near), udp(&lab, End::B, far));
        let to = far.local_addr().expect("bound");
        let received = AtomicU64::new(0);
        let count = || {
            while far.recv(&mut [0; 100]).is_ok() {
                received.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(count);
            for number in 0..SENT {
                near.send_to(&[1; 30], to).expect("sent");
                // Never so many under way that something else than the emulator has to drop them.
                let arrived = || received.load(Ordering::Relaxed) + number / 50 + 3000 > number;
                assert!(number % 100 > 0 || within(Duration::from_secs(10), arrived), "{number} sent");
            }
        });
        let lost = (SENT - received.into_inner()) as f64 / SENT as f64;
        assert!((0.009..=0.011).contains(&lost), "{to}: {lost} lost");
    }
}

#[test]
fn a_connection_loses_segments_and_no_more() {
    if !ready() {
        return;
    }
    let _alone = alone();
    let lab = Lab::up(&options("segments", "open", "0ms", "1%")).expect("a lab");
    for far in addresses(&lab, End::B) {
        let before = counted(&lab);
        let (mut sender, mut receiver) = connect(&lab, far);
        const BYTES: usize = 200_000_000;
        let pattern: Vec<u8> = (0..251).cycle().take(251 * 1000).collect();
        let send = || {
            for _ in 0..BYTES.div_ceil(pattern.len()) {
                sender.write_all(&pattern).expect("the receiver reads");
            }
            sender.shutdown(std::net::Shutdown::Write).expect("connected");
            TcpInfo::of(sender.as_fd()).expect("TCP").retransmits
        };
        let retransmits = std::thread::scope(|scope| {
            let sending = scope.spawn(send);
            check_pattern(&mut receiver, &pattern, BYTES.div_ceil(pattern.len()));
            sending.join().expect("it only sends")
        });
        let after = counted(&lab);
        let (segments, lost) = (after.segments - before.segments, after.lost - before.lost);
        let share = lost as f64 / segments as f64;
        assert!((0.009..=0.011).contains(&share) && segments > 138_000, "{far}: {lost} of {segments}");
        // A tail that is lost is probed for, and some are sent again that weren't lost.
        let again = f64::from(retransmits) / lost as f64;
        assert!((0.9..=1.25).contains(&again), "{far}: {retransmits} sent again for {lost} lost");
        assert_eq!(after.dropped, 0);
    }
}

/// The counts from a to b, once everything has been counted.
fn counted(lab: &Lab) -> SegmentCounts {
    std::thread::sleep(Duration::from_millis(1200));
    lab.counts().first().map_or(SegmentCounts::default(), |[there, _]| *there)
}

fn check_pattern(from: &mut TcpStream, pattern: &[u8], times: usize) {
    let mut buffer = vec![0; pattern.len()];
    for time in 0..times {
        from.read_exact(&mut buffer).expect("comes");
        assert!(buffer == pattern, "piece {time} isn't what was sent");
    }
    assert_eq!(from.read(&mut buffer).expect("the end"), 0);
}

fn connect(lab: &Lab, far: IpAddr) -> (TcpStream, TcpStream) {
    let listener = inside(lab, End::B, || TcpListener::bind((far, 0)));
    let to: SocketAddr = listener.local_addr().expect("bound");
    let near = inside(lab, End::A, || TcpStream::connect(to));
    (near, listener.accept().expect("connected").0)
}

/// The payload rate in Gbit/s in the best second of a stream. The stream ends when a second reaches `enough`,
/// or after 10 s.
fn best_second(lab: &Lab, far: IpAddr, enough: f64) -> f64 {
    let (mut sender, mut receiver) = connect(lab, far);
    let (over, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let piece = vec![3; 1 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                sender.write_all(&piece).expect("the receiver reads");
            }
            // Closing before everything has arrived lets the receiver go on for a moment.
            let _ = sender.shutdown(std::net::Shutdown::Both);
        });
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 20];
            loop {
                match receiver.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => _ = received.fetch_add(length as u64, Ordering::Relaxed),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        });
        let (begin, mut best) = (Instant::now(), 0f64);
        while best < enough && begin.elapsed() < Duration::from_secs(10) {
            let (time, bytes) = (Instant::now(), received.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_secs(1));
            let bits = (received.load(Ordering::Relaxed) - bytes) as f64 * 8.0;
            best = best.max(bits * 1e-9 / time.elapsed().as_secs_f64());
        }
        over.store(true, Ordering::Relaxed);
        best
    })
}

#[test]
fn the_rate_is_what_the_headers_leave() {
    if !ready() {
        return;
    }
    let _alone = alone();
    for (name, link, rtt, gigabits) in [("slow", "1gbit", "20ms", 1.0), ("fast", "10gbit", "10ms", 10.0)] {
        let lab = Lab::up(&options(name, link, rtt, "0%")).expect("a lab");
        let left = gigabits * PAYLOAD;
        for far in addresses(&lab, End::B) {
            let best = best_second(&lab, far, 0.95 * left);
            // At once, after a pause, a link sends a burst of 3.4 ms.
            assert!(best < 1.01 * left, "{far}: {best} Gbit/s of payload over {link}");
            if best < 0.95 * left {
                let open = Lab::up(&options("open", "open", rtt, "0%")).expect("a lab");
                let most = best_second(&open, far_of(&open, far), 1.5 * left);
                assert!(most < 1.5 * left, "{far}: {best} Gbit/s over {link}, {most} over an open link");
                let why = format!("other work leaves this machine {most} Gbit/s over an open link");
                skip("idle-processors", why);
            }
        }
    }
}

fn far_of(lab: &Lab, like: IpAddr) -> IpAddr {
    addresses(lab, End::B).into_iter().find(|address| address.is_ipv6() == like.is_ipv6()).expect("as before")
}

#[test]
fn each_of_several_links_is_emulated() {
    if !ready() {
        return;
    }
    let _alone = alone();
    let asked = LabOptions { links: Some(2), ..options("two", "100mbit", "10ms", "0%") };
    let lab = Lab::up(&asked).expect("a lab");
    let name = lab.name().to_string();
    for (near, far) in lab.addresses(End::A).into_iter().zip(lab.addresses(End::B)) {
        let median = median_rtt(&lab, near, far);
        assert!(median >= Duration::from_millis(10) && median < Duration::from_millis(20), "{median:?}");
    }
    assert!(within(Duration::from_secs(5), || {
        let counts = lab.counts();
        counts.len() == 2 && counts.iter().flatten().all(|counts| counts.segments >= 21)
    }));
    lab.down().expect("all of it goes");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn what_a_kill_leaves_of_an_emulator_is_swept_away() {
    if !ready() {
        return;
    }
    let program = Program::for_user(0);
    let runtime = program.runtime();
    let script = "echo $LINERATE_LAB > $0/name; echo ready; exec sleep 606";
    let mut child = program
        .command(&["--rtt", "5ms", "sh", "-c", script, runtime.to_str().expect("plain")])
        .spawn()
        .expect("it starts");
    wait_for_line(&mut child, "ready");
    let name = std::fs::read_to_string(runtime.join("name")).expect("just written").trim().to_owned();
    let emulators = || remains(&name).into_iter().filter(|left| left.contains("lab wan")).count();
    assert_eq!(emulators(), 1);
    child.kill().expect("our child");
    child.wait().expect("our child");
    assert!(within(Duration::from_secs(5), || emulators() == 0), "it ends with its lab");
    sweep().expect("readable");
    assert!(within(Duration::from_secs(10), || remains(&name).is_empty()), "{:?}", remains(&name));
}

#[test]
fn a_kept_lab_keeps_its_emulator() {
    if !ready() {
        return;
    }
    let lab = Lab::up(&LabOptions { kept: true, ..options("kept-wan", "open", "5ms", "0%") }).expect("a lab");
    let (name, config) = (lab.name().clone(), lab.ssh_config());
    text(&on(&lab, End::A, &["ssh", "-F", config.to_str().expect("plain"), "b", "true"]));
    drop(lab);
    assert!(
        remains(name.as_str()).iter().any(|left| left.contains("lab wan")),
        "{:?}",
        remains(name.as_str())
    );
    assert_eq!(down(Some(&name)).expect("all of it goes"), name);
    assert_eq!(remains(name.as_str()), Vec::<String>::new());
}

#[test]
fn an_ordinary_user_gets_delay_too() {
    if !ready() || !has("setpriv") {
        return;
    }
    let mode = std::fs::metadata("/dev/net/tun").expect("it is there").mode();
    if mode & 0o006 != 0o006 {
        skip("users-tun", format_args!("/dev/net/tun is closed to ordinary users here (mode {mode:o})"));
        return;
    }
    let output = Program::for_user(NOBODY).run(&["--rtt", "5ms", "sh", "-c", "ip link; exit 5"]);
    let (printed, reported) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if reported.contains("user namespace") {
        skip("user-namespaces", "this kernel gives an ordinary user no user namespace");
        return;
    }
    assert_eq!(output.status.code(), Some(5), "{printed} {reported}");
    assert!(printed.contains("POINTOPOINT"), "{printed}");
}

#[test]
fn what_has_no_emulator_is_refused() {
    if !ready() {
        return;
    }
    let refused = |options: LabOptions, expected: &str| {
        let name = options.name.clone().expect("given");
        let error = Lab::up(&options).expect_err("no lab").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(remains(name.as_str()), Vec::<String>::new());
    };
    let wan = |name| options(name, "1gbit", "1ms", "0%");
    refused(LabOptions { guests: 1, ..wan("guests-wan") }, "part of a bridge");
    let queued = Some(Wan { queue: Some(1 << 20), ..Wan::default() });
    refused(LabOptions { link: None, wan: queued, ..wan("open-queue") }, "has no queue");
    refused(LabOptions { queues: Some(2), ..wan("queues-wan") }, "one queue");
    refused(LabOptions { linerate: Some("/bin/true".into()), ..wan("mute") }, "ended");
    refused(LabOptions { linerate: Some("/there/is/none".into()), ..wan("none") }, "No such file");
    let error =
        Lab::up(&LabOptions { linerate: Some("/bin/true".into()), ..wan("kind") }).expect_err("no lab");
    assert!(matches!(error, LabError::Emulator { .. }), "{error}");
}
