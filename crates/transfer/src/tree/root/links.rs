//! Directories that are reached by links: links in the user's list of files, and links at the destination
//! that count as directories.

use linerate_wire::path::RelPath;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use super::{Directory, MAX_BEHIND_LINKS, RESOLVE_TRIES, Root, resolve};
use crate::base::lock::lock;
use crate::tree::bounds::Held;
use crate::tree::filter::Place;
use crate::tree::metadata::write::through_proc;

impl Root {
    /// The directory to which the link at `path` leads; it may be anywhere within the bounds. From now on, entries in
    /// that directory can be opened with paths below `path`, because the user has listed them in this form.
    ///
    /// # Errors
    /// The errors of open(2); `ELOOP` if the link leads out of the bounds.
    pub(crate) fn follow_way(&self, path: &RelPath) -> Result<Arc<Directory>, Errno> {
        let known = lock(&self.held).get(path).cloned();
        if let (Some(held), true) = (known, self.ways.has(path)) {
            return Ok(held);
        }
        let Place { root, bounds, .. } = &self.place;
        let fd = rustix::io::fcntl_dupfd_cloexec(&*self.top, 0)?;
        let top = Held { fd, real: OsString::from_vec(root.clone()).into(), bounds: bounds.clone() };
        let reached = top.follow(path)?;
        self.ways.add(path);
        self.hold(path.clone(), reached)
    }

    /// Opens the file or directory at `path`, if a link that was followed before is in the path.
    pub(super) fn by_way(&self, path: &RelPath, flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
        let (way, below) = self.ways.on_the_way_to(path)?;
        Some(self.follow_way(&way).and_then(|held| resolve(held.as_fd(), &below, flags)))
    }

    /// The directory at `path`, if the path contains a link that is followed because it is a parent of a listed path.
    pub(super) fn behind_implied(&self, path: &RelPath) -> Option<Result<OwnedFd, Errno>> {
        let (way, below) = self.implied.on_the_way_to(path)?;
        let reached = self.behind_links(&way);
        if below.is_root() {
            return Some(reached);
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |way: &OwnedFd, access| resolve(way.as_fd(), &below, flags | access);
        Some(reached.and_then(|way| match open(&way, OFlags::RDONLY) {
            Err(Errno::ACCESS) => open(&way, OFlags::PATH),
            opened => opened,
        }))
    }

    pub(super) fn behind_links(&self, path: &RelPath) -> Result<OwnedFd, Errno> {
        let fd = behind_links(self.top.as_fd(), path)?;
        let stat = rustix::fs::fstat(&fd)?;
        let mut behind = lock(&self.behind_links);
        if behind.len() < MAX_BEHIND_LINKS {
            let seen = behind.entry((stat.st_dev, stat.st_ino)).or_insert_with(|| Some(path.clone()));
            *seen = seen.take().filter(|seen| seen == path);
        }
        Ok(fd)
    }

    /// True if the directory at `path` can also be reached by another path, which contains a link or has an
    /// entry of its own.
    pub(crate) fn has_other_paths(
        &self,
        path: &RelPath,
        held: &Directory,
        is_own: impl Fn(&RelPath) -> bool,
    ) -> bool {
        if !self.is_behind_a_link(held.as_fd()) {
            return false;
        }
        let Ok(stat) = rustix::fs::fstat(held) else { return true };
        let only = matches!(lock(&self.behind_links).get(&(stat.st_dev, stat.st_ino)), Some(Some(only)) if only == path);
        !only || self.real_path(held).is_none_or(|real| real != *path && is_own(&real))
    }

    /// The path of a directory below this root, without links.
    fn real_path(&self, held: &Directory) -> Option<RelPath> {
        let real = |fd| rustix::fs::readlink(through_proc(fd), Vec::new()).ok().map(CString::into_bytes);
        let (top, real) = (real(self.top.as_fd())?, real(held.as_fd())?);
        RelPath::new(real.strip_prefix(top.as_slice())?.strip_prefix(b"/")?).ok()
    }

    /// True if the directory was reached by a link that counts as a directory.
    pub(crate) fn is_behind_a_link(&self, directory: BorrowedFd<'_>) -> bool {
        let behind = lock(&self.behind_links);
        // If there are too many such directories to remember all of them, any directory may be one of them.
        !behind.is_empty()
            && rustix::fs::fstat(directory).map_or(true, |stat| {
                behind.len() == MAX_BEHIND_LINKS || behind.contains_key(&(stat.st_dev, stat.st_ino))
            })
    }

    pub(super) fn is_kept_link(&self, path: &RelPath) -> bool {
        self.keeps_links && behind_links(self.top.as_fd(), path).is_ok()
    }
}

/// Opens the directory at `path`, which contains links. None of these links may lead outside `top`.
///
/// # Errors
/// The errors of openat2(2): `ELOOP` if a link leads outside, or the kernel lacks the call.
fn behind_links(top: BorrowedFd<'_>, path: &RelPath) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let open = |access| {
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat2(top, path.as_os_str(), flags, Mode::empty(), beneath)
    };
    for _ in 0..RESOLVE_TRIES {
        match open(OFlags::RDONLY) {
            Err(Errno::AGAIN) => {}
            Err(Errno::ACCESS) => return open(OFlags::PATH),
            Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => return Err(Errno::LOOP),
            other => return other,
        }
    }
    Err(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn links_to_directories_count_as_those_where_they_are_kept_and_stay_below_the_top() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        fs::create_dir_all(inside.path().join("real/deep")).unwrap();
        for (target, name) in [("real", "in"), ("../..", "up"), ("in/deep", "two"), ("nowhere", "none")] {
            symlink(target, inside.path().join(name)).unwrap();
        }
        symlink(outside.path(), inside.path().join("out")).unwrap();
        symlink(inside.path().join("real"), inside.path().join("absolute")).unwrap();
        let mut root = Root::open(inside.path()).unwrap();
        assert!(root.directory(&path("in")).is_err());
        root.keeps_links = true;
        for kept in ["in", "in/deep", "two"] {
            assert!(root.directory(&path(kept)).is_ok(), "{kept}");
            assert_eq!(root.make_directory(&path(kept), Mode::RWXU), Ok(false), "{kept}");
        }
        for refused in ["up", "out", "absolute", "out/x"] {
            assert_eq!(root.directory(&path(refused)).err(), Some(Errno::LOOP), "{refused}");
        }
        assert_eq!(root.make_directory(&path("out"), Mode::RWXU), Err(Errno::NOTDIR));
        assert_eq!(root.directory(&path("none")).err(), Some(Errno::NOENT));
    }
}
