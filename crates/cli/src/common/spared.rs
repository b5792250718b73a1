//! Protects files of the user. An option such as `--metrics`, `--manifest`, `--out`, `--snapshot`, `--page`
//! or `--log-file` may name an existing file by mistake, for example if the option's own value was forgotten.
//! Such a file isn't replaced.

use linerate_sys::replace::{directory_of, is_descriptor, is_replaced};
use linerate_transfer::own_files;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::spec::Spec;

/// The number of bytes at the beginning of a file by which its kind is recognised. The first block of a compressed
/// file has up to 128 KiB.
const BEGINNING: u64 = 192 << 10;
/// The advice at the end of this module's messages about files that aren't replaced.
pub const ADVICE: &str = "name another file (is the option's value missing?)";

/// A kind of files that runs write and may replace, such as metrics.
pub struct ReplacedKind {
    /// The name of this kind in messages: "it isn't ...".
    pub name: &'static str,
    /// Recognises a file of this kind by its beginning.
    pub begins: fn(&[u8]) -> bool,
}

impl ReplacedKind {
    /// The reason why a file of this kind can't replace `file`: the file isn't empty, and isn't of this kind.
    /// A link, a fifo or a device is never protected by this rule.
    pub fn refusal(&self, file: &Path) -> Option<String> {
        let bytes = match beginning(file) {
            Ok(bytes) => bytes.filter(|bytes| !bytes.is_empty())?,
            Err(error) => {
                return Some(format!(
                    "the existing file can't be read, so it isn't replaced: {error}; {ADVICE}"
                ));
            }
        };
        let why = || {
            format!(
                "the existing file isn't {}, so it isn't replaced: {ADVICE}, or remove that file",
                self.name
            )
        };
        (!(self.begins)(&bytes)).then(why)
    }

    /// The reason why a file of this kind can't replace `file` in a command with these operands. There are two
    /// reasons: `file` is one of the operands; or `file` is inside a source on this host, and isn't a file of this
    /// kind from an earlier run.
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
            return Some(format!(
                "this file is a source or destination of the command, and would be replaced: {ADVICE}"
            ));
        }
        let is_earlier = beginning(file).ok().flatten().is_some_and(|bytes| (self.begins)(&bytes));
        let has_it = |path: PathBuf| path.canonicalize().is_ok_and(|path| place.starts_with(path));
        let is_in_source = !is_earlier && local(sources).any(has_it);
        is_in_source.then(|| format!("this file is in the source, and would be replaced: {ADVICE}"))
    }
}

/// Protects the file that `option` names until this run replaces it. If another option names the same file, returns a
/// message with that option; but two options may name the same device.
pub fn taken(file: &Path, option: &'static str) -> Option<String> {
    let other = own_files::keep(file, option).err().filter(|_| is_replaced(file))?;
    Some(format!("{other} names the same file; name another file"))
}

/// The reason why no log is appended to `file` in a command with these operands: `file` is one of them.
pub fn log_refusal(file: &Path, sources: &[OsString], destinations: &[OsString]) -> Option<String> {
    let identity = |path: &Path| {
        let there = path.metadata().ok().filter(|there| there.is_file())?;
        Some((there.dev(), there.ino()))
    };
    let own = identity(file).filter(|_| !is_descriptor(file))?;
    let mut operands = local(sources).chain(local(destinations));
    operands
        .any(|path| identity(&path) == Some(own))
        .then(|| format!("this file is a source or destination of the command, not a log: {ADVICE}"))
}

/// The path without links, `.` and `..`; only its last component may still be a link.
pub fn resolved(path: &Path) -> Option<PathBuf> {
    Some(directory_of(path).canonicalize().ok()?.join(path.file_name()?))
}

/// The paths of the operands that are on this host.
fn local(operands: &[OsString]) -> impl Iterator<Item = PathBuf> {
    operands.iter().filter_map(|operand| match Spec::parse(operand) {
        Spec::Local(path) => Some(path.into()),
        Spec::Remote(..) => None,
    })
}

/// The first bytes of a regular file; `None` if no regular file has this name.
fn beginning(file: &Path) -> io::Result<Option<Vec<u8>>> {
    if !file.symlink_metadata().is_ok_and(|there| there.is_file()) {
        return Ok(None);
    }
    // Meanwhile, another user may have put a link or a fifo there.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(file, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(BEGINNING).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
