//! A session with an agent of a chain or tree. The agent gets the data from the client or from another agent,
//! and forwards it to other agents.

use linerate_wire::control::{ChainLink, ChainNext, Listening, LostNext, Message, Options, Progress};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::opener::MAX_CANDIDATES;
use super::{Client, DIAL_TIMEOUT, Meters, Session, job_options, out_of_turn};
use crate::base::problem::{BY_WHOM, TransferError};
use crate::net::chain::{ChainHost, ChainRelay, NextHost, Supply};
use crate::net::dial::dial_any;
use crate::net::handshake::ConnectionConfig;
use crate::net::routes::Interfaces;
use crate::net::stream::Stream;
use crate::net::transport::Registry;

/// How long an agent may take until it listens.
const LISTENING_TIMEOUT: Duration = Duration::from_secs(12);

/// The role of this end in a chain or tree.
pub(super) enum Chaining {
    /// This end is a host's agent; `None` until the client has stated the host's position.
    Host(Option<Arc<ChainHost>>),
    /// This end is the client.
    Client {
        /// Called if the agent gives up a host.
        lost: LostHost,
        /// The positions of the hosts to which the agent forwards.
        next: Vec<u8>,
    },
}

/// A function that is called when an agent stops forwarding to a host. It gets the host's position and the
/// reason.
pub type LostHost = Arc<dyn Fn(u8, String) + Send + Sync>;

impl Session {
    /// Starts the client's session with a host of a chain or tree, up to the agent's first message. `lost` is
    /// called if the agent gives up a host to which it forwards.
    ///
    /// # Errors
    /// If the far end doesn't speak this protocol or goes away.
    pub fn chained(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        client: Client,
        meters: Meters,
        lost: LostHost,
    ) -> Result<Self, TransferError> {
        let Client { job, interrupted, observer, pulse, neighbour: _, interfaces: _, linked: _ } = client;
        pulse.beat();
        let mut session = Self::start(reader, writer, observer, interrupted, meters, pulse)?;
        session.chaining = Some(Chaining::Client { lost, next: Vec::new() });
        let has_limit = job_options(&job).is_some_and(|options| options.timeout.is_some());
        session.send(&Message::Chained)?;
        session.send(&Message::Job(job))?;
        if has_limit {
            session.limit_has_option();
            session.begin_to_beat();
        }
        session.greet()?;
        Ok(session)
    }

    /// The client's public key, which the first host needs, and the agent's public key, which is needed by the hosts to
    /// which the agent forwards.
    pub fn chain_keys(&self) -> (Vec<u8>, Vec<u8>) {
        (self.keys.public().to_vec(), self.peer.public_key.clone())
    }

    /// The client: sends the agent the agent's position; returns the addresses at which the agent listens.
    ///
    /// # Errors
    /// If the agent goes away, or sends something else.
    pub fn link(&mut self, link: ChainLink) -> Result<Listening, TransferError> {
        self.peer.cookie = link.cookie;
        self.send(&Message::Link(link))?;
        self.connected = Some(Instant::now());
        // The hosts before this one wait for the answer, so the time is limited even if the agent shows that
        // it is alive.
        match self.receive_within(LISTENING_TIMEOUT)? {
            Message::Listening(listening) => Ok(listening),
            _ => Err(out_of_turn()),
        }
    }

    /// The client: sends the agent the list of hosts to which it has to forward; returns the positions of the
    /// hosts that the agent can't reach, each with the reason.
    ///
    /// # Errors
    /// If the agent goes away.
    pub fn name_next(&mut self, hosts: Vec<ChainNext>) -> Result<Vec<(u8, String)>, TransferError> {
        let places: Vec<_> = hosts.iter().map(|host| host.place).collect();
        self.send(&Message::Next(hosts))?;
        let mut failed = Vec::new();
        for place in places {
            match (self.answer_to_connect_back()?, &mut self.chaining) {
                (Some(why), _) => failed.push((place, super::printable(&why))),
                (None, Some(Chaining::Client { next, .. })) => next.push(place),
                (None, _) => {}
            }
        }
        Ok(failed)
    }

    /// The client of the first host: connects to the host; returns `None` on success, else the reason for the
    /// failure.
    ///
    /// # Errors
    /// If the agent goes away, or the user interrupts.
    pub fn reach_first(
        &mut self,
        there: &Listening,
        interfaces: &Interfaces,
        clear: bool,
    ) -> Result<Option<String>, TransferError> {
        self.make_link(clear)?;
        if self.reach_over(interfaces, there)? { Ok(None) } else { self.reach_directly(there) }
    }

    /// True if this end belongs to a chain or tree.
    pub fn is_chained(&self) -> bool {
        self.chaining.is_some()
    }

    /// The agent's own host in the chain or tree, if its position is known.
    pub fn chain_host(&self) -> Option<Arc<ChainHost>> {
        if let Some(Chaining::Host(host)) = &self.chaining { host.clone() } else { None }
    }

    /// The agent: watches the data from the host before this one. `None` if the source itself is before this
    /// host, or if the user has no limit for silence.
    pub fn supply(&self) -> Option<Supply> {
        Supply::new(self.chain_host()?, self.silence.pulse.longest()?, Instant::now())
    }

    /// The agent: gets its position from the client, listens, and connects to the next hosts. Does nothing if the agent
    /// isn't in a chain or tree.
    ///
    /// # Errors
    /// If the client goes away, or states a position that doesn't exist.
    pub fn join_chain(&mut self, options: &Options) -> Result<(), TransferError> {
        if !self.is_chained() {
            return Ok(());
        }
        let said = self.awaiting("this host's position in the chain", Self::receive)?;
        let Message::Link(link) = said else { return Err(out_of_turn()) };
        (self.peer.public_key, self.cookie) = (link.previous.clone(), link.cookie);
        self.make_link(options.clear)?;
        self.listen_and_report(options, !self.dials_client_alone)?;
        let said = self.awaiting("the list of next hosts", Self::receive)?;
        let Message::Next(hosts) = said else { return Err(out_of_turn()) };
        let relays = self.reach_next(hosts, options.clear)?;
        let host = ChainHost::new(link, relays).ok_or_else(out_of_turn)?;
        self.chaining = Some(Chaining::Host(Some(Arc::new(host))));
        Ok(())
    }

    /// Connects to all next hosts at the same time, and sends the client the results.
    fn reach_next(&mut self, hosts: Vec<ChainNext>, clear: bool) -> Result<Vec<ChainRelay>, TransferError> {
        let links = hosts.iter().map(|host| self.link_to(host, clear)).collect::<Result<Vec<_>, _>>()?;
        let (is_alone, interrupted) = (self.dials_client_alone, &*self.interrupted);
        let reached: Vec<_> = thread::scope(|scope| {
            let dial = |(host, link)| scope.spawn(move || dial_next(host, link, is_alone, interrupted));
            let dialling: Vec<_> = hosts.into_iter().zip(links).map(dial).collect();
            let broken = |_| Err("the agent failed while it connected".to_owned());
            dialling.into_iter().map(|thread| thread.join().unwrap_or_else(broken)).collect()
        });
        let mut relays = Vec::new();
        for result in reached {
            let (reached, error) = result.map_or_else(|error| (None, Some(error)), |it| (Some(it), None));
            self.send(&Message::ConnectedBack { error })?;
            let relay = |(host, first)| ChainRelay::new(host, Some(first), self.channel());
            relays.extend(reached.map(relay));
        }
        Ok(relays)
    }

    fn link_to(&self, host: &ChainNext, clear: bool) -> Result<ConnectionConfig, TransferError> {
        let failed = |error| TransferError::Failed(format!("a next host's key can't be used: {error}"));
        let pinned = self.keys.pin(&host.public_key).map_err(failed)?;
        // The connections to the next hosts have a registry of their own, because their failure must not cut this end's
        // other connections.
        Ok(ConnectionConfig { pinned, clear, registry: Registry::default() })
    }

    /// Reports to the caller's function that the agent has given up a host. The agent may give up each host
    /// once, and only hosts that it has reached.
    pub(super) fn next_is_lost(&mut self, lost: LostNext) -> Result<(), TransferError> {
        let Some(Chaining::Client { lost: report, next }) = &mut self.chaining else {
            return Err(out_of_turn());
        };
        let at = next.iter().position(|place| *place == lost.place).ok_or_else(out_of_turn)?;
        next.swap_remove(at);
        report(lost.place, super::printable(&lost.reason));
        Ok(())
    }

    /// The client of a host that isn't the first: counts the source's progress as sent to this host.
    pub fn mirror(&self, source: &Progress) {
        self.meters.local.mirror(source);
    }
}

fn dial_next(
    host: ChainNext,
    link: ConnectionConfig,
    is_alone: bool,
    interrupted: &AtomicBool,
) -> Result<(NextHost, Stream), String> {
    if is_alone {
        return Err(format!("this login may connect only to its client's host; {BY_WHOM}"));
    }
    let ChainNext { place, public_key: _, cookie, candidates, behind } = host;
    let candidates = &candidates[..candidates.len().min(MAX_CANDIDATES)];
    match dial_any(candidates, &cookie, &link, DIAL_TIMEOUT, interrupted) {
        Ok((address, first)) => Ok((NextHost { place, address, cookie, link, behind }, first)),
        Err(None) => Err("it has no address for data".to_owned()),
        Err(Some((address, error))) => Err(format!("the data port {address} can't be reached ({error})")),
    }
}
