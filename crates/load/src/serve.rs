//! A server with a number of workers. Each worker accepts a connection, and serves this connection until it ends. If
//! there are more connections than workers, the rest wait in the listen backlog.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::error::{LoadError, joined};
use crate::window::StopFlag;

/// The listen backlog. net.core.somaxconn may set a lower limit.
const BACKLOG: i32 = 4096;
/// The first value is the silence after which the kernel asks the other end's kernel for a sign of life (TCP
/// keepalive). The second is the interval between further questions.
const ALIVE_AFTER: Duration = Duration::from_secs(20);
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// The longest time that a blocked call takes before the stop flag is checked.
pub(crate) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The size of a worker's stack in bytes; buffers are on the heap.
const STACK: usize = 256 * 1024;

/// A protocol handler, which serves the connections of a server.
pub trait Service: Send + Sync + 'static {
    /// Serves a connection until it ends. Returns soon after `stop` is set.
    fn serve(&self, connection: TcpStream, stop: &StopFlag);
}

/// A server that runs until it is stopped or dropped.
pub struct LoadServer {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    state: Arc<ServerState>,
    workers: Vec<JoinHandle<()>>,
}

struct ServerState {
    stop: StopFlag,
    begun: Instant,
    open: AtomicUsize,
    accepted: AtomicU64,
    /// The last time at which a connection was accepted or ended, in milliseconds since `begun`.
    last: AtomicU64,
}

impl LoadServer {
    /// Listens and starts the workers.
    ///
    /// # Errors
    /// If the address can't be bound, or a thread can't be started.
    pub fn start(address: SocketAddr, workers: usize, service: impl Service) -> Result<Self, LoadError> {
        let listener = listen(address).map_err(|error| LoadError::Listen(address, error))?;
        let address = listener.local_addr().map_err(|error| LoadError::Listen(address, error))?;
        let mut server = Self {
            address,
            listener: Arc::new(listener),
            state: Arc::new(ServerState::new()),
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

    /// The address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of connections that the server has accepted since its start, including those that have ended.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::Relaxed)
    }

    /// The time since the end of the last connection; zero while a connection is open.
    pub fn quiet(&self) -> Duration {
        if self.state.open.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.state.last.load(Ordering::Relaxed));
        self.state.begun.elapsed().saturating_sub(last)
    }
}

impl Drop for LoadServer {
    fn drop(&mut self) {
        self.state.stop.set();
        // On Linux, this wakes all threads that wait in accept(2).
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.workers.drain(..).for_each(|worker| joined(worker.join()));
    }
}

impl ServerState {
    fn new() -> Self {
        Self {
            stop: StopFlag::default(),
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

/// Listens at an address. `[::]` stands for every address of this host, including IPv4 addresses, even if the
/// kernel has no IPv6.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let any = address.is_ipv6() && address.ip().is_unspecified();
    let made = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP));
    let socket = match made {
        Err(error) if any && error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
            return listen((Ipv4Addr::UNSPECIFIED, address.port()).into());
        }
        made => made?,
    };
    if any {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn work(listener: &TcpListener, state: &ServerState, service: &dyn Service) {
    while !state.stop.is_set() {
        let Ok((connection, _)) = listener.accept() else {
            // Either too many files are open, or the connection has already ended. Other connections may
            // still be accepted.
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

/// Makes a connection send small replies at once, and limits the time of blocked calls, so that the stop flag is
/// checked. If the other end's host is gone, keepalive ends the connection.
pub(crate) fn prepare(connection: &TcpStream) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(ALIVE_AFTER).with_interval(ALIVE_INTERVAL);
    SockRef::from(connection).set_tcp_keepalive(&alive)?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    connection.set_write_timeout(Some(STOP_CHECK_INTERVAL))
}

/// A connection whose calls end when they succeed or fail, when the stop flag is set, or when no data has moved for
/// `patience`.
pub(crate) struct PatientStream<'a> {
    pub connection: &'a TcpStream,
    pub stop: &'a StopFlag,
    pub patience: Duration,
}

impl PatientStream<'_> {
    /// Reads the available bytes, at least one. Returns 0 at the end of the data.
    ///
    /// # Errors
    /// The errors of the socket; `TimedOut`; `Interrupted` if the stop flag was set.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.repeat(|mut connection| connection.read(buffer))
    }

    /// Reads exactly `wanted` bytes. Each read overwrites `buffer` from its start, so most of the bytes are discarded.
    ///
    /// # Errors
    /// The errors of [`PatientStream::read`]; `UnexpectedEof` if the other end sends fewer bytes.
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

    /// Fills a buffer.
    ///
    /// # Errors
    /// The errors of [`PatientStream::take`].
    pub fn fill(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => buffer = &mut buffer[n..],
            }
        }
        Ok(())
    }

    /// Writes some of the bytes.
    ///
    /// # Errors
    /// The errors of [`PatientStream::read`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.repeat(|mut connection| connection.write(bytes))
    }

    /// Writes two parts, as one segment if they fit.
    ///
    /// # Errors
    /// The errors of [`PatientStream::read`].
    pub fn write_both(&self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        let n = self.repeat(|mut connection| connection.write_vectored(&parts))?;
        self.write_all(&first[n.min(first.len())..])?;
        self.write_all(&second[n.saturating_sub(first.len())..])
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// The errors of [`PatientStream::read`].
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
            // The flag is checked before each call. Otherwise the server couldn't stop while the other end is always
            // ready.
            if self.stop.is_set() {
                return Err(io::Error::other("stopped"));
            }
            match call(self.connection) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => waited += STOP_CHECK_INTERVAL,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
            if waited >= self.patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
