//! Selects entries: rsync's filter rules, and lists of files.
//!
//! A [`Builder`] reads the user's options into [`Rules`], which are sent to the far end unchanged. From the
//! rules, each end makes a [`Filter`] for its side. A walk uses a [`Scope`] for each directory, with the
//! rules that apply there.
//!
//! ```text
//! let filter = Filter::new(&rules, Side::Sender, place);
//! let top = filter.scope();                                  // around the transfer's root
//! if top.excludes(&path, is_directory) { .. }                // leave it out, and don't descend
//! let inside = top.enter(&path, &mut |name| merge_file(&fd, name))?;   // for what is in that directory
//! ```
//!
//! The time for matching is at most proportional to the length of the pattern times the length of the path,
//! even for patterns with many stars. This is necessary because patterns also come from files in the tree,
//! which other users may have written.

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

pub use builder::{Builder, standard_input};
pub use certain::Certain;
pub use error::FilterError;
pub use files_from::{FilesFrom, FilesFromError, ListedSource, names};
pub use linerate_wire::filter::{Reading, Rules};
pub use merge::{ReadsMergeFile, merge_file};
pub use parse::BadRule;
pub(crate) use pattern::{Pattern, matches_name};
pub use scope::{Filter, Place, Scope, Side};

/// The largest size in bytes of a file with rules.
pub const MAX_FILE: usize = 1 << 20;
/// The greatest depth to which merge files may include each other.
pub const MAX_NESTED: usize = 16;
/// The most files that a merge file in a directory may include, counting itself.
pub const MAX_READ: usize = 32;
