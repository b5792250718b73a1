//! Endpoint pairs.

use crate::support::{Peer, any, crowd, http_server, nobody, pair_server, said, url, window};
use linerate_load::error::LoadError;
use linerate_load::http::Crowd;
use linerate_load::pair::{
    Amount, Bulk, ConnectionStyle, Datagrams, Direction, PairService, Scheduled, Span, Transactions,
};
use linerate_load::serve::LoadServer;
use linerate_load::window::StopFlag;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn transactions(to: Vec<SocketAddr>, style: ConnectionStyle) -> Transactions {
    Transactions { to, pairs: 2, request: 1, response: 1, style, pace: None, window: window(50, 300) }
}

fn bulk(to: SocketAddr, amount: Amount) -> Bulk {
    let direction = Direction::Out;
    Bulk { to: vec![to], pairs: 4, direction, amount, window: None, no_delay: false, pace: None }
}

#[test]
fn requests_and_responses_are_counted_and_timed() {
    let server = pair_server();
    let load = Transactions {
        request: 200,
        response: 300_000,
        ..transactions(vec![server.address()], ConnectionStyle::Kept)
    };
    let report = load.report(&load.run(&StopFlag::default()).unwrap());
    let count = report.transactions.unwrap();
    assert!(count > 10, "{report:?}");
    assert_eq!((report.kind, report.bytes, report.bytes_out), ("rr", count * 300_000, Some(count * 200)));
    let latency = report.latency.unwrap();
    assert_eq!(latency.count, count);
    assert!(latency.p50_us > 0.0 && latency.p50_us <= latency.p99_us && latency.p99_us <= latency.max_us);
    assert_eq!((report.connections[0].made, report.connections[0].failed), (2, 0));
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn each_transaction_has_its_connection() {
    let (one, two) = (pair_server(), pair_server());
    let load = transactions(vec![one.address(), two.address()], ConnectionStyle::Each);
    let report = load.report(&load.run(&StopFlag::default()).unwrap());
    let made: u64 = report.connections.iter().map(|connections| connections.made).sum();
    assert_eq!((report.kind, report.connections.len()), ("crr", 2));
    assert!(made >= report.transactions.unwrap() && report.transactions.unwrap() > 10, "{report:?}");
    assert_eq!(one.accepted() + two.accepted(), made);
}

#[test]
fn a_pace_is_kept() {
    let server = pair_server();
    let load = Transactions {
        pace: Some(50.0),
        window: window(0, 1000),
        ..transactions(vec![server.address()], ConnectionStyle::Kept)
    };
    let count = load.run(&StopFlag::default()).unwrap().latency.count();
    assert!((60..=102).contains(&count), "{count}");
}

#[test]
fn bulk_is_what_the_receiver_counted() {
    let server = pair_server();
    let load = bulk(server.address(), Amount::Bytes(40_000_003));
    let report = load.report(&load.run(&StopFlag::default()).unwrap());
    assert_eq!((report.bytes, report.pairs.len(), report.connections[0].made), (40_000_003, 4, 4));
    assert!(report.seconds > 0.0 && report.fairness.unwrap() > 0.0 && report.fairness.unwrap() <= 1.0);
}

#[test]
fn the_ramp_of_bulk_does_not_count() {
    let server = pair_server();
    let load = Bulk { window: Some(64 * 1024), ..bulk(server.address(), Amount::Time(window(300, 300))) };
    let begun = Instant::now();
    let report = load.report(&load.run(&StopFlag::default()).unwrap());
    assert!(begun.elapsed() >= Duration::from_millis(600));
    assert!(report.bytes > 0 && report.seconds > 0.1 && report.seconds < 0.55, "{report:?}");
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn a_paced_bulk_keeps_its_rate() {
    let server = pair_server();
    let time = Amount::Time(window(100, 900));
    let load = Bulk { pairs: 1, pace: Some(2e6), ..bulk(server.address(), time) };
    let report = load.report(&load.run(&StopFlag::default()).unwrap());
    let rate = report.pairs[0].bits_per_second / 8.0;
    assert!((1e6..2.2e6).contains(&rate), "{rate}");
}

#[test]
fn the_server_sends_too() {
    let server = pair_server();
    let back = Bulk { direction: Direction::Back, ..bulk(server.address(), Amount::Bytes(20_000_001)) };
    let report = back.report(&back.run(&StopFlag::default()).unwrap());
    assert_eq!((report.bytes, report.bytes_back, report.pairs.len()), (20_000_001, Some(20_000_001), 4));
    assert!(report.pairs.iter().all(|pair| pair.back) && report.fairness.is_some());
    let time = Amount::Time(window(100, 400));
    let both = Bulk { direction: Direction::Both, pairs: 2, ..bulk(server.address(), time) };
    let report = both.report(&both.run(&StopFlag::default()).unwrap());
    let one_way = |back| report.pairs.iter().filter(|p| p.back == back).map(|p| p.bytes).sum::<u64>();
    assert!(one_way(false) > 0 && one_way(true) > 0, "{report:?}");
    assert_eq!((report.bytes, report.bytes_back), (one_way(false) + one_way(true), Some(one_way(true))));
    assert_eq!((report.pairs.len(), report.connections[0].made), (4, 4));
}

fn datagrams(to: SocketAddr) -> Datagrams {
    Datagrams {
        to: vec![to],
        pairs: 2,
        window: window(100, 900),
        size: 200,
        rate: Some(200_000.0),
        buffer: None,
    }
}

#[test]
fn datagrams_keep_their_rate_and_are_counted() {
    let server = pair_server();
    let report = datagrams(server.address()).run(&StopFlag::default()).unwrap();
    let counts = report.datagrams.unwrap();
    // 1000 a second of each pair.
    assert!((900..=2000).contains(&counts.received), "{report:?}");
    assert_eq!((report.kind, report.bytes, report.pairs.len()), ("udp", counts.received * 200, 2));
    assert!(counts.reordered == 0 && counts.jitter_us < 1e5 && counts.per_second > 900.0, "{report:?}");
    let wrong = |load: Datagrams| matches!(load.run(&StopFlag::default()), Err(LoadError::Arguments(_)));
    assert!(wrong(Datagrams { size: 15, ..datagrams(server.address()) }));
    assert!(wrong(Datagrams { size: 65_508, ..datagrams(server.address()) }));
}

/// The server stops answering for 300 ms. A client that sends one request after the other waits once; with
/// requests at fixed times, every request in that time waits.
#[test]
fn requests_at_fixed_times_wait_for_those_before_them() {
    let stalls = || {
        Peer::start(|mut connection| {
            let (mut hello, mut one) = ([0; 28], [0; 1]);
            let _ = connection.read_exact(&mut hello);
            for number in 0.. {
                if connection.read_exact(&mut one).is_err() {
                    break;
                }
                if number == 20 {
                    std::thread::sleep(Duration::from_millis(300));
                }
                let _ = connection.write_all(&one);
            }
        })
    };
    let load = |to| Transactions {
        pairs: 1,
        pace: Some(100.0),
        window: window(0, 1000),
        ..transactions(vec![to], ConnectionStyle::Kept)
    };
    let one = stalls();
    let closed = load(one.address).run(&StopFlag::default()).unwrap().latency.summary();
    let other = stalls();
    let open = Scheduled { load: load(other.address), rate: 100.0 };
    let result = open.run(&Span::default(), &StopFlag::default()).unwrap();
    let report = open.report(&result);
    let times = report.latency.unwrap();
    assert!(closed.p90_us < 100_000.0 && closed.max_us > 290_000.0, "{closed:?}");
    assert!(times.p90_us > 100_000.0 && times.max_us > 290_000.0, "{times:?}");
    assert!((95..=101).contains(&times.count), "none is left out: {times:?}");
    assert_eq!((report.kind, report.rate), ("rr", Some(100.0)));
}

#[test]
fn a_load_at_fixed_times_ends_with_its_span() {
    let server = pair_server();
    let load = Transactions {
        window: window(0, 60_000),
        ..transactions(vec![server.address()], ConnectionStyle::Kept)
    };
    let (load, span) = (Scheduled { load, rate: 200.0 }, Span::default());
    let begun = Instant::now();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run(&span, &StopFlag::default()));
        while !span.ready.is_set() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(500));
        span.end.set();
        running.join().unwrap().unwrap()
    });
    assert!(begun.elapsed() < Duration::from_secs(5));
    let report = load.report(&result);
    assert!((0.4..3.0).contains(&report.seconds) && report.transactions.unwrap() > 20, "{report:?}");
}

/// An older server closes the connection: it doesn't know the hello.
#[test]
fn ends_of_different_versions_say_so() {
    let server = pair_server();
    let old = [&b"\x02LRLOAD1"[..], &1_u32.to_be_bytes(), &1_u64.to_be_bytes(), &[0; 8], b"x"].concat();
    assert_eq!(said(server.address(), &old), Some(String::new()), "an older client isn't answered");
    let older = || {
        Peer::start(|mut connection| {
            let _ = connection.read(&mut [0; 28]);
        })
    };
    let peer = older();
    let back = Bulk { direction: Direction::Back, ..bulk(peer.address, Amount::Bytes(5)) };
    let error = back.run(&StopFlag::default()).unwrap_err().to_string();
    assert!(error.contains("of the same version"), "{error}");
    let peer = older();
    let error = datagrams(peer.address).run(&StopFlag::default()).unwrap_err().to_string();
    assert!(error.contains("of the same version"), "{error}");
}

#[test]
fn nobody_there_is_said_plainly() {
    let address = nobody();
    let kept = transactions(vec![address], ConnectionStyle::Kept).run(&StopFlag::default());
    assert!(matches!(kept, Err(LoadError::Connect(to, _)) if to == address));
    let each = transactions(vec![address], ConnectionStyle::Each).run(&StopFlag::default()).unwrap_err();
    assert!(each.to_string().contains("no transaction"), "{each}");
    assert!(bulk(address, Amount::Bytes(5)).run(&StopFlag::default()).is_err());
    assert!(matches!(bulk(address, Amount::Bytes(5)).run(&StopFlag::default()), Err(LoadError::Connect(..))));
}

#[test]
fn impossible_arguments_are_refused() {
    let wrong = |load: Transactions| matches!(load.run(&StopFlag::default()), Err(LoadError::Arguments(_)));
    assert!(wrong(transactions(Vec::new(), ConnectionStyle::Kept)));
    assert!(wrong(Transactions { pairs: 0, ..transactions(vec![any()], ConnectionStyle::Kept) }));
    assert!(wrong(Transactions { request: 0, ..transactions(vec![any()], ConnectionStyle::Kept) }));
}

#[test]
fn a_stranger_is_not_served_and_harms_nobody() {
    let server = LoadServer::start(any(), 1, PairService).unwrap();
    assert_eq!(said(server.address(), &[b'x'; 4096]), Some(String::new()));
    let load = Transactions { pairs: 1, ..transactions(vec![server.address()], ConnectionStyle::Kept) };
    assert!(load.run(&StopFlag::default()).unwrap().latency.count() > 0);
}

/// 28 bytes, and then nothing: a request of 0 bytes would be answered forever.
#[test]
fn an_answer_to_nothing_is_not_given() {
    let server = pair_server();
    let hello = |kind: u32, request: u64, response: u32| {
        let numbers = [&kind.to_be_bytes()[..], &request.to_be_bytes(), &response.to_be_bytes(), &[0; 4]];
        [&b"\x02LRLOAD2"[..], &numbers.concat()].concat()
    };
    for (kind, request, response) in [(1, 0, 1 << 20), (2, 0, 1), (1, 1, u32::MAX), (2, u32::MAX.into(), 1)] {
        let said = said(server.address(), &hello(kind, request, response));
        assert_eq!(said.as_deref(), Some(""), "{kind} {request} {response}");
    }
}

#[test]
fn a_peer_that_leaves_or_says_too_much_is_an_error() {
    let leaves = Peer::start(|mut connection| {
        let _ = connection.read(&mut [0; 64]);
    });
    let error =
        transactions(vec![leaves.address], ConnectionStyle::Kept).run(&StopFlag::default()).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    assert!(bulk(leaves.address, Amount::Bytes(1 << 22)).run(&StopFlag::default()).is_err());
    let talks = Peer::start(|mut connection| {
        let _ = connection.read(&mut [0; 64]);
        let _ = connection.write_all(&[0; 100]);
    });
    let error =
        transactions(vec![talks.address], ConnectionStyle::Each).run(&StopFlag::default()).unwrap_err();
    assert!(error.to_string().contains("longer"), "{error}");
}

#[test]
fn a_receiver_that_counts_more_than_it_was_sent_is_an_error() {
    let lies = Peer::start(|mut connection| {
        let _ = connection.read_to_end(&mut Vec::new());
        let _ = connection.write_all(&[0xff; 24]);
    });
    for amount in [Amount::Bytes(100_000), Amount::Time(window(0, 50))] {
        let error = bulk(lies.address, amount).run(&StopFlag::default()).unwrap_err();
        assert!(error.to_string().contains("reports 18446744073709551615 received bytes"), "{error}");
    }
}

#[test]
fn a_server_ends_while_its_clients_keep_it_busy() {
    let (pairs, web) = (pair_server(), http_server(4));
    let bulk = bulk(pairs.address(), Amount::Time(window(0, 8000)));
    let crowd = Crowd { window: window(0, 8000), ..crowd(vec![url(web.address(), "/")], 2) };
    let stop = StopFlag::default();
    let took = std::thread::scope(|scope| {
        scope.spawn(|| bulk.run(&stop));
        scope.spawn(|| crowd.run(&stop));
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        drop((pairs, web));
        let took = begun.elapsed();
        stop.set();
        took
    });
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_stop_ends_a_load_and_a_server_early() {
    let server = pair_server();
    let (stop, begun) = (StopFlag::default(), Instant::now());
    let long = Transactions {
        window: window(0, 60_000),
        ..transactions(vec![server.address()], ConnectionStyle::Kept)
    };
    let stopper = stop.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        stopper.set();
    });
    assert!(matches!(long.run(&stop), Err(LoadError::Interrupted)));
    thread.join().unwrap();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
