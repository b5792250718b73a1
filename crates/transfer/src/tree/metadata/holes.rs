//! Holes of a file: where it has bytes, and where it only says that they are zero.

use rustix::fs::{SeekFrom, Stat, seek};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The next run of a file: data or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// So many bytes that are there.
    Data(u64),
    /// So many that aren't.
    Hole(u64),
}

impl Run {
    /// The same, of data no more than `most` bytes.
    pub fn up_to(self, most: u64) -> Self {
        if let Self::Data(length) = self { Self::Data(length.min(most)) } else { self }
    }
}

/// True where a file takes less space than it has bytes.
pub fn has_holes(stat: &Stat) -> bool {
    stat.st_blocks.saturating_mul(512) < stat.st_size
}

/// The data or hole at `from`, up to its end or `end`; never empty. A file system without holes has data only.
pub fn next_run(fd: BorrowedFd<'_>, from: u64, end: u64) -> Run {
    let to = |at: u64| at.clamp(from, end) - from;
    // The offset that several threads move belongs to nobody: all reads name theirs.
    match seek(fd, SeekFrom::Data(from)) {
        Ok(data) if data > from => Run::Hole(to(data)),
        Ok(_) => match seek(fd, SeekFrom::Hole(from)) {
            Ok(hole) if hole > from => Run::Data(to(hole)),
            _ => Run::Data(end - from),
        },
        // No data behind it, unless the file has become shorter, which reading finds.
        Err(Errno::NXIO) if seek(fd, SeekFrom::End(0)).is_ok_and(|size| size >= end) => Run::Hole(end - from),
        Err(_) => Run::Data(end - from),
    }
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
    fn behind_the_end_there_is_no_hole() {
        let file: File = tempfile::tempfile().unwrap();
        assert_eq!(next_run(file.as_fd(), 0, 5), Run::Data(5), "it has become shorter: reading tells");
    }
}
