//! Code that the tests share.

use linerate_load::http::{Crowd, HttpService, Url};
use linerate_load::pair::PairService;
use linerate_load::serve::LoadServer;
use linerate_load::window::Window;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub const OBJECT: usize = 50_000;

pub fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn window(ramp: u64, measured: u64) -> Window {
    Window { ramp: ms(ramp), measured: ms(measured) }
}

pub fn pair_server() -> LoadServer {
    LoadServer::start(any(), 16, PairService).unwrap()
}

pub fn http_server(workers: usize) -> LoadServer {
    LoadServer::start(any(), workers, HttpService::new(OBJECT)).unwrap()
}

pub fn url(address: SocketAddr, path: &str) -> Url {
    format!("http://{address}{path}").parse().unwrap()
}

pub fn crowd(urls: Vec<Url>, users: u32) -> Crowd {
    Crowd {
        urls,
        users,
        window: window(100, 400),
        new_connections: false,
        threads: 2,
        timeout: ms(3000),
        pace: None,
        think: Duration::ZERO,
    }
}

/// A port on which nothing listens.
pub fn nobody() -> SocketAddr {
    TcpListener::bind(any()).unwrap().local_addr().unwrap()
}

/// A server that does `serve` with each connection until it is dropped.
pub struct Peer {
    pub address: SocketAddr,
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> Self {
        let listener = TcpListener::bind(any()).unwrap();
        let (address, accepting) = (listener.local_addr().unwrap(), listener.try_clone().unwrap());
        let thread = thread::spawn(move || {
            while let Ok((connection, _)) = accepting.accept() {
                connection.set_read_timeout(Some(ms(2000))).unwrap();
                thread::spawn(move || serve(connection));
            }
        });
        Self { address, listener, thread: Some(thread) }
    }

    /// Answers every request on a connection with the same bytes.
    pub fn answering(bytes: &'static [u8]) -> Self {
        Self::start(
            move |mut connection| {
                while request(&mut connection) && connection.write_all(bytes).is_ok() {}
            },
        )
    }

    /// Like the function above, but closes the connection after one answer.
    pub fn answering_once(bytes: &'static [u8]) -> Self {
        Self::start(move |mut connection| {
            if request(&mut connection) {
                let _ = connection.write_all(bytes);
            }
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Reads a head; false at the end of the connection.
pub fn request(connection: &mut TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// The answer of a server to these bytes until it closes the connection; `None` if it hasn't closed after
/// five seconds.
pub fn said(address: SocketAddr, bytes: &[u8]) -> Option<String> {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(ms(5000))).unwrap();
    // The server may have heard enough before the end.
    let _ = connection.write_all(bytes);
    let mut answer = Vec::new();
    match connection.read_to_end(&mut answer) {
        Ok(_) => Some(String::from_utf8_lossy(&answer).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
            Some(String::from_utf8_lossy(&answer).into_owned())
        }
        Err(_) => None,
    }
}
