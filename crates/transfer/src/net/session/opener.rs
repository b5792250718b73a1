//! How the two ends get their data connections. First the client connects to the agent; if that fails, the agent
//! connects to the client; if that fails too, the data is sent through ssh.

use crossbeam_channel::Sender;
use linerate_wire::control::{Cookie, Listening, Message, Options};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{MAX_STREAMS, Session, out_of_turn, printable};
use crate::base::problem::{BY_WHOM, Observer, TransferError};
use crate::net::connect::Listener;
use crate::net::dial::{all_candidates, candidates, dial, dial_any, dial_over, further};
use crate::net::handshake::ConnectionConfig;
use crate::net::keys::Pinned;
use crate::net::routes::{self, DataRoute, DataRoutes, Interfaces};
use crate::net::stream::Stream;
use crate::net::transport::{Transport, Tunnel};

/// The time limit for connecting to any of the other end's addresses, for all addresses together.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a far end may take to report the result of connecting back: the time for dialling, and some more for slow
/// hosts and links.
const CONNECT_BACK_TIMEOUT: Duration = Duration::from_secs(12);
/// How long to wait for a stream after the far end has reported that it has connected.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(4);
/// The most addresses of the other end that are tried.
pub(super) const MAX_CANDIDATES: usize = 8;

/// How this end gets more data streams.
pub(super) enum Opener {
    /// The way to more streams isn't known yet.
    Nobody,
    /// This end connects to this address.
    Dial(SocketAddr),
    /// This end requests that the other end connects.
    Ask,
    /// More streams are impossible, because the only stream goes through the control channel.
    Tunnel,
    /// The other end is another thread; this queue sends it the other side of each new stream.
    Within(Sender<Stream>),
}

impl Session {
    pub(super) fn make_link(&mut self, clear: bool) -> Result<ConnectionConfig, TransferError> {
        let failed = |error| TransferError::Failed(format!("the far end's key can't be used: {error}"));
        let pinned: Pinned = self.keys.pin(&self.peer.public_key).map_err(failed)?;
        let link = ConnectionConfig { pinned, clear, registry: self.registry.clone() };
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

    /// The agent: starts to accept data connections, and sends the client its addresses.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn offer(&mut self, options: &Options) -> Result<(), TransferError> {
        if self.is_within() {
            return Ok(());
        }
        self.meet_partner()?;
        self.make_link(options.clear)?;
        // The client of a restricted login isn't sent other addresses of this host.
        let reports_all = self.has_partner() && !self.dials_client_alone;
        self.listen_and_report(options, reports_all)
    }

    /// Starts to listen, and sends the other end the port and this host's addresses. All addresses are candidates if
    /// `reports_all` is set, else only the address that ssh used, if it is known.
    pub(super) fn listen_and_report(
        &mut self,
        options: &Options,
        reports_all: bool,
    ) -> Result<(), TransferError> {
        let (client, own) = ssh_addresses();
        let candidates = if reports_all { all_candidates } else { candidates };
        let listening = match (self.listen(options.ports), self.linked) {
            (Ok(port), Some(peer)) => peer.listening(port),
            (Ok(port), None) => {
                let candidates = candidates(own, port);
                let further = if self.dials_client_alone { Vec::new() } else { further(&candidates) };
                Listening { candidates, further, client, error: None }
            }
            (Err(error), _) => Listening {
                candidates: Vec::new(),
                further: Vec::new(),
                client,
                error: Some(error.to_string()),
            },
        };
        self.opener = Opener::Ask;
        self.send(&Message::Listening(listening))
    }

    /// The client: connects to the agent; if that fails, makes the agent connect to the client; if that fails too,
    /// sends the data through the control channel.
    pub(super) fn reach(&mut self, options: &Options, interfaces: &Interfaces) -> Result<(), TransferError> {
        if self.is_within() {
            self.connected = Some(Instant::now());
            return self.more(1);
        }
        let said = self.awaiting("its data port", Self::receive)?;
        let Message::Listening(there) = said else { return Err(out_of_turn()) };
        if let Some(peer) = self.linked {
            return self.reach_linked(peer, &there, options);
        }
        if self.reach_over(interfaces, &there)? {
            return Ok(());
        }
        let Some(direct) = self.reach_directly(&there)? else { return Ok(()) };
        self.observer.note(&format!("{direct}; now the far end tries to connect to this host"));
        let Some(back) = self.reach_back(&there, options)? else { return Ok(()) };
        let ports =
            options.ports.map_or("a TCP port (choose it with --port-range)".to_owned(), |(first, last)| {
                format!("a TCP port of {first}-{last}")
            });
        self.observer.note(&format!(
            "warning: {back}; the data goes through ssh on one stream, which will be slow: open {ports} from one host to the other"
        ));
        self.send(&Message::UseTunnel)?;
        self.tunnel()
    }

    /// Dials over the links that the user chose; false if no link leads to the far end.
    pub(super) fn reach_over(
        &mut self,
        interfaces: &Interfaces,
        there: &Listening,
    ) -> Result<bool, TransferError> {
        let (Some(first), Some(link)) = (there.candidates.first(), self.link.clone()) else {
            return Ok(false);
        };
        let further = there.further.iter().map(|address| SocketAddr::new(*address, first.port()));
        let addresses: Vec<_> = there.candidates.iter().copied().chain(further).collect();
        let (routes, missing) = routes::find(interfaces, &addresses);
        missing.iter().for_each(|name| {
            self.observer.note(&format!("warning: the far end can't be reached over {name}"))
        });
        self.routes = Arc::new(DataRoutes::new(routes));
        let opened = over_routes(&self.routes, &self.peer.cookie, &link, &*self.observer);
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(TransferError::Interrupted);
        }
        let Some((address, stream)) = opened else {
            if *interfaces != Interfaces::One {
                self.observer.note("warning: the data takes the kernel's route to the far end");
            }
            return Ok(false);
        };
        self.opener = Opener::Dial(address);
        self.dialed.store(1, Ordering::Relaxed);
        self.arrived(stream);
        let receives = self.control.way.receives.load(Ordering::Acquire);
        if receives && self.routes() > 1 {
            self.send(&Message::Routes(self.routes()))?;
        }
        Ok(true)
    }

    /// The number of links over which the dialling end opens streams; 0 if the kernel chooses the link.
    pub fn routes(&self) -> u32 {
        self.their_routes.max(self.routes.working().count() as u32)
    }

    /// Connects to the agent; returns `None` on success, else the reason for the failure.
    pub(super) fn reach_directly(&mut self, there: &Listening) -> Result<Option<String>, TransferError> {
        if let Some(error) = &there.error {
            return Ok(Some(format!("the far end can't listen for data: {}", printable(error))));
        }
        let Some(link) = self.link.clone() else { return Err(out_of_turn()) };
        let candidates = &there.candidates[..there.candidates.len().min(MAX_CANDIDATES)];
        match dial_any(candidates, &self.peer.cookie, &link, DIAL_TIMEOUT, &self.interrupted) {
            Ok((address, stream)) => {
                self.opener = Opener::Dial(address);
                self.dialed.store(1, Ordering::Relaxed);
                self.arrived(stream);
                Ok(None)
            }
            Err(_) if self.interrupted.load(Ordering::Relaxed) => Err(TransferError::Interrupted),
            Err(None) => Ok(Some("the far end has no address for data".to_owned())),
            Err(Some((address, error))) => {
                Ok(Some(format!("the data port {address} can't be reached ({error})")))
            }
        }
    }

    /// Makes the agent connect to the client; returns `None` on success, else the reason for the failure.
    pub(super) fn reach_back(
        &mut self,
        there: &Listening,
        options: &Options,
    ) -> Result<Option<String>, TransferError> {
        let port = match self.listen(options.ports) {
            Ok(port) => port,
            Err(error) => return Ok(Some(format!("this end can't listen for data: {error}"))),
        };
        let of_link = self.linked.map(|peer| peer.listening(port).candidates);
        let candidates = of_link.unwrap_or_else(|| candidates(there.client, port));
        self.opener = Opener::Ask;
        self.send(&Message::ConnectBack { candidates })?;
        if let Some(error) = self.answer_to_connect_back()? {
            return Ok(Some(printable(&error)));
        }
        match self.arrivals.1.recv_timeout(ARRIVAL_TIMEOUT) {
            Ok(stream) => {
                self.arrived(stream);
                Ok(None)
            }
            Err(_) => Ok(Some("the far end didn't connect to this host".to_owned())),
        }
    }

    /// Waits for the result of connecting back. The agent doesn't wait for the data connection itself, so its
    /// sources or its message that it is ready may arrive before the result; such a message is kept.
    pub(super) fn answer_to_connect_back(&mut self) -> Result<Option<String>, TransferError> {
        loop {
            let connected = |session: &mut Self| session.receive_within(CONNECT_BACK_TIMEOUT);
            match self.awaiting("its answer whether it can connect to this host", connected)? {
                Message::ConnectedBack { error } => return Ok(error),
                early @ (Message::Sources(_) | Message::Ready { .. }) if self.early.is_none() => {
                    self.early = Some(early);
                }
                _ => return Err(out_of_turn()),
            }
        }
    }

    pub(super) fn tunnel(&mut self) -> Result<(), TransferError> {
        self.listener = None;
        self.opener = Opener::Tunnel;
        self.control.way.open.store(true, Ordering::Release);
        self.open_tunnel();
        Ok(())
    }

    fn open_tunnel(&mut self) {
        if let Some(partnership) = &self.partnership {
            return self.open_sealed_tunnel(partnership);
        }
        let tunnel =
            Tunnel::new(self.control.channel.clone(), self.control.tunnel.clone(), self.registry.clone());
        self.arrived(Stream::new(Transport::Tunnel(tunnel), None, Vec::new()));
    }

    /// Handles this end's first stream.
    fn arrived(&mut self, stream: Stream) {
        self.connected.get_or_insert_with(Instant::now);
        self.cipher = stream.cipher();
        // The queue can't be closed, because this end also holds its reading side.
        let _ = self.arrivals.0.send(stream);
    }

    /// Prepares for a second round, in which damaged files are sent again on new streams.
    pub fn begin_round(&mut self) {
        self.dialed.store(0, Ordering::Relaxed);
        if self.is_tunnelled() {
            self.open_tunnel();
        }
    }

    /// Requests `count` more data streams; they arrive as [`super::Event::Stream`].
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn more(&self, count: u32) -> Result<(), TransferError> {
        match self.opener {
            _ if count == 0 => Ok(()),
            Opener::Dial(address) => {
                self.dial_more(address, count);
                Ok(())
            }
            Opener::Ask => self.send(&Message::MoreStreams(count)),
            Opener::Within(ref theirs) => {
                self.open_within(theirs, count);
                Ok(())
            }
            Opener::Nobody | Opener::Tunnel => Ok(()),
        }
    }

    fn open_within(&self, theirs: &Sender<Stream>, count: u32) {
        for _ in 0..count.min(MAX_STREAMS) {
            let (ours, other) = Stream::within(&self.registry);
            // If the other end is gone, reading from or writing to the stream reports that.
            let _ = theirs.send(other);
            let _ = self.arrivals.0.send(ours);
        }
    }

    /// True if the other end is another thread of this process.
    pub fn is_within(&self) -> bool {
        matches!(self.opener, Opener::Within(_))
    }

    pub(super) fn dial_more(&self, address: SocketAddr, count: u32) {
        for _ in 0..count {
            let one_more = |dialed: u32| (dialed < MAX_STREAMS).then_some(dialed + 1);
            if self.dialed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
                return;
            }
            let (Some(link), cookie) = (self.link.clone(), self.peer.cookie) else { return };
            let arrivals = self.arrivals.0.clone();
            let (routes, observer) = (self.routes.clone(), self.observer.clone());
            // If a stream can't be opened, the transfer continues with the other streams.
            thread::spawn(move || {
                let over = over_routes(&routes, &cookie, &link, &*observer).map(|(_, stream)| stream);
                let stream = over.or_else(|| dial(address, &cookie, &link, DIAL_TIMEOUT).ok());
                stream.map(|stream| drop(arrivals.send(stream)))
            });
        }
    }

    /// Sets whether this end may connect back only to the host from which its client has logged in: the client must not
    /// reach other hosts through this end that it can't reach itself.
    pub fn dials_client_alone(&mut self, alone: bool) {
        self.dials_client_alone = alone;
    }

    pub(super) fn connect_back(&mut self, candidates: &[SocketAddr]) -> Result<(), TransferError> {
        let fit = self.linked.and_then(|peer| peer.fit(candidates));
        let candidates = if self.linked.is_some() { fit.as_slice() } else { candidates };
        let (client, _) = ssh_addresses();
        let may = |there: &SocketAddr| !self.dials_client_alone || client == Some(there.ip());
        if let Some(stranger) = candidates.iter().find(|there| !may(there)) {
            let error = format!("{stranger} isn't the address from which this login came; {BY_WHOM}");
            return self.send(&Message::ConnectedBack { error: Some(error) });
        }
        let there =
            Listening { candidates: candidates.to_vec(), further: Vec::new(), client: None, error: None };
        let error = self.reach_directly(&there)?;
        self.send(&Message::ConnectedBack { error })
    }

    /// True if the data goes through the control channel, so that only one stream is possible.
    pub fn is_tunnelled(&self) -> bool {
        matches!(self.opener, Opener::Tunnel)
    }

    /// A description of the way of the data, for the user.
    pub fn route(&self) -> String {
        match self.opener {
            Opener::Dial(address) if self.routes() == 0 => format!("from here to {address}"),
            Opener::Dial(_) => {
                let over = |route: &DataRoute| format!("{} over {}", route.to, route.interface);
                format!("from here to {}", self.routes.working().map(over).collect::<Vec<_>>().join(", "))
            }
            Opener::Ask => "from the far end to here".to_owned(),
            Opener::Within(_) => "none, within this host".to_owned(),
            Opener::Tunnel | Opener::Nobody => "through ssh".to_owned(),
        }
    }

    /// The number of connections to this end's data port that were rejected; `None` if this end doesn't listen.
    pub fn strangers(&self) -> Option<u64> {
        self.listener.as_ref().map(Listener::strangers)
    }
}

/// Opens a stream over the next working link; returns the stream and the address to which the link leads.
fn over_routes(
    routes: &DataRoutes,
    cookie: &Cookie,
    link: &ConnectionConfig,
    observer: &dyn Observer,
) -> Option<(SocketAddr, Stream)> {
    routes.in_turn().find_map(|route| match dial_over(route, cookie, link, DIAL_TIMEOUT) {
        Ok(stream) => Some((route.to, stream)),
        Err(error) => {
            if routes.fail(route) {
                let DataRoute { interface, to, .. } = route;
                observer.note(&format!(
                    "warning: no data goes over {interface}: {to} can't be reached ({error})"
                ));
            }
            None
        }
    })
}

/// The addresses of the ssh connection that started this process: the client's address, and this host's.
fn ssh_addresses() -> (Option<IpAddr>, Option<IpAddr>) {
    let Ok(variable) = std::env::var("SSH_CONNECTION") else { return (None, None) };
    let mut words = variable.split_ascii_whitespace();
    let mut address =
        || words.next().and_then(|word| word.split('%').next()).and_then(|word| word.parse().ok());
    let client = address();
    address();
    (client, address())
}

#[cfg(test)]
mod tests {
    use super::super::{Client, Event, Meters};
    use super::*;
    use crate::net::pulse::Pulse;
    use crossbeam_channel::unbounded;
    use linerate_wire::control::Job;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    struct Nobody;

    impl crate::base::problem::Observer for Nobody {
        fn changes(&self, _: Vec<linerate_wire::control::Change>) {}
        fn problem(&self, _: linerate_wire::control::Problem) {}

        fn note(&self, _: &str) {}
    }

    /// A client that has its first stream, and an agent that counts streams until it is stopped. The agent's
    /// thread returns the number of streams, or the reason why it ended early.
    fn bed() -> (Session, Sender<()>, JoinHandle<Result<u32, TransferError>>) {
        let (near, far) = UnixStream::pair().unwrap();
        let (stop, stopped) = unbounded();
        let agent = thread::spawn(move || {
            let (mut agent, _) = Session::agent(far.try_clone().unwrap(), far)?;
            agent.offer(&Options::default())?;
            let (_workers, ends) = unbounded();
            let mut streams = Vec::new();
            while stopped.is_empty() {
                if let Event::Stream(stream) = agent.next(&ends)? {
                    streams.push(stream);
                }
            }
            Ok(streams.len() as u32)
        });
        let job = Job::Discard { options: Options::default() };
        let client = Client {
            job,
            interrupted: Arc::default(),
            observer: Arc::new(Nobody),
            pulse: Arc::new(Pulse::new(None)),
            neighbour: None,
            interfaces: Interfaces::One,
            linked: None,
        };
        let client = Session::client(near.try_clone().unwrap(), near, client, Meters::default());
        (client.unwrap(), stop, agent)
    }

    /// Waits until no stream has arrived for a while; returns all streams.
    fn streams(session: &mut Session) -> Vec<Stream> {
        let (_workers, ends) = unbounded();
        let (mut streams, mut quiet) = (Vec::new(), 0);
        while quiet < 10 {
            match session.next(&ends).unwrap() {
                Event::Stream(stream) => streams.push(stream),
                _ => quiet += 1,
            }
        }
        streams
    }

    #[test]
    fn whatever_is_wished_for_there_are_no_more_streams_than_the_limit() {
        let (mut client, stop, agent) = bed();
        for wish in [3, 1000, u32::MAX] {
            client.more(wish).unwrap();
        }
        let dialed = streams(&mut client);
        stop.send(()).unwrap();
        assert_eq!((dialed.len() as u32, agent.join().unwrap().unwrap()), (MAX_STREAMS, MAX_STREAMS));
    }

    #[test]
    fn a_peer_that_opens_more_streams_than_the_limit_is_refused() {
        let (client, _stop, agent) = bed();
        let Opener::Dial(address) = client.opener else { panic!("it has no address to dial") };
        let link = client.link.clone().unwrap();
        let dialed: Vec<_> =
            (0..MAX_STREAMS).map(|_| dial(address, &client.peer.cookie, &link, DIAL_TIMEOUT)).collect();
        let refused = agent.join().unwrap();
        assert!(matches!(refused, Err(TransferError::Breach(_))), "{refused:?}");
        drop(dialed);
    }
}
