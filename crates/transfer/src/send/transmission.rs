//! All data that the threads of a sender share.

use linerate_wire::control::{BlockSearch, Problem};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::base::problem::TransferError;
use crate::net::chain::ChainSource;
use crate::net::clock::Counters;
use crate::net::pace::Pace;
use crate::net::rate::RateLimit;
use crate::send::compressing::Compressing;
use crate::send::fan::FanMember;
use crate::send::links::WorkerLinks;
use crate::send::removable::Removable;
use crate::send::under_way::UnderWay;
use crate::tree::digest::ledger::Ledger;
use crate::tree::source_root::SourceRoot;

/// All data that the threads of a sender share.
pub struct Transmission<'a> {
    /// The sources, in their order.
    pub sources: &'a [SourceRoot],
    /// Records the entries that are removed after everything is in place.
    pub removable: Option<Removable>,
    /// This end's counters.
    pub counters: &'a Counters,
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// The user's rate limit.
    pub rate: Option<&'a RateLimit>,
    /// How the data is compressed, if it is.
    pub compressing: Option<Compressing>,
    /// Holds the rate slightly below the path's, unless the user switched that off.
    pub pace: Option<Pace>,
    /// The ledger of digests, if they are requested.
    pub digests: Option<Ledger<'a>>,
    /// Large files that were begun; the receiver may report that it needs nothing more of one.
    pub under_way: UnderWay,
    /// Parts may end early, so that other streams send the rest.
    pub splits: bool,
    /// Where blocks of older versions are searched.
    pub search: BlockSearch,
    /// Ends the transfer early, and the scan with it.
    pub stop: &'a AtomicBool,
    /// The number of workers that should end their streams, since fewer are better.
    pub leave: AtomicU32,
    /// Workers that have not left.
    pub working: AtomicU32,
    /// The links of the workers.
    pub links: WorkerLinks,
    /// The number of large files so far whose stated size was 0.
    pub unstated: AtomicU64,
    /// Set if the transfer shares what it reads with others.
    pub member: Option<&'a FanMember>,
    /// Set if the data is for several hosts that forward it.
    pub chain: Option<&'a Arc<ChainSource>>,
}

impl Transmission<'_> {
    /// Begins a round: no workers exist, and new ones will start.
    pub fn begin_round(&self) {
        self.leave.store(0, Ordering::Release);
        self.working.store(0, Ordering::Release);
        self.links.clear();
        self.compressing.iter().for_each(Compressing::begin_round);
    }

    /// Handles the receiver's message that it needs nothing more of a file. It is ignored if the data is for several
    /// hosts, since the others may still need the file.
    ///
    /// # Errors
    /// If nothing of such a file was ever sent.
    pub fn skip(&self, file: u64) -> Result<(), TransferError> {
        if self.chain.is_some() { Ok(()) } else { self.under_way.skip(file) }
    }

    /// True once for each worker that should leave; never for the last worker, or the last worker on its link.
    pub(super) fn is_dropped(&self, link: Option<IpAddr>) -> bool {
        if self.leave.load(Ordering::Acquire) == 0 || !self.links.take(link) {
            return false;
        }
        let one_less = |left: u32| left.checked_sub(1);
        let goes =
            self.leave.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok() && self.lets_go();
        if !goes {
            self.links.add(link);
        }
        goes
    }

    /// True if a worker may leave, as all except the last one may; the worker then counts as gone.
    pub(super) fn lets_go(&self) -> bool {
        let but_the_last = |working: u32| working.checked_sub(1).filter(|left| *left > 0);
        self.working.fetch_update(Ordering::AcqRel, Ordering::Acquire, but_the_last).is_ok()
    }
}
