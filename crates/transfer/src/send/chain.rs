//! Several hosts that get the same from each other: the transfer to the first one sends, those to the others follow it.

use linerate_wire::control::{Message, Progress, Totals};
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::chain::ChainSource;
use crate::net::clock::Counters;
use crate::net::session::{Session, out_of_turn};
use crate::send::sender::Sent;

/// Why a host of a chain gets nothing more through it, and the user wants it to get the rest otherwise.
pub(super) const DAMAGED: &str = "files came damaged to its stable storage";

/// What the transfers to the hosts of a chain share.
pub struct ChainLead {
    source: Arc<ChainSource>,
    state: Mutex<LeadState>,
}

#[derive(Default)]
struct LeadState {
    counters: Option<Arc<Counters>>,
    /// All was sent.
    sent: Option<Message>,
    /// From which place on nothing comes any more, and why.
    broken: Option<(usize, String)>,
}

impl ChainLead {
    /// For N hosts.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn new(hosts: usize) -> Result<Arc<Self>, TransferError> {
        Ok(Arc::new(Self { source: Arc::new(ChainSource::new(hosts)?), state: Mutex::default() }))
    }

    /// The keys, and whoever makes marks with them.
    pub fn source(&self) -> &Arc<ChainSource> {
        &self.source
    }

    /// The transfer to the first host begins, with these counters.
    pub fn begins(&self, counters: &Arc<Counters>) {
        lock(&self.state).counters = Some(counters.clone());
    }

    /// It has sent everything, as this message says.
    pub(super) fn has_sent(&self, sent: Message) {
        lock(&self.state).sent = Some(sent);
    }

    /// Nothing comes any more to the hosts from this place on.
    pub fn breaks(&self, place: usize, why: &str) {
        let mut state = lock(&self.state);
        if state.broken.as_ref().is_none_or(|(first, _)| place < *first) {
            state.broken = Some((place, why.to_owned()));
        }
    }

    /// Why nothing comes any more to the host at this place, if that is so.
    pub fn broken(&self, place: usize) -> Option<String> {
        lock(&self.state).broken.as_ref().filter(|(first, _)| *first <= place).map(|(_, why)| why.clone())
    }

    fn progress(&self) -> Option<Progress> {
        let counters = lock(&self.state).counters.clone();
        counters.map(|counters| counters.progress())
    }

    fn sent(&self) -> Option<Message> {
        lock(&self.state).sent.clone()
    }
}

/// The transfer to the host at this place, which gets its data from the one before it: waits until everything is in place there.
///
/// # Errors
/// If the host gives up or goes away, or the chain breaks before it.
pub fn follow(
    session: &mut Session,
    lead: &ChainLead,
    place: usize,
) -> Result<(Sent, Totals), TransferError> {
    let sent = loop {
        let told = hear(session, lead, place)?;
        if told.is_some() {
            return Err(out_of_turn());
        }
        if let Some(sent) = lead.sent() {
            break sent;
        }
    };
    session.send(&sent)?;
    let Message::Sent { totals, streams, .. } = sent else { return Err(out_of_turn()) };
    loop {
        match hear(session, lead, place)? {
            None => {}
            Some(Message::Committed(landed)) => {
                lead.progress().iter().for_each(|progress| session.mirror(progress));
                return Ok((Sent { landed, streams, within: false }, totals));
            }
            Some(Message::Again(_)) => return Err(TransferError::Failed(DAMAGED.into())),
            Some(_) => return Err(out_of_turn()),
        }
    }
}

/// What the host says, but for what it wants nothing more of: the others may.
fn hear(session: &mut Session, lead: &ChainLead, place: usize) -> Result<Option<Message>, TransferError> {
    let heard = session.hear()?;
    if let Some(why) = lead.broken(place) {
        return Err(TransferError::Cut(why));
    }
    lead.progress().iter().for_each(|progress| session.mirror(progress));
    Ok(heard.filter(|message| !matches!(message, Message::Skip { .. })))
}
