//! Answers the sender's offers: what of them the destination doesn't have.

mod existing;
mod times;

use crossbeam_channel::Receiver;
use linerate_wire::control::{MAX_OFFERS, Message, Offered, ProblemKind, Sync, Want};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::channel::Channel;
use crate::journal::Past;
use crate::problem::{TransferError, problem};
use crate::resume;
use crate::root::Directory;
use crate::sink::Shared;
use crate::source::hash;
use existing::{open_existing, repair_mode};
use times::{is_newer, same_time};

/// Compares offers with what is there. One directory is held, since offers come directory by directory.
pub struct Comparer<'a, 'b> {
    shared: &'b Shared<'a>,
    sync: Option<&'b Sync>,
    past: Option<&'b Past>,
    channel: &'b Channel,
    parent: Option<(RelPath, Option<Arc<Directory>>)>,
    buffer: Vec<u8>,
}

/// What is at an entry's place.
struct There {
    parent: Arc<Directory>,
    stat: Stat,
}

impl<'a, 'b> Comparer<'a, 'b> {
    /// Answers on `channel`; without `sync` everything is wanted that no earlier run brought, as `past` tells.
    pub fn new(
        shared: &'b Shared<'a>,
        sync: Option<&'b Sync>,
        past: Option<&'b Past>,
        channel: &'b Channel,
    ) -> Self {
        Self { shared, sync, past, channel, parent: None, buffer: Vec::new() }
    }

    /// Answers offers until there are no more.
    ///
    /// # Errors
    /// Where the sender is gone, or offers what it didn't announce.
    pub fn run(mut self, offers: &Receiver<Vec<Offered>>) -> Result<(), TransferError> {
        for offered in offers {
            if offered.len() > MAX_OFFERS {
                return Err(breach("an offer of too many entries"));
            }
            let wants = offered.iter().map(|offered| self.want(offered)).collect::<Result<_, _>>()?;
            let sent = self.channel.send(&Message::Wanted(wants));
            sent.map_err(|error| TransferError::FarEnd(error.to_string()))?;
        }
        Ok(())
    }

    fn want(&mut self, offered: &Offered) -> Result<Want, TransferError> {
        let entry = &offered.entry;
        let place = self.shared.landing.place(entry);
        let place = place.ok_or_else(|| breach("an offer of what wasn't announced"))?;
        if entry.path.is_root() {
            self.shared.arrived[entry.source as usize].store(true, Ordering::Relaxed);
        }
        let want =
            self.after_earlier_runs(offered, &place).unwrap_or_else(|| self.by_comparison(offered, &place));
        if want == Want::Nothing {
            self.shared.counters.landed.entry(&entry.kind);
            self.shared.counters.unchanged.entry(&entry.kind);
        }
        Ok(want)
    }

    fn after_earlier_runs(&self, offered: &Offered, place: &RelPath) -> Option<Want> {
        resume::want(self.shared, self.past?, offered, place)
    }

    fn by_comparison(&mut self, offered: &Offered, place: &RelPath) -> Want {
        let Some(sync) = self.sync else { return Want::Whole };
        match self.look(place) {
            None => Want::Whole,
            Some(there) => self.compare(sync, offered, place, &there),
        }
    }

    /// `None` where nothing is there, or what is can't be seen: then whoever writes tells why it can't.
    fn look(&mut self, place: &RelPath) -> Option<There> {
        let Some((parent, name)) = place.split() else {
            let top = self.shared.landing.root.top().clone();
            let stat = rustix::fs::fstat(&top).ok()?;
            return Some(There { parent: top, stat });
        };
        if self.parent.as_ref().is_none_or(|(held, _)| *held != parent) {
            let held = self.shared.landing.root.directory(&parent).ok();
            self.parent = Some((parent, held));
        }
        let parent = self.parent.as_ref().and_then(|(_, held)| held.clone())?;
        let stat = parent.stat(name).ok()?;
        Some(There { parent, stat })
    }

    fn compare(&mut self, sync: &Sync, offered: &Offered, place: &RelPath, there: &There) -> Want {
        let entry = &offered.entry;
        let kind = FileType::from_raw_mode(there.stat.st_mode);
        if sync.ignore_existing && !(kind == FileType::Directory && entry.kind == Kind::Directory) {
            return Want::Nothing;
        }
        match (&entry.kind, kind) {
            (Kind::Directory, FileType::Directory) => {
                self.keep_directory(entry, place);
                Want::Nothing
            }
            (Kind::File { size }, FileType::RegularFile) => self.file(sync, offered, *size, place, there),
            (Kind::Symlink { target }, FileType::Symlink) if says(target, place, there) => {
                self.repaired(entry, place, there)
            }
            (Kind::Symlink { .. }, FileType::Symlink) => Want::Whole,
            _ => self.make_way(entry, place, there, kind),
        }
    }

    /// Its mode and times are set when everything below it is there.
    fn keep_directory(&self, entry: &Entry, place: &RelPath) {
        self.shared.keep_directory(place, entry, false);
    }

    fn file(&mut self, sync: &Sync, offered: &Offered, size: u64, place: &RelPath, there: &There) -> Want {
        let entry = &offered.entry;
        if sync.update && is_newer(&there.stat, entry.mtime) {
            return Want::Nothing;
        }
        if !self.has_equal_contents(sync, offered, size, place, there) {
            return Want::Whole;
        }
        self.repaired(entry, place, there)
    }

    /// Contents are equal, and the rest is made so.
    fn repaired(&self, entry: &Entry, place: &RelPath, there: &There) -> Want {
        if let Err(error) = self.repair(entry, place, there) {
            let message = format!("setting the mode or times of what is there failed: {error}");
            let shown = self.shared.landing.root.shown(place);
            (self.shared.problem)(problem(shown, ProblemKind::Failed, message));
        }
        Want::Nothing
    }

    fn has_equal_contents(
        &mut self,
        sync: &Sync,
        offered: &Offered,
        size: u64,
        place: &RelPath,
        there: &There,
    ) -> bool {
        if there.stat.st_size as u64 != size {
            return false;
        }
        if !sync.checksum {
            return same_time(offered.entry.mtime, &there.stat);
        }
        let Some(theirs) = offered.digest else { return false };
        let Ok(file) = open_existing(&there.parent, name(place), &there.stat) else { return false };
        let ours = hash(std::os::fd::AsFd::as_fd(&file), 0, size, &mut self.buffer);
        matches!(ours, Ok(Some(ours)) if ours == theirs)
    }

    /// Of a file with equal contents, sets what else is kept and differs.
    fn repair(&self, entry: &Entry, place: &RelPath, there: &There) -> Result<(), Errno> {
        let mode = self.shared.mode(entry);
        let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
        if has_mode && self.shared.keep.perms && mode.as_raw_mode() != there.stat.st_mode & 0o7777 {
            repair_mode(&there.parent, name(place), &there.stat, mode)?;
        }
        if self.shared.keep.times && !same_time(entry.mtime, &there.stat) {
            let times = crate::temporary::timestamps(entry);
            rustix::fs::utimensat(&there.parent, name(place), &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Something of another kind has the entry's name. A rename replaces it, unless one of the two is a directory.
    fn make_way(&self, entry: &Entry, place: &RelPath, there: &There, kind: FileType) -> Want {
        let flags = match (&entry.kind, kind) {
            (_, FileType::Directory) => AtFlags::REMOVEDIR,
            (Kind::Directory, _) => AtFlags::empty(),
            _ => return Want::Whole,
        };
        // Where it stays in the way, whoever writes the entry tells.
        let _ = rustix::fs::unlinkat(&there.parent, name(place), flags);
        Want::Whole
    }
}

/// True where the link that is there leads to `target`.
fn says(target: &[u8], place: &RelPath, there: &There) -> bool {
    rustix::fs::readlinkat(&there.parent, name(place), Vec::new()).is_ok_and(|says| says.as_bytes() == target)
}

/// The top itself has no name, and is opened as `.`.
fn name(place: &RelPath) -> &OsStr {
    place.split().map_or(OsStr::new("."), |(_, name)| name)
}

fn breach(what: &str) -> TransferError {
    TransferError::FarEnd(format!("the far end breaks the protocol: {what}"))
}
