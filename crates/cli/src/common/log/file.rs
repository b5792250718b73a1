//! A file to which whole lines are appended, even if other processes append to it at the same time.

use linerate_sys::replace::duplicate;
use linerate_transfer::bounds::append_trusted;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file to which whole lines are appended.
#[derive(Debug)]
pub struct LineFile {
    file: File,
    /// True if the file ends within a line, for example because its disk was full.
    is_torn: bool,
}

impl LineFile {
    /// Opens a file for appending, and creates it if it is missing. A link that belongs to another user isn't
    /// followed, because it could lead to a file that only this user may write. Opening a fifo doesn't wait for
    /// a reader. If the path names a descriptor of this process, that descriptor is used.
    ///
    /// # Errors
    /// If the file can't be opened.
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

    /// The first `most` bytes of the file; `None` if it isn't a regular file or can't be read.
    pub fn beginning(&self, most: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        read_again(&self.file)?.take(most as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Appends a line, which ends in a newline, with one call, so that several programs may write to the same
    /// file.
    ///
    /// # Errors
    /// If the line isn't written completely. A newline is then written before the next line.
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

/// True if the last byte of the file can be read and isn't a newline.
fn ends_within_a_line(file: &File) -> bool {
    let last = || {
        let again = read_again(file)?;
        let mut last = [0];
        again.read_exact_at(&mut last, again.metadata().ok()?.len().checked_sub(1)?).ok()?;
        Some(last[0])
    };
    last().is_some_and(|last| last != b'\n')
}

/// Opens the same regular file for reading, because the existing descriptor is only for writing.
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
