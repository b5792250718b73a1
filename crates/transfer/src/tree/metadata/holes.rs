//! Holes in files: ranges that take no space and are read as zeros.

use rustix::fs::{FallocateFlags, SeekFrom, Stat, seek};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The smallest number of zero bytes that is turned into a hole.
const BLOCK: usize = 4096;
/// The number of bytes that are read at a time.
const READ: usize = 256 << 10;

/// The next range of a file: data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// This number of bytes of data.
    Data(u64),
    /// A hole of this number of bytes.
    Hole(u64),
}

impl Run {
    /// The same range if it is a hole; data is limited to `most` bytes.
    pub fn up_to(self, most: u64) -> Self {
        if let Self::Data(length) = self { Self::Data(length.min(most)) } else { self }
    }
}

/// True if a file takes less space than its size, so that it has holes.
pub fn has_holes(stat: &Stat) -> bool {
    stat.st_blocks.saturating_mul(512) < stat.st_size
}

/// The range of data, or the hole, that begins at `from`. It ends where the data or hole ends, at most at
/// `end`, and is never empty. A file system without holes reports only data.
pub fn next_run(fd: BorrowedFd<'_>, from: u64, end: u64) -> Run {
    let to = |at: u64| at.clamp(from, end) - from;
    // Several threads move the descriptor's offset, so no read uses it: all reads state their own offset.
    match seek(fd, SeekFrom::Data(from)) {
        Ok(data) if data > from => Run::Hole(to(data)),
        Ok(_) => match seek(fd, SeekFrom::Hole(from)) {
            Ok(hole) if hole > from => Run::Data(to(hole)),
            _ => Run::Data(end - from),
        },
        // No data follows. If this is because the file has become shorter, a later read detects that.
        Err(Errno::NXIO) if seek(fd, SeekFrom::End(0)).is_ok_and(|size| size >= end) => Run::Hole(end - from),
        Err(_) => Run::Data(end - from),
    }
}

/// Turns whole blocks of zeros into holes in a file of `size` bytes. Existing holes are skipped. If space was allocated
/// in advance (`is_taken`), nothing is skipped, because file systems report allocated but unwritten space as holes.
///
/// # Errors
/// The errors of pread(2) and fallocate(2): `EOPNOTSUPP` if the file system has no holes.
pub fn dig(file: BorrowedFd<'_>, size: u64, is_taken: bool) -> Result<(), Errno> {
    let mut buffer = vec![0; READ];
    let (mut at, mut zeros) = (0, 0..0);
    while at < size {
        let run = if is_taken { Run::Data(size - at) } else { next_run(file, at, size) };
        let Run::Data(length) = run.up_to(READ as u64 - at % READ as u64) else {
            punch(file, &mut zeros)?;
            let Run::Hole(length) = run else { return Ok(()) };
            at += length;
            continue;
        };
        let got = rustix::io::pread(file, &mut buffer[..length as usize], at)?;
        if got == 0 {
            break;
        }
        for block in buffer[..got].chunks(BLOCK) {
            let is_zero = at.is_multiple_of(BLOCK as u64) && block.iter().all(|byte| *byte == 0);
            if !is_zero || zeros.end != at {
                punch(file, &mut zeros)?;
                zeros = at..at;
            }
            at += block.len() as u64;
            zeros.end = if is_zero { at } else { zeros.start };
        }
    }
    punch(file, &mut zeros)
}

fn punch(file: BorrowedFd<'_>, zeros: &mut Range<u64>) -> Result<(), Errno> {
    let Range { start, end } = std::mem::take(zeros);
    if start == end {
        return Ok(());
    }
    // If the zeros reach the end of the file, the hole covers the file's whole last block.
    let end = end.next_multiple_of(BLOCK as u64);
    rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, end - start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn runs_add_up_to_the_file() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.set_len(10 << 20).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let (mut at, mut data, mut runs) = (0, 0, Vec::new());
        while at < 10 << 20 {
            let run = next_run(file.as_fd(), at, 10 << 20);
            let (Run::Data(length) | Run::Hole(length)) = run;
            data += if matches!(run, Run::Data(_)) { length } else { 0 };
            at += length;
            runs.push(run);
        }
        assert_eq!(at, 10 << 20);
        if has_holes(&rustix::fs::fstat(&file).unwrap()) {
            assert!(data < 1 << 20 && runs.len() == 3, "{runs:?}");
        }
    }

    #[test]
    fn zeros_become_holes_and_nothing_else_changes() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let mut bytes = vec![0; (3 << 20) + 77];
        for at in [0, 5000, 1 << 20, (2 << 20) - 1, bytes.len() - 1] {
            bytes[at] = 7;
        }
        file.write_all_at(&bytes, 0).unwrap();
        for is_taken in [true, false] {
            dig(file.as_fd(), bytes.len() as u64, is_taken).unwrap();
            let mut now = vec![1; bytes.len()];
            file.read_exact_at(&mut now, 0).unwrap();
            assert!(now == bytes);
            let stat = rustix::fs::fstat(&file).unwrap();
            assert!(
                stat.st_size as usize == bytes.len() && stat.st_blocks * 512 < 100_000,
                "{}",
                stat.st_blocks
            );
        }
    }

    #[test]
    fn behind_the_end_there_is_no_hole() {
        let file: File = tempfile::tempfile().unwrap();
        assert_eq!(next_run(file.as_fd(), 0, 5), Run::Data(5), "it has become shorter: reading tells");
    }
}
