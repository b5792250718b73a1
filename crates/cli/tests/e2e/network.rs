//! Tests of the network between the two ends: firewalls, IPv4 and IPv6, streams, limits, and unauthorised
//! connections to the data port.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use linerate_lab::End;
use linerate_testing::skip;

use crate::bed::{Case, args, case, case_alone, case_with_link, case_with_own_link};
use crate::json::{summary_of, u64_at};
use crate::support::{PATIENCE, Run, Running};
use crate::tree::{assert_alike, make_mixed, noise, write};

/// The number of unauthorised connections in a storm: some send garbage, some are closed at once, and some
/// stay open and send nothing.
const STRANGERS: usize = 300;

/// A firewall rule on a host, which is removed on drop.
pub struct Wall {
    namespace: String,
    rule: Vec<String>,
}

impl Wall {
    /// Refuses connections from `host` to these ports at once.
    pub fn refusing(case: &Case, host: End, ports: &str) -> Self {
        Self::up(case, host, &format!("dport {ports} prohibit"))
    }

    /// Drops the answers from these ports of `host`, as a firewall that drops packets does.
    pub fn silent(case: &Case, host: End, ports: &str) -> Self {
        Self::up(case, host, &format!("sport {ports} blackhole"))
    }

    /// Applies this rule to packets that `host` sends.
    pub fn up(case: &Case, host: End, rule: &str) -> Self {
        // "From lo" is what the host itself sends: what comes in is not looked at.
        let rule = format!("iif lo ipproto tcp {rule}").split(' ').map(str::to_owned).collect();
        let wall = Self { namespace: case.bed.lab.host(host).namespace.clone(), rule };
        assert!(wall.rules("add"), "the kernel takes rules with ports since 4.17");
        wall
    }

    fn rules(&self, verb: &str) -> bool {
        ["-4", "-6"].into_iter().all(|family| {
            let mut command = Command::new("ip");
            command.args([family, "-n", &self.namespace, "rule", verb]).args(&self.rule);
            command.status().is_ok_and(|status| status.success())
        })
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        // A lab that is gone has taken its rules along.
        self.rules("del");
    }
}

/// Copies a mixed tree there and back; returns both results.
#[track_caller]
fn there_and_back(case: &Case, options: &[&str]) -> [Run; 2] {
    let (tree, back) = (case.near.join("tree"), case.near.join("back"));
    make_mixed(&tree);
    let with = |more: Vec<OsString>| options.iter().map(OsString::from).chain(more).collect();
    let pushed = case.cp(with(args!["-r", "tree", case.b("to")])).exits(0);
    assert_alike(&tree, &case.far.join("to"));
    let pulled = case.cp(with(args!["-r", case.b("to"), "back"])).exits(0);
    assert_alike(&tree, &back);
    [pushed, pulled]
}

/// Copies in both directions at the same time, each with its own options: for runs that mostly wait.
#[track_caller]
fn there_and_back_at_once(case: &Case, options: [&[&str]; 2]) -> [Run; 2] {
    let (tree, source) = (case.near.join("tree"), case.far.join("source"));
    make_mixed(&tree);
    make_mixed(&source);
    let with = |options: &[&str], more: Vec<OsString>| {
        case.start(options.iter().map(OsString::from).chain(more).collect())
    };
    let push = with(options[0], args!["-r", "tree", case.b("to")]);
    let pull = with(options[1], args!["-r", case.b("source"), "back"]);
    let runs = [push, pull].map(|running| running.end().exits(0));
    assert_alike(&tree, &case.far.join("to"));
    assert_alike(&source, &case.near.join("back"));
    runs
}

/// Runs `linerate stream` from host a to host b.
#[track_caller]
fn stream(case: &Case, options: &[&str]) -> Run {
    let lab = &case.bed.lab;
    let mut words = args![case.bed.program(), "stream", "-F", lab.ssh_config()];
    words.extend(options.iter().map(OsString::from));
    words.push("b".into());
    let mut command = lab.place(End::A).command(&words).expect("well-formed");
    command.envs(lab.environment());
    Running::start(command).end()
}

#[test]
fn without_a_firewall_the_data_goes_to_the_port_asked_for() {
    let Some(case) = case() else { return };
    // The same port at once again: what is left of the first run's connections doesn't keep it.
    let port = format!("data connection: from here to {}:7101", case.bed.lab.address(End::B));
    for run in there_and_back(&case, &["-v", "--port-range", "7101-7101"]) {
        let run = run.says(&[&port, "encrypted"]);
        assert!(
            !run.err.contains("tries to connect to this host") && !run.err.contains("NOT ENCRYPTED"),
            "{run}"
        );
    }
}

#[test]
fn a_data_port_that_cant_be_reached_makes_the_far_end_connect_back() {
    let Some(case) = case() else { return };
    let _wall = Wall::refusing(&case, End::A, "7111-7114");
    for run in there_and_back(&case, &["-v", "--port-range", "7111-7114"]) {
        assert_connected_back(&run, &format!("{}:7111", case.bed.lab.address(End::B)));
    }
}

#[test]
fn a_data_port_that_never_answers_makes_the_far_end_connect_back() {
    let Some(case) = case() else { return };
    let _wall = Wall::silent(&case, End::B, "7121-7124");
    let options: [&[&str]; 2] = [&["-v", "--port-range", "7121-7122"], &["-v", "--port-range", "7123-7124"]];
    for (run, port) in there_and_back_at_once(&case, options).iter().zip([7121, 7123]) {
        assert_connected_back(run, &format!("{}:{port}", case.bed.lab.address(End::B)));
        assert!(run.time < Duration::from_secs(10), "{run}");
    }
}

#[track_caller]
fn assert_connected_back(run: &Run, address: &str) {
    let reported = format!("the data port {address} can't be reached");
    for word in [
        &reported,
        "now the far end tries to connect to this host",
        "data connection: from the far end to here",
    ] {
        assert!(run.err.contains(word), "{word:?} is missing from: {run}");
    }
    assert!(!run.err.contains("warning") && !run.err.contains("through ssh"), "{run}");
}

#[test]
fn with_both_ways_blocked_the_data_goes_through_ssh() {
    let Some(case) = case() else { return };
    let _walls = [End::A, End::B].map(|host| Wall::refusing(&case, host, "7131-7134"));
    for run in there_and_back(&case, &["-v", "--port-range", "7131-7134"]) {
        run.says(&[
            "tries to connect to this host",
            "warning: ",
            "the data goes through ssh on one stream",
            "open a TCP port of 7131-7134 from one host to the other",
            "data connection: through ssh",
            " 1 stream;",
        ]);
    }
}

#[test]
fn with_no_answer_either_way_the_data_goes_through_ssh() {
    let Some(case) = case() else { return };
    let _walls = [End::A, End::B].map(|host| Wall::silent(&case, host, "7141-7144"));
    for run in there_and_back_at_once(&case, [&["--port-range", "7141-7144"]; 2]) {
        let run = run.says(&["the data goes through ssh on one stream"]);
        assert!(run.time < Duration::from_secs(20), "{run}");
    }
}

/// Additional addresses of one host, more than are tried, with routes to them at the other host; they are
/// removed on drop.
struct Addresses<'a>(&'a Case);

impl<'a> Addresses<'a> {
    /// Adds addresses to host a, in a network for documentation (RFC 5737).
    fn add(case: &'a Case) -> Self {
        let addresses = Self(case);
        for number in 1..=9 {
            let address = format!("198.51.100.{number}/32");
            assert!(addresses.ip(End::A, &["addr", "add", &address, "dev", "lo"]), "{address}");
        }
        let through = case.bed.lab.address(End::A).to_string();
        assert!(addresses.ip(End::B, &["route", "add", "198.51.100.0/24", "via", &through]));
        addresses
    }

    fn ip(&self, host: End, words: &[&str]) -> bool {
        let mut command = Command::new("ip");
        command.args(["-n", &self.0.bed.lab.host(host).namespace]).args(words);
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Addresses<'_> {
    fn drop(&mut self) {
        self.ip(End::B, &["route", "del", "198.51.100.0/24"]);
        for number in 1..=9 {
            self.ip(End::A, &["addr", "del", &format!("198.51.100.{number}/32"), "dev", "lo"]);
        }
    }
}

#[test]
fn many_addresses_that_never_answer_leave_time_for_the_way_through_ssh() {
    let Some(case) = case() else { return };
    let _addresses = Addresses::add(&case);
    let _walls = [
        Wall::refusing(&case, End::A, "7191-7192"),
        // The far end's connections back get no answer.
        Wall::silent(&case, End::A, "7191-7192"),
    ];
    write(case.near.join("x"), "x");
    // Where ssh tells no address, all of them are tried.
    let shell = "exec $SSH \"$1\" \"unset SSH_CONNECTION; exec $2\"";
    let run = case.cp_by(shell, args!["--port-range", "7191-7192", "x", case.b("x")]).exits(0);
    let run = run.says(&[
        "now the far end tries to connect to this host",
        "198.51.100.",
        "the data goes through ssh",
    ]);
    assert!(run.time > Duration::from_secs(4), "the addresses did answer: {run}");
    assert_eq!(fs::read_to_string(case.far.join("x")).unwrap(), "x");
}

#[test]
fn a_measurement_finds_the_same_ways_around_a_firewall() {
    let Some(case) = case() else { return };
    let options = ["--bytes", "20MB", "--port-range", "7196-7198"];
    let wall = Wall::refusing(&case, End::A, "7196-7198");
    let run = stream(&case, &options).exits(0).says(&[
        "tries to connect to this host",
        "memory to memory, 20.0 MB",
        "2 streams",
    ]);
    assert!(!run.err.contains("through ssh"), "{run}");
    let _walls = [wall, Wall::refusing(&case, End::B, "7196-7198")];
    let run = stream(&case, &options).exits(0);
    run.says(&["the data goes through ssh", "memory to memory, 20.0 MB", "1 stream;"]);
}

#[test]
fn whoever_gave_no_port_range_is_advised_to_where_all_ports_are_blocked() {
    let Some(case) = case_with_own_link("10gbit") else { return };
    // Without what goes to ssh's port or comes from it.
    let all = "sport 1024-65534 dport 1024-65534 prohibit";
    let _walls = [End::A, End::B].map(|host| Wall::up(&case, host, all));
    for run in there_and_back(&case, &[]) {
        run.says(&[
            "warning: ",
            "the data goes through ssh",
            "open a TCP port (choose it with --port-range)",
        ]);
    }
}

#[test]
fn a_stream_can_read_what_it_sends() {
    let Some(case) = case() else { return };
    let tree = case.near.join("tree");
    make_mixed(&tree);
    let tree = tree.display().to_string();
    // More than the tree holds: it is read again.
    let run = stream(&case, &["--json", "--streams", "2", "--bytes", "40MB", "--read", &tree]).exits(0);
    let summary = summary_of(&run.out);
    assert_eq!(
        (u64_at(&summary, "/bytes"), u64_at(&summary, "/receiver/stages/bytes")),
        (40_000_000, 40_000_000)
    );
    assert!(u64_at(&summary, "/sender/stages/read") > 0, "{summary}");
    let [begin, end] = ["begin", "end"].map(|name| summary["window"][name].as_f64().expect("a number"));
    let payload = summary["payload_seconds"].as_f64().expect("a number");
    assert!(payload > 0.0 && (end - begin - payload).abs() < 1e-6, "{summary}");
    stream(&case, &["--bytes", "1MB", "--read", &tree]).exits(0).says(&["files to memory, 1.00 MB"]);
    let empty = case.near.join("empty");
    write(empty.join("file"), "");
    let empty = empty.display().to_string();
    stream(&case, &["--read", &empty]).exits(2).says(&["contains no data to send"]);
    stream(&case, &["--read", "/no/such/tree"]).exits(2).says(&["/no/such/tree", "No such file"]);
}

#[test]
fn a_tunnel_of_clear_data_and_many_streams_is_still_right() {
    let Some(case) = case() else { return };
    let _walls = [End::A, End::B].map(|host| Wall::refusing(&case, host, "7151-7151"));
    for run in there_and_back(&case, &["--no-encrypt", "--streams", "8", "--port-range", "7151-7151"]) {
        run.says(&["the data goes through ssh", " 1 stream;"]);
    }
}

#[test]
fn a_host_may_be_an_ipv6_address() {
    let Some(case) = case() else { return };
    let Some(address) = case.bed.lab.address6(End::B) else {
        return skip("ipv6", "this kernel has no IPv6");
    };
    let far = |name: &str| OsString::from(format!("[{address}]:{}/{name}", case.far.display()));
    let (tree, route) = (case.near.join("tree"), format!("data connection: from here to [{address}]:"));
    make_mixed(&tree);
    case.cp(args!["-v", "-r", "tree", far("to")]).exits(0).says(&[&route]);
    assert_alike(&tree, &case.far.join("to"));
    case.cp(args!["-v", "-r", far("to"), "back"]).exits(0).says(&[&route]);
    assert_alike(&tree, &case.near.join("back"));

    let _wall = Wall::refusing(&case, End::A, "7161-7161");
    let run = case.cp(args!["-v", "--port-range", "7161", "-r", "tree", far("again")]).exits(0);
    assert_connected_back(&run, &format!("[{address}]:7161"));
    assert_alike(&tree, &case.far.join("again"));
}

#[test]
fn data_in_clear_arrives_whole_and_is_said() {
    let Some(case) = case() else { return };
    for run in there_and_back(&case, &["--no-encrypt"]) {
        run.says(&["the data travels in clear (--no-encrypt)", "NOT ENCRYPTED"]);
    }
}

#[test]
fn any_number_of_streams_moves_the_same() {
    for streams in ["1", "8", "auto"] {
        let Some(case) = case() else { return };
        write(case.near.join("tree/larger"), noise(7, 90 << 20));
        for run in there_and_back(&case, &["--json", "--streams", streams]) {
            let summary = summary_of(&run.out);
            assert!(summary["turned_away"].is_null(), "the far end listens: {summary}");
            let used = u64_at(&summary, "/streams");
            match streams {
                "auto" => assert!((1..=64).contains(&used), "{run}"),
                fixed => assert_eq!(used.to_string(), fixed, "{run}"),
            }
        }
    }
}

#[test]
fn a_limit_of_the_rate_is_held() {
    let Some(case) = case() else { return };
    write(case.near.join("file"), noise(8, 20_000_000));
    let pushed = case.cp(args!["--json", "--bwlimit", "40mbit", "file", case.b("file")]).exits(0);
    let pulled = case.cp(args!["--json", "--bwlimit", "40mbit", case.b("file"), "back"]).exits(0);
    for run in [pushed, pulled] {
        let summary = summary_of(&run.out);
        let seconds = summary["payload_seconds"].as_f64().expect("a number");
        let mbit = u64_at(&summary, "/bytes") as f64 * 8e-6 / seconds;
        assert!((34.0..46.0).contains(&mbit), "{mbit} Mbit/s: {summary}");
    }
    assert!(fs::read(case.near.join("file")).unwrap() == fs::read(case.near.join("back")).unwrap());
}

#[test]
fn timed_strangers_neither_stop_nor_slow_a_transfer() {
    let Some(case) = case_alone() else { return };
    write(case.near.join("tree/large"), noise(9, 200 << 20));
    // Once for the copy that the far end may need.
    case.cp(args!["-r", "tree", case.b("warm")]).exits(0);
    for (port, way) in [(7171, "push"), (7173, "pull")] {
        let start = |to: &str, port: u16| {
            // The limit makes it last until all strangers were there; whoever is held up by them misses it.
            let mut list =
                args!["-v", "--streams", "8", "--bwlimit", "1gbit", "--port-range", port.to_string(), "-r"];
            list.extend(match way {
                "push" => args!["tree", case.b(to)],
                _ => args![case.b("warm"), to],
            });
            case.start(list)
        };
        let top = if way == "push" { &case.far } else { &case.near };
        let alone = start("alone", port + 1).end().exits(0).time;

        let running = start("crowd", port);
        let (running, silent) = storm(&case, port, running);
        let crowd = running.end().exits(0).says(&[&format!(":{port}"), " 8 streams;"]);
        drop(silent);
        assert_alike(&case.near.join("tree"), &top.join("crowd"));
        let limit = alone.mul_f64(1.5) + Duration::from_millis(500);
        assert!(crowd.time <= limit, "{way}: {alone:?} alone, {:?} with strangers", crowd.time);
    }
}

#[test]
fn the_end_that_listens_says_how_many_strangers_came() {
    let Some(case) = case() else { return };
    let _wall = Wall::refusing(&case, End::A, "7176-7177");
    write(case.near.join("file"), noise(10, 6 << 20));
    for (port, option) in [("7176", "-v"), ("7177", "--json")] {
        let running = case.start(args![option, "--bwlimit", "3m", "--port-range", port, "file", case.b("")]);
        let address = SocketAddr::new(case.bed.lab.address(End::A), port.parse().expect("a port"));
        let namespace = File::open(case.bed.lab.host(End::B).namespace_path()).expect("the lab has made it");
        linerate_sys::netns::inside(namespace.as_fd(), || drop(first(address))).expect("root may");
        let run = running.end().exits(0);
        if option == "-v" {
            run.says(&["1 connection to the data port rejected"]);
        } else {
            assert_eq!(u64_at(&summary_of(&run.out), "/turned_away"), 1, "{run}");
        }
    }
}

/// Makes all unauthorised connections to the far data port during a transfer, from the time at which the port
/// opens; returns those that stay open.
#[track_caller]
fn storm(case: &Case, port: u16, mut running: Running) -> (Running, Vec<TcpStream>) {
    let address = SocketAddr::new(case.bed.lab.address(End::B), port);
    let namespace = File::open(case.bed.lab.host(End::A).namespace_path()).expect("the lab has made it");
    let storm = || {
        let mut silent = vec![first(address)];
        for number in 1..STRANGERS {
            // In waves, so that they come before, between and after the honest connections.
            if number % 75 == 0 {
                std::thread::sleep(Duration::from_millis(40));
            }
            let stranger = TcpStream::connect_timeout(&address, Duration::from_secs(2));
            silent.extend(behave(number, stranger.expect("the port is open while the transfer runs")));
        }
        silent
    };
    let silent = linerate_sys::netns::inside(namespace.as_fd(), storm).expect("root may");
    assert!(!running.has_ended(), "over before the strangers were there: it needs more data");
    (running, silent)
}

fn first(address: SocketAddr) -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(stranger) => return stranger,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{address}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn behave(number: usize, mut stranger: TcpStream) -> Option<TcpStream> {
    match number % 3 {
        0 => Some(stranger),
        1 => {
            // One that was turned away already can't write, and that is right.
            let _ = stranger.write_all(&noise(number as u64, 4096));
            None
        }
        _ => {
            let _ = stranger.shutdown(Shutdown::Both);
            None
        }
    }
}

/// Copies over 1 Gbit/s. Returns the mean round-trip time, in microseconds, of its packets and of other
/// packets, and the share of time in which the rate was limited.
fn fill(case: &Case, options: &[&str]) -> (f64, f64) {
    let words = options
        .iter()
        .map(OsString::from)
        .chain(args!["--json", "--compress=off", "large", case.b("to/")])
        .collect();
    let summary = summary_of(&case.cp(words).exits(0).out);
    let stage = |name: &str| u64_at(&summary, &format!("/sender/stages/{name}")) as f64;
    assert_eq!(summary["limiter"], "network", "{summary}");
    (stage("tcp_rtt") / stage("tcp_looks"), stage("held") / stage("lifetime"))
}

#[test]
fn timed_a_copy_leaves_no_queue_before_a_full_link() {
    let Some(case) = case_with_link("1gbit") else { return };
    File::create(case.near.join("large")).unwrap().set_len(400 << 20).unwrap();
    fs::create_dir(case.far.join("to")).unwrap();
    let (queued, held) = fill(&case, &["--no-pacing"]);
    assert_eq!(held, 0.0);
    // Beside other work on the machine a rate may not stand still for long enough.
    let tries: Vec<_> = (0..3)
        .map(|_| fill(&case, &[]))
        .take_while(|(free, held)| *held <= 0.2 || *free >= 0.8 * queued)
        .collect();
    assert!(tries.len() < 3, "{queued} us; with a held rate, and its share of the time: {tries:?}");
}
