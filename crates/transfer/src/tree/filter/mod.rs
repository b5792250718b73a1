//! Selects entries: rsync's filter rules, and lists of files.
//!
//! A [`Builder`] reads the user's options into [`Rules`], which travel to the far end as they are. Each end makes a
//! [`Filter`] of them for its side. A walk asks a [`Scope`], of which every directory has its own:
//!
//! ```text
//! let filter = Filter::new(&rules, Side::Sender, place);
//! let top = filter.scope();                                  // around the transfer's root
//! if top.excludes(&path, is_directory) { .. }                // leave it out, and don't descend
//! let inside = top.enter(&path, &mut |name| merge_file(&fd, name))?;   // for what is in that directory
//! ```
//!
//! Matching needs time that grows with the pattern times the path, whatever stars a pattern has: patterns also come
//! from files in the tree, which others may have written.

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
/// How deep merge files may name each other.
pub const MAX_NESTED: usize = 16;
/// How many files a merge file in a directory may bring in, itself included.
pub const MAX_READ: usize = 32;
