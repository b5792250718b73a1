//! Transfers to several hosts that forward the data to each other. The transfer to the first host sends the
//! data; the transfers to the other hosts only follow its progress.

use linerate_wire::control::{Message, Progress, Totals};
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::base::problem::TransferError;
pub use crate::net::chain::ChainShape;
use crate::net::chain::ChainSource;
use crate::net::clock::Counters;
use crate::net::session::{Session, out_of_turn};
use crate::send::sender::Sent;

/// The reason why a host whose files were damaged gets no more data through other hosts, so that it must get
/// the rest in another way.
pub(super) const DAMAGED: &str = "some files are damaged on its storage";

/// The data that the transfers to all hosts of a chain or tree share.
pub struct ChainLead {
    shape: ChainShape,
    source: Arc<ChainSource>,
    state: Mutex<LeadState>,
}

#[derive(Default)]
struct LeadState {
    counters: Option<Arc<Counters>>,
    /// Set when everything was sent: the message that states this.
    sent: Option<Message>,
    /// The positions of hosts that get no more data in the chain or tree, each with the reason. Hosts behind
    /// them get no more data either.
    broken: Vec<(usize, String)>,
}

impl ChainLead {
    /// A lead for hosts that forward to each other in this shape.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn new(shape: ChainShape) -> Result<Arc<Self>, TransferError> {
        let source = Arc::new(ChainSource::new(shape.hosts())?);
        Ok(Arc::new(Self { shape, source, state: Mutex::default() }))
    }

    /// The shape of the chain or tree.
    pub fn shape(&self) -> ChainShape {
        self.shape
    }

    /// The keys of the hosts, with which the parts' marks are made.
    pub fn source(&self) -> &Arc<ChainSource> {
        &self.source
    }

    /// Records that the transfer to the first host begins, with these counters.
    pub fn begins(&self, counters: &Arc<Counters>) {
        lock(&self.state).counters = Some(counters.clone());
    }

    /// Records that everything was sent, with the message that states this.
    pub(super) fn has_sent(&self, sent: Message) {
        lock(&self.state).sent = Some(sent);
    }

    /// Notes that the host at `place`, and the hosts behind it, get no more data in the chain or tree.
    pub fn breaks(&self, place: usize, why: &str) {
        lock(&self.state).broken.push((place, why.to_owned()));
    }

    /// Notes that the hosts behind the host at `place` get no more data in the chain or tree.
    pub fn breaks_behind(&self, place: usize, why: &str) {
        self.shape.next(place).for_each(|next| self.breaks(next, why));
    }

    /// The reason why the host at this position gets nothing more; `None` if it still gets data.
    pub fn broken(&self, place: usize) -> Option<String> {
        let state = lock(&self.state);
        let above = state.broken.iter().find(|(top, _)| self.shape.is_below(*top, place));
        above.map(|(_, why)| why.clone())
    }

    fn progress(&self) -> Option<Progress> {
        let counters = lock(&self.state).counters.clone();
        counters.map(|counters| counters.progress())
    }

    fn sent(&self) -> Option<Message> {
        lock(&self.state).sent.clone()
    }
}

/// The transfer to the host at this position, which gets its data from the host before it: waits until
/// everything is in place there.
///
/// # Errors
/// If the host gives up or goes away, or gets no more data from the host before it.
pub fn follow(
    session: &mut Session,
    lead: &ChainLead,
    place: usize,
) -> Result<(Sent, Totals), TransferError> {
    let sent = loop {
        let reported = hear(session, lead, place)?;
        if reported.is_some() {
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

/// Handles the host's messages. A message which says that the host needs no more bytes of a file is ignored, because
/// other hosts may need them.
fn hear(session: &mut Session, lead: &ChainLead, place: usize) -> Result<Option<Message>, TransferError> {
    let heard = session.hear()?;
    if let Some(why) = lead.broken(place) {
        return Err(TransferError::Cut(why));
    }
    lead.progress().iter().for_each(|progress| session.mirror(progress));
    Ok(heard.filter(|message| !matches!(message, Message::Skip { .. })))
}
