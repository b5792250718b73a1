//! All data that the threads of a receiver share, in four parts: settings, ground, notes and reports.

use crossbeam_channel::Sender;
use linerate_wire::control::{
    Appending, CompressionLevel, DividedFile, Keep, Options, Problem, Source, Sync,
};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{FallocateFlags, Mode, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use crate::base::lock::lock;
use crate::net::clock::Counters;
use crate::net::compress::{LongWindow, longest_window};
use crate::receive::admission::Terms;
use crate::receive::commit::{ToCommit, Touched};
use crate::receive::divided::AwaitedPieces;
use crate::receive::journal::{Journal, Past};
use crate::receive::near::Near;
use crate::receive::sink::{Assemblies, FIRST_NAMES, FurtherName, Kept, Older, Resumed, SharedRoom};
use crate::receive::spool::Spool;
use crate::tree::landing::Landing;
use crate::tree::metadata::holes;
use crate::tree::metadata::write::MetadataWriter;
use crate::tree::own_files;
use crate::tree::places::Places;
use crate::tree::root::Directory;
use crate::tree::temporary::{Names, timestamps};

/// The most unchanged files that may wait for the sender's digest. More can't be offered or in transfer at a
/// time.
const STANDING: usize = 65_536;

/// The state of one receiving end while a transfer runs.
pub struct Reception<'a> {
    /// The user's options.
    pub settings: Settings,
    /// The destination, and the leftovers of earlier runs there.
    pub ground: Ground<'a>,
    /// Notes that are kept from one entry to the next.
    pub notes: Notes,
    /// The channels and callbacks for reports.
    pub reports: Reports<'a>,
}

/// The user's options.
pub struct Settings {
    /// True if entries on other file systems than the destination's aren't deleted.
    pub one_file_system: bool,
    /// True if the sender removes each of its files after the file has arrived.
    pub removes_sources: bool,
    /// The command's rules, if existing entries may stay unchanged because of `--ignore-existing` or `--update`;
    /// otherwise `None`.
    pub leaves: Option<Sync>,
    /// True if nothing is written (dry run).
    pub dry_run: bool,
    /// Set if the data may be compressed; one stream may use this long window.
    pub unpacks: Option<LongWindow>,
    /// True if changed files are sent whole, without a comparison with the existing files.
    pub whole: bool,
    /// True if existing files are changed in place instead of being replaced.
    pub inplace: bool,
    /// The properties of entries that are kept, such as times and owners.
    pub keep: Keep,
    /// True if access times are kept and compared.
    pub atimes: bool,
    /// The level of `--fuzzy`: 0 means off; from 1 on, a new file is compared with a file of a similar name in its
    /// directory; from 2 on, also with files of other trees.
    pub fuzzy: u8,
    /// Whether files that are shorter than the sender's get the missing bytes appended.
    pub append: Appending,
    /// True if all space of a file is allocated before anything is written into it.
    pub preallocate: bool,
    /// True if blocks of zeros become holes.
    pub dig_holes: bool,
    /// True if a new file gets the mode of the file that it replaces. This is so if the sender's permissions aren't
    /// kept, and the sources land under their own names, as with rsync.
    pub leaves_modes: bool,
    /// True if a new file gets the mode of the file that it replaces, except that the execute bits follow the sender's
    /// file (`--executability`).
    pub executability: bool,
    /// True if only entries on a list of files are sent.
    pub listed: bool,
    /// True if all sources land under their own names, as with rsync. A directory that several sources contain then
    /// gets the first source's metadata.
    pub into: bool,
    /// True if symbolic links aren't kept.
    pub no_links: bool,
    /// True if links that point outside the tree aren't kept.
    pub safe_links: bool,
    /// True if the sender reports the digests of files.
    pub digests: bool,
    /// Files of which this transfer sends only some pieces, by their paths at the sender.
    pub divided: HashMap<RelPath, DividedFile>,
    /// The umask that the process had before it was cleared.
    pub umask: Mode,
}

/// The destination, and the leftovers of earlier runs there.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The landing at the destination.
    pub landing: &'a Landing,
    /// The directories near the destination.
    pub near: &'a Near,
    /// The sources as the sender announced them.
    pub sources: &'a [Source],
    /// The terms by which entries are admitted.
    pub terms: &'a Terms<'a>,
    /// Makes temporary names.
    pub names: &'a Names<'a>,
    /// Sets the metadata of entries.
    pub writer: &'a MetadataWriter,
    /// The files that earlier runs of the command have left, as their journal records them.
    pub past: Option<&'a Past>,
    /// The journal of this run, from which a later run can resume.
    pub journal: &'a Journal,
}

/// Data that is kept for later steps of the transfer.
pub struct Notes {
    /// Large files whose parts arrive on several streams.
    pub assemblies: Mutex<Assemblies>,
    /// Large files that an earlier run began, and whose present chunks were reported to the sender.
    pub resumed: Mutex<HashMap<RelPath, Resumed>>,
    /// Divided files whose present pieces were reported to the sender, by the files' places.
    pub awaited: Mutex<HashMap<RelPath, AwaitedPieces>>,
    /// Older versions of large files, from which chunks may be copied.
    pub older: Older,
    /// The stat of each unchanged file whose digest was requested from the sender, by the file's place.
    pub standing: Places<Stat>,
    /// The stat of each file that is shorter than the sender's and gets the missing bytes, by the file's place.
    pub shorter: Places<Stat>,
    /// Directories whose mode or times are set after everything below them is in place.
    pub directories: Mutex<Spool<Kept>>,
    /// Directories that were changed by other code than the committer.
    pub changed: Mutex<Touched>,
    /// The files and batches that are being received, which share the free space at the destination.
    pub room: Arc<SharedRoom>,
    /// The device and inode numbers of each file that landed under a first name, by its place.
    pub first_names: Places<(u64, u64)>,
    /// Further hard links, which are created after everything else is in place.
    pub further_names: Mutex<Spool<FurtherName>>,
}

/// The channels and callbacks for reports about a transfer.
#[derive(Clone)]
pub struct Reports<'a> {
    /// The queue of complete files for the committer.
    pub finished: Sender<ToCommit>,
    /// The counters of this end.
    pub counters: &'a Counters,
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + std::marker::Sync),
    /// Called for the reported path of each file that is in place, if changes are reported.
    pub moved: Option<&'a (dyn Fn(&RelPath) + std::marker::Sync)>,
    /// Requests that the sender send no more data of a file; the argument is the file's number.
    pub skip: &'a (dyn Fn(u64) + std::marker::Sync),
}

impl<'a> Reception<'a> {
    /// A reception for which nothing has arrived yet.
    pub fn new(settings: Settings, ground: Ground<'a>, reports: Reports<'a>) -> Self {
        Self { settings, notes: Notes::new(ground.landing), ground, reports }
    }

    /// Removes incomplete large files, including those from which the next run would resume.
    pub fn discard(&self) {
        lock(&self.notes.assemblies).discard();
        lock(&self.notes.resumed).drain().for_each(|(_, resumed)| resumed.temporary.discard());
    }
}

impl Reception<'_> {
    /// If this command itself writes the file at `place` (such as its log): the option that names that file.
    pub fn own_file(&self, place: &RelPath) -> Option<&'static str> {
        own_files::option_of(place.name()?, || self.ground.landing.root.directory(&place.parent()?).ok())
    }

    /// Keeps a backup of the entry `name` in `parent`, if backups are requested.
    ///
    /// # Errors
    /// The errors of [`Backups::keep`](crate::receive::backup::Backups::keep).
    pub fn keep_backup(&self, place: &RelPath, parent: &Directory, name: &OsStr) -> Result<(), Errno> {
        let Some(backups) = &self.ground.near.backups else { return Ok(()) };
        backups.keep(place, parent.as_fd(), name, self.reports.problem)
    }

    /// Keeps a copy of a file that will be changed in place, if backups are requested.
    pub fn copy_backup(&self, place: &RelPath, parent: &Directory, name: &OsStr) -> Result<(), Errno> {
        let Some(backups) = &self.ground.near.backups else { return Ok(()) };
        backups.copy(place, parent.as_fd(), name, self.reports.problem)
    }
}

impl Settings {
    /// The settings of `options`, for a process that had the umask `umask`.
    pub fn new(options: &Options, umask: Mode) -> Self {
        let sync = options.sync.as_ref();
        Self {
            one_file_system: options.one_file_system,
            removes_sources: options.remove_sources,
            leaves: sync.filter(|sync| sync.ignore_existing || sync.update).cloned(),
            dry_run: sync.is_some_and(|sync| sync.dry_run),
            unpacks: (options.compression.level != CompressionLevel::Off)
                .then(|| LongWindow::new(longest_window())),
            listed: options.listed,
            leaves_modes: !options.keep.perms && sync.is_some_and(|sync| sync.into),
            executability: options.details.executability && !options.keep.perms,
            into: sync.is_some_and(|sync| sync.into),
            no_links: options.no_links,
            safe_links: options.safe_links,
            inplace: sync.is_some_and(|sync| sync.inplace),
            whole: sync.is_some_and(|sync| sync.whole),
            keep: options.keep,
            atimes: options.details.atimes,
            append: options.details.placing.append,
            fuzzy: options.details.placing.fuzzy,
            preallocate: options.details.preallocate && (!options.keep.sparse || options.details.dig_holes),
            dig_holes: options.details.dig_holes && options.keep.sparse,
            digests: options.digests,
            divided: divided(options),
            umask,
        }
    }

    /// The times to set on the received `entry`; `None` if times aren't kept.
    pub fn times(&self, entry: &Entry) -> Option<Timestamps> {
        let (times, accessed) =
            (self.keep.times_of(&entry.kind), self.atimes && entry.kind != Kind::Directory);
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
        let mut kept = timestamps(entry);
        if !times {
            kept.last_modification = omitted;
        }
        (times || accessed).then_some(kept)
    }

    /// Allocates all space of `file` in advance, if that is requested. A failure is ignored, because the file becomes
    /// complete even without the allocation.
    pub fn take_room(&self, file: BorrowedFd<'_>, entry: &Entry) {
        let Kind::File { size: size @ 1.. } = entry.kind else { return };
        if self.preallocate {
            let all = || rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size);
            let _ = rustix::io::retry_on_intr(all);
        }
    }

    /// Turns the zeros of a complete file into holes, if that is requested. A failure is ignored, because the contents
    /// are the same without holes.
    pub fn dig(&self, file: BorrowedFd<'_>, entry: &Entry) {
        if let (true, Kind::File { size: size @ 1.. }) = (self.dig_holes, &entry.kind) {
            let _ = holes::dig(file, *size, self.preallocate);
        }
    }

    /// The mode of an entry. Setuid, setgid and sticky bits are removed unless they were requested, because they refer
    /// to another host's users.
    pub fn mode(&self, entry: &Entry) -> Mode {
        self.mode_within(entry, !self.umask)
    }

    /// The mode of an entry that is created in `parent`. If `parent` has a default ACL, the ACL replaces the
    /// process's umask. A directory that was just created may have inherited such an ACL from its parent.
    pub fn mode_in(&self, entry: &Entry, parent: &Directory) -> Mode {
        match self.keep.perms {
            true => self.mode(entry),
            false => self.mode_within(entry, parent.default_permissions().unwrap_or(!self.umask)),
        }
    }

    fn mode_within(&self, entry: &Entry, most: Mode) -> Mode {
        let bits = if self.keep.special_bits { 0o7777 } else { 0o777 };
        let mode = Mode::from_raw_mode(entry.mode & bits);
        if self.keep.perms { mode } else { mode & most }
    }

    /// The mode of a file that replaces, or changes in place, a file with the mode `there`, if permissions aren't kept.
    /// Without `--executability`, the mode is `there`. With it, nobody may execute the file if nobody may execute the
    /// sender's file. If somebody may execute the sender's file but nobody the existing one, everybody who may read the
    /// file may execute it.
    pub fn mode_over(&self, entry: &Entry, there: Mode) -> Mode {
        let anybody = Mode::XUSR | Mode::XGRP | Mode::XOTH;
        match entry.mode & anybody.as_raw_mode() != 0 {
            _ if !self.executability || !matches!(entry.kind, Kind::File { .. }) => there,
            false => there & !anybody,
            true if there.intersects(anybody) => there,
            true => there | Mode::from_raw_mode((there.as_raw_mode() & 0o444) >> 2),
        }
    }

    /// The mode with which a directory is created: its owner has access, no matter which mode the directory
    /// gets at the end.
    pub fn created(&self) -> Mode {
        Mode::RWXU | (Mode::from_raw_mode(0o777) & !self.umask)
    }

    /// The mode with which the directory `made` begins: that of [`Self::created`], except that a default ACL, which
    /// `made` may have inherited from its parent, replaces the umask.
    pub fn created_as(&self, made: &Directory) -> Mode {
        made.default_permissions().map_or_else(|| self.created(), |most| Mode::RWXU | most)
    }
}

/// The divided files. In these cases no file is divided, and all files are received whole: files are verified by
/// digests, existing files are changed in place, files may stand for other kinds of entries (`--fake-super`), or
/// nothing is written (dry run).
fn divided(options: &Options) -> HashMap<RelPath, DividedFile> {
    let may_be = options.sync.as_ref().is_some_and(|sync| !sync.inplace && !sync.dry_run)
        && !options.digests
        && !options.details.fakes.receiver();
    let files = options.details.divided.iter().filter(|file| may_be && file.is_consistent());
    files.map(|file| (file.path.clone(), file.clone())).collect()
}

impl Notes {
    fn new(landing: &Landing) -> Self {
        Self {
            assemblies: Mutex::default(),
            resumed: Mutex::default(),
            awaited: Mutex::default(),
            older: Older::default(),
            standing: Places::new(STANDING),
            shorter: Places::new(STANDING),
            directories: Mutex::new(Spool::new(landing.root.top())),
            changed: Mutex::default(),
            room: Arc::default(),
            first_names: Places::new(FIRST_NAMES),
            further_names: Mutex::new(Spool::new(landing.root.top())),
        }
    }
}
