//! A copy to one host of a chain or tree. The host gets the data from the host before it, and the messages
//! from this host.

use linerate_remote::far_end::FarEnd;
use linerate_transfer::ahead::scan_ahead;
use linerate_transfer::between::addresses::handed_on;
use linerate_transfer::chain::follow;
use linerate_transfer::fan::FanMember;
use linerate_transfer::problem::{Observer, TransferError};
use linerate_transfer::sender::{self, FoundSources, Sharing, Welcome};
use linerate_transfer::session::{Session, check_job};
use linerate_wire::control::{Job, Problem};
use linerate_wire::path::RelPath;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::roll::{FormedChain, RollMember, RollPlace};
use crate::common::failure::Failure;
use crate::common::far::FarSession;
use crate::copying::copy::{Copy, Moved};
use crate::copying::manifest::Landed;
use crate::exit::Code;

/// The reason why a host gets no data, or no more data, through other hosts.
pub enum OutOfChain {
    /// The host isn't in a chain or tree, or the host before it has failed. This process sends the missing data to
    /// the host directly.
    Direct(String),
    /// The copy failed before the host had a position in the chain or tree.
    Outside(Failure),
    /// The copy failed after the host had got its position.
    Inside(Failure),
}

/// The sources and the destination of a copy to one host of a chain or tree.
#[derive(Clone, Copy)]
pub struct ChainedPush<'a> {
    /// The sources.
    pub found: &'a FoundSources,
    /// The destination's host.
    pub host: &'a OsStr,
    /// The path on that host.
    pub destination: &'a [u8],
    /// The member of the fan, which has the rate limit of all copies together.
    pub reading: &'a FanMember,
    /// The counter of bytes that are read for the chain or tree.
    pub read: &'a AtomicU64,
}

impl Copy {
    /// Copies the sources to one host of a chain or tree.
    ///
    /// # Errors
    /// If the host isn't part of the chain or tree, or is no longer part of it.
    pub fn push_chained(&self, push: ChainedPush<'_>, member: &RollMember<'_>) -> Result<Code, OutOfChain> {
        let place = Arc::new(OnceLock::<RollPlace>::new());
        let mut far = self.log_in_chained(push, &place).map_err(OutOfChain::Outside)?;
        let announced = sender::announce(&mut far.session, push.found, &self.task.options);
        let announced = announced.map_err(|error| self.given_up(&mut far.session, error))?;
        if announced.offers {
            let why = "the host may already have some of the data";
            return Err(leave(&mut far.session, why));
        }
        let Some(own) = member.gather(far.session.chain_keys(), self.reporter()) else {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(self.given_up(&mut far.session, TransferError::Interrupted));
            }
            return Err(leave(&mut far.session, "no other host was ready in time to pass the data on"));
        };
        let own = place.get_or_init(|| own);
        let linked = self.link(&mut far.session, own, member);
        let linked = linked.and_then(|()| self.begin(&mut far.session, own, member));
        let done = match linked {
            Ok(()) if own.place == 0 => self.lead(far, push, announced, &own.chain),
            Ok(()) => self.follow(far, push, own),
            Err(error) => Err(self.gave_up(far.session.give_up(error))),
        };
        done.map_err(|failure| {
            let Failure(message, code) = failure.without_advice();
            let chain = &own.chain;
            chain.lead.breaks_behind(own.place, &format!("{} failed: {message}", chain.name(own.place)));
            // The other copies are interrupted too, and this one may be the first to notice.
            if code == Code::Interrupted || self.interrupted.load(Ordering::Relaxed) {
                return OutOfChain::Inside(self.gave_up(TransferError::Interrupted));
            }
            OutOfChain::Direct(message)
        })
    }

    fn log_in_chained(
        &self,
        ChainedPush { host, destination, .. }: ChainedPush<'_>,
        place: &Arc<OnceLock<RollPlace>>,
    ) -> Result<FarSession, Failure> {
        let options = &self.task.options;
        let job = Job::Receive { destination: destination.to_vec(), options: options.clone() };
        check_job(&job)?;
        let far_end = self.task.login.far_end(host, self.task.quiet)?;
        let far_end = FarEnd { patience: self.task.patience, ..far_end };
        let (place, output) = (place.clone(), self.output.clone());
        let lost = Arc::new(move |next: u8, why: String| {
            if let Some(own) = place.get() {
                let (chain, next) = (&own.chain, next.into());
                output.note(&format!(
                    "{} sends no more data to {}: {why}",
                    chain.name(own.place),
                    chain.name(next)
                ));
                chain
                    .lead
                    .breaks(next, &format!("{} stopped sending to this host: {why}", chain.name(own.place)));
            }
        });
        FarSession::chained(&far_end, job, options.timeout, self.near_end(), lost)
    }

    fn given_up(&self, session: &mut Session, error: TransferError) -> OutOfChain {
        OutOfChain::Outside(self.gave_up(session.give_up(error)))
    }

    /// Sends the agent its position, and makes it connect to the hosts to which it forwards.
    fn link(
        &self,
        session: &mut Session,
        own: &RollPlace,
        member: &RollMember<'_>,
    ) -> Result<(), TransferError> {
        let no_place = || TransferError::Failed("the chain has no such position".into());
        let listening = session.link(own.link().ok_or_else(no_place)?)?;
        let mut next = Vec::new();
        for (place, there) in member.listens(own, listening.clone()) {
            let Some(there) = there else {
                self.out_of_reach(own, place, "its copy has ended");
                continue;
            };
            let candidates = handed_on(&there, &listening, self.task.options.ports);
            match Some(candidates).filter(|found| !found.is_empty()).and_then(|found| own.next(place, found))
            {
                Some(named) => next.push(named),
                None => self.out_of_reach(own, place, "that host has no address for data"),
            }
        }
        for (place, why) in session.name_next(next)? {
            self.out_of_reach(own, place.into(), &why);
        }
        if own.place == 0
            && let Some(why) =
                session.reach_first(&listening, &self.task.interfaces, self.task.options.clear)?
        {
            return Err(TransferError::Failed(why));
        }
        self.was_connected.store(true, Ordering::Relaxed);
        member.linked();
        Ok(())
    }

    /// Records that the agent can't reach a host to which it should forward.
    fn out_of_reach(&self, own: &RollPlace, place: usize, why: &str) {
        let (chain, name) = (&own.chain, own.chain.name(place));
        self.output.note(&format!("{} can't connect to {name}: {why}", chain.name(own.place)));
        chain.lead.breaks(place, &format!("{} can't connect to this host: {why}", chain.name(own.place)));
    }

    /// For the first host, waits until all hosts are connected. Then reports the way of the data connection.
    fn begin(
        &self,
        session: &mut Session,
        own: &RollPlace,
        member: &RollMember<'_>,
    ) -> Result<(), TransferError> {
        if own.place == 0 {
            member.all_linked(own);
        }
        self.output.connected();
        let before = own.chain.lead.shape().before(own.place);
        let from =
            before.map_or_else(|| session.route(), |before| format!("from {}", own.chain.name(before)));
        self.output.detail(&format!("data connection: {from}"));
        if self.interrupted.load(Ordering::Relaxed) { Err(TransferError::Interrupted) } else { Ok(()) }
    }

    /// Sends the data for all hosts to the first host.
    fn lead(
        &self,
        far: FarSession,
        ChainedPush { found, destination, reading, read, .. }: ChainedPush<'_>,
        announced: Welcome,
        chain: &FormedChain,
    ) -> Result<Code, Failure> {
        let (options, selection) = (&self.task.options, &self.task.selection);
        let report = |problem: Problem| chain.problem(&problem);
        let known = |source, path: &RelPath, what| self.delivered.known(source, path, what);
        let done = scan_ahead(found, options, selection, &self.meters.local, &report, |ahead| {
            self.transfer(far, true, |session| {
                let sharing = Sharing { member: Some(reading), chain: Some(&chain.lead) };
                let sent = sender::run_announced(session, announced, found, ahead, options, &known, sharing)?;
                let sources = found.iter().map(|found| found.source.name.clone()).collect();
                let place = Landed { sources, within: sent.within, destination };
                let found = self.meters.local.found.get();
                Ok(Moved { landed: sent.landed, sent: found, streams: sent.streams, place })
            })
        });
        read.fetch_add(self.meters.local.payload(), Ordering::Relaxed);
        done
    }

    /// Waits until the host has received all data through the other hosts.
    fn follow(
        &self,
        far: FarSession,
        ChainedPush { found, destination, .. }: ChainedPush<'_>,
        own: &RollPlace,
    ) -> Result<Code, Failure> {
        self.transfer(far, true, |session| {
            let (sent, all) = follow(session, &own.chain.lead, own.place)?;
            let sources = found.iter().map(|found| found.source.name.clone()).collect();
            let place = Landed { sources, within: sent.within, destination };
            Ok(Moved { landed: sent.landed, sent: all, streams: sent.streams, place })
        })
    }
}

/// Ends the session with a host that isn't in a chain or tree.
fn leave(session: &mut Session, why: &str) -> OutOfChain {
    // The agent's answer isn't needed.
    let _ = session.give_up(TransferError::Failed(why.to_owned()));
    OutOfChain::Direct(why.to_owned())
}
