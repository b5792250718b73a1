//! Users and our own server.

use crate::support::{OBJECT, Peer, crowd, http_server, ms, nobody, request, said, url, window};
use linerate_load::error::LoadError;
use linerate_load::http::{Crowd, report};
use linerate_load::window::StopFlag;
use std::io::Write;

#[test]
fn users_fetch_in_a_closed_loop() {
    let (one, two) = (http_server(20), http_server(20));
    let urls = vec![url(one.address(), "/object"), url(two.address(), "/?again")];
    let crowd = crowd(urls, 8);
    assert_eq!(crowd.probe(&StopFlag::default()).unwrap(), OBJECT as u64);
    let tally = crowd.run(&StopFlag::default()).unwrap();
    let report = report(&crowd, &tally);
    let count = report.transactions.unwrap();
    // A reply that lies across an edge of the window counts in part.
    let apart = report.bytes.abs_diff(count * OBJECT as u64);
    assert!(count > 20 && apart <= 8 * OBJECT as u64, "{report:?}");
    assert!(report.header_bytes.unwrap() > 50 * (count - 8) && report.bytes_out.unwrap() > 50 * (count - 8));
    let made: Vec<_> =
        report.connections.iter().map(|port| (port.attempted, port.made, port.failed)).collect();
    assert_eq!(made, [(4, 4, 0), (4, 4, 0)]);
    assert_eq!(report.errors, Some(Default::default()));
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn each_request_may_have_its_connection() {
    let server = http_server(20);
    let crowd = Crowd { new_connections: true, ..crowd(vec![url(server.address(), "/")], 4) };
    let tally = crowd.run(&StopFlag::default()).unwrap();
    let port = &tally.connections[0];
    assert!(tally.latency.count() > 20 && port.made >= tally.latency.count(), "{tally:?}");
    assert_eq!((port.failed, tally.reason), (0, None));
}

#[test]
fn more_users_than_workers_wait() {
    let server = http_server(2);
    let crowd = Crowd { new_connections: true, ..crowd(vec![url(server.address(), "/")], 12) };
    let tally = crowd.run(&StopFlag::default()).unwrap();
    assert!(tally.latency.count() > 12 && tally.errors.is_none(), "{tally:?}");
}

#[test]
fn paced_users_keep_their_pace() {
    let server = http_server(20);
    let crowd =
        Crowd { pace: Some(ms(50)), window: window(50, 1000), ..crowd(vec![url(server.address(), "/")], 4) };
    let count = crowd.run(&StopFlag::default()).unwrap().latency.count();
    assert!((50..=88).contains(&count), "{count}");
}

#[test]
fn users_who_pause_ask_less_often_and_the_loop_still_closes() {
    let server = http_server(20);
    let crowd =
        Crowd { think: ms(90), window: window(100, 1500), ..crowd(vec![url(server.address(), "/")], 6) };
    let tally = crowd.run(&StopFlag::default()).unwrap();
    let count = tally.latency.count();
    // 6 users, each at most every 90 ms: 100 in 1.5 s.
    assert!((50..=106).contains(&count), "{count}");
    let reported = report(&crowd, &tally);
    assert_eq!((&reported.warnings[..], reported.new_connections_per_second), (&[][..], None));
    let window = reported.window.unwrap();
    assert!((window.end - window.begin - 1.5).abs() < 1e-6, "{window:?}");
    let new = Crowd { new_connections: true, ..crowd };
    let reported = report(&new, &new.run(&StopFlag::default()).unwrap());
    assert_eq!(reported.new_connections_per_second, reported.transactions_per_second);
}

#[test]
fn chunked_replies_and_those_that_end_with_the_connection_are_read() {
    let chunked = Peer::answering(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    );
    let closed = Peer::answering_once(b"HTTP/1.0 200 OK\r\n\r\nhello world");
    for address in [chunked.address, closed.address] {
        let crowd = crowd(vec![url(address, "/")], 2);
        assert_eq!(crowd.probe(&StopFlag::default()).unwrap(), 11);
        let tally = crowd.run(&StopFlag::default()).unwrap();
        assert!(tally.latency.count() > 5 && tally.errors.is_none(), "{tally:?}");
    }
}

#[test]
fn a_kept_connection_that_the_server_closes_is_made_again() {
    let server = Peer::start(|mut connection| {
        for _ in 0..3 {
            if request(&mut connection) {
                let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
        }
    });
    let tally = crowd(vec![url(server.address, "/")], 2).run(&StopFlag::default()).unwrap();
    let count = tally.latency.count();
    assert!(count > 9 && tally.errors.is_none() && tally.connections[0].made > count / 4, "{tally:?}");
}

#[test]
fn statuses_are_counted_and_redirects_said() {
    let server = http_server(8);
    let missing = crowd(vec![url(server.address(), "/missing")], 2);
    let said = |crowd: &Crowd| crowd.probe(&StopFlag::default()).unwrap_err().to_string();
    assert!(said(&missing).contains("404"));
    let mixed = crowd(vec![url(server.address(), "/"), url(server.address(), "/missing")], 2);
    let tally = mixed.run(&StopFlag::default()).unwrap();
    assert!(tally.errors.statuses[&404] > 5, "{tally:?}");
    let warnings = report(&mixed, &tally).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("status")), "{warnings:?}");
    let none = missing.run(&StopFlag::default()).unwrap_err().to_string();
    assert!(none.contains("404"), "{none}");
    let moved = Peer::answering(b"HTTP/1.1 301 Moved\r\nLocation: http://else/\r\nContent-Length: 0\r\n\r\n");
    let redirect = said(&crowd(vec![url(moved.address, "/")], 1));
    assert!(redirect.contains("redirect to http://else/"), "{redirect}");
}

#[test]
fn nobody_there_is_counted_and_said() {
    let server = http_server(8);
    let gone = nobody();
    let crowd = crowd(vec![url(server.address(), "/"), url(gone, "/")], 4);
    assert!(matches!(crowd.probe(&StopFlag::default()), Err(LoadError::Connect(to, _)) if to == gone));
    let tally = crowd.run(&StopFlag::default()).unwrap();
    let port = &tally.connections[1];
    assert!(port.made == 0 && port.failed >= 4 && port.attempted == port.failed, "{tally:?}");
    assert!(tally.reason.unwrap().contains("refused"));
}

#[test]
fn our_server_answers_as_it_should() {
    let server = http_server(4);
    let head = said(server.address(), b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {OBJECT}\r\n")), "{head}");
    let two =
        said(server.address(), b"HEAD / HTTP/1.1\r\n\r\nHEAD /no HTTP/1.1\r\nConnection: close\r\n\r\n");
    let two = two.unwrap();
    assert!(two.contains("200 OK") && two.contains("404 Not Found"), "{two}");
}
