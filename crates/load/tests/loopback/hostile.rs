//! HTTP peers that misbehave: nothing hangs, grows without bounds or panics, and the user gets a message
//! about the error.

use crate::support::{Peer, crowd, http_server, ms, request, said, url};
use linerate_load::http::Crowd;
use linerate_load::window::StopFlag;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The error message if the server sends only this.
fn heard(peer: &Peer) -> String {
    let crowd = Crowd { timeout: ms(200), ..crowd(vec![url(peer.address, "/")], 2) };
    let (begun, stop) = (Instant::now(), StopFlag::default());
    let probed = crowd.probe(&stop).unwrap_err().to_string();
    let error = crowd.run(&stop).unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
    format!("{probed}\n{error}")
}

#[test]
fn a_head_of_garbage_is_said() {
    let said = heard(&Peer::answering(b"220 ftp.example.org ready\r\n\r\n"));
    assert_eq!(said.matches("isn't HTTP").count(), 2, "{said}");
}

#[test]
fn an_endless_head_is_cut_off() {
    let peer = Peer::start(|mut connection| {
        request(&mut connection);
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\n");
        while connection.write_all(b"X-More: and more and more\r\n").is_ok() {}
    });
    let said = heard(&peer);
    assert!(said.contains("longer than 16 KiB") || said.contains("isn't HTTP"), "{said}");
}

#[test]
fn a_body_shorter_than_announced_is_said() {
    let said = heard(&Peer::answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nshort"));
    assert_eq!(said.matches("before its end").count(), 2, "{said}");
}

#[test]
fn a_body_longer_than_announced_is_said() {
    let said = heard(&Peer::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nlong"));
    assert_eq!(said.matches("more than it announced").count(), 2, "{said}");
}

#[test]
fn a_chunk_that_is_none_is_said() {
    let said = heard(&Peer::answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"));
    assert_eq!(said.matches("isn't a number").count(), 2, "{said}");
}

#[test]
fn a_reset_is_said() {
    let peer = Peer::start(|connection| {
        std::thread::sleep(ms(20));
        // Closing with the request unread resets the connection.
        drop(connection);
    });
    let said = heard(&peer);
    assert!(said.contains("ended within the reply") || said.contains("closed the connection"), "{said}");
}

#[test]
fn silence_times_out() {
    let peer = Peer::start(|mut connection| {
        request(&mut connection);
        std::thread::sleep(ms(1500));
    });
    let said = heard(&peer);
    assert!(said.contains("no complete reply within 0.2 s"), "{said}");
}

#[test]
fn a_reply_without_an_end_is_given_up() {
    fn serve(mut connection: TcpStream, piece: &[u8], pause: Duration) {
        request(&mut connection);
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(6) && connection.write_all(piece).is_ok() {
            std::thread::sleep(pause);
        }
    }
    let pours = Peer::start(|connection| serve(connection, &[b'x'; 1 << 18], Duration::ZERO));
    let drips = Peer::start(|connection| serve(connection, b"x", ms(20)));
    for peer in [pours, drips] {
        let begun = Instant::now();
        let said = heard(&peer);
        assert_eq!(said.matches("no complete reply within 0.2 s").count(), 2, "{said}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }
}

#[test]
fn our_server_refuses_what_it_cannot_serve() {
    let server = http_server(2);
    let starts = |bytes: &[u8], want: &str| {
        let answer = said(server.address(), bytes).expect("the server closes");
        assert!(answer.starts_with(want), "{answer:?}");
    };
    starts(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "HTTP/1.1 400");
    starts(b"GET / HTTP/1.1\r\nContent-Length: 10\r\n\r\n", "HTTP/1.1 400");
    starts(b"POST / HTTP/1.1\r\n\r\n", "HTTP/1.1 405");
    let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 40_000]].concat();
    starts(&long, "HTTP/1.1 431");
    starts(&[b"GET / HTTP/1.1\r\n".as_slice(), &b"X: y\r\n".repeat(200)].concat(), "HTTP/1.1 431");
    starts(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 200");
}
