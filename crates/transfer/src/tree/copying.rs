//! Copies bytes from one open file to another on the same host, in the most efficient way that their file systems
//! offer.

use rustix::io::Errno;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::tree::reading::read_while;

/// Bytes per step if the kernel itself can't copy between the files. Bytes that were read are still in a
/// processor's second-level cache (256 KiB or more) when they are written.
const COPIED: usize = 128 << 10;

/// The reason why bytes could not be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The source file ends early, at this offset.
    Ended(u64),
    /// The source can't be read.
    Read(Errno),
    /// The destination can't be written.
    Write(Errno),
}

impl CopyError {
    /// The error without its kind; `EIO` if the source ended early.
    pub fn errno(self) -> Errno {
        match self {
            Self::Ended(_) => Errno::IO,
            Self::Read(error) | Self::Write(error) => error,
        }
    }
}

/// Copies the bytes of `file` from `start` to `end` into `new`, at the same offset. If possible, the two
/// files share blocks, or the file server copies.
///
/// # Errors
/// If `file` is too short or can't be read, or `new` can't be written.
pub fn copy_range(file: BorrowedFd<'_>, new: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), CopyError> {
    copy_to(file, start..end, new, start)
}

/// Copies the bytes of `range` of `file` into `new` as [`copy_range`] does, to the offset `to`.
///
/// # Errors
/// The errors of [`copy_range`].
pub fn copy_to(
    file: BorrowedFd<'_>,
    range: Range<u64>,
    new: BorrowedFd<'_>,
    mut to: u64,
) -> Result<(), CopyError> {
    let (mut from, end) = (range.start, range.end);
    while from < end {
        let left = usize::try_from(end - from).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(file, Some(&mut from), new, Some(&mut to), left) {
            Ok(1..) | Err(Errno::INTR) => {}
            // Some file systems can't copy, or copy nothing from files whose size they don't know. An error doesn't
            // show which of the two files caused the error.
            Ok(0) | Err(_) => return copy_by_hand(file, from..end, new, to, &mut |_| {}),
        }
    }
    Ok(())
}

/// Copies bytes into `new` as [`copy_to`] does; `each` gets the copied bytes, piece by piece.
///
/// # Errors
/// The errors of [`copy_range`].
pub fn copy_and_see(
    file: BorrowedFd<'_>,
    range: Range<u64>,
    new: BorrowedFd<'_>,
    to: u64,
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), CopyError> {
    if shares_nothing(new) {
        return copy_by_hand(file, range, new, to, each);
    }
    let length = range.end.saturating_sub(range.start);
    copy_to(file, range, new, to)?;
    match read_while(new, to, length, &mut Vec::new(), || true, each) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CopyError::Ended(to)),
        Err(error) => Err(CopyError::Read(error)),
    }
}

/// True for a local file system on which files never share blocks. There the copied bytes pass through memory
/// anyway, so passing them to `each` costs little.
fn shares_nothing(file: BorrowedFd<'_>) -> bool {
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    const EXT: rustix::fs::FsWord = 0xef53;
    rustix::fs::fstatfs(file).is_ok_and(|stat| [TMPFS, EXT].contains(&stat.f_type))
}

fn copy_by_hand(
    file: BorrowedFd<'_>,
    range: Range<u64>,
    new: BorrowedFd<'_>,
    mut to: u64,
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), CopyError> {
    let (mut at, end) = (range.start, range.end);
    let mut buffer = vec![0; usize::try_from(end - at).unwrap_or(COPIED).min(COPIED)];
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(COPIED).min(COPIED);
        match rustix::io::pread(file, &mut buffer[..want], at) {
            Ok(0) => return Err(CopyError::Ended(at)),
            Ok(got) => {
                each(&buffer[..got]);
                write_all(new, &mut [IoSlice::new(&buffer[..got])], to).map_err(CopyError::Write)?;
                at += got as u64;
                to += got as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
    Ok(())
}

/// Writes all of `pieces`, in order, from `offset` on.
///
/// # Errors
/// The errors of pwritev(2).
pub fn write_all(fd: BorrowedFd<'_>, mut pieces: &mut [IoSlice<'_>], mut offset: u64) -> Result<(), Errno> {
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        match rustix::io::pwritev(fd, pieces, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                IoSlice::advance_slices(&mut pieces, written);
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    #[test]
    fn an_end_and_each_sides_error_are_distinguished() {
        let (mut file, mut new) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.write_all(&[7; 3000]).unwrap();
        copy_range(file.as_fd(), new.as_fd(), 1000, 3000).unwrap();
        let mut copied = Vec::new();
        new.rewind().unwrap();
        new.read_to_end(&mut copied).unwrap();
        assert_eq!(copied, [&[0; 1000][..], &[7; 2000]].concat(), "at the same place");
        let (full, unreadable) = (File::create("/dev/full").unwrap(), File::create("/dev/null").unwrap());
        let of = |file: &File, new: &File| copy_range(file.as_fd(), new.as_fd(), 0, 4000);
        assert_eq!(of(&file, &new), Err(CopyError::Ended(3000)));
        assert_eq!(of(&unreadable, &new), Err(CopyError::Read(Errno::BADF)));
        assert_eq!(of(&file, &full), Err(CopyError::Write(Errno::NOSPC)));
    }

    #[test]
    fn what_the_kernel_makes_up_is_copied_too() {
        let (file, new) = (File::open("/proc/self/status").unwrap(), tempfile::tempfile().unwrap());
        copy_range(file.as_fd(), new.as_fd(), 0, 100).unwrap();
        assert_eq!(new.metadata().unwrap().len(), 100);
    }
}
