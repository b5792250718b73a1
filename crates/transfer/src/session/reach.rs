//! How the two ends get their data connections: the client connects, else the agent does, else data goes through ssh.

use linerate_wire::control::{Listening, Message, Options};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{MAX_STREAMS, Session, out_of_turn, printable};
use crate::connect::{Link, Listener, candidates, dial};
use crate::keys::Pinned;
use crate::problem::TransferError;
use crate::stream::Stream;
use crate::transport::{Transport, Tunnel};

/// How long an address may take to answer.
const DIAL_TIME: Duration = Duration::from_secs(4);
/// How long a far end that connects back may take for all addresses.
const CONNECT_BACK_TIME: Duration = Duration::from_secs(12);
/// Addresses of the other end that are tried.
const MAX_CANDIDATES: usize = 8;

/// How this end gets more data streams.
pub(super) enum Opener {
    /// Not yet known.
    Nobody,
    /// It connects.
    Dial(SocketAddr),
    /// It asks the other end to connect.
    Ask,
    /// There is one stream and no more.
    Tunnel,
}

impl Session {
    pub(super) fn make_link(&mut self, clear: bool) -> Result<Link, TransferError> {
        let failed = |error| TransferError::Failed(format!("the far end's key can't be used: {error}"));
        let pinned: Pinned = self.keys.pin(&self.peer.public_key).map_err(failed)?;
        let link = Link { pinned, clear, registry: self.registry.clone() };
        self.link = Some(link.clone());
        Ok(link)
    }

    fn listen(&mut self, ports: Option<(u16, u16)>) -> std::io::Result<u16> {
        let Some(link) = self.link.clone() else { return Err(std::io::ErrorKind::NotConnected.into()) };
        let listener = Listener::start(Listener::bind(ports)?, self.cookie, link, self.arrivals.0.clone())?;
        let port = listener.port();
        self.listener = Some(listener);
        Ok(port)
    }

    /// The agent: accept data connections and tell where.
    ///
    /// # Errors
    /// Where the client is gone.
    pub fn offer(&mut self, options: &Options) -> Result<(), TransferError> {
        self.make_link(options.clear)?;
        let (client, own) = ssh_addresses();
        let listening = match self.listen(options.ports) {
            Ok(port) => Listening { candidates: candidates(own, port), client, error: None },
            Err(error) => Listening { candidates: Vec::new(), client, error: Some(error.to_string()) },
        };
        self.opener = Opener::Ask;
        self.send(&Message::Listening(listening))
    }

    /// The client: connect to the agent, else have it connect here, else go through the control channel.
    pub(super) fn reach(&mut self, options: &Options) -> Result<(), TransferError> {
        let Message::Listening(there) = self.receive()? else { return Err(out_of_turn()) };
        let Some(direct) = self.reach_directly(&there)? else { return Ok(()) };
        self.observer.note(&format!("{direct}; asking the far end to connect back"));
        let Some(back) = self.reach_back(&there, options)? else { return Ok(()) };
        let ports =
            options.ports.map_or("a TCP port (choose it with --port-range)".to_owned(), |(first, last)| {
                format!("a TCP port of {first}-{last}")
            });
        self.observer.note(&format!(
            "warning: {back}; the data goes through ssh, on one stream, and will be slow: open {ports} \
             from one host to the other"
        ));
        self.send(&Message::UseTunnel)?;
        self.tunnel()
    }

    /// `None` where it worked, else why not.
    fn reach_directly(&mut self, there: &Listening) -> Result<Option<String>, TransferError> {
        if let Some(error) = &there.error {
            return Ok(Some(format!("the far end can't listen for data: {}", printable(error))));
        }
        let Some(link) = self.link.clone() else { return Err(out_of_turn()) };
        let mut why = "the far end has no address for data".to_owned();
        for &address in there.candidates.iter().take(MAX_CANDIDATES) {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(TransferError::Interrupted);
            }
            match dial(address, &self.peer.cookie, &link, DIAL_TIME) {
                Ok(stream) => {
                    self.opener = Opener::Dial(address);
                    self.arrived(stream);
                    return Ok(None);
                }
                Err(error) => why = format!("the data port {address} can't be reached ({error})"),
            }
        }
        Ok(Some(why))
    }

    /// `None` where it worked, else why not.
    fn reach_back(&mut self, there: &Listening, options: &Options) -> Result<Option<String>, TransferError> {
        let port = match self.listen(options.ports) {
            Ok(port) => port,
            Err(error) => return Ok(Some(format!("this end can't listen for data: {error}"))),
        };
        let candidates = candidates(there.client, port);
        self.opener = Opener::Ask;
        self.send(&Message::ConnectBack { candidates })?;
        if let Some(error) = self.answer_to_connect_back()? {
            return Ok(Some(printable(&error)));
        }
        match self.arrivals.1.recv_timeout(DIAL_TIME) {
            Ok(stream) => {
                self.arrived(stream);
                Ok(None)
            }
            Err(_) => Ok(Some("no connection came back".to_owned())),
        }
    }

    /// An agent that sends may have announced its sources already.
    fn answer_to_connect_back(&mut self) -> Result<Option<String>, TransferError> {
        loop {
            match self.receive_within(CONNECT_BACK_TIME)? {
                Message::ConnectedBack { error } => return Ok(error),
                sources @ Message::Sources(_) if self.early.is_none() => self.early = Some(sources),
                _ => return Err(out_of_turn()),
            }
        }
    }

    pub(super) fn tunnel(&mut self) -> Result<(), TransferError> {
        self.listener = None;
        self.opener = Opener::Tunnel;
        self.control.tunnel_open.store(true, Ordering::Release);
        let tunnel =
            Tunnel::new(self.control.channel.clone(), self.control.tunnel.clone(), self.registry.clone());
        self.arrived(Stream::new(Transport::Tunnel(tunnel), None, Vec::new()));
        Ok(())
    }

    fn arrived(&mut self, stream: Stream) {
        self.connected.get_or_insert_with(Instant::now);
        // This end holds the other side of the queue, so it is open.
        let _ = self.arrivals.0.send(stream);
    }

    /// Gets `count` more data streams; they come as [`super::Event::Stream`].
    ///
    /// # Errors
    /// Where the other end is gone.
    pub fn more(&self, count: u32) -> Result<(), TransferError> {
        match self.opener {
            _ if count == 0 => Ok(()),
            Opener::Dial(address) => {
                self.dial_more(address, count);
                Ok(())
            }
            Opener::Ask => self.send(&Message::MoreStreams(count)),
            Opener::Nobody | Opener::Tunnel => Ok(()),
        }
    }

    pub(super) fn dial_more(&self, address: SocketAddr, count: u32) {
        for _ in 0..count {
            if self.dialed.fetch_add(1, Ordering::Relaxed) >= MAX_STREAMS {
                return;
            }
            let (Some(link), cookie) = (self.link.clone(), self.peer.cookie) else { return };
            let arrivals = self.arrivals.0.clone();
            // A stream that can't be opened isn't missed: the others take its work.
            thread::spawn(move || {
                dial(address, &cookie, &link, DIAL_TIME).map(|stream| arrivals.send(stream))
            });
        }
    }

    pub(super) fn connect_back(&mut self, candidates: &[SocketAddr]) -> Result<(), TransferError> {
        let there = Listening { candidates: candidates.to_vec(), client: None, error: None };
        let error = self.reach_directly(&there)?;
        self.send(&Message::ConnectedBack { error })
    }

    /// True where there is one stream and no other will come.
    pub fn is_tunnelled(&self) -> bool {
        matches!(self.opener, Opener::Tunnel)
    }

    /// How the data travels, for people.
    pub fn route(&self) -> String {
        match self.opener {
            Opener::Dial(address) => format!("from here to {address}"),
            Opener::Ask => "from the far end to here".to_owned(),
            Opener::Tunnel | Opener::Nobody => "through ssh".to_owned(),
        }
    }

    /// Connections to this end's data port that were turned away.
    pub fn strangers(&self) -> u64 {
        self.listener.as_ref().map_or(0, Listener::strangers)
    }
}

/// The addresses of the ssh connection that started this process: the client's, and this host's.
fn ssh_addresses() -> (Option<IpAddr>, Option<IpAddr>) {
    let Ok(variable) = std::env::var("SSH_CONNECTION") else { return (None, None) };
    let mut words = variable.split_ascii_whitespace();
    let mut address =
        || words.next().and_then(|word| word.split('%').next()).and_then(|word| word.parse().ok());
    let client = address();
    address();
    (client, address())
}
