//! Resumes a transfer from the data that an earlier run of the same command has left.

use crossbeam_channel::{Receiver, RecvTimeoutError};
use linerate_wire::control::{Options, Source, Want};
use linerate_wire::entry::{Kind, Origin};
use linerate_wire::path::RelPath;
use rustix::fs::FileType;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::net::session::Session;
use crate::receive::admission::Admitted;
use crate::receive::journal::{self, Found, Journal, KeyStore, Past, Site, mark, mark_of};
use crate::receive::leftovers;
use crate::receive::near::Near;
use crate::receive::reception::Reception;
use crate::receive::sink::{BLOCK, Resumed};
use crate::tree::bounds::Named;
use crate::tree::landing::Landing;
use crate::tree::stamp::ctime;

/// How long this run waits for an earlier run of the command to end. The earlier run may not yet have noticed that its
/// other end is gone.
const EARLIER_RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the written data of large files is synced to stable storage, so that little is lost if the host
/// fails.
const SETTLE: Duration = Duration::from_secs(5);
/// The range of chunk sizes that this end requests from a sender, in bytes.
const CHUNKS: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;
/// The most large files of earlier runs that are opened before any data for them arrives. Each of these files needs a
/// descriptor.
const MAX_OPEN: usize = 1024;

/// The landing of an unfinished earlier run of the command, if that run created the destination directory. By the usual
/// rules, this run would put its source inside the directory, because the directory now exists.
pub fn landing(destination: &Named, sources: &[Source], options: &Options) -> Option<Landing> {
    // Sources that land under their own names do so whether or not the directory existed before.
    let mirror = options.sync.as_ref().map(|sync| !sync.into);
    let landing =
        Landing::as_new(destination, sources, mirror.unwrap_or(false)).filter(|_| mirror != Some(false))?;
    site(&landing, options)?.has_journal().then_some(landing)
}

fn site(landing: &Landing, options: &Options) -> Option<Site> {
    Site::of(landing.root.top(), options, landing.places(), KeyStore::of_transfer(options))
}

/// The journal of this run, and the records of earlier runs.
pub struct Resume {
    /// The journal of this run.
    pub journal: Journal,
    /// The records of earlier runs.
    pub past: Option<Box<Past>>,
}

impl Resume {
    /// Opens the journal that an earlier run left below `landing`.
    ///
    /// # Errors
    /// If another run of the same command is running at this destination, or the other end is gone.
    pub fn find(session: &mut Session, landing: &Landing, options: &Options) -> Result<Self, TransferError> {
        let begun = Instant::now();
        let Some(site) = site(landing, options) else {
            return Ok(Self { journal: Journal::none(landing.root.top()), past: None });
        };
        let nonce = session.nonce().try_into().unwrap_or_default();
        loop {
            match Journal::find(site.clone(), nonce) {
                Found::Nothing(journal) => {
                    if landing.is_new {
                        journal.make();
                    }
                    return Ok(Self { journal, past: None });
                }
                Found::Past(journal, past) => return Ok(Self { journal, past: Some(past) }),
                Found::Busy if begun.elapsed() > EARLIER_RUN_TIMEOUT => return Err(busy(landing)),
                Found::Busy => session.stand_by()?,
            }
        }
    }

    /// Cleans up after a transfer that has failed. Data from an end that broke the protocol is removed, so
    /// that no run resumes from it. A journal without records is removed too.
    pub fn abandon(&self, landing: &Landing, near: &Near, error: &TransferError) {
        if error.is_breach() {
            self.remove_leftovers(landing, near);
        }
        // The journal of this run is the only record that this run created a directory, so the journal is kept for the
        // next run.
        if (error.is_breach() || self.journal.is_bare()) && !landing.has_new_directory() {
            self.journal.remove();
        }
    }

    /// Cleans up after a complete transfer: removes the journal, and the leftovers of earlier runs that this
    /// run didn't use.
    pub fn finish(self, landing: &Landing, near: &Near) {
        self.remove_leftovers(landing, near);
        self.journal.remove();
    }

    fn remove_leftovers(&self, landing: &Landing, near: &Near) {
        if let Some(past) = &self.past {
            leftovers::remove_of(past, landing, near.temporary.as_deref());
        }
    }
}

fn busy(landing: &Landing) -> TransferError {
    TransferError::Busy(format!(
        "another run of the same command uses {}: wait until that run has ended, or stop it",
        landing.root.shown(&RelPath::root()).display()
    ))
}

/// The answer to an offered entry, if the records of earlier runs contain the entry; otherwise `None`.
pub fn want(shared: &Reception<'_>, past: &Past, admitted: &Admitted<'_>, origin: Origin) -> Option<Want> {
    let (entry, place) = (admitted.entry(), admitted.place());
    let Kind::File { size } = entry.kind else { return None };
    let mark = mark(entry);
    let done = past.done(place, mark_of(entry, origin)).or_else(|| past.done(place, mark));
    if done.is_some_and(|done| is_still_there(shared, done, place, size)) {
        return Some(Want::Nothing);
    }
    if lock(&shared.notes.resumed).len() >= MAX_OPEN {
        return None;
    }
    let earlier = past.partial(place, mark, origin).filter(|earlier| {
        CHUNKS.contains(&earlier.partial.chunk)
            && earlier.partial.chunk < size
            && earlier.partial.size == size
            && (!shared.settings.digests || earlier.partial.chunk.is_power_of_two())
            && (!shared.settings.inplace || earlier.partial.chunk.is_multiple_of(BLOCK))
    })?;
    let parent = place.parent()?;
    let resumed = Resumed::open(earlier, &shared.ground.landing.root.directory(&parent).ok()?)?;
    let want = Want::Missing { chunk: resumed.partial.chunk, present: resumed.present() };
    lock(&shared.notes.resumed).insert(place.clone(), resumed);
    Some(want)
}

/// True if the file that `done` records is still at its place and unchanged.
fn is_still_there(shared: &Reception<'_>, done: journal::Landed, place: &RelPath, size: u64) -> bool {
    let Some((parent, name)) = place.split() else { return false };
    let Ok(parent) = shared.ground.landing.root.directory(&parent) else { return false };
    let Ok(stat) = parent.stat(name) else { return false };
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && shared.ground.journal.covers(&parent)
        && (stat.st_ino, stat.st_size as u64) == (done.inode, size)
        && ctime(&stat) <= done.at
}

/// Periodically syncs the written data of large files to stable storage, until `ended` is closed.
pub fn settle(shared: &Reception<'_>, ended: Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SETTLE) {
        let assemblies: Vec<_> = lock(&shared.notes.assemblies).open().map(Arc::clone).collect();
        assemblies.iter().for_each(|assembly| assembly.settle(shared.ground.journal));
    }
}
