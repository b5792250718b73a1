//! Tests in which one of four data streams is much slower than the others, as by a bad member of a bond or
//! one bad path, and in which each of four streams is slow, so that one file needs all of them.

use std::time::{Duration, Instant};

use linerate_lab::End;

use crate::bed::{Case, args, case_with_link};
use crate::killed::Way;
use crate::tree::{assert_alike, noise, write};

/// The greatest number of bytes that may be in the slow stream's socket before its rate is known.
const UNKNOWING: u64 = 6_000_000;
/// The port at which the far end listens for data.
const PORT: u16 = 50300;
/// The first port of the connections that the near end makes.
const FIRST: u16 = 40000;
/// The time limit: the file alone takes 2 s, and a quarter of it takes 80 s on the slow stream.
const IN_TIME: Duration = Duration::from_secs(15);

/// Limits one of the four connections from port `first` on to `rate`, in the direction from `sender`, and the
/// others to 800 Mbit/s together.
fn slow_one_of_four(case: &Case, sender: End, first: u16, rate: &str) {
    let (near, far) = if sender == End::A { ("sport", "dport") } else { ("dport", "sport") };
    let device = &case.bed.lab.host(sender).interface;
    let script = format!(
        "set -e
        tc qdisc del dev {device} root 2>/dev/null || true
        tc qdisc add dev {device} root handle 1: htb default 2 r2q 1000
        tc class add dev {device} parent 1: classid 1:1 htb rate {rate} burst 64k
        tc class add dev {device} parent 1: classid 1:2 htb rate 800mbit burst 1m
        tc qdisc add dev {device} parent 1:1 pfifo limit 100
        tc qdisc add dev {device} parent 1:2 pfifo limit 1000
        tc filter add dev {device} parent 1: protocol ip prio 1 u32 match ip {near} {first} 0xffff \
            match ip {far} {PORT} 0xffff flowid 1:1"
    );
    case.bed.on(sender, &["sh", "-c", &script]);
    let range = format!("net.ipv4.ip_local_port_range={first} {}", first + 3);
    case.bed.on(End::A, &["sysctl", "-qw", &range]);
}

/// Limits each of the four connections from port `FIRST` on to `rate`, in the direction from host a.
fn slow_each_of_four(case: &Case, rate: &str) {
    let device = &case.bed.lab.host(End::A).interface;
    let script = format!(
        "set -e
        tc qdisc add dev {device} root handle 1: htb r2q 1000
        for i in 0 1 2 3; do
            tc class add dev {device} parent 1: classid 1:1$i htb rate {rate} burst 64k
            tc qdisc add dev {device} parent 1:1$i pfifo limit 100
            tc filter add dev {device} parent 1: protocol ip prio 1 u32 match ip sport $(({FIRST} + i)) 0xffff \
                match ip dport {PORT} 0xffff flowid 1:1$i
        done"
    );
    case.bed.on(End::A, &["sh", "-c", &script]);
    let range = format!("net.ipv4.ip_local_port_range={FIRST} {}", FIRST + 3);
    case.bed.on(End::A, &["sysctl", "-qw", &range]);
}

/// The number of bytes that the slow stream has carried.
fn carried(case: &Case, sender: End) -> u64 {
    let shown =
        case.bed.on(sender, &["tc", "-s", "class", "show", "dev", &case.bed.lab.host(sender).interface]);
    let mut words =
        shown.split_whitespace().skip_while(|word| *word != "1:1").skip_while(|word| *word != "Sent");
    words.nth(1).and_then(|count| count.parse().ok()).expect("the class counts what it sends")
}

/// Copies `tree` over four streams, one of which is slow; the others must carry its share.
fn copy(way: Way, make: impl Fn(&std::path::Path), more: &[&str]) {
    let Some(case) = case_with_link("open") else { return };
    let (source, destination, sender) = match way {
        Way::Push => (case.near.join("tree"), case.far.join("tree"), End::A),
        Way::Pull => (case.far.join("tree"), case.near.join("tree"), End::B),
    };
    make(&source);
    slow_one_of_four(&case, sender, FIRST, "4mbit");
    let mut list = args!["--streams", "4", "--port-range", format!("{PORT}-{PORT}"), "-r"];
    list.extend(more.iter().map(Into::into));
    list.extend(match way {
        Way::Push => args!["tree", case.b("")],
        Way::Pull => args![case.b("tree"), "."],
    });
    let begun = Instant::now();
    let run = case.cp(list).exits(0);
    assert!(begun.elapsed() < IN_TIME, "{way:?} {more:?}: {:?}\n{run}", begun.elapsed());
    assert_alike(&source, &destination);
    let sent = carried(&case, sender);
    assert!(0 < sent && sent < UNKNOWING, "{way:?} {more:?}: {sent} bytes on the slow stream\n{run}");
}

#[test]
fn timed_the_rest_of_a_large_files_part_passes_to_faster_streams() {
    let one = |source: &std::path::Path| write(source.join("large"), noise(1, 200 << 20));
    copy(Way::Push, one, &[]);
    copy(Way::Push, one, &["--verify"]);
    copy(Way::Pull, one, &["--no-encrypt"]);
}

#[test]
fn timed_a_file_that_is_one_part_passes_to_faster_streams_in_the_middle() {
    let many = |source: &std::path::Path| {
        (0..18).for_each(|number| write(source.join(format!("{number}")), noise(number, (11 << 20) + 1)));
    };
    copy(Way::Push, many, &[]);
    copy(Way::Pull, many, &["--verify"]);
    copy(Way::Push, many, &["-a"]);
}

#[test]
fn timed_a_stream_with_a_hundredth_of_the_others_rate_costs_no_time() {
    let Some(case) = case_with_link("open") else { return };
    write(case.near.join("large"), noise(1, 300 << 20));
    let seconds = |run: u16, slow: bool| {
        // A port is free again after a minute.
        slow_one_of_four(&case, End::A, FIRST + 4 * run, "2700kbit");
        if !slow {
            let device = &case.bed.lab.host(End::A).interface;
            case.bed.on(End::A, &["tc", "filter", "del", "dev", device, "parent", "1:"]);
        }
        let begun = Instant::now();
        let list = args!["--streams", "4", "--port-range", format!("{PORT}-{PORT}"), "large", case.b("")];
        case.cp(list).exits(0);
        begun.elapsed().as_secs_f64()
    };
    // The best of three, since others use the processors too.
    let best =
        |runs: [u16; 3], slow| runs.map(|run| seconds(run, slow)).into_iter().fold(f64::INFINITY, f64::min);
    let (with, without) = (best([0, 1, 2], true), best([3, 4, 5], false));
    assert!(with / without <= 1.1, "{with:.2} s with a slow stream, {without:.2} s without");
}

#[test]
fn timed_idle_streams_share_a_file_that_one_stream_began() {
    let Some(case) = case_with_link("open") else { return };
    write(case.near.join("file"), noise(1, 8 << 20));
    // The program is brought before.
    write(case.near.join("empty"), "");
    case.cp(args!["empty", case.b("")]).exits(0);
    slow_each_of_four(&case, "8mbit");
    let begun = Instant::now();
    let list = args!["--streams", "4", "--port-range", format!("{PORT}-{PORT}"), "file", case.b("")];
    let run = case.cp(list).exits(0);
    // One stream alone takes 8.4 s.
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}\n{run}", begun.elapsed());
    assert_alike(&case.near.join("file"), &case.far.join("file"));
}
