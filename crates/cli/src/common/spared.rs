//! Files of the user's whose names an option gives to a file of this run (`--metrics`, `--manifest`, `--out`,
//! `--snapshot`, `--page`, `--log-file`), perhaps since the option's own value was forgotten. They stay as they are.

use linerate_sys::replace::{directory_of, is_descriptor, is_replaced};
use linerate_transfer::own_files;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::spec::Spec;

/// More bytes than the beginnings have by which files are known; the first block of a compressed one has up to 128 KiB.
const BEGINNING: u64 = 192 << 10;
/// The advice at the end of each message.
pub const ADVICE: &str = "name another file (the option needs a value of its own)";

/// A kind of files that runs replace.
pub struct ReplacedKind {
    /// In a message: "it isn't ...".
    pub name: &'static str,
    /// True for the beginning of such a file.
    pub begins: fn(&[u8]) -> bool,
}

impl ReplacedKind {
    /// Why a file of this kind can't replace `file`: that isn't empty, and begins as no such file does. A link, a fifo or a
    /// device has no beginning.
    pub fn refusal(&self, file: &Path) -> Option<String> {
        let bytes = match beginning(file) {
            Ok(bytes) => bytes.filter(|bytes| !bytes.is_empty())?,
            Err(error) => return Some(format!("what is there can't be read, and stays: {error}; {ADVICE}")),
        };
        let why = || format!("it isn't {}, and stays as it is: {ADVICE}, or remove this one", self.name);
        (!(self.begins)(&bytes)).then(why)
    }

    /// Why such a file can't replace `file` in a command with these operands: it is one of them, or what a source on this host
    /// has, unless that is such a file of an earlier run.
    pub fn refusal_among(
        &self,
        file: &Path,
        sources: &[OsString],
        destinations: &[OsString],
    ) -> Option<String> {
        if !is_replaced(file) || file.symlink_metadata().is_err() {
            return None;
        }
        let place = resolved(file)?;
        let is_it = |path: &PathBuf| {
            resolved(path).as_ref() == Some(&place) || path.canonicalize().is_ok_and(|path| path == place)
        };
        if local(sources).chain(local(destinations)).any(|path| is_it(&path)) {
            return Some(format!("it is what the command itself names, and would be replaced: {ADVICE}"));
        }
        let is_earlier = beginning(file).ok().flatten().is_some_and(|bytes| (self.begins)(&bytes));
        let has_it = |path: PathBuf| path.canonicalize().is_ok_and(|path| place.starts_with(path));
        let is_in_source = !is_earlier && local(sources).any(has_it);
        is_in_source.then(|| format!("it is in the source, and would be replaced: {ADVICE}"))
    }
}

/// Keeps a file that an option names as it is until this run replaces it. If another option names the same file, that is the
/// result; both may write to the same device.
pub fn taken(file: &Path, option: &'static str) -> Option<String> {
    let other = own_files::keep(file, option).err().filter(|_| is_replaced(file))?;
    Some(format!("{other} names the same file; name another"))
}

/// Why no log is appended to `file`, in a command with these operands: it is one of them.
pub fn log_refusal(file: &Path, sources: &[OsString], destinations: &[OsString]) -> Option<String> {
    let identity = |path: &Path| {
        let there = path.metadata().ok().filter(|there| there.is_file())?;
        Some((there.dev(), there.ino()))
    };
    let own = identity(file).filter(|_| !is_descriptor(file))?;
    let mut operands = local(sources).chain(local(destinations));
    operands
        .any(|path| identity(&path) == Some(own))
        .then(|| format!("it is what the command itself names, and no log: {ADVICE}"))
}

/// A path without links and dots, except that its own last name may be a link.
pub fn resolved(path: &Path) -> Option<PathBuf> {
    Some(directory_of(path).canonicalize().ok()?.join(path.file_name()?))
}

/// The paths of those that are on this host.
fn local(operands: &[OsString]) -> impl Iterator<Item = PathBuf> {
    operands.iter().filter_map(|operand| match Spec::parse(operand) {
        Spec::Local(path) => Some(path.into()),
        Spec::Remote(..) => None,
    })
}

/// The first bytes of a regular file; none if there is no regular file of that name.
fn beginning(file: &Path) -> io::Result<Option<Vec<u8>>> {
    if !file.symlink_metadata().is_ok_and(|there| there.is_file()) {
        return Ok(None);
    }
    // By now another user may have put a link or a fifo there.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(file, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(BEGINNING).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
