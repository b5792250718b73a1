//! Errors in a user's files.

use std::fmt;
use std::ops::Range;

/// An error in a study or tool file: its place, its reason, and a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file, as the user named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key, with its table: `case.streams`.
    pub key: String,
    /// The error message.
    pub problem: String,
    /// The nearest name that would be right.
    pub meant: Option<String>,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.problem)?;
        match &self.meant {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FileError {}

/// A file's name and text, which turn a place in it into a line.
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// An error at a range of bytes.
    pub fn error(&self, at: &Range<usize>, key: &str, problem: impl Into<String>) -> FileError {
        let before = self.text.as_bytes().iter().take(at.start);
        FileError {
            file: self.file.to_owned(),
            line: 1 + before.filter(|byte| **byte == b'\n').count(),
            key: key.to_owned(),
            problem: problem.into(),
            meant: None,
        }
    }
}

impl FileError {
    /// Adds the nearest of the names that would be right, if one is near.
    pub(crate) fn suggest<'n>(mut self, wrong: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.meant = super::nearest(wrong, names).map(str::to_owned);
        self
    }
}
