//! The payload of a throughput measurement: bytes from memory, or files that are read again and again.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::problem::TransferError;
use crate::net::clock::{Clock, Stage};
use crate::net::stream::StreamError;

/// A list of files to read in turn. All streams share the list: each stream takes the file after the one that any
/// stream took last.
#[derive(Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    next: AtomicUsize,
}

impl Files {
    /// The regular files at `path` or below it that aren't empty, sorted by name. Symbolic links aren't followed,
    /// except `path` itself.
    ///
    /// # Errors
    /// If a directory can't be listed, a file can't be opened, or no file has contents.
    pub fn below(path: &Path) -> Result<Files, TransferError> {
        let mut paths = Vec::new();
        let kind = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        if kind.is_dir() {
            list(path, &mut paths)?;
        } else if kind.is_file() && kind.len() > 0 {
            paths.push(path.to_owned());
        }
        for path in &paths {
            File::open(path).map_err(|error| unreadable(path, &error))?;
        }
        if paths.is_empty() {
            let shown = path.display();
            return Err(TransferError::Arguments(format!(
                "{shown} contains no data to send: name a file that isn't empty, or a directory with one"
            )));
        }
        Ok(Files { paths, next: AtomicUsize::new(0) })
    }

    fn next(&self) -> &Path {
        &self.paths[self.next.fetch_add(1, Ordering::Relaxed) % self.paths.len()]
    }
}

fn list(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<(), TransferError> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| unreadable(directory, &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.metadata().map_err(|error| unreadable(&path, &error))?;
        if kind.is_dir() {
            list(&path, paths)?;
        } else if kind.is_file() && kind.len() > 0 {
            paths.push(path);
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> TransferError {
    TransferError::Arguments(format!("reading {} failed: {error}", path.display()))
}

/// The payload of one stream.
pub struct Feed<'a> {
    files: Option<&'a Files>,
    open: Option<(&'a Path, File)>,
}

impl<'a> Feed<'a> {
    /// The contents of `files`; without files, the bytes that the buffers already hold.
    pub fn of(files: Option<&'a Files>) -> Self {
        Self { files, open: None }
    }

    /// Fills `buffer` from as many files as necessary.
    ///
    /// # Errors
    /// If a file can't be read, or all files have become empty.
    pub(crate) fn fill(&mut self, buffer: &mut [u8], clock: &mut Clock) -> Result<(), StreamError> {
        let Some(files) = self.files else { return Ok(()) };
        let (mut filled, mut empty) = (0, 0);
        while filled < buffer.len() {
            let read = self.read(files, &mut buffer[filled..])?;
            (filled, empty) = (filled + read, if read == 0 { empty + 1 } else { 0 });
            // The current file ended, and then each file of the list was empty.
            if empty > files.paths.len() {
                return Err(StreamError::Source("the files to send have become empty".into()));
            }
        }
        clock.lap(Stage::Read);
        Ok(())
    }

    /// Reads from the open file, or opens the next one; returns 0 at a file's end.
    fn read(&mut self, files: &'a Files, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let (path, mut file) = match self.open.take() {
            Some(open) => open,
            None => {
                let path = files.next();
                (path, File::open(path).map_err(|error| lost(path, &error))?)
            }
        };
        let read = loop {
            match file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map_err(|error| lost(path, &error))?,
            }
        };
        self.open = (read > 0).then_some((path, file));
        Ok(read)
    }
}

fn lost(path: &Path, error: &io::Error) -> StreamError {
    StreamError::Source(format!("reading {} failed: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("b")).unwrap();
        for (name, text) in [("a", "one"), ("b/c", "two"), ("d", ""), ("e", "three")] {
            fs::write(top.path().join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", top.path().join("link")).unwrap();
        top
    }

    fn take(feed: &mut Feed<'_>, length: usize) -> Result<String, StreamError> {
        let mut buffer = vec![b'.'; length];
        feed.fill(&mut buffer, &mut Clock::start())?;
        Ok(String::from_utf8(buffer).unwrap())
    }

    #[test]
    fn files_are_sent_in_turn_again_and_again() {
        let top = tree();
        let files = Files::below(top.path()).unwrap();
        let mut feed = Feed::of(Some(&files));
        assert_eq!(take(&mut feed, 4).unwrap(), "onet");
        assert_eq!(take(&mut feed, 15).unwrap(), "wothreeonetwoth");
        // Another stream takes the next file of the list.
        assert_eq!(take(&mut Feed::of(Some(&files)), 3).unwrap(), "one");
        assert_eq!(take(&mut Feed::of(None), 3).unwrap(), "...");
        let one = Files::below(&top.path().join("e")).unwrap();
        assert_eq!(take(&mut Feed::of(Some(&one)), 7).unwrap(), "threeth");
    }

    #[test]
    fn without_anything_to_send_it_is_an_error() {
        let top = tree();
        for (path, words) in [("d", "no data to send"), ("none", "No such file"), ("link", "No such file")] {
            let error = Files::below(&top.path().join(path)).unwrap_err();
            assert!(matches!(&error, TransferError::Arguments(text) if text.contains(words)), "{error}");
        }
        let files = Files::below(top.path()).unwrap();
        for name in ["a", "b/c", "e"] {
            fs::write(top.path().join(name), "").unwrap();
        }
        let error = take(&mut Feed::of(Some(&files)), 1).unwrap_err();
        assert!(error.to_string().contains("have become empty"), "{error}");
        fs::remove_file(top.path().join("a")).unwrap();
        let error = take(&mut Feed::of(Some(&files)), 1).unwrap_err();
        assert!(error.to_string().contains("/a failed"), "{error}");
    }
}
