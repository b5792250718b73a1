//! One data stream of four that is much slower than the others: a bad member of a bond, one bad path of several.

use std::time::{Duration, Instant};

use linerate_lab::End;

use crate::bed::{Case, args, case_with_link};
use crate::killed::Way;
use crate::tree::{assert_alike, noise, write};

/// Bytes that may have entered the slow stream's socket before its rate is known.
const UNKNOWING: u64 = 6_000_000;
/// Where the far end listens for data.
const PORT: u16 = 50300;
/// The file alone takes 2 s, and a quarter of it 80 s on the slow stream.
const IN_TIME: Duration = Duration::from_secs(15);

/// Gives one of the four connections that A can make 4 Mbit/s of what `sender` sends, and the others 800 Mbit/s together.
fn slow_one_of_four(case: &Case, sender: End) {
    let (near, far) = if sender == End::A { ("sport", "dport") } else { ("dport", "sport") };
    let device = &case.bed.lab.host(sender).interface;
    let script = format!(
        "set -e
        tc qdisc replace dev {device} root handle 1: htb default 2 r2q 1000
        tc class add dev {device} parent 1: classid 1:1 htb rate 4mbit burst 64k
        tc class add dev {device} parent 1: classid 1:2 htb rate 800mbit burst 1m
        tc qdisc add dev {device} parent 1:1 pfifo limit 100
        tc qdisc add dev {device} parent 1:2 pfifo limit 1000
        tc filter add dev {device} parent 1: protocol ip prio 1 u32 match ip {near} 40000 0xffff \
            match ip {far} {PORT} 0xffff flowid 1:1"
    );
    case.bed.on(sender, &["sh", "-c", &script]);
    case.bed.on(End::A, &["sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40003"]);
}

/// Bytes that the slow stream has carried.
fn carried(case: &Case, sender: End) -> u64 {
    let shown =
        case.bed.on(sender, &["tc", "-s", "class", "show", "dev", &case.bed.lab.host(sender).interface]);
    let mut words =
        shown.split_whitespace().skip_while(|word| *word != "1:1").skip_while(|word| *word != "Sent");
    words.nth(1).and_then(|count| count.parse().ok()).expect("the class counts what it sends")
}

/// Copies `tree` over four streams, one of them slow; the others bring what it doesn't.
fn copy(way: Way, make: impl Fn(&std::path::Path), more: &[&str]) {
    let Some(case) = case_with_link("open") else { return };
    let (source, destination, sender) = match way {
        Way::Push => (case.near.join("tree"), case.far.join("tree"), End::A),
        Way::Pull => (case.far.join("tree"), case.near.join("tree"), End::B),
    };
    make(&source);
    slow_one_of_four(&case, sender);
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
fn the_rest_of_a_large_files_part_passes_to_faster_streams() {
    let one = |source: &std::path::Path| write(source.join("large"), noise(1, 200 << 20));
    copy(Way::Push, one, &[]);
    copy(Way::Push, one, &["--verify"]);
    copy(Way::Pull, one, &["--no-encrypt"]);
}

#[test]
fn a_file_that_is_one_part_passes_to_faster_streams_in_the_middle() {
    let many = |source: &std::path::Path| {
        (0..18).for_each(|number| write(source.join(format!("{number}")), noise(number, (11 << 20) + 1)));
    };
    copy(Way::Push, many, &[]);
    copy(Way::Pull, many, &["--verify"]);
    copy(Way::Push, many, &["-a"]);
}
