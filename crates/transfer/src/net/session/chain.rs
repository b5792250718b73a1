//! A session with an agent of a chain: it gets the data from the client or from another agent, and forwards it to the
//! next agent.

use linerate_wire::control::{ChainLink, ChainNext, Cookie, Listening, Message, Options, Progress};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use super::{Client, DIAL_TIME, Meters, Session, job_options, out_of_turn};
use crate::base::problem::{BY_WHOM, TransferError};
use crate::net::chain::{ChainHost, ChainRelay, NextHost};
use crate::net::dial::dial_any;
use crate::net::handshake::ConnectionConfig;
use crate::net::routes::Interfaces;
use crate::net::transport::Registry;

/// The state of the chain at one end of the session.
pub(super) enum Chaining {
    /// At the agent; `None` until the client has stated the agent's position.
    Host(Option<Arc<ChainHost>>),
    /// At the client: the function is called if the next host is lost.
    Client(Arc<dyn Fn(String) + Send + Sync>),
}

impl Session {
    /// The client's session with a host of a chain, up to the agent's first message. `lost` is called if the agent
    /// gives up the next host.
    ///
    /// # Errors
    /// If the far end doesn't speak this protocol or goes away.
    pub fn chained(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        client: Client,
        meters: Meters,
        lost: Arc<dyn Fn(String) + Send + Sync>,
    ) -> Result<Self, TransferError> {
        let Client { job, interrupted, observer, pulse, neighbour: _, interfaces: _, linked: _ } = client;
        pulse.beat();
        let mut session = Self::start(reader, writer, observer, interrupted, meters, pulse)?;
        session.chaining = Some(Chaining::Client(lost));
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

    /// The client's public key, for the first host; and the agent's, for the next host.
    pub fn chain_keys(&self) -> (Vec<u8>, Vec<u8>) {
        (self.keys.public().to_vec(), self.peer.public_key.clone())
    }

    /// The client: sends the agent its position; returns the addresses at which it listens.
    ///
    /// # Errors
    /// If the agent goes away, or sends something else.
    pub fn link(&mut self, link: ChainLink) -> Result<Listening, TransferError> {
        self.peer.cookie = link.cookie;
        self.send(&Message::Link(link))?;
        self.connected = Some(Instant::now());
        self.hear_listening()
    }

    /// The client: sends the agent the next host; `None` if the agent has reached it or there is no next host, else the
    /// reason why not.
    ///
    /// # Errors
    /// If the agent goes away.
    pub fn name_next(&mut self, next: Option<ChainNext>) -> Result<Option<String>, TransferError> {
        let is_named = next.is_some();
        self.send(&Message::Next(next))?;
        if is_named { self.answer_to_connect_back() } else { Ok(None) }
    }

    /// The client of the first host: connects to it; `None` if that worked, else the reason why not.
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

    /// True if this end belongs to a chain.
    pub fn is_chained(&self) -> bool {
        self.chaining.is_some()
    }

    /// The agent's position, if it is known.
    pub fn chain_host(&self) -> Option<Arc<ChainHost>> {
        if let Some(Chaining::Host(host)) = &self.chaining { host.clone() } else { None }
    }

    /// The agent: gets its position, listens, and connects to the next host. Does nothing if it isn't in a chain.
    ///
    /// # Errors
    /// If the client goes away, or states a position that doesn't exist.
    pub fn join_chain(&mut self, options: &Options) -> Result<(), TransferError> {
        if !self.is_chained() {
            return Ok(());
        }
        let said = self.awaiting("its word on the place in the chain", Self::receive)?;
        let Message::Link(link) = said else { return Err(out_of_turn()) };
        (self.peer.public_key, self.cookie) = (link.previous.clone(), link.cookie);
        self.make_link(options.clear)?;
        self.listen_and_tell(options, !self.dials_client_alone)?;
        let said = self.awaiting("its word on the next host of the chain", Self::receive)?;
        let Message::Next(next) = said else { return Err(out_of_turn()) };
        let behind = u32::from(link.hosts).saturating_sub(u32::from(link.place) + 2);
        let relay =
            next.and_then(|next| self.reach_next(next, options.clear, behind).transpose()).transpose()?;
        let host = ChainHost::new(link, relay.map(Arc::new)).ok_or_else(out_of_turn)?;
        self.chaining = Some(Chaining::Host(Some(Arc::new(host))));
        Ok(())
    }

    /// Connects to the next host, and sends the client the result.
    fn reach_next(
        &mut self,
        next: ChainNext,
        clear: bool,
        behind: u32,
    ) -> Result<Option<ChainRelay>, TransferError> {
        let answer = |error: Option<String>| Message::ConnectedBack { error };
        if self.dials_client_alone {
            let error = format!("it connects to no other host than its client's; {BY_WHOM}");
            self.send(&answer(Some(error)))?;
            return Ok(None);
        }
        let failed = |error| TransferError::Failed(format!("the next host's key can't be used: {error}"));
        let pinned = self.keys.pin(&next.public_key).map_err(failed)?;
        // A failure of that connection must not cut this end's connections.
        let link = ConnectionConfig { pinned, clear, registry: Registry::default() };
        match self.dial_next(&next.candidates, &next.cookie, &link) {
            Ok((address, first)) => {
                let next = NextHost { address, cookie: next.cookie, link, behind };
                self.send(&answer(None))?;
                Ok(Some(ChainRelay::new(next, first, self.channel())))
            }
            Err(error) => self.send(&answer(Some(error))).map(|()| None),
        }
    }

    fn dial_next(
        &self,
        candidates: &[SocketAddr],
        cookie: &Cookie,
        link: &ConnectionConfig,
    ) -> Result<(SocketAddr, crate::net::stream::Stream), String> {
        let candidates = &candidates[..candidates.len().min(super::reach::MAX_CANDIDATES)];
        dial_any(candidates, cookie, link, DIAL_TIME, &self.interrupted).map_err(|failed| match failed {
            None => "it has no address for data".to_owned(),
            Some((address, error)) => format!("the data port {address} can't be reached ({error})"),
        })
    }

    /// Passes the reason why the next host is lost to the function that waits for it.
    pub(super) fn next_is_lost(&self, why: &str) -> Result<(), TransferError> {
        let Some(Chaining::Client(lost)) = &self.chaining else { return Err(out_of_turn()) };
        lost(super::printable(why));
        Ok(())
    }

    /// The client of a host that isn't the first: the progress of the source counts as sent to this host.
    pub fn mirror(&self, source: &Progress) {
        self.meters.local.mirror(source);
    }
}
