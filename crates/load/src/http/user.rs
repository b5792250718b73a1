//! One user: a connection, and the request that is under way on it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::pace::Pace;

use super::reply::{Piece, Reply};

/// How long a server may take to close a connection behind its last reply.
const CLOSING: Duration = Duration::from_millis(200);

/// What a user waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its time.
    Resting,
    /// The connection.
    Connecting,
    /// The reply.
    Asking,
    /// The server's end of a connection whose last reply is there.
    Closing,
}

/// What came of an event.
#[derive(Debug)]
pub enum Step {
    /// There must be more.
    Waiting,
    /// The reply was whole at this moment.
    Whole(Instant),
    /// A connection that was to be closed is closed.
    Closed,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// No connection.
    Connect(io::Error),
    /// The server had closed a kept connection before it saw the request; a new one takes it (RFC 9112, 9.3.1).
    Stale,
    /// No reply that makes sense.
    Broken(String),
}

/// A user.
pub struct User {
    /// Which URL it fetches.
    pub target: usize,
    /// What it waits for.
    pub state: State,
    /// When the request was decided on.
    pub begun: Instant,
    /// When it is given up.
    pub deadline: Instant,
    /// When requests are due; none where the next follows the reply.
    pub pace: Option<Pace>,
    /// The reply, as far as it has come.
    pub reply: Reply,
    connection: Option<TcpStream>,
    sent: usize,
    reused: bool,
}

impl User {
    pub fn new(target: usize, pace: Option<Pace>, now: Instant) -> Self {
        Self {
            target,
            state: State::Resting,
            begun: now,
            deadline: now,
            pace,
            reply: Reply::default(),
            connection: None,
            sent: 0,
            reused: false,
        }
    }

    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Asks for a connection; an event tells how that ended.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn connect(&mut self, to: SocketAddr, registry: &Registry, token: Token) -> io::Result<()> {
        let mut connection = TcpStream::connect(to)?;
        registry.register(&mut connection, token, Interest::READABLE | Interest::WRITABLE)?;
        self.connection = Some(connection);
        (self.state, self.reused) = (State::Connecting, false);
        Ok(())
    }

    /// Gives the connection up.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// True where the connection has been made; the request may follow.
    ///
    /// # Errors
    /// Where it won't be made.
    pub fn is_made(&mut self) -> io::Result<bool> {
        let Some(connection) = &self.connection else { return Ok(false) };
        if let Some(error) = connection.take_error()? {
            return Err(error);
        }
        match connection.peer_addr() {
            Ok(_) => connection.set_nodelay(true).map(|()| true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Begins to ask on the connection that is there.
    ///
    /// # Errors
    /// As [`User::step`].
    pub fn ask(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.reply.clear();
        (self.state, self.sent) = (State::Asking, 0);
        self.send(request)
    }

    /// Keeps the connection for the next request.
    pub fn rest(&mut self) {
        (self.state, self.reused) = (State::Resting, self.connection.is_some());
    }

    /// Lets the server close the connection first, so that the port that waits for late segments is the server's.
    pub fn close(&mut self, now: Instant) {
        (self.state, self.deadline) = (State::Closing, now + CLOSING);
    }

    /// Goes on as far as the connection lets it. `to_end`: the peer's end is known to be near, read up to it; otherwise
    /// a read that doesn't fill the buffer has emptied the socket, and the next bytes make an event (epoll(7)).
    ///
    /// # Errors
    /// Why the request failed.
    pub fn step(
        &mut self,
        request: &[u8],
        buffer: &mut [u8],
        to_end: bool,
        mut count: impl FnMut(Piece, u16, Instant),
    ) -> Result<Step, Failure> {
        if self.state == State::Asking {
            self.send(request)?;
        }
        loop {
            let Some(connection) = &mut self.connection else { return Ok(Step::Waiting) };
            match connection.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::Waiting),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.ended(Some(error)),
                Ok(0) => return self.ended(None),
                Ok(n) => {
                    let now = Instant::now();
                    let piece = self.take(&buffer[..n])?;
                    count(piece, self.reply.head().map_or(0, |head| head.status), now);
                    if piece.done {
                        return Ok(Step::Whole(now));
                    }
                    if n < buffer.len() && !to_end {
                        return Ok(Step::Waiting);
                    }
                    // A server that never stops must not keep its user from giving up.
                    if now >= self.deadline {
                        return Ok(Step::Waiting);
                    }
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Piece, Failure> {
        match self.state {
            State::Asking => self.reply.feed(bytes).map_err(|bad| Failure::Broken(bad.to_string())),
            _ => Err(Failure::Broken("the server sent what nobody asked for".into())),
        }
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        while self.sent < request.len() {
            let Some(connection) = &mut self.connection else { return Err(Failure::Stale) };
            match connection.write(&request[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) if self.reused => return Err(Failure::Stale),
                Err(error) => return Err(Failure::Broken(error.to_string())),
            }
        }
        Ok(())
    }

    /// The connection has ended, in order or with an error.
    fn ended(&mut self, error: Option<io::Error>) -> Result<Step, Failure> {
        self.connection = None;
        if self.state != State::Asking {
            return Ok(Step::Closed);
        }
        if self.reused && self.reply.is_untouched() {
            return Err(Failure::Stale);
        }
        if let Some(error) = error {
            return Err(Failure::Broken(format!("the connection ended within the reply: {error}")));
        }
        self.reply.end().map_err(|bad| Failure::Broken(bad.to_string()))?;
        Ok(Step::Whole(Instant::now()))
    }
}
