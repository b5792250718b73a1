//! The data that all threads of a sender share.

use linerate_wire::control::{BlockSearch, Problem};
use linerate_wire::entry::Entry;
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
use crate::send::removable::Removable;
use crate::send::under_way::UnderWay;
use crate::send::worker_links::WorkerLinks;
use crate::tree::digest::ledger::Ledger;
use crate::tree::source_root::SourceRoot;

/// The data that all threads of a sender share.
pub struct Transmission<'a> {
    /// The sources, in their order.
    pub sources: &'a [SourceRoot],
    /// Records the entries to remove after everything is in place (`--remove-source-files`).
    pub removable: Option<Removable>,
    /// This end's counters.
    pub counters: &'a Counters,
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// Called for each file that was sent, if changes are reported.
    pub moved: Option<&'a (dyn Fn(&Entry) + Sync)>,
    /// The user's rate limit.
    pub rate: Option<&'a RateLimit>,
    /// The settings for compression, unless data is never compressed.
    pub compressing: Option<Compressing>,
    /// Holds the rate slightly below the path's rate; `None` if the user switched that off or limits the rate, or if
    /// both ends are in one process.
    pub pace: Option<Pace>,
    /// The digests of files, if digests are requested.
    pub digests: Option<Ledger<'a>>,
    /// Large files that were begun. The receiver may request that no more bytes of such a file are sent.
    pub under_way: UnderWay,
    /// True if a part may end early, so that other streams send the rest.
    pub splits: bool,
    /// The offsets at which blocks of older versions are searched.
    pub search: BlockSearch,
    /// Set to end the transfer, and the scan with it, early.
    pub stop: &'a AtomicBool,
    /// The number of workers that should end their streams, because fewer streams are better.
    pub leave: AtomicU32,
    /// The number of workers that have not left.
    pub working: AtomicU32,
    /// The number of workers on each link.
    pub links: WorkerLinks,
    /// The number of large files so far whose stated size was 0.
    pub unstated: AtomicU64,
    /// Set if the transfer shares the bytes that it reads with other transfers.
    pub member: Option<&'a FanMember>,
    /// Set if the data is sent to several hosts that forward it.
    pub chain: Option<&'a Arc<ChainSource>>,
}

impl Transmission<'_> {
    /// Prepares for a round, when no workers exist yet.
    pub fn begin_round(&self) {
        self.leave.store(0, Ordering::Release);
        self.working.store(0, Ordering::Release);
        self.links.clear();
        self.compressing.iter().for_each(Compressing::begin_round);
    }

    /// Handles the receiver's request to send no more of a file. If the data is for several hosts, the request is
    /// ignored, because the other hosts may still need the file.
    ///
    /// # Errors
    /// If no part of such a file was ever sent.
    pub fn skip(&self, file: u64) -> Result<(), TransferError> {
        if self.chain.is_some() { Ok(()) } else { self.under_way.skip(file) }
    }

    /// Whether the calling worker should end its stream. True once for each worker that should leave, but
    /// never for the last worker or the last worker on its link.
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

    /// Whether the calling worker may leave: true for all except the last worker. The worker then counts as
    /// gone.
    pub(super) fn lets_go(&self) -> bool {
        let but_the_last = |working: u32| working.checked_sub(1).filter(|left| *left > 0);
        self.working.fetch_update(Ordering::AcqRel, Ordering::Acquire, but_the_last).is_ok()
    }
}
