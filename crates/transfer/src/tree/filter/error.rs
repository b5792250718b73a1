//! Why rules can't be used.

use linerate_wire::filter::BadRules;
use std::io;

use super::parse::BadRule;
use super::{MAX_FILE, MAX_NESTED, MAX_READ};

/// Why rules can't be used. The texts quote no line of a file, since it may be another user's secret.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A rule of an option or a file is invalid.
    #[error("reading the filter rule {at} failed: {error}")]
    Rule {
        /// The rule itself if it was on the command line, else its file and line.
        at: String,
        /// The fault.
        error: BadRule,
    },
    /// A file with rules can't be read.
    #[error("reading the filter rules in {file} failed: {error}")]
    Read {
        /// The file's name.
        file: String,
        /// The reason.
        error: io::Error,
    },
    /// A file is larger than [`MAX_FILE`].
    #[error("reading the filter rules in {file} failed: it has more than {} KiB", MAX_FILE >> 10)]
    LongFile {
        /// The file's name.
        file: String,
    },
    /// Merge files name each other more than [`MAX_NESTED`] deep, or more than [`MAX_READ`] files are read for one
    /// directory's merge file.
    #[error(
        "reading the filter rules in {file} failed: merge-file include depth limit: merge files name each \
         other more than {MAX_NESTED} deep, or one in a directory names more than {MAX_READ}"
    )]
    Nested {
        /// The last file that was named.
        file: String,
    },
    /// The rules exceed a limit.
    #[error("too much to filter by: {0}; put patterns together with wildcards")]
    Rules(#[from] BadRules),
}

impl FilterError {
    /// The error of rule `line` of `file`.
    pub(super) fn line(file: &str, (line, error): (usize, BadRule)) -> Self {
        Self::Rule { at: format!("in {file}, line {line},"), error }
    }
}
