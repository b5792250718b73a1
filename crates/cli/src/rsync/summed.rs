//! Lines of changes that have sums of files (`%C`): they wait until all files are in place; then each file is read.

use linerate_transfer::lock::lock;
use linerate_wire::control::Change;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::OFlags;

use super::line::Line;
use super::sums::FileSum;
use super::tops::{Top, sources_of, tops};
use crate::common::spec::Spec;

/// Changes that wait for their lines.
pub struct Summed {
    /// The sum of sent files, and of files that `--checksum` compares.
    kinds: [FileSum; 2],
    compares: bool,
    dry_run: bool,
    tops: Vec<Top>,
    /// The destination, if it is on this host and gets the files.
    destination: Option<PathBuf>,
    held: Mutex<Vec<Change>>,
}

impl Summed {
    /// The sums that `line` asks for.
    pub fn new(line: &Line) -> Self {
        let dry_run = line.sync.dry_run;
        let destination = match line.paths.last().map(|path| Spec::parse(path)) {
            Some(Spec::Local(path)) if !dry_run => Some(path.into()),
            _ => None,
        };
        Self {
            kinds: line.checked.sums(),
            compares: line.sync.checksum,
            dry_run,
            tops: tops(line),
            destination,
            held: Mutex::default(),
        }
    }

    /// Keeps a change until its line is written.
    pub fn hold(&self, change: Change) {
        lock(&self.held).push(change);
    }

    /// The changes that waited, each with its sum.
    pub fn take(&self) -> impl Iterator<Item = (Change, String)> {
        let held = std::mem::take(&mut *lock(&self.held));
        held.into_iter()
            .filter_map(|change| Some((self.sum(&change)?, change)))
            .map(|(sum, change)| (change, sum))
    }

    /// The sum of a change's file, or spaces; `None` if the file didn't arrive.
    fn sum(&self, change: &Change) -> Option<String> {
        let is_sent = matches!(change.item[0], b'<' | b'>');
        let is_file = change.item[0] != b'*' && change.item[1] == b'f';
        let [sent, compared] = self.kinds;
        let kind = if self.compares { compared } else { sent };
        let blank = || " ".repeat(kind.width());
        if !is_file || !is_sent && !self.compares {
            return Some(blank());
        }
        if self.dry_run && !self.compares {
            return Some(if kind == FileSum::None { blank() } else { "0".repeat(kind.width()) });
        }
        let size = change.facts.map(|facts| facts.size);
        let found = self.file(change).and_then(|file| kind.hex(file).ok());
        let sum = found.filter(|(_, length)| size.is_none_or(|size| size == *length)).map(|(sum, _)| sum);
        let comes_here = self.destination.is_some() && is_sent;
        sum.or_else(|| (!comes_here).then(blank))
    }

    /// The file at the destination, otherwise the source.
    fn file(&self, change: &Change) -> Option<File> {
        match &self.destination {
            Some(top) if top.is_dir() => {
                open(&top.join(OsStr::from_bytes(change.path.as_bytes())), OFlags::NOFOLLOW)
            }
            Some(file) => open(file, OFlags::NOFOLLOW),
            None => sources_of(&self.tops, change).find_map(|path| open(&path, OFlags::empty())),
        }
    }
}

/// Opens a regular file; for other kinds of files it doesn't wait for a peer.
fn open(path: &Path, flags: OFlags) -> Option<File> {
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}
