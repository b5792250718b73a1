//! The names in a directory, in the order in which they are walked.

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The names in a directory, without `.` and `..`.
pub enum Listing {
    /// The names in the order of the file system.
    Read(Dir),
    /// The names in rsync's order, followed by the error that ended the list, if there was one.
    Sorted(std::vec::IntoIter<Vec<u8>>, Option<Errno>),
}

impl Listing {
    /// The next name; `None` at the end.
    pub fn next(&mut self) -> Option<Result<Vec<u8>, Errno>> {
        match self {
            Self::Read(dir) => read_name(dir).map(|read| read.map(|(name, _)| name)),
            Self::Sorted(names, error) => names.next().map(Ok).or_else(|| error.take().map(Err)),
        }
    }

    /// Reads the names: first those of entries that aren't directories, then those of directories, sorted by
    /// their bytes with a slash appended. A link to a directory is sorted as a directory if `follows` returns
    /// true for its name.
    pub fn sorted(mut dir: Dir, fd: &OwnedFd, follows: impl Fn(&[u8]) -> bool) -> Self {
        let (mut found, mut ended) = (Vec::new(), None);
        while let Some(read) = read_name(&mut dir) {
            match read {
                Ok((name, kind)) => {
                    let is_directory = match kind {
                        FileType::Unknown => is_directory(fd, &name, AtFlags::SYMLINK_NOFOLLOW),
                        FileType::Symlink if follows(&name) => is_directory(fd, &name, AtFlags::empty()),
                        kind => kind == FileType::Directory,
                    };
                    found.push((is_directory, name));
                }
                Err(error) => {
                    ended = Some(error);
                    break;
                }
            }
        }
        let key = |(is_directory, name): &(bool, Vec<u8>)| {
            let slash: &[u8] = if *is_directory { b"/" } else { b"" };
            (*is_directory, [name, slash].concat())
        };
        found.sort_by_cached_key(key);
        let names: Vec<_> = found.into_iter().map(|(_, name)| name).collect();
        Self::Sorted(names.into_iter(), ended)
    }
}

fn read_name(dir: &mut Dir) -> Option<Result<(Vec<u8>, FileType), Errno>> {
    loop {
        let read = dir.read()?;
        let named = read.map(|entry| (entry.file_name().to_bytes().to_vec(), entry.file_type()));
        if !matches!(&named, Ok((name, _)) if name == b"." || name == b"..") {
            return Some(named);
        }
    }
}

fn is_directory(fd: &OwnedFd, name: &[u8], flags: AtFlags) -> bool {
    let stat = rustix::fs::statat(fd, name, flags);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}
