//! All that the threads of a sender share.

use linerate_wire::control::{BlockSearch, Problem};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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

/// All that the threads of a sender share.
pub struct Transmission<'a> {
    /// The sources, in their order.
    pub sources: &'a [SourceRoot],
    /// Notes what is removed when all is in place.
    pub removable: Option<Removable>,
    /// This end's counters.
    pub counters: &'a Counters,
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// The user's rate limit.
    pub rate: Option<&'a RateLimit>,
    /// How the data is compressed, if it is.
    pub compressing: Option<Compressing>,
    /// A rate a little below the path's, unless the user wants none.
    pub pace: Option<Pace>,
    /// The ledger of digests, if they are asked for.
    pub digests: Option<Ledger<'a>>,
    /// Large files that are begun, of which the receiver may want nothing more.
    pub under_way: UnderWay,
    /// Parts may end early, for others to bring the rest.
    pub splits: bool,
    /// Where blocks of older versions are looked for.
    pub search: BlockSearch,
    /// Ends the transfer early, and the scan with it.
    pub stop: &'a AtomicBool,
    /// Workers that are to end their streams, since fewer are better.
    pub leave: AtomicU32,
    /// Workers that have not left.
    pub working: AtomicU32,
    /// On which links they are.
    pub links: WorkerLinks,
    /// Large files so far that said that they are empty.
    pub unstated: AtomicU64,
    /// Set where the transfer shares what it reads with others.
    pub member: Option<&'a FanMember>,
    /// Set where what is sent is for several hosts, one behind the other.
    pub chain: Option<&'a Arc<ChainSource>>,
}

impl Transmission<'_> {
    /// Begins a round: no worker is there, and new ones will be.
    pub fn begin_round(&self) {
        self.leave.store(0, Ordering::Release);
        self.working.store(0, Ordering::Release);
        self.links.clear();
        self.compressing.iter().for_each(Compressing::begin_round);
    }

    /// True once for each worker that is to leave; never for the last one, or the last one on its link.
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

    /// True where a worker may leave, as all but the last one may; it counts as gone.
    pub(super) fn lets_go(&self) -> bool {
        let but_the_last = |working: u32| working.checked_sub(1).filter(|left| *left > 0);
        self.working.fetch_update(Ordering::AcqRel, Ordering::Acquire, but_the_last).is_ok()
    }
}
