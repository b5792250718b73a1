//! Lines of changes that show checksums of files (`%C`). They wait until all files are in place; then each
//! file is read.

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

/// Changes whose lines aren't printed yet.
pub struct Summed {
    /// The checksum types of sent files, and of files that `--checksum` compares.
    kinds: [FileSum; 2],
    compares: bool,
    dry_run: bool,
    tops: Vec<Top>,
    /// The destination, if it is on this host and files are received there.
    destination: Option<PathBuf>,
    held: Mutex<Vec<Change>>,
}

impl Summed {
    /// Selects the checksum types that `line` asks for.
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

    /// Stores a change until its line is printed.
    pub fn hold(&self, change: Change) {
        lock(&self.held).push(change);
    }

    /// Removes and returns the stored changes, each with its file's checksum.
    pub fn take(&self) -> impl Iterator<Item = (Change, String)> {
        let held = std::mem::take(&mut *lock(&self.held));
        held.into_iter()
            .filter_map(|change| Some((self.sum(&change)?, change)))
            .map(|(sum, change)| (change, sum))
    }

    /// The checksum of a changed file, or spaces if it has none; `None` if the file didn't arrive.
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

    /// Opens the file at the destination or, if that isn't possible, at the source.
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

/// Opens a regular file. A FIFO or another special file is not opened, so the call doesn't block.
fn open(path: &Path, flags: OFlags) -> Option<File> {
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}
