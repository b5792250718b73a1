//! A server: workers that each take a connection from the listener and serve it to its end. Connections beyond the
//! number of workers wait in the listen backlog.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{LoadError, joined};
use crate::window::Stop;

/// Connections that wait; the kernel takes less where net.core.somaxconn is smaller.
const BACKLOG: i32 = 4096;
/// How long a blocked call may take until it looks whether it shall stop.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// Enough for a worker: its buffers are on the heap.
const STACK: usize = 256 * 1024;

/// What is done with a connection.
pub trait Service: Send + Sync + 'static {
    /// Serves it to its end; returns soon once `stop` is set.
    fn serve(&self, connection: TcpStream, stop: &Stop);
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    state: Arc<State>,
    workers: Vec<JoinHandle<()>>,
}

struct State {
    stop: Stop,
    begun: Instant,
    open: AtomicUsize,
    accepted: AtomicU64,
    /// Milliseconds from `begun` to the last moment at which a connection came or went.
    last: AtomicU64,
}

impl Server {
    /// Listens and starts the workers.
    ///
    /// # Errors
    /// Where the address can't be had, or the threads not be made.
    pub fn start(address: SocketAddr, workers: usize, service: impl Service) -> Result<Self, LoadError> {
        let listener = listen(address).map_err(|error| LoadError::Listen(address, error))?;
        let address = listener.local_addr().map_err(|error| LoadError::Listen(address, error))?;
        let mut server = Self {
            address,
            listener: Arc::new(listener),
            state: Arc::new(State::new()),
            workers: Vec::with_capacity(workers),
        };
        let service = Arc::new(service);
        for _ in 0..workers {
            let (listener, state, service) =
                (Arc::clone(&server.listener), Arc::clone(&server.state), Arc::clone(&service));
            let worker = thread::Builder::new().name("serve".into()).stack_size(STACK);
            let worker = worker.spawn(move || work(&listener, &state, &*service));
            server.workers.push(worker.map_err(|e| LoadError::System("starting the server's workers", e))?);
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that it has taken.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::Relaxed)
    }

    /// How long there has been no connection; zero while one is open.
    pub fn quiet(&self) -> Duration {
        if self.state.open.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.state.last.load(Ordering::Relaxed));
        self.state.begun.elapsed().saturating_sub(last)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.set();
        // On Linux this wakes everyone who waits in accept(2).
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.workers.drain(..).for_each(|worker| joined(worker.join()));
    }
}

impl State {
    fn new() -> Self {
        Self {
            stop: Stop::default(),
            begun: Instant::now(),
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::Relaxed);
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn work(listener: &TcpListener, state: &State, service: &dyn Service) {
    while !state.stop.is_set() {
        let Ok((connection, _)) = listener.accept() else {
            // Too many open files, or a connection that is gone already: others may still be served.
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        state.open.fetch_add(1, Ordering::Relaxed);
        state.accepted.fetch_add(1, Ordering::Relaxed);
        state.touch();
        if prepare(&connection).is_ok() {
            service.serve(connection, &state.stop);
        }
        state.touch();
        state.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Small replies leave at once, and blocked calls look now and then whether they shall stop.
pub(crate) fn prepare(connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(LOOK))?;
    connection.set_write_timeout(Some(LOOK))
}

/// A connection with calls that end: by success, by the stop, or when nothing has moved for `patience`.
pub(crate) struct Patient<'a> {
    pub connection: &'a TcpStream,
    pub stop: &'a Stop,
    pub patience: Duration,
}

impl Patient<'_> {
    /// Reads what there is, at least a byte; 0 at the end.
    ///
    /// # Errors
    /// What the socket says; `TimedOut`, or `Interrupted` by the stop.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.repeat(|mut connection| connection.read(buffer))
    }

    /// Reads exactly so much and throws it away where it doesn't fit into `buffer`.
    ///
    /// # Errors
    /// As [`Patient::read`]; `UnexpectedEof` where the peer ends before.
    pub fn take(&self, mut wanted: usize, buffer: &mut [u8]) -> io::Result<()> {
        while wanted > 0 {
            let length = wanted.min(buffer.len());
            match self.read(&mut buffer[..length])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => wanted -= n,
            }
        }
        Ok(())
    }

    /// Reads exactly a buffer.
    ///
    /// # Errors
    /// As [`Patient::take`].
    pub fn fill(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => buffer = &mut buffer[n..],
            }
        }
        Ok(())
    }

    /// Writes some of it.
    ///
    /// # Errors
    /// As [`Patient::read`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.repeat(|mut connection| connection.write(bytes))
    }

    /// Writes two parts, as one segment where they fit.
    ///
    /// # Errors
    /// As [`Patient::read`].
    pub fn write_both(&self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        let n = self.repeat(|mut connection| connection.write_vectored(&parts))?;
        self.write_all(&first[n.min(first.len())..])?;
        self.write_all(&second[n.saturating_sub(first.len())..])
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// As [`Patient::read`].
    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = self.write(bytes)?;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    fn repeat(&self, mut call: impl FnMut(&TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        let mut waited = Duration::ZERO;
        loop {
            // Before the call: a peer that keeps it busy must not keep it from ending.
            if self.stop.is_set() {
                return Err(io::Error::other("stopped"));
            }
            match call(self.connection) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => waited += LOOK,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
            if waited >= self.patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
