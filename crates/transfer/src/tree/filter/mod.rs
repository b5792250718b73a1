//! Selects entries: rsync's filter rules, and lists of files.
//!
//! A [`Builder`] reads the user's options into [`Rules`], which are sent to the far end unchanged. Each end makes a
//! [`Filter`] from them for its side. A walk calls a [`Scope`]; each directory has its own.
//!
//! ```text
//! let filter = Filter::new(&rules, Side::Sender, place);
//! let top = filter.scope();                                  // around the transfer's root
//! if top.excludes(&path, is_directory) { .. }                // leave it out, and don't descend
//! let inside = top.enter(&path, &mut |name| merge_file(&fd, name))?;   // for what is in that directory
//! ```
//!
//! The time for matching is limited by the length of the pattern times the length of the path, whatever stars a pattern
//! has, because patterns also come from files in the tree, which other users may have written.

pub mod attributes;
mod builder;
mod certain;
mod cvs;
mod error;
pub mod files_from;
mod head;
mod merge;
mod parse;
mod pattern;
mod rule;
mod scope;
#[cfg(test)]
mod tests;

pub use builder::Builder;
pub use certain::Certain;
pub use error::FilterError;
pub use files_from::{FilesFrom, FilesFromError, ListedSource, names};
pub use linerate_wire::filter::{Reading, Rules};
pub use merge::{ReadsMergeFile, merge_file};
pub use parse::BadRule;
pub(crate) use pattern::{Pattern, matches_name};
pub use scope::{Filter, Place, Scope, Side};

/// The largest file with rules in bytes.
pub const MAX_FILE: usize = 1 << 20;
/// How deeply merge files may name each other.
pub const MAX_NESTED: usize = 16;
/// How many files a merge file in a directory may include, counting itself.
pub const MAX_READ: usize = 32;
