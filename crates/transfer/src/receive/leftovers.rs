//! Leftovers of interrupted transfers: files under temporary names.

use linerate_wire::control::{Leftover, LeftoverKind, Problem, ProblemKind};
use linerate_wire::path::RelPath;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Stat};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, SystemTime};

use crate::base::problem::problem;
use crate::receive::journal::{self, Holder, KeyStore, Past};
use crate::tree::landing::Landing;
use crate::tree::root::{Directory, Root};
use crate::tree::temporary::{is_journal, is_reserved, nonce_of};

/// An entry that can't be locked, such as a link, may still be in use for this time. Such an entry counts as a leftover
/// only if it is older.
const YOUNG: Duration = Duration::from_secs(60);

/// Removes the leftovers of the runs in `past`, below the places of `landing` and in `aside`, the directory of
/// temporary files.
pub fn remove_of(past: &Past, landing: &Landing, aside: Option<&Directory>) {
    remove_partials(past, landing);
    let ours = |name: &[u8]| nonce_of(name).is_some_and(|nonce| past.has_run(nonce));
    if let Some(aside) = aside {
        let listing = Dir::read_from(aside).into_iter().flatten().flatten();
        for name in listing.filter(|entry| ours(entry.file_name().to_bytes())) {
            let _ = aside.take_away(name.file_name());
        }
    }
    for place in landing.places() {
        // If a source lands in the root itself, or is a file in the root, its temporary files are in the
        // root.
        let (top, deep) = match landing.root.directory(&place) {
            Ok(_) => (place, true),
            Err(_) => (RelPath::root(), false),
        };
        walk(&landing.root, top, deep, &mut |parent, _, name| {
            if ours(name) {
                // A file that can't be removed is listed by `linerate clean`.
                let _ = parent.take_away(name);
            }
        });
    }
}

/// Removes the large files that earlier runs of the command began and didn't complete.
fn remove_partials(past: &Past, landing: &Landing) {
    for partial in past.partials() {
        let Some(parent) = partial.place.parent() else { continue };
        let Ok(parent) = landing.root.directory(&parent) else { continue };
        if partial.reopen(&parent).is_ok() {
            // A file that can't be removed is listed by `linerate clean`.
            let _ = parent.take_away(partial.name.write());
        }
    }
}

/// Lists the leftovers below the directory `root`, and removes them if `remove` is set. Files of a running
/// transfer are skipped. `each` receives every leftover that exists or was removed, `report` every leftover
/// that can't be removed.
pub fn clean(root: &Root, remove: bool, mut each: impl FnMut(Leftover), mut report: impl FnMut(Problem)) {
    let live = Live::look(root, &KeyStore::of_account());
    walk(root, RelPath::root(), true, &mut |parent, at, name| {
        let Some(held) = Candidate::look(parent, at, name, &live) else { return };
        let Ok(path) = at.join(name) else { return };
        let path = root.shown(&path);
        if remove && let Err(error) = rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            return report(problem(path, ProblemKind::Failed, format!("removing the file failed: {error}")));
        }
        let path = path.into_os_string().into_vec();
        each(Leftover { path, size: held.size, kind: held.kind });
    });
}

/// Identifies the temporary files that running transfers are using, by the transfers' journals.
struct Live {
    /// The nonces in the temporary names of these transfers.
    nonces: HashSet<[u8; 8]>,
    /// The directories of journals from which no nonce could be read. Any temporary file below these
    /// directories may be in use.
    unknown: Vec<RelPath>,
}

impl Live {
    fn look(root: &Root, keys: &KeyStore) -> Self {
        let mut live = Self { nonces: HashSet::new(), unknown: Vec::new() };
        walk(root, RelPath::root(), true, &mut |parent, at, name| {
            if is_journal(name) {
                match journal::holder(parent, OsStr::from_bytes(name), keys) {
                    Holder::Nobody => {}
                    Holder::Run(nonce) => drop(live.nonces.insert(nonce)),
                    Holder::Somebody => live.unknown.push(at.clone()),
                }
            }
        });
        live
    }

    /// True if a running transfer may be using the file with this temporary name in the directory `at`.
    fn may_hold(&self, at: &RelPath, nonce: [u8; 8]) -> bool {
        let is_below = |top: &RelPath| {
            top.is_root() || at.components().take(top.components().count()).eq(top.components())
        };
        self.nonces.contains(&nonce) || self.unknown.iter().any(is_below)
    }
}

/// An entry with a temporary name that no running transfer uses.
struct Candidate {
    size: u64,
    kind: LeftoverKind,
    /// The lock on the entry, which is held until the entry is removed so that no process starts to use it.
    #[expect(dead_code, reason = "held for its lock")]
    lock: Option<OwnedFd>,
}

impl Candidate {
    fn look(parent: &Directory, at: &RelPath, name: &[u8], live: &Live) -> Option<Self> {
        let journal = is_journal(name);
        if !journal && nonce_of(name).is_none_or(|nonce| live.may_hold(at, nonce)) {
            return None;
        }
        let name = OsStr::from_bytes(name);
        let stat = parent.stat(name).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let lock = if is_file { Some(try_lock(parent, name)?) } else { None };
        let young = !is_file && age(&stat) < YOUNG;
        let kind = match (journal, is_file) {
            (true, _) => LeftoverKind::Journal,
            (false, true) => LeftoverKind::Partial,
            (false, false) => LeftoverKind::Other,
        };
        (!young).then_some(Self { size: stat.st_size as u64, kind, lock })
    }
}

/// Locks the file; `None` if another process holds the lock, or if that can't be determined.
fn try_lock(parent: &Directory, name: &OsStr) -> Option<OwnedFd> {
    let file = parent.open_to_lock(name).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

fn age(stat: &Stat) -> Duration {
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
    SystemTime::now().duration_since(changed).unwrap_or_default()
}

type Each<'a> = &'a mut dyn FnMut(&Directory, &RelPath, &[u8]);

/// Passes every entry with a temporary name below `top` to `each`. Links aren't followed. Directories that
/// can't be read are skipped.
fn walk(root: &Root, top: RelPath, deep: bool, each: Each<'_>) {
    let mut waiting = vec![top];
    while let Some(at) = waiting.pop() {
        let Ok(directory) = root.directory(&at) else { continue };
        let Ok(listing) = Dir::read_from(&*directory) else { continue };
        for entry in listing.flatten() {
            let name = entry.file_name().to_bytes();
            if is_reserved(OsStr::from_bytes(name)) {
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
    use crate::tree::temporary::{JOURNAL, JOURNAL_DIGITS};

    /// Over NFS, an exclusive lock needs a descriptor that is open for writing. If the descriptor were open only for
    /// reading, no leftover on NFS could ever be removed.
    #[test]
    fn a_leftover_is_locked_for_writing() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("left"), "over").unwrap();
        let root = Root::open(top.path()).unwrap();
        let locked = try_lock(root.top(), OsStr::new("left")).unwrap();
        assert!(rustix::fs::fcntl_getfl(&locked).unwrap().contains(rustix::fs::OFlags::RDWR));
        assert!(try_lock(root.top(), OsStr::new("left")).is_none(), "it is held");
    }

    #[test]
    fn below_a_journal_that_somebody_holds_and_nobody_can_read_everything_may_be_held() {
        let (top, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| RelPath::new(path.as_bytes()).unwrap();
        std::fs::create_dir_all(top.path().join("a/b")).unwrap();
        let name = format!("a/{JOURNAL}{}", "0".repeat(JOURNAL_DIGITS));
        let journal = std::fs::File::create(top.path().join(name)).unwrap();
        let root = Root::open(top.path()).unwrap();
        let may_hold = |path: &str| {
            let live = Live::look(&root, &KeyStore::Directory(state.path().join("none")));
            live.may_hold(&at(path), [1; 8])
        };
        assert!(!may_hold("a"), "nobody is at work");
        rustix::fs::flock(&journal, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(may_hold("a") && may_hold("a/b") && !may_hold("") && !may_hold("ab"));
    }
}
