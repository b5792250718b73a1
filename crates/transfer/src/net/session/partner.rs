//! The agent's side of a transfer between two agents, whose data doesn't go to or come from the client.

use linerate_wire::control::{AskedSources, Message, Partner, Tally};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{Session, out_of_turn};
use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::handshake::ConnectionConfig;
use crate::net::stream::Stream;
use crate::net::tls::Handshake;
use crate::net::transport::{Transport, Tunnel};

/// How long a handshake that passes through two ssh logins may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The state of an agent whose data goes to or comes from another agent.
#[derive(Default)]
pub(super) struct Partnership {
    asked: Option<AskedSources>,
    /// The reason why the two agents can't communicate.
    fault: Arc<Mutex<Option<TransferError>>>,
}

impl Partnership {
    pub(super) fn take_fault(&self) -> Result<(), TransferError> {
        lock(&self.fault).take().map_or(Ok(()), Err)
    }
}

impl Session {
    /// True for an agent whose data goes to or comes from another agent.
    pub fn has_partner(&self) -> bool {
        self.partnership.is_some()
    }

    /// The client's request to the agent that sends to this one. Only the first call returns it.
    pub fn take_asked(&mut self) -> Option<AskedSources> {
        self.partnership.as_mut()?.asked.take()
    }

    /// Waits until the client introduces the other agent.
    pub(super) fn meet_partner(&mut self) -> Result<(), TransferError> {
        let Some(partnership) = &self.partnership else { return Ok(()) };
        let fault = partnership.fault.clone();
        let named = self.awaiting("the key of the other host of this copy", Self::receive)?;
        let Message::Partner(Partner { public_key, cookie, asked }) = named else {
            return Err(out_of_turn());
        };
        (self.peer.public_key, self.peer.cookie, self.cookie) = (public_key, cookie, cookie);
        self.control.way.both.store(true, Ordering::Release);
        self.partnership = Some(Partnership { asked, fault });
        Ok(())
    }

    /// Sends the client the figures that only this agent knows.
    pub(super) fn report_tally(&self) -> Result<(), TransferError> {
        if self.partnership.is_none() {
            return Ok(());
        }
        let counters = &self.meters.local;
        self.send(&Message::Tally(Tally {
            cipher: self.cipher.map(str::to_owned),
            turned_away: self.strangers(),
            unchanged: counters.unchanged.get(),
            matched: counters.matched.load(Ordering::Relaxed),
        }))
    }

    /// Sends the two agents' only stream through their control channels, encrypted so that the client can't
    /// read it. When the handshake is complete, the stream is put into the queue of new streams.
    pub(super) fn open_sealed_tunnel(&self, partnership: &Partnership) {
        let (Some(link), dials) = (self.link.clone(), !self.control.way.receives.load(Ordering::Acquire))
        else {
            return;
        };
        let (channel, incoming) = (self.control.channel.clone(), self.control.tunnel.clone());
        let tunnel = Tunnel::new(channel, incoming, self.registry.clone());
        let (arrivals, fault) = (self.arrivals.0.clone(), partnership.fault.clone());
        thread::spawn(move || match seal(tunnel, &link, dials) {
            Ok(stream) => drop(arrivals.send(stream)),
            Err(error) => {
                let why = format!("the data stream through the two logins can't be set up: {error}");
                *lock(&fault) = Some(TransferError::Failed(why));
            }
        });
    }
}

fn seal(tunnel: Tunnel, link: &ConnectionConfig, dials: bool) -> io::Result<Stream> {
    let made = if dials { Handshake::client(&link.pinned) } else { Handshake::server(&link.pinned) };
    let mut tunnel = tunnel.until(Instant::now() + HANDSHAKE_TIMEOUT);
    let (tls, leftover) = made.map_err(io::Error::other)?.run(&mut tunnel)?;
    Ok(Stream::new(Transport::Tunnel(tunnel.for_ever()), (!link.clear).then_some(tls), leftover))
}
