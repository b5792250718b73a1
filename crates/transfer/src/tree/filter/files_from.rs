//! A list of files: exactly what is to be sent.

use linerate_wire::filter::ListedPath;
use linerate_wire::path::{BadPath, RelPath, printable};
use std::collections::BTreeMap;

use super::parse::lines;

/// The most paths of one list, with the directories on the way to them.
pub const MAX_LISTED: usize = 4_000_000;
/// The most memory that the paths of one list may take, in MiB. In a pull both ends keep the list.
pub const MAX_LISTED_MIB: usize = 160;
/// Bytes in memory of a path beside its own, about.
const AROUND: usize = 64;

/// Why a list isn't accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesFromError {
    /// A line isn't a path below the source.
    #[error(
        "reading the list of files, line {line}: '{shown}' can't be sent: {error}; name paths below the source"
    )]
    Path {
        /// Which, from 1.
        line: usize,
        /// The line, safe on a terminal.
        shown: String,
        /// The fault.
        error: BadPath,
    },
    /// More than [`MAX_LISTED`] or [`MAX_LISTED_MIB`].
    #[error(
        "the list of files has more than {MAX_LISTED} paths, or takes more than {MAX_LISTED_MIB} MiB; send the tree, or lists one \
         after another"
    )]
    TooMany,
}

/// Whether a list selects one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// It is to be sent: it is listed, on the way to something listed, or in a directory whose contents are wanted.
    pub sent: bool,
    /// A directory: something in it is to be sent.
    pub entered: bool,
    /// It is to be sent only where it is a directory: it is on the way to something listed.
    pub as_directory: bool,
}

impl Selected {
    /// Whether a directory, or something else, of this name is to be sent.
    pub fn admits(&self, is_directory: bool) -> bool {
        self.sent && (is_directory || !self.as_directory)
    }
}

/// The paths of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesFrom {
    /// Every path that is listed or on the way to one.
    known: BTreeMap<RelPath, Mention>,
    /// Bytes in memory of all of them, about.
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mention {
    listed: bool,
    contents: bool,
    on_the_way: bool,
}

impl FilesFrom {
    /// Reads a list: a path a line, or ended by zero bytes. Slashes in front are taken away; empty lines are
    /// passed over, and so are those that begin with `#` or `;`, unless zero bytes end the names: then they are names.
    ///
    /// # Errors
    /// If a path has `..`, is too long, or there are too many.
    pub fn parse(text: &[u8], nul: bool) -> Result<Self, FilesFromError> {
        let mut list = Self::default();
        for (index, line) in lines(text, nul).enumerate() {
            if line.is_empty() || !nul && matches!(line[0], b'#' | b';') {
                continue;
            }
            let listed = listed(line).map_err(|error| FilesFromError::Path {
                line: index + 1,
                shown: printable(line),
                error,
            })?;
            list.add(listed)?;
        }
        Ok(list)
    }

    /// Adds one path, such as one from the other end.
    ///
    /// # Errors
    /// If there are too many.
    pub fn add(&mut self, listed: ListedPath) -> Result<(), FilesFromError> {
        let ancestors = listed.path.ancestors();
        let known = self.known(listed.path);
        known.listed = true;
        known.contents |= listed.contents;
        for parent in ancestors {
            let known = self.known(parent);
            if std::mem::replace(&mut known.on_the_way, true) {
                break;
            }
        }
        let is_too_much = self.known.len() > MAX_LISTED || self.bytes > MAX_LISTED_MIB << 20;
        if is_too_much { Err(FilesFromError::TooMany) } else { Ok(()) }
    }

    fn known(&mut self, path: RelPath) -> &mut Mention {
        let bytes = &mut self.bytes;
        let length = path.as_bytes().len();
        self.known.entry(path).or_insert_with(|| {
            *bytes += length + AROUND;
            Mention::default()
        })
    }

    /// The paths that the list names, in the order of their bytes.
    pub fn listed(&self) -> impl Iterator<Item = ListedPath> {
        let listed = self.known.iter().filter(|(_, known)| known.listed);
        listed.map(|(path, known)| ListedPath { path: path.clone(), contents: known.contents })
    }

    /// Whether the list names `path` itself.
    pub fn names(&self, path: &RelPath) -> bool {
        self.known.get(path).is_some_and(|known| known.listed)
    }

    /// Whether `path` is to be sent, and whether a walk has to look into it; `recursive` where the user asked for
    /// whole trees.
    pub fn wants(&self, path: &RelPath, recursive: bool) -> Selected {
        if recursive && self.is_in_listed(path) {
            return Selected { sent: true, entered: true, as_directory: false };
        }
        let known = self.known.get(path).copied().unwrap_or_default();
        let is_named = known.listed || path.parent().is_some_and(|parent| self.has_contents(&parent));
        Selected {
            sent: is_named || known.on_the_way,
            entered: known.contents || known.on_the_way,
            as_directory: !is_named,
        }
    }

    fn has_contents(&self, directory: &RelPath) -> bool {
        self.known.get(directory).is_some_and(|known| known.contents)
    }

    fn is_in_listed(&self, path: &RelPath) -> bool {
        self.names(path) || path.ancestors().any(|above| self.names(&above))
    }
}

fn listed(line: &[u8]) -> Result<ListedPath, BadPath> {
    let parts: Vec<&[u8]> =
        line.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    let path = RelPath::new(parts.join(&b"/"[..]))?;
    let contents = path.is_root() || line.ends_with(b"/") || line.ends_with(b"/.");
    Ok(ListedPath { path, contents })
}
