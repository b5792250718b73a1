//! The sources of recorded data.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An upper limit for the bytes of any recorded file; even with 4,096 processors, a file has fewer bytes.
const MOST_BYTES: usize = 16 << 20;

/// A source of one kind of recorded data.
pub(crate) trait TextSource: Send {
    /// Appends the current text of the source.
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()>;
}

/// A file that stays open and is read from its beginning each time. Such a read of a file in /proc returns
/// its current contents.
pub(crate) struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    pub fn new(root: &Path, path: &str) -> Self {
        Self { path: root.join(path), file: None }
    }

    pub fn boxed(root: &Path, path: &str) -> Box<dyn TextSource> {
        Box::new(Self::new(root, path))
    }

    fn open(&mut self) -> io::Result<&File> {
        match self.file {
            Some(ref file) => Ok(file),
            None => Ok(self.file.insert(File::open(&self.path)?)),
        }
    }
}

impl TextSource for KeptFile {
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let result = self.open().and_then(|file| read_whole(file, text));
        if result.is_err() {
            // The device of this file may have been removed and added again, so the file will be opened again for the
            // next reading.
            self.file = None;
        }
        result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }
}

/// Reads a file from its beginning to its end, independently of earlier reads.
pub(crate) fn read_whole(file: &File, text: &mut Vec<u8>) -> io::Result<()> {
    let start = text.len();
    let mut end = start;
    loop {
        // The kernel returns about one page per read. All bytes of one read were produced at the same moment.
        text.resize(end + (16 << 10), 0);
        let got = file.read_at(&mut text[end..], (end - start) as u64);
        end += *got.as_ref().unwrap_or(&0);
        if !matches!(got, Ok(1..)) || end - start > MOST_BYTES {
            text.truncate(end);
            return got.map(drop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_file_is_read_anew_each_time() {
        let root = tempfile::tempdir().unwrap();
        let mut held = KeptFile::new(root.path(), "x");
        assert!(held.read(&mut Vec::new()).is_err());
        for content in ["one\n".to_owned(), "2\n".repeat(50_000)] {
            std::fs::write(root.path().join("x"), &content).unwrap();
            let mut text = b"before ".to_vec();
            held.read(&mut text).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), format!("before {content}"));
        }
    }

    #[test]
    fn proc_renews_a_held_file() {
        let mut held = KeptFile::new(Path::new("/"), "proc/uptime");
        let mut read = || {
            let mut text = Vec::new();
            held.read(&mut text).map(|()| text)
        };
        let first = read().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_ne!(read().unwrap(), first);
    }
}
