//! Errors of filter rules.

use linerate_wire::filter::BadRules;
use std::io;

use super::parse::BadRule;
use super::{MAX_FILE, MAX_NESTED, MAX_READ};

/// The reason why filter rules can't be used. The messages quote no line of a file, because the line may be another
/// user's secret.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A rule of an option or a file is invalid.
    #[error("reading the filter rule {at} failed: {error}")]
    Rule {
        /// The location of the rule: the rule itself if it was on the command line, else its file and line
        /// number.
        at: String,
        /// The reason why the rule is invalid.
        error: BadRule,
    },
    /// A file with rules can't be read.
    #[error("reading the filter rules in {file} failed: {error}")]
    Read {
        /// The file's name.
        file: String,
        /// The reason why the file can't be read.
        error: io::Error,
    },
    /// A file is larger than [`MAX_FILE`].
    #[error("reading the filter rules in {file} failed: it has more than {} KiB", MAX_FILE >> 10)]
    LongFile {
        /// The file's name.
        file: String,
    },
    /// Merge files include each other more than [`MAX_NESTED`] levels deep, or more than [`MAX_READ`] files
    /// are read for one directory's merge file.
    #[error(
        "reading the filter rules in {file} failed: merge-file include depth limit: merge files are nested more than {MAX_NESTED} deep, or a merge file in a directory names more than {MAX_READ} files"
    )]
    Nested {
        /// The file that was to be read when the limit was exceeded.
        file: String,
    },
    /// The rules exceed a limit.
    #[error("the filter rules are too many or too long: {0}; combine patterns by wildcards")]
    Rules(#[from] BadRules),
}

impl FilterError {
    /// The error of the invalid rule in `file`, with the number of its line.
    pub(super) fn line(file: &str, (line, error): (usize, BadRule)) -> Self {
        Self::Rule { at: format!("in {file}, line {line},"), error }
    }
}
