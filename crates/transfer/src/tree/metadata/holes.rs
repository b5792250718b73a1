//! Holes of a file: ranges that take no space and read as zeros.

use rustix::fs::{FallocateFlags, SeekFrom, Stat, seek};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The fewest zero bytes that become a hole.
const BLOCK: usize = 4096;
/// Bytes per read.
const READ: usize = 256 << 10;

/// The next range of a file: data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Data of this number of bytes.
    Data(u64),
    /// A hole of this number of bytes.
    Hole(u64),
}

impl Run {
    /// This run, limited to `most` bytes if it is data.
    pub fn up_to(self, most: u64) -> Self {
        if let Self::Data(length) = self { Self::Data(length.min(most)) } else { self }
    }
}

/// True if a file takes less space than its size.
pub fn has_holes(stat: &Stat) -> bool {
    stat.st_blocks.saturating_mul(512) < stat.st_size
}

/// The data or hole at `from`, up to its end or `end`; never empty. A file system without holes has only data.
pub fn next_run(fd: BorrowedFd<'_>, from: u64, end: u64) -> Run {
    let to = |at: u64| at.clamp(from, end) - from;
    // Several threads move the descriptor's offset, so no read depends on it: all reads state their own.
    match seek(fd, SeekFrom::Data(from)) {
        Ok(data) if data > from => Run::Hole(to(data)),
        Ok(_) => match seek(fd, SeekFrom::Hole(from)) {
            Ok(hole) if hole > from => Run::Data(to(hole)),
            _ => Run::Data(end - from),
        },
        // No data follows, unless the file has become shorter, which reading detects.
        Err(Errno::NXIO) if seek(fd, SeekFrom::End(0)).is_ok_and(|size| size >= end) => Run::Hole(end - from),
        Err(_) => Run::Data(end - from),
    }
}

/// Turns whole blocks of zeros into holes in a file of `size` bytes. Existing holes are skipped, unless all space
/// `is_taken`: file systems also report allocated space that was never written as a hole.
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
    // The file's last block is removed as a whole.
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
