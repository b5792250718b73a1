//! Errors in a user's files.

use std::fmt;
use std::ops::Range;

/// An error in a study or tool file: its position, the problem, and a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file, as the user named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key with the name of its table: `case.streams`.
    pub key: String,
    /// The error message.
    pub problem: String,
    /// The most similar correct name.
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

/// The name and the text of a file. The text is needed to convert positions to line numbers.
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// Makes an error at a range of bytes of the file.
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
    /// Adds the most similar of the correct names, if one is similar.
    pub(crate) fn suggest<'n>(mut self, wrong: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.meant = super::nearest(wrong, names).map(str::to_owned);
        self
    }
}
