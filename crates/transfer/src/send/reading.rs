//! Reads source files into memory, into buffers or into a hasher, and detects whether the files change
//! meanwhile.

use linerate_wire::control::Digest;
use linerate_wire::entry::{Entry, Kind, Origin, Timestamp};
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::send::fan::{FanMember, FanPiece, PieceKey};
use crate::send::plan::SMALL;
use crate::tree::reading::{append_from, hash_while, is_made_up, read_while};
use crate::tree::source_root::SourceRoot;
use crate::tree::stamp::{ctime, mtime};

/// The message about a file whose end was missing when it was read.
pub const SHORTER: &str = "became shorter while it was read; not copied";
/// The message about a file that changed after the scan or during the read.
pub const CHANGED: &str = "changed while it was read; the copy may mix old and new data";

/// The size of a file in bytes.
pub(super) fn file_size(entry: &Entry) -> u64 {
    if let Kind::File { size } = entry.kind { size } else { 0 }
}

/// The reason why the contents of a small file weren't read.
pub(super) enum NotRead {
    /// The contents can't be read.
    Error(Errno),
    /// The contents are too long for a batch, though the file's stated size is 0.
    Large(OpenedSource),
}

impl From<Errno> for NotRead {
    fn from(error: Errno) -> Self {
        Self::Error(error)
    }
}

/// Appends the contents of a small file to `out`, at most as many bytes as were scanned; true if the file has changed
/// since the scan. A file whose stated size is 0 is read to its end, because files in /proc state that size but have
/// contents; if the contents are too long for a batch, the error is [`NotRead::Large`].
pub(super) fn read_small(opened: Option<OwnedFd>, entry: &Entry, out: &mut Vec<u8>) -> Result<bool, NotRead> {
    let Some(fd) = opened else { return Ok(false) };
    let (mut opened, before) = (OpenedSource::new(fd)?, out.len());
    let most = match file_size(entry) {
        0 => SMALL as usize + 1,
        size => size as usize,
    };
    append(opened.as_fd(), most, out)?;
    if out.len() - before > SMALL as usize {
        opened.says_nothing = true;
        return Err(NotRead::Large(opened));
    }
    Ok(opened.has_changed(entry)?)
}

/// Reads a small file as [`read_small`] does, for a file whose stated size isn't 0 and that several transfers send;
/// also returns the piece that was read, which has the file's digest.
pub(super) fn share_small(
    fd: OwnedFd,
    entry: &Entry,
    member: &FanMember,
    out: &mut Vec<u8>,
) -> Result<(bool, Option<Arc<FanPiece>>), NotRead> {
    let opened = OpenedSource::new(fd)?;
    let size = file_size(entry);
    let piece = member.piece(opened.piece_key(size, 0), || {
        let mut bytes = Vec::new();
        append(opened.as_fd(), size as usize, &mut bytes)?;
        Ok(bytes)
    })?;
    out.extend_from_slice(piece.bytes());
    Ok((opened.has_changed(entry)?, Some(piece)))
}

/// A source file that is open for reading.
#[derive(Debug)]
pub struct OpenedSource {
    fd: OwnedFd,
    /// The identity of the file: its device and inode numbers.
    file: (u64, u64),
    /// The change time of the file's inode when the file was opened. No process can set this time, so it also
    /// reveals a writer that resets the modification time.
    ctime: Timestamp,
    /// True if the file's stated size is 0, but its contents are too long for a batch.
    says_nothing: bool,
}

impl OpenedSource {
    fn open(source: &SourceRoot, entry: &Entry) -> Result<Self, Errno> {
        Self::new(source.root.open_at(&source.full_path(&entry.path), OFlags::RDONLY)?)
    }

    fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Self { fd, file: (stat.st_dev, stat.st_ino), ctime: ctime(&stat), says_nothing: false })
    }

    /// The key of the file's piece that contains the byte at `offset`, if the scan found the file with the
    /// size `size`.
    pub(super) fn piece_key(&self, size: u64, offset: u64) -> PieceKey {
        PieceKey::of(self.file, self.ctime, size, offset)
    }

    /// Whether the file differs from the scanned file, or has changed since it was opened.
    pub(super) fn has_changed(&self, entry: &Entry) -> Result<bool, Errno> {
        let now = rustix::fs::fstat(&self.fd)?;
        let size = if self.says_nothing { 0 } else { file_size(entry) };
        let is_same = mtime(&now) == entry.mtime && now.st_size as u64 == size && ctime(&now) == self.ctime;
        Ok(!is_same && !is_made_up(self.as_fd()))
    }

    /// The identity of the file, for the receiver.
    pub(super) fn origin(&self) -> Result<Origin, Errno> {
        Ok(Origin { inode: rustix::fs::fstat(&self.fd)?.st_ino, ctime: self.ctime })
    }

    /// The number of the file's bytes. To count them, the file is read to its end, or until `go_on` returns
    /// false.
    pub(super) fn length(&self, buffer: &mut Vec<u8>, go_on: impl Fn() -> bool) -> Result<u64, Errno> {
        let mut length = 0;
        read_while(self.as_fd(), 0, u64::MAX, buffer, go_on, |read| length += read.len() as u64)?;
        Ok(length)
    }
}

impl AsFd for OpenedSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// BLAKE3 of a file's contents; `None` if they can't be read. The worker that sends the file reports the
/// error.
pub fn digest(sources: &[SourceRoot], entry: &Entry, stop: &AtomicBool) -> Option<Digest> {
    let Kind::File { size } = entry.kind else { return None };
    let file = open_large(&sources[entry.source as usize], entry).ok()?;
    hash_while(file.as_fd(), 0, size, &mut Vec::new(), || !stop.load(Ordering::Relaxed)).ok()?
}

pub(super) fn open_large(source: &SourceRoot, entry: &Entry) -> Result<OpenedSource, Errno> {
    let opened = OpenedSource::open(source, entry)?;
    // The advice only concerns speed, so its failure is ignored.
    let _ = rustix::fs::fadvise(&opened, 0, None, Advice::Sequential);
    Ok(opened)
}

/// Appends at most `size` bytes of a file.
fn append(fd: BorrowedFd<'_>, size: usize, out: &mut Vec<u8>) -> Result<(), Errno> {
    append_from(fd, 0, size, out)
}

/// Reads until all `places` are full, in their order, or the file ends; returns the number of bytes. The slices in
/// `places` keep their lengths.
pub(super) fn read_full(
    fd: BorrowedFd<'_>,
    places: &mut [IoSliceMut<'_>],
    offset: u64,
) -> Result<usize, Errno> {
    let mut have = 0;
    let mut views: Vec<_> = places.iter_mut().map(|place| IoSliceMut::new(place)).collect();
    let mut places = &mut views[..];
    IoSliceMut::advance_slices(&mut places, 0);
    while !places.is_empty() {
        match rustix::io::preadv(fd, places, offset + have as u64) {
            Ok(0) => break,
            Ok(got) => {
                IoSliceMut::advance_slices(&mut places, got);
                have += got;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::bounds::Bounds;
    use crate::tree::source_root::Finding;
    use linerate_wire::path::RelPath;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_change_is_noticed_though_the_time_is_put_back() {
        use std::os::unix::fs::FileExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, "before").unwrap();
        let named = Bounds::here().name(path.as_os_str().as_bytes()).unwrap();
        let source = SourceRoot::find(&named, 0, Finding::default()).unwrap();
        let stat = rustix::fs::stat(&path).unwrap();
        let mtime = mtime(&stat);
        let (kind, path_below) = (Kind::File { size: 6 }, RelPath::root());
        let entry =
            Entry { source: 0, path: path_below, kind, mode: 0o644, mtime, atime: mtime, extra: None };
        let opened = OpenedSource::open(&source, &entry).unwrap();
        assert!(!opened.has_changed(&entry).unwrap());
        // A file system's clock may have only a hundred ticks per second.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"B", 0).unwrap();
        file.set_modified(modified).unwrap();
        assert!(opened.has_changed(&entry).unwrap());
    }
}
