//! A file that grows by whole lines, even if other processes write to it at the same time.

use linerate_sys::replace::duplicate;
use linerate_transfer::bounds::append_trusted;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file to whose end lines are written.
#[derive(Debug)]
pub struct LineFile {
    file: File,
    /// The file ends within a line, because its disk was full.
    is_torn: bool,
}

impl LineFile {
    /// Opens a file to append to it, or creates it. A link of another user's is not followed: it could lead to a
    /// file that only this user may write. This doesn't wait for a fifo's reader. A descriptor of this process is written
    /// as it is.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = match duplicate(path)? {
            Some(file) => file,
            None => append_trusted(path)?,
        };
        Ok(Self { is_torn: ends_within_a_line(&file), file })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The first `most` bytes of a regular file; none if it isn't one, or can't be read.
    pub fn beginning(&self, most: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        read_again(&self.file)?.take(most as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes a line, which includes its newline, in one call, so that two programs may write to one file.
    ///
    /// # Errors
    /// If the line isn't written whole. The next line then begins after a newline.
    pub fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let whole = if self.is_torn { [b"\n", line].concat() } else { line.to_vec() };
        let mut left = &whole[..];
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => (self.is_torn, left) = (true, &left[written..]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.is_torn = false;
        Ok(())
    }
}

/// True for a file whose last byte can be read, and isn't a newline.
fn ends_within_a_line(file: &File) -> bool {
    let last = || {
        let again = read_again(file)?;
        let mut last = [0];
        again.read_exact_at(&mut last, again.metadata().ok()?.len().checked_sub(1)?).ok()?;
        Some(last[0])
    };
    last().is_some_and(|last| last != b'\n')
}

/// A regular file, opened again, since the open descriptor is only for writing.
fn read_again(file: &File) -> Option<File> {
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_a_torn_one_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        LineFile::open(&path).unwrap().write(b"one\n").unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"tor").unwrap();
        let mut file = LineFile::open(&path).unwrap();
        file.write(b"two\n").unwrap();
        file.write(b"three\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntor\ntwo\nthree\n");
    }

    #[test]
    fn a_full_disk_is_an_error_each_time() {
        let mut full = LineFile::open(Path::new("/dev/full")).unwrap();
        for _ in 0..2 {
            assert_eq!(full.write(b"x\n").unwrap_err().kind(), ErrorKind::StorageFull);
        }
    }
}
