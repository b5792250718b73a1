//! All that the threads of a receiver share, in four parts: settings, ground, notes and reports.

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
use std::sync::Mutex;

use crate::base::lock::lock;
use crate::net::clock::Counters;
use crate::net::compress::{LongWindow, longest_window};
use crate::receive::admission::Terms;
use crate::receive::commit::{ToCommit, Touched};
use crate::receive::divided::AwaitedPieces;
use crate::receive::journal::{Journal, Past};
use crate::receive::near::Near;
use crate::receive::sink::{Assemblies, FIRST_NAMES, FurtherName, Kept, Older, Resumed};
use crate::receive::spool::Spool;
use crate::tree::landing::Landing;
use crate::tree::metadata::holes;
use crate::tree::metadata::write::MetadataWriter;
use crate::tree::places::Places;
use crate::tree::root::Directory;
use crate::tree::temporary::{Names, timestamps};

/// Files that stay and wait for the sender's digest: more than are offered and under way at a time.
const STANDING: usize = 65_536;

/// One receiving end while a transfer runs.
pub struct Reception<'a> {
    /// The user's options.
    pub settings: Settings,
    /// The destination, and what earlier runs left there.
    pub ground: Ground<'a>,
    /// Notes that are kept between entries.
    pub notes: Notes,
    /// The receivers of results.
    pub reports: Reports<'a>,
}

/// The user's options.
pub struct Settings {
    /// The options by which something may be left alone, if there are any.
    pub leaves: Option<Sync>,
    /// Nothing is to be written.
    pub dry_run: bool,
    /// The data may come compressed, on one stream with this window.
    pub unpacks: Option<LongWindow>,
    /// Changed files come whole: nothing that is kept is compared with.
    pub whole: bool,
    /// Existing files are written into, instead of being replaced.
    pub inplace: bool,
    /// The properties of entries that are kept.
    pub keep: Keep,
    /// Times of last access are kept, and compared.
    pub atimes: bool,
    /// New files are compared with others of similar names.
    pub fuzzy: u8,
    /// Files that are shorter than the sender's get their rest.
    pub append: Appending,
    /// A file gets all its room before anything is written into it.
    pub preallocate: bool,
    /// Zeros become holes.
    pub dig_holes: bool,
    /// Without permissions from the sender, a file that is replaced leaves its own.
    pub leaves_modes: bool,
    /// But for the bits to execute.
    pub executability: bool,
    /// Symbolic links are none of what is kept.
    pub no_links: bool,
    /// Nor are links that lead out of the tree.
    pub safe_links: bool,
    /// The sender reports digests.
    pub digests: bool,
    /// Files of which only some pieces are to come, by their paths at the sender.
    pub divided: HashMap<RelPath, DividedFile>,
    /// The process's mask for new files.
    pub umask: Mode,
}

/// The destination, and what earlier runs left there.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The destination.
    pub landing: &'a Landing,
    /// The directories near the destination.
    pub near: &'a Near,
    /// The sources as the sender announced them.
    pub sources: &'a [Source],
    /// The terms by which entries are judged.
    pub terms: &'a Terms<'a>,
    /// Temporary names.
    pub names: &'a Names<'a>,
    /// Gives what landed its metadata.
    pub writer: &'a MetadataWriter,
    /// Files that earlier runs of the command have left.
    pub past: Option<&'a Past>,
    /// The journal for a later run that resumes.
    pub journal: &'a Journal,
}

/// Notes that are kept between entries.
pub struct Notes {
    /// Large files that several streams bring.
    pub assemblies: Mutex<Assemblies>,
    /// Large files that an earlier run began, and that were announced to the sender.
    pub resumed: Mutex<HashMap<RelPath, Resumed>>,
    /// Pieces that were announced to the sender, by the files' places.
    pub awaited: Mutex<HashMap<RelPath, AwaitedPieces>>,
    /// Older versions of large files, of which chunks may be taken.
    pub older: Older,
    /// Stat of unchanged files whose digest was requested, by their places.
    pub standing: Places<Stat>,
    /// Stat of files that are shorter than the sender's, and get their rest, by their places.
    pub shorter: Places<Stat>,
    /// Directories whose mode or times are set when everything below them is there.
    pub directories: Mutex<Spool<Kept>>,
    /// Directories in which something has changed without the committer.
    pub changed: Mutex<Touched>,
    /// Device and inode of each file that landed under a first name, by its place.
    pub first_names: Places<(u64, u64)>,
    /// Further names, which are made when everything else is there.
    pub further_names: Mutex<Spool<FurtherName>>,
}

/// The receivers of results.
#[derive(Clone)]
pub struct Reports<'a> {
    /// Whole files go to the committer.
    pub finished: Sender<ToCommit>,
    /// This end's counters.
    pub counters: &'a Counters,
    /// Receives problems.
    pub problem: &'a (dyn Fn(Problem) + std::marker::Sync),
    /// Asks the sender for nothing more of a file, by its number.
    pub skip: &'a (dyn Fn(u64) + std::marker::Sync),
}

impl<'a> Reception<'a> {
    /// A reception of which nothing has come.
    pub fn new(settings: Settings, ground: Ground<'a>, reports: Reports<'a>) -> Self {
        Self { settings, notes: Notes::new(ground.landing), ground, reports }
    }

    /// Removes the large files under way, also those with which the next run would resume.
    pub fn discard(&self) {
        lock(&self.notes.assemblies).discard();
        lock(&self.notes.resumed).drain().for_each(|(_, resumed)| resumed.temporary.discard());
    }
}

impl Reception<'_> {
    /// Keeps what has the name, where backups are made.
    ///
    /// # Errors
    /// As [`Backups::keep`](crate::receive::backup::Backups::keep).
    pub fn keep_backup(&self, place: &RelPath, parent: &Directory, name: &OsStr) -> Result<(), Errno> {
        let Some(backups) = &self.ground.near.backups else { return Ok(()) };
        backups.keep(place, parent.as_fd(), name, self.reports.problem)
    }

    /// Keeps a copy of a file that is written into, where backups are made.
    pub fn copy_backup(&self, place: &RelPath, parent: &Directory, name: &OsStr) -> Result<(), Errno> {
        let Some(backups) = &self.ground.near.backups else { return Ok(()) };
        backups.copy(place, parent.as_fd(), name, self.reports.problem)
    }
}

impl Settings {
    /// The settings of `options`, in a process that had the mask `umask`.
    pub fn new(options: &Options, umask: Mode) -> Self {
        let sync = options.sync.as_ref();
        Self {
            leaves: sync.filter(|sync| sync.ignore_existing || sync.update).cloned(),
            dry_run: sync.is_some_and(|sync| sync.dry_run),
            unpacks: (options.compression.level != CompressionLevel::Off)
                .then(|| LongWindow::new(longest_window())),
            leaves_modes: !options.keep.perms && sync.is_some_and(|sync| sync.into),
            executability: options.details.executability && !options.keep.perms,
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

    /// The times that `entry` gets, if it keeps any.
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

    /// Takes all the room of `file`, where that is asked for. Without it the file is as good: what can't be done is left.
    pub fn take_room(&self, file: BorrowedFd<'_>, entry: &Entry) {
        let Kind::File { size: size @ 1.. } = entry.kind else { return };
        if self.preallocate {
            let _ = rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size);
        }
    }

    /// Makes holes of the zeros of a whole file, where that is asked for. Without them the file is as good.
    pub fn dig(&self, file: BorrowedFd<'_>, entry: &Entry) {
        if let (true, Kind::File { size: size @ 1.. }) = (self.dig_holes, &entry.kind) {
            let _ = holes::dig(file, *size, self.preallocate);
        }
    }

    /// Setuid, setgid and sticky bits stay behind unless they were asked for: their meaning belongs to another host's users.
    pub fn mode(&self, entry: &Entry) -> Mode {
        self.mode_within(entry, !self.umask)
    }

    /// The mode of what is made in `parent`, whose default ACL may say what the process's mask does elsewhere; so does that
    /// of a directory that was just made, which has it from its parent.
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

    /// The mode of a file that takes the place, or has the place already, of one with `there`, where permissions aren't kept: who
    /// may read may execute, if anybody may at the sender and nobody could here.
    pub fn mode_over(&self, entry: &Entry, there: Mode) -> Mode {
        let anybody = Mode::XUSR | Mode::XGRP | Mode::XOTH;
        match entry.mode & anybody.as_raw_mode() != 0 {
            _ if !self.executability || !matches!(entry.kind, Kind::File { .. }) => there,
            false => there & !anybody,
            true if there.intersects(anybody) => there,
            true => there | Mode::from_raw_mode((there.as_raw_mode() & 0o444) >> 2),
        }
    }

    /// The mode with which a directory is made: open to this program, whatever mode it gets in the end.
    pub fn created(&self) -> Mode {
        Mode::RWXU | (Mode::from_raw_mode(0o777) & !self.umask)
    }

    /// As [`Self::created`], for a directory that has a default ACL from the one in which it was made.
    pub fn created_as(&self, made: &Directory) -> Mode {
        made.default_permissions().map_or_else(|| self.created(), |most| Mode::RWXU | most)
    }
}

/// The divided files. One that is proven by digests, written into, or stands for something else comes as a whole.
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
            first_names: Places::new(FIRST_NAMES),
            further_names: Mutex::new(Spool::new(landing.root.top())),
        }
    }
}
