//! All that the threads of a receiver share, in four parts: settings, ground, notes and reports.

use crossbeam_channel::Sender;
use linerate_wire::control::{Keep, Options, Problem, Source, Sync};
use linerate_wire::entry::Entry;
use linerate_wire::path::RelPath;
use rustix::fs::{Mode, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Mutex;

use crate::base::lock::lock;
use crate::net::clock::Counters;
use crate::receive::admission::Terms;
use crate::receive::commit::{ToCommit, Touched};
use crate::receive::journal::{Journal, Past};
use crate::receive::near::Near;
use crate::receive::sink::{Assemblies, FIRST_NAMES, FurtherName, Kept, Older, Resumed};
use crate::receive::spool::Spool;
use crate::tree::landing::Landing;
use crate::tree::metadata::write::MetadataWriter;
use crate::tree::places::Places;
use crate::tree::root::Directory;
use crate::tree::temporary::Names;

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
    /// Directories on the way to what is listed have no entries of their own.
    pub no_implied: bool,
    /// Existing files are written into, instead of being replaced.
    pub inplace: bool,
    /// The properties of entries that are kept.
    pub keep: Keep,
    /// The sender reports digests.
    pub digests: bool,
    /// The process's mask for new files.
    pub umask: Mode,
}

/// The destination, and what earlier runs left there.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The destination.
    pub landing: &'a Landing,
    /// What is near it.
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
    /// Older versions of large files, of which chunks may be taken.
    pub older: Older,
    /// Stat of unchanged files whose digest was requested, by their places.
    pub standing: Places<Stat>,
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
    /// The errors of link(2) and rename(2).
    pub fn keep_backup(&self, place: &RelPath, parent: &Directory, name: &OsStr) -> Result<(), Errno> {
        self.ground.near.backups.as_ref().map_or(Ok(()), |backups| backups.keep(place, parent.as_fd(), name))
    }
}

impl Settings {
    /// The settings of `options`, in a process that had the mask `umask`.
    pub fn new(options: &Options, umask: Mode) -> Self {
        let sync = options.sync.as_ref();
        Self {
            leaves: sync.filter(|sync| sync.ignore_existing || sync.update).cloned(),
            dry_run: sync.is_some_and(|sync| sync.dry_run),
            no_implied: options.no_implied,
            inplace: sync.is_some_and(|sync| sync.inplace),
            keep: options.keep,
            digests: options.digests,
            umask,
        }
    }

    /// Setuid, setgid and sticky bits stay behind unless they were asked for: their meaning belongs to another host's users.
    pub fn mode(&self, entry: &Entry) -> Mode {
        let bits = if self.keep.special_bits { 0o7777 } else { 0o777 };
        let mode = Mode::from_raw_mode(entry.mode & bits);
        if self.keep.perms { mode } else { mode & !self.umask }
    }

    /// The mode with which a directory is made: open to this program, whatever mode it gets in the end.
    pub fn created(&self) -> Mode {
        Mode::RWXU | (Mode::from_raw_mode(0o777) & !self.umask)
    }
}

impl Notes {
    fn new(landing: &Landing) -> Self {
        Self {
            assemblies: Mutex::default(),
            resumed: Mutex::default(),
            older: Older::default(),
            standing: Places::new(STANDING),
            directories: Mutex::new(Spool::new(landing.root.top())),
            changed: Mutex::default(),
            first_names: Places::new(FIRST_NAMES),
            further_names: Mutex::new(Spool::new(landing.root.top())),
        }
    }
}
