//! What transfers that were cut off have left under temporary names.

use linerate_wire::control::{Message, Problem, ProblemKind};
use linerate_wire::entry::{Entry, Kind, Timestamp};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, OFlags, Stat};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::journal::{self, Past};
use crate::landing::Landing;
use crate::problem::{TransferError, problem};
use crate::root::{Directory, Root};
use crate::temporary::PREFIX;

/// What nobody has locked may still be on its way to its name: only what is older is left over.
const YOUNG: Duration = Duration::from_secs(60);

/// Something that was left.
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// It is a journal: the command can be run again to go on.
    pub journal: bool,
}

/// Removes what the runs in `past` left below the places of `landing`.
pub fn remove_of(past: &Past, landing: &Landing) {
    remove_partials(past, landing);
    let ours = |name: &[u8]| nonce(name).is_some_and(|nonce| past.nonces.contains(&nonce));
    for place in landing.places() {
        // A source that lands in the root itself, or is a file in it, leaves things there.
        let (top, deep) = match landing.root.directory(&place) {
            Ok(_) => (place, true),
            Err(_) => (RelPath::root(), false),
        };
        walk(&landing.root, top, deep, &mut |parent, _, name| {
            if ours(name) {
                // One that stays is listed by `linerate clean`.
                let _ = parent.take_away(name);
            }
        });
    }
}

/// Removes the partial files that earlier runs began.
pub fn remove_partials(past: &Past, landing: &Landing) {
    for partial in past.partials() {
        let Some((parent, _)) = partial.place.split() else { continue };
        let Ok(parent) = landing.root.directory(&parent) else { continue };
        if partial.reopen(&parent).is_ok() {
            // One that stays is listed by `linerate clean`.
            let _ = parent.take_away(&partial.name[..]);
        }
    }
}

/// Lists what was left below the directory `written`, and removes it where `remove` is set. What a transfer under way
/// holds is passed over. `tell` is told what can't be removed.
///
/// # Errors
/// Where the directory can't be opened.
pub fn clean(
    written: &[u8],
    remove: bool,
    mut each: impl FnMut(&Leftover),
    mut tell: impl FnMut(Problem),
) -> Result<(), TransferError> {
    let top = Path::new(OsStr::from_bytes(written));
    let root = Root::open(top)
        .map_err(|error| TransferError::Arguments(format!("{} can't be opened: {error}", top.display())))?;
    let live = live_nonces(&root);
    walk(&root, RelPath::root(), true, &mut |parent, at, name| {
        let Some(held) = Candidate::look(parent, name, &live) else { return };
        let Ok(path) = at.join(name) else { return };
        let path = root.shown(&path);
        if remove && let Err(error) = rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            return tell(problem(path, ProblemKind::Failed, format!("removing it failed: {error}")));
        }
        each(&Leftover { path, size: held.size, journal: held.journal });
    });
    Ok(())
}

impl Leftover {
    /// As the client is told.
    pub fn told(&self) -> Message {
        let (path, time) = (RelPath::root(), Timestamp::default());
        let kind = Kind::File { size: self.size };
        let entry = Entry { source: 0, path, kind, mode: 0, mtime: time, atime: time, extra: None };
        Message::Listed { path: self.path.as_os_str().as_bytes().to_vec(), entry }
    }
}

/// What the temporary names of transfers under way hold: of those that have a journal.
fn live_nonces(root: &Root) -> HashSet<[u8; 8]> {
    let mut live = HashSet::new();
    walk(root, RelPath::root(), true, &mut |parent, _, name| {
        if is_journal(name) && journal::is_busy(parent, OsStr::from_bytes(name)) {
            live.extend(journal::nonces(parent, OsStr::from_bytes(name)).last());
        }
    });
    live
}

/// Something with a temporary name that nobody needs.
struct Candidate {
    size: u64,
    journal: bool,
    /// The lock is held until it is removed, so that nobody begins to use it.
    #[expect(dead_code, reason = "held for its lock")]
    lock: Option<OwnedFd>,
}

impl Candidate {
    fn look(parent: &Directory, name: &[u8], live: &HashSet<[u8; 8]>) -> Option<Self> {
        let journal = is_journal(name);
        if !journal && nonce(name).is_none_or(|nonce| live.contains(&nonce)) {
            return None;
        }
        let name = OsStr::from_bytes(name);
        let stat = parent.stat(name).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let lock = if is_file { Some(try_lock(parent, name)?) } else { None };
        let young = !is_file && age(&stat) < YOUNG;
        (!young).then_some(Self { size: stat.st_size as u64, journal, lock })
    }
}

/// None where somebody has it, or it can't be told.
fn try_lock(parent: &Directory, name: &OsStr) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(parent, name, flags, rustix::fs::Mode::empty()).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

fn age(stat: &Stat) -> Duration {
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
    SystemTime::now().duration_since(changed).unwrap_or_default()
}

fn is_journal(name: &[u8]) -> bool {
    let key = name.strip_prefix(journal::prefix().as_bytes());
    key.is_some_and(|key| key.len() == 32 && key.iter().all(u8::is_ascii_hexdigit))
}

/// The part of a temporary name that all of one transfer have in common.
fn nonce(name: &[u8]) -> Option<[u8; 8]> {
    let rest = name.strip_prefix(PREFIX.as_bytes())?;
    let (nonce, number) = (rest.get(..16)?, rest.get(16..)?.strip_prefix(b".")?);
    let is_hex = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_hexdigit);
    if !is_hex(nonce) || !is_hex(number) {
        return None;
    }
    let digits = std::str::from_utf8(nonce).ok()?;
    u64::from_str_radix(digits, 16).ok().map(u64::to_be_bytes)
}

type Each<'a> = &'a mut dyn FnMut(&Directory, &RelPath, &[u8]);

/// Shows every temporary name below `top`, through no link. What can't be read is passed over.
fn walk(root: &Root, top: RelPath, deep: bool, each: Each<'_>) {
    let mut waiting = vec![top];
    while let Some(at) = waiting.pop() {
        let Ok(directory) = root.directory(&at) else { continue };
        let Ok(listing) = Dir::read_from(&*directory) else { continue };
        for entry in listing.flatten() {
            let name = entry.file_name().to_bytes();
            if name.starts_with(PREFIX.as_bytes()) {
                each(&directory, &at, name);
            } else if deep && name != b"." && name != b".." && is_directory(&directory, &entry) {
                waiting.extend(at.join(name).ok());
            }
        }
    }
}

fn is_directory(parent: &Directory, entry: &rustix::fs::DirEntry) -> bool {
    match entry.file_type() {
        FileType::Directory => true,
        FileType::Unknown => parent.has_directory(OsStr::from_bytes(entry.file_name().to_bytes())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_ours() {
        assert_eq!(
            nonce(b".linerate.0123456789abcdef.1f"),
            Some([1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef])
        );
        for other in [
            &b".linerate.0123456789abcdef"[..],
            b".linerate.0123456789abcdef.",
            b".linerate.0123456789abcdeg.1",
            b".linerate.0123456789abcdef.1 ",
            b".linerate.+123456789abcdef.1",
            b".linerate.notes",
            b"linerate.0123456789abcdef.1",
        ] {
            assert_eq!(nonce(other), None, "{}", String::from_utf8_lossy(other));
        }
        assert!(is_journal(b".linerate.journal.0123456789abcdef0123456789abcdef"));
        assert!(!is_journal(b".linerate.journal.mine") && !is_journal(b".linerate.0123456789abcdef.1"));
    }
}
