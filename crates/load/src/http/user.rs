//! A user: a connection, and the request that is outstanding on it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::pace::WorkPace;

use super::reply::{Reply, ReplyPiece};

/// The longest time to wait for a server to close a connection after its last reply.
const CLOSING: Duration = Duration::from_millis(200);

/// The event that a user waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserState {
    /// The user waits until its next request is due.
    Resting,
    /// The user waits until the connection is established.
    Connecting,
    /// The user waits for the end of the reply.
    Asking,
    /// The user waits for the server to close a connection whose last reply has arrived.
    Closing,
}

/// The result of handling an event.
#[derive(Debug)]
pub enum UserStep {
    /// The reply isn't complete yet.
    Waiting,
    /// The reply was completed at this time.
    Whole(Instant),
    /// The server has closed the connection.
    Closed,
}

/// The reason why a request failed.
#[derive(Debug)]
pub enum RequestFailure {
    /// The connection can't be established.
    Connect(io::Error),
    /// The server closed a persistent connection before it read the request. The request is repeated on a new
    /// connection (RFC 9112, 9.3.1).
    Stale,
    /// The reply is malformed.
    Broken(String),
}

/// A simulated user who fetches a URL again and again.
pub struct User {
    /// The index of the user's URL in the list.
    pub target: usize,
    /// The event that the user waits for.
    pub state: UserState,
    /// The time at which the request was due.
    pub begun: Instant,
    /// The time at which the request times out.
    pub deadline: Instant,
    /// The schedule of the user's requests; `None` if each request follows the last reply.
    pub pace: Option<WorkPace>,
    /// The parser's state within the reply.
    pub reply: Reply,
    connection: Option<TcpStream>,
    sent: usize,
    reused: bool,
}

impl User {
    pub fn new(target: usize, pace: Option<WorkPace>, now: Instant) -> Self {
        Self {
            target,
            state: UserState::Resting,
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

    /// Starts to connect. A later event reports the result.
    ///
    /// # Errors
    /// Immediate errors of the system.
    pub fn connect(&mut self, to: SocketAddr, registry: &Registry, token: Token) -> io::Result<()> {
        let mut connection = TcpStream::connect(to)?;
        registry.register(&mut connection, token, Interest::READABLE | Interest::WRITABLE)?;
        self.connection = Some(connection);
        (self.state, self.reused) = (UserState::Connecting, false);
        Ok(())
    }

    /// Closes the user's connection.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// True once the connection is established.
    ///
    /// # Errors
    /// If the connection can't be established.
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

    /// Sends the request on the open connection.
    ///
    /// # Errors
    /// The errors of [`User::step`].
    pub fn ask(&mut self, request: &[u8]) -> Result<(), RequestFailure> {
        self.reply.clear();
        (self.state, self.sent) = (UserState::Asking, 0);
        self.send(request)
    }

    /// Starts to wait until the next request is due, and keeps the connection.
    pub fn rest(&mut self) {
        (self.state, self.reused) = (UserState::Resting, self.connection.is_some());
    }

    /// Starts to wait for the server to close the connection, so that TIME_WAIT is at the server's port and
    /// not at this host's.
    pub fn close(&mut self, now: Instant) {
        (self.state, self.deadline) = (UserState::Closing, now + CLOSING);
    }

    /// Sends and reads as much as the connection allows. With `to_end`, the other end is known to have closed the
    /// connection, so the method reads until the end. Without `to_end`, the method stops after a read that doesn't fill
    /// the buffer: such a read has emptied the socket, and the next bytes cause another event (epoll(7)).
    ///
    /// # Errors
    /// The reason why the request failed.
    pub fn step(
        &mut self,
        request: &[u8],
        buffer: &mut [u8],
        to_end: bool,
        mut count: impl FnMut(ReplyPiece, u16, Instant),
    ) -> Result<UserStep, RequestFailure> {
        if self.state == UserState::Asking {
            self.send(request)?;
        }
        loop {
            let Some(connection) = &mut self.connection else { return Ok(UserStep::Waiting) };
            match connection.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(UserStep::Waiting),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.ended(Some(error)),
                Ok(0) => return self.ended(None),
                Ok(n) => {
                    let now = Instant::now();
                    let piece = self.take(&buffer[..n])?;
                    count(piece, self.reply.head().map_or(0, |head| head.status), now);
                    if piece.done {
                        return Ok(UserStep::Whole(now));
                    }
                    if n < buffer.len() && !to_end {
                        return Ok(UserStep::Waiting);
                    }
                    // The user must time out even if the server sends without end.
                    if now >= self.deadline {
                        return Ok(UserStep::Waiting);
                    }
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<ReplyPiece, RequestFailure> {
        match self.state {
            UserState::Asking => {
                self.reply.feed(bytes).map_err(|bad| RequestFailure::Broken(bad.to_string()))
            }
            _ => Err(RequestFailure::Broken("the server sent data without a request".into())),
        }
    }

    fn send(&mut self, request: &[u8]) -> Result<(), RequestFailure> {
        while self.sent < request.len() {
            let Some(connection) = &mut self.connection else { return Err(RequestFailure::Stale) };
            match connection.write(&request[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) if self.reused => return Err(RequestFailure::Stale),
                Err(error) => return Err(RequestFailure::Broken(error.to_string())),
            }
        }
        Ok(())
    }

    /// Handles the end of the connection, with or without an error.
    fn ended(&mut self, error: Option<io::Error>) -> Result<UserStep, RequestFailure> {
        self.connection = None;
        if self.state != UserState::Asking {
            return Ok(UserStep::Closed);
        }
        if self.reused && self.reply.is_untouched() {
            return Err(RequestFailure::Stale);
        }
        if let Some(error) = error {
            return Err(RequestFailure::Broken(format!("the connection ended within the reply: {error}")));
        }
        self.reply.end().map_err(|bad| RequestFailure::Broken(bad.to_string()))?;
        Ok(UserStep::Whole(Instant::now()))
    }
}
