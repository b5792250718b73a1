//! Tests of paths whose route doesn't use the default port: `linerate doctor --path` must judge the ports
//! that the path uses, at both ends.

use linerate_lab::End;
use linerate_testing::skip;
use serde_json::Value;

use crate::bed::{Case, args, case_with_own_links};

/// Two links: each end's ports, and their addresses.
struct TwoLinks {
    case: Case,
    ports: [Vec<String>; 2],
    far: Vec<String>,
}

impl TwoLinks {
    fn made() -> Option<Self> {
        let case = case_with_own_links("open", 2)?;
        let ports = [End::A, End::B].map(|end| {
            case.bed.lab.host(end).ports().into_iter().map(|port| port.interface).collect::<Vec<_>>()
        });
        let far = case.bed.lab.addresses(End::B).iter().map(ToString::to_string).collect();
        // It is brought to the other end once, before anything is slow.
        let facts = args![case.bed.program(), "facts", "-F", case.bed.lab.ssh_config(), "b"];
        case.start_with(facts, Vec::new()).end().exits(0);
        Some(Self { case, ports, far })
    }

    fn ip(&self, end: End, words: &str) {
        let words: Vec<&str> = std::iter::once("ip").chain(words.split(' ')).collect();
        self.case.bed.on(end, &words);
    }

    /// Limits the rate at which an end sends on one of its ports, in Mbit/s.
    fn limit(&self, end: End, link: usize, mbit: u32) {
        let (rate, port) = (format!("{mbit}mbit"), &self.ports[usize::from(end == End::B)][link]);
        let words = ["tc", "qdisc", "replace", "dev", port, "root", "tbf", "rate", &rate];
        self.case.bed.on(end, &[&words[..], &["burst", "64kb", "latency", "50ms"]].concat());
    }

    fn report(&self) -> Value {
        let mut all =
            args![self.case.bed.program(), "doctor", "--json", "-F", self.case.bed.lab.ssh_config()];
        all.extend(args!["--path", "local", "b", "--target", "10gbit"]);
        let run = self.case.start_with(all, Vec::new()).end().exits(0);
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"))
    }
}

/// The host, port and rate in Mbit/s of each limit that the doctor found.
fn limits(report: &Value) -> Vec<(String, String, f64)> {
    let found = report["findings"].as_array().unwrap_or_else(|| panic!("{report}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let limits = found.iter().filter(|finding| finding["check"] == "rate-limit");
    let mbit = |finding: &Value| finding["ceiling"].as_f64().unwrap_or(0.0) / 1e6;
    let mut all: Vec<_> =
        limits.map(|limit| (text(&limit["host"]), text(&limit["place"]), mbit(limit))).collect();
    all.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    all
}

fn limit(host: &str, port: &str, mbit: f64) -> (String, String, f64) {
    (host.to_owned(), port.to_owned(), mbit)
}

/// Two of four limits are on the way: a rule of this host sends what goes to the other one over its second port, and what comes back
/// takes that, too. A third one counts, on the other end's port that has the login's address: packets usually arrive by that one.
#[test]
fn a_rules_port_is_judged_and_not_that_of_the_main_table() {
    let Some(two) = TwoLinks::made() else { return };
    for (end, link, mbit) in [(End::A, 0, 20), (End::B, 0, 30), (End::A, 1, 200), (End::B, 1, 300)] {
        two.limit(end, link, mbit);
    }
    let [near, far] = &two.ports;
    assert_eq!(limits(&two.report()), [limit("b", &far[0], 30.0), limit("local", &near[0], 20.0)]);
    two.ip(End::A, &format!("route add {}/32 via {} dev {} table 100", two.far[0], two.far[1], near[1]));
    two.ip(End::A, &format!("rule add to {}/32 lookup 100 priority 100", two.far[0]));
    let report = two.report();
    let ruled = [limit("b", &far[0], 30.0), limit("b", &far[1], 300.0), limit("local", &near[1], 200.0)];
    assert_eq!(limits(&report), ruled);
    let route = |end: usize| &report["hosts"][end]["route"];
    assert_eq!((&route(0)["ports"], &route(0)["table"]), (&serde_json::json!([near[1]]), &100.into()));
    assert_eq!(route(1)["ports"], serde_json::json!([far[1]]), "{report}");
}

/// A rule of the other end sends what goes back over its second port, and the login still comes to the address of its first one.
#[test]
fn the_port_of_the_logins_address_is_judged_beside_that_of_the_way_back() {
    let Some(two) = TwoLinks::made() else { return };
    let [near, far] = &two.ports;
    for end in [End::A, End::B] {
        two.case.bed.on(end, &["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=2"]);
    }
    (0..2).for_each(|link| two.limit(End::B, link, 200));
    let back: Vec<String> = two.case.bed.lab.addresses(End::A).iter().map(ToString::to_string).collect();
    two.ip(End::B, &format!("route add {}/32 via {} dev {} table 100", back[0], back[1], far[1]));
    two.ip(End::B, &format!("rule add to {}/32 lookup 100 priority 100", back[0]));
    let report = two.report();
    let route = &report["hosts"][1]["route"];
    assert_eq!(report["hosts"][0]["route"]["ports"], serde_json::json!([near[0]]), "{report}");
    assert_eq!(
        (&route["ports"], &route["arrives"]),
        (&serde_json::json!([far[1]]), &serde_json::json!([far[0]]))
    );
    assert_eq!(limits(&report), [limit("b", &far[0], 200.0), limit("b", &far[1], 200.0)]);
}

/// Packets that the other end's two ports receive wait in a port of the kind ifb each; the path takes the first port.
#[test]
fn a_shaper_of_received_packets_counts_on_the_port_that_receives_them() {
    let Some(two) = TwoLinks::made() else { return };
    let far = &two.ports[1];
    let tc = |words: &str| {
        let words: Vec<&str> = std::iter::once("tc").chain(words.split(' ')).collect();
        two.case.bed.on(End::B, &words);
    };
    for (link, mbit) in [(0, 100), (1, 50)] {
        let made = format!("ip link add late{link} type ifb && ip link set late{link} up || echo no");
        if two.case.bed.on(End::B, &["sh", "-c", &made]).contains("no") {
            return skip("ifb", "this kernel has no ifb");
        }
        tc(&format!("qdisc add dev late{link} root tbf rate {mbit}mbit burst 64kb latency 50ms"));
        tc(&format!("qdisc add dev {} ingress", far[link]));
        let to = format!("action mirred egress redirect dev late{link}");
        tc(&format!("filter add dev {} parent ffff: protocol ip u32 match u32 0 0 {to}", far[link]));
    }
    let report = two.report();
    assert_eq!(limits(&report), [limit("b", "late0", 100.0)], "{report}");
    let found = report["findings"].as_array().expect("a list");
    let named = found.iter().find(|it| it["check"] == "rate-limit").expect("one");
    let title = named["title"].as_str().unwrap_or_default();
    assert!(title.starts_with(&format!("{} receives at most 100 Mbit/s", far[0])), "{title}");
}

/// The kernel chooses one of two next hops by the hosts' addresses, or each connection's by its ports.
#[test]
fn next_hops_are_judged_as_far_as_connections_take_them() {
    let Some(two) = TwoLinks::made() else { return };
    let near = &two.ports[0];
    // What leaves by the one port with the other's address is answered.
    for end in [End::A, End::B] {
        two.case.bed.on(end, &["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=2"]);
    }
    let hops: Vec<String> =
        (0..2).map(|link| format!("nexthop via {} dev {}", two.far[link], near[link])).collect();
    two.ip(End::A, &format!("route add {}/32 table 100 {}", two.far[0], hops.join(" ")));
    two.ip(End::A, &format!("rule add to {}/32 lookup 100 priority 100", two.far[0]));
    (0..2).for_each(|link| two.limit(End::A, link, 200));
    let one = two.report();
    let taken = one["hosts"][0]["route"]["ports"].as_array().unwrap_or_else(|| panic!("{one}")).clone();
    assert_eq!((taken.len(), limits(&one).len()), (1, 1), "{one}");
    let note = one["findings"].as_array().unwrap().iter().find(|it| it["check"] == "multipath-hash");
    assert!(note.is_some_and(|note| note["title"].as_str().unwrap().contains("one of 2")), "{one}");
    two.case.bed.on(End::A, &["sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1"]);
    let both = [limit("local", &near[0], 200.0), limit("local", &near[1], 200.0)];
    assert_eq!(limits(&two.report()), both);
}
