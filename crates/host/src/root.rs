//! Reading small text files below a root directory, as facts.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::Fact;

/// More than any file of /proc or /sys that is read here holds, 4,096 processors included.
const MOST_BYTES: u64 = 16 << 20;

/// The directory that stands for `/`.
pub(crate) struct Root<'a>(pub &'a Path);

impl Root<'_> {
    /// The file's text without white space at its ends. A missing file is "not applicable".
    pub fn text(&self, path: &str) -> Fact<String> {
        match read_capped(&self.at(path)) {
            Ok(bytes) => Fact::Known(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(e) if is_absent(&e) => Fact::NotApplicable,
            Err(e) => Fact::Unreadable(format!("/{path}: {e}")),
        }
    }

    /// As [`Root::text`], for a file that every host has: its absence is a reason too.
    pub fn needed(&self, path: &str) -> Fact<String> {
        match self.text(path) {
            Fact::NotApplicable => Fact::Unreadable(format!("/{path} is missing")),
            fact => fact,
        }
    }

    /// The last component of what a symbolic link points at.
    pub fn link_name(&self, path: &str) -> Fact<String> {
        match std::fs::read_link(self.at(path)) {
            Ok(target) => match target.file_name() {
                Some(name) => Fact::Known(name.to_string_lossy().into_owned()),
                None => Fact::Unreadable(format!("/{path} points at {}", target.display())),
            },
            Err(e) if is_absent(&e) => Fact::NotApplicable,
            Err(e) => Fact::Unreadable(format!("/{path}: {e}")),
        }
    }

    /// The names in a directory, sorted.
    pub fn names(&self, path: &str) -> io::Result<Vec<OsString>> {
        let mut names = std::fs::read_dir(self.at(path))?
            .map(|e| e.map(|e| e.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// True where the path exists.
    pub fn has(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn read_capped(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
