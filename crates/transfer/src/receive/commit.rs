//! Gives finished files their real names, in groups: first the group's contents are written to stable storage, and then
//! each file is renamed. So even a power failure never leaves half a file under its real name.

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use linerate_wire::control::{Problem, ProblemKind};
use linerate_wire::entry::Kind;
use linerate_wire::path::RelPath;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::problem::problem;
use crate::base::several::Several;
use crate::net::clock::Counters;
use crate::receive::backup::BACKUP_ADVICE;
use crate::receive::delayed::Delayed;
use crate::receive::journal::{Done, Journal, Mark};
use crate::receive::near::Near;
use crate::receive::proof::{Proof, Verifier};
use crate::receive::sink::OF_A_MOUNT;
use crate::tree::landing::Landing;
use crate::tree::root::Directory;
use crate::tree::temporary::{Names, Temporary};

/// A group of this many entries is committed at once, because each entry may hold a file open.
const GROUP: usize = 256;
/// A group whose files have this many bytes is committed at once.
const GROUP_BYTES: u64 = 256 << 20;
/// A group whose files have this many bytes is committed if no more files are waiting.
const WORTH_BYTES: u64 = 16 << 20;
/// A group of this age is committed if no more files are waiting, so that little is lost if the process is
/// killed. While slow storage commits a group, more files arrive, so the next group becomes larger.
const WORTH_AGE: Duration = Duration::from_millis(50);
/// The age that replaces `WORTH_AGE` if contents are read back. Several threads read back, and they need more files at
/// a time to be busy.
const PROVEN_AGE: Duration = Duration::from_millis(500);
/// Up to this number of files are synced one by one. For more files, the whole file system is synced.
const FEW: usize = 8;

/// A complete entry that isn't a directory or a hard link, with its metadata set.
pub struct Finished {
    /// The entry under its temporary name.
    pub temporary: Temporary,
    /// The entry's place below the landing's root.
    pub place: RelPath,
    /// The name that the entry will get.
    pub name: OsString,
    /// The entry's kind.
    pub kind: Kind,
    /// The entry's path as the user would write it, for messages.
    pub shown: PathBuf,
    /// The sender's digest of the contents; only for files, and only if digests are sent.
    pub proof: Option<Proof>,
    /// The path by which the user knows the file, if the file is reported when it is in place.
    pub reported: Option<RelPath>,
    /// The place and the mark of the entry for the journal's record, if the journal records it.
    pub journalled: Option<(RelPath, Mark)>,
}

/// A message from a worker or the receiver's thread to the committer.
pub enum ToCommit {
    /// Complete files, several at once: waking the committer for each file costs more than renaming it.
    Whole(Vec<Finished>),
    /// Commit all files that have arrived, then send an answer.
    Settle(Sender<()>),
    /// All files have arrived.
    End,
    /// The transfer has failed: commit the complete files, and remove those with temporary names that wait because of
    /// `--delay-updates`.
    Abandon,
}

/// Syncs, verifies, records and renames groups of files.
pub struct Committer<'a> {
    /// The counters of this end.
    pub counters: &'a Counters,
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + Sync),
    /// The journal, in which the committer records files after it has renamed them to their real names.
    pub journal: &'a Journal,
    /// Reads files back before they get their names.
    pub verifier: Option<&'a Verifier<'a>>,
    /// Called for each file that has got its name, if its digest is known.
    pub proven: &'a (dyn Fn(&Proof) + Sync),
    /// Called for each file that has got its name, or waits for its name because of `--delay-updates`, if changes are
    /// reported.
    pub moved: Option<&'a (dyn Fn(&RelPath) + Sync)>,
    /// Makes temporary names.
    pub names: &'a Names<'a>,
    /// The landing at the destination.
    pub landing: &'a Landing,
    /// The directories near the destination: for entries that are replaced, and for complete files that wait.
    pub near: &'a Near,
}

#[derive(Default)]
struct Group {
    entries: Vec<Finished>,
    bytes: u64,
    since: Option<Instant>,
}

/// Directories that must be synced, because their entries have changed. After the first `FEW` directories, a directory
/// is added only if the set has none on the same device.
#[derive(Default)]
pub struct Touched {
    directories: HashMap<usize, Arc<Directory>>,
    /// True if the metadata of entries in these directories has changed, so that their whole file systems must be
    /// synced.
    has_other_metadata: bool,
}

impl Committer<'_> {
    /// Commits the files that arrive until the end, and returns the directories that have changed.
    ///
    /// # Errors
    /// A message if the storage reports that it lost data.
    pub fn run(&self, finished: Receiver<ToCommit>) -> Result<Touched, String> {
        let age = if self.verifier.is_some() { PROVEN_AGE } else { WORTH_AGE };
        let mut group = Group::default();
        let (mut touched, mut naming) = (Touched::default(), Several::default());
        let delayed = Delayed::new(self);
        loop {
            match finished.recv_timeout(group.patience(age)) {
                Ok(ToCommit::Whole(entries)) => {
                    entries.into_iter().for_each(|entry| group.add(entry));
                    if group.is_full() || finished.is_empty() && group.is_worth_it(age) {
                        self.commit(&mut group, &mut touched, (&mut naming, &delayed))?;
                    }
                }
                Ok(ToCommit::Settle(settled)) => {
                    self.commit(&mut group, &mut touched, (&mut naming, &delayed))?;
                    // The thread that sent this message may no longer wait for the answer.
                    let _ = settled.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.commit(&mut group, &mut touched, (&mut naming, &delayed))?
                }
                Ok(ToCommit::End) => {
                    self.commit(&mut group, &mut touched, (&mut naming, &delayed))?;
                    delayed.release(&mut touched)?;
                    return Ok(touched);
                }
                Ok(ToCommit::Abandon) | Err(RecvTimeoutError::Disconnected) => {
                    // Complete files are committed even after a failure, so that they needn't be sent again. The reason
                    // why the transfer ended is already reported.
                    let _ = self.commit(&mut group, &mut touched, (&mut naming, &delayed));
                    return Ok(touched);
                }
            }
        }
    }

    fn commit(
        &self,
        group: &mut Group,
        touched: &mut Touched,
        (naming, delayed): (&mut Several, &Delayed<'_>),
    ) -> Result<(), String> {
        let group = std::mem::take(group);
        let stored = self.sync_contents(group.entries).inspect_err(|_| self.journal.distrust())?;
        let entries = match self.verifier {
            Some(verifier) => verifier.check(stored),
            None => stored,
        };
        self.journal.look(self.counters.landed.get().bytes);
        entries.iter().for_each(|entry| touched.add(entry.temporary.parent()));
        let done = naming.map(entries, |entry| match delayed.takes(&entry) {
            true => delayed.add(entry),
            false => self.name(entry),
        });
        self.journal.done(done.into_iter().flatten().collect());
        Ok(())
    }

    /// Gives an entry its name; returns its record for the journal, if it has one.
    fn name(&self, mut entry: Finished) -> Option<Done> {
        self.announce(&entry);
        let record = self.record(&mut entry);
        let has_it = self.rename(entry);
        record.filter(|_| has_it)
    }

    /// Writes contents to stable storage, and returns the entries for which that succeeded. If the storage of
    /// a mount below the destination fails, only the entries in that mount fail.
    fn sync_contents(&self, entries: Vec<Finished>) -> Result<Vec<Finished>, String> {
        let one_by_one = entries.len() <= FEW || !syncfs_says_of_losses();
        let (mut devices, mut stored) = (HashMap::new(), Vec::with_capacity(entries.len()));
        for entry in entries {
            let parent = entry.temporary.parent();
            let synced = match one_by_one {
                true => entry.temporary.sync(),
                false => *devices.entry(parent.device).or_insert_with(|| sync_device(parent)),
            };
            match synced {
                Ok(()) => stored.push(entry),
                Err(error) if parent.device == self.landing.root.top().device => {
                    return Err(lost(&format!("writing {}", entry.shown.display()), error));
                }
                Err(error) => {
                    let message = format!("writing the file to stable storage failed: {error}; {OF_A_MOUNT}");
                    (self.problem)(problem(entry.shown, ProblemKind::Failed, message));
                }
            }
        }
        Ok(stored)
    }

    /// Makes sure that the journal exists before a file replaces another. A file that replaces another has a temporary
    /// name for a moment, and the next run must know about this name.
    fn announce(&self, entry: &Finished) {
        let has_no_name = entry.temporary.name().is_empty() && !entry.temporary.is_in_place();
        if has_no_name && !self.journal.takes_done() && entry.temporary.parent().stat(&entry.name).is_ok() {
            self.journal.make();
        }
    }

    fn record(&self, entry: &mut Finished) -> Option<Done> {
        let (place, mark) = entry.journalled.take()?;
        let Kind::File { size } = entry.kind else { return None };
        let inode = entry.temporary.inode().ok().filter(|_| self.journal.covers(entry.temporary.parent()))?;
        Some(Done { place, mark, inode, size })
    }

    /// Renames an entry; true if it now has its name.
    pub(super) fn rename(&self, entry: Finished) -> bool {
        let Finished { temporary, place, name, kind, shown, proof, reported, .. } = entry;
        let parent = temporary.parent().clone();
        if !temporary.is_in_place() && !self.keep_backup(&place, &parent, &name, &shown) {
            return false;
        }
        self.near.partial.iter().for_each(|partial| partial.note_place(&parent));
        let renamed = temporary.rename(&name);
        let has_it = self.named(renamed, &kind, (&parent, &name), shown);
        if has_it {
            proof.iter().for_each(|proof| (self.proven)(proof));
            self.report_moved(reported.as_ref());
            if let (Some(partial), Kind::File { .. }) = (&self.near.partial, &kind) {
                partial.clear(parent.as_fd(), &name);
            }
        }
        has_it
    }

    /// Reports that a file is in place.
    pub(super) fn report_moved(&self, reported: Option<&RelPath>) {
        self.moved.into_iter().for_each(|moved| reported.into_iter().for_each(moved));
    }

    /// Keeps a backup of the entry that is replaced, if backups are requested. If that fails, reports the problem and
    /// returns false.
    pub(super) fn keep_backup(
        &self,
        place: &RelPath,
        parent: &Directory,
        name: &OsStr,
        shown: &Path,
    ) -> bool {
        let backups = self.near.backups.as_ref();
        let kept = backups.map(|backups| backups.keep(place, parent.as_fd(), name, self.problem));
        let Some(Err(error)) = kept else { return true };
        let message = format!("keeping a backup of the replaced entry failed: {error}; {BACKUP_ADVICE}");
        (self.problem)(problem(shown, ProblemKind::Failed, message));
        false
    }

    /// Counts an entry that got its name, and returns true. If the entry didn't get its name, reports the error and
    /// returns false.
    pub(super) fn named(
        &self,
        renamed: Result<(), Errno>,
        kind: &Kind,
        (parent, name): (&Directory, &OsStr),
        shown: PathBuf,
    ) -> bool {
        let message = match renamed {
            Ok(()) => {
                match kind {
                    Kind::File { size } => self.counters.landed.file(*size),
                    Kind::Symlink { .. } => self.counters.landed.symlink(),
                    Kind::Device { .. } | Kind::Fifo | Kind::Socket => self.counters.landed.special(),
                    // Directories and hard links are created by other code, at the end.
                    Kind::Directory | Kind::HardLink { .. } => {}
                }
                return true;
            }
            Err(Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY) if parent.has_directory(name) => {
                "a directory of that name is in the way at the destination".to_owned()
            }
            Err(error) => format!("renaming the temporary file to the final name failed: {error}"),
        };
        (self.problem)(problem(shown, ProblemKind::Failed, message));
        false
    }
}

impl Group {
    fn add(&mut self, entry: Finished) {
        if let Kind::File { size } = entry.kind {
            self.bytes += size;
        }
        self.since.get_or_insert_with(Instant::now);
        self.entries.push(entry);
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= GROUP || self.bytes >= GROUP_BYTES
    }

    fn is_worth_it(&self, age: Duration) -> bool {
        self.bytes >= WORTH_BYTES || self.since.is_some_and(|since| since.elapsed() >= age)
    }

    fn patience(&self, age: Duration) -> Duration {
        match self.since {
            None => Duration::from_secs(3600),
            Some(since) => age.saturating_sub(since.elapsed()),
        }
    }
}

impl Touched {
    /// Records that `directory` has changed.
    pub fn add(&mut self, directory: &Arc<Directory>) {
        let key = Arc::as_ptr(directory) as usize;
        let few = self.directories.len() < FEW;
        if few || !self.directories.values().any(|held| held.device == directory.device) {
            self.directories.insert(key, directory.clone());
        }
    }

    /// Records that the mode, owner, times or attributes of an entry in `directory` have changed.
    pub fn add_metadata(&mut self, directory: &Arc<Directory>) {
        self.has_other_metadata = true;
        self.add(directory);
    }

    /// Adds the directories of `other`.
    pub fn absorb(&mut self, other: &Self) {
        self.has_other_metadata |= other.has_other_metadata;
        other.directories.values().for_each(|directory| self.add(directory));
    }

    /// Writes all these directories to stable storage. `top` is the top directory of the destination; failures of file
    /// systems that are mounted below `top` are passed to `report`.
    ///
    /// # Errors
    /// A message if the destination's own storage reports that it lost data.
    pub fn sync(self, top: &Directory, report: impl Fn(String)) -> Result<(), String> {
        let one_by_one = self.directories.len() < FEW && !self.has_other_metadata;
        let sync: fn(&Directory) -> Result<(), Errno> = if one_by_one { sync_directory } else { sync_device };
        let mut devices = HashSet::new();
        for held in self.directories.values() {
            let synced = if one_by_one || devices.insert(held.device) { sync(held) } else { Ok(()) };
            // This user can't open the directory, so nothing was written into it. Its own metadata are on the same storage.
            let by_top = |error| if held.device == top.device { sync_device(top) } else { Err(error) };
            let synced = match synced {
                Err(error @ (Errno::ACCESS | Errno::PERM)) => by_top(error),
                other => other,
            };
            match synced {
                Err(error) if held.device == top.device => return Err(lost("writing a directory", error)),
                Err(error) => {
                    report(format!("writing a directory to stable storage failed: {error}; {OF_A_MOUNT}"))
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

/// True if syncfs(2) fails when data was lost. Before Linux 5.8, syncfs(2) succeeds even then.
fn syncfs_says_of_losses() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5u32, 8u32)
}

/// Writes the names in a directory, and the directory's own metadata, to stable storage.
fn sync_directory(directory: &Directory) -> Result<(), Errno> {
    let synced = match directory.for_sync() {
        Err(Errno::ACCESS | Errno::PERM) => return sync_device(directory),
        held => held.and_then(rustix::fs::fsync),
    };
    match synced {
        // The file system doesn't store directories, or can't sync them with this call.
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// Syncs the file system that contains a directory. If the directory can't be opened for reading, for example because
/// it belongs to another user, a file without a name is created in it, and the call uses this file instead.
fn sync_device(directory: &Directory) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = |error| rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR).map_err(|_| error);
    rustix::fs::syncfs(directory.for_sync().or_else(file)?)
}

fn lost(doing: &str, error: Errno) -> String {
    format!(
        "{doing} to stable storage failed: {error}; the copy can't be trusted; check the storage, and run the copy again"
    )
}
