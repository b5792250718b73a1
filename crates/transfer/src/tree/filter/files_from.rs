//! A list of files: the exact paths to send (`--files-from`).

use linerate_wire::filter::ListedPath;
use linerate_wire::path::{BadPath, RelPath, printable};
use std::collections::{BTreeMap, BTreeSet};

use super::parse::lines;

/// The most paths of one list, including their parent directories.
pub const MAX_LISTED: usize = 4_000_000;
/// The most memory, in MiB, that the paths of one list may take. In a pull, both ends keep the list in
/// memory.
pub const MAX_LISTED_MIB: usize = 160;
/// The approximate memory in bytes that a path takes in addition to its own bytes.
const PATH_OVERHEAD: usize = 64;

/// The reason why a list isn't accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesFromError {
    /// A line isn't a path below the source.
    #[error(
        "reading the list of files, line {line}: '{shown}' can't be sent: {error}; name paths below the source"
    )]
    Path {
        /// The number of the line, from 1.
        line: usize,
        /// The line, escaped so that it is safe on a terminal.
        shown: String,
        /// The reason why the line isn't a valid path.
        error: BadPath,
    },
    /// The list has more than [`MAX_LISTED`] paths, or takes more than [`MAX_LISTED_MIB`] MiB of memory.
    #[error(
        "the list of files has more than {MAX_LISTED} paths, or more than {MAX_LISTED_MIB} MiB; send the whole tree, or divide the list and run the command for each part"
    )]
    TooMany,
}

/// The result of looking up a path in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// True if the path is sent: it is listed, it is a parent of a listed path, or it is in a directory whose contents
    /// are wanted.
    pub sent: bool,
    /// True if entries below the path are sent, so that a walk enters the path if it is a directory.
    pub entered: bool,
    /// True if the path is sent only if it is a directory, because it is no more than a parent of a listed path.
    pub as_directory: bool,
}

impl Selected {
    /// Whether the entry at this path is sent; `is_directory` is true if the entry is a directory.
    pub fn admits(&self, is_directory: bool) -> bool {
        self.sent && (is_directory || !self.as_directory)
    }
}

/// The paths of a list, separately for each source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesFrom {
    /// The paths for each source, by the source's number on the command line.
    sources: BTreeMap<u32, ListedSource>,
    /// The number of paths of all sources.
    count: usize,
    /// The approximate memory of all paths, in bytes.
    bytes: usize,
}

/// The paths of a list that are below one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedSource {
    /// All listed paths and their parent directories.
    known: BTreeMap<RelPath, Mention>,
}

static NOTHING: ListedSource = ListedSource { known: BTreeMap::new() };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mention {
    listed: bool,
    contents: bool,
    on_the_way: bool,
}

impl FilesFrom {
    /// Reads a list of paths below the only source, which are separated by newlines or (with `nul`) by zero
    /// bytes. Leading slashes are removed. Empty names are ignored. Names that begin with `#` or `;` are
    /// ignored too, unless `nul` is set.
    ///
    /// # Errors
    /// If a path contains `..` or is too long, or there are too many paths.
    pub fn parse(text: &[u8], nul: bool) -> Result<Self, FilesFromError> {
        let mut list = Self::default();
        for (number, line) in names(text, nul, !nul) {
            list.name(0, line).map_err(|error| error.in_line(number))?;
        }
        Ok(list)
    }

    /// Adds the path in `text`, below the source with that number.
    ///
    /// # Errors
    /// If the path contains `..` or is too long, or there are too many paths.
    pub fn name(&mut self, argument: u32, text: &[u8]) -> Result<(), FilesFromError> {
        let listed = listed(argument, text);
        self.add(listed.map_err(|error| FilesFromError::Path { line: 1, shown: printable(text), error })?)
    }

    /// Adds one path, for example one that the other end has sent.
    ///
    /// # Errors
    /// If there are too many paths.
    pub fn add(&mut self, listed: ListedPath) -> Result<(), FilesFromError> {
        let source = self.sources.entry(listed.argument).or_default();
        let before = source.known.len();
        self.bytes += source.add(listed);
        self.count += source.known.len() - before;
        let is_too_much = self.count > MAX_LISTED || self.bytes > MAX_LISTED_MIB << 20;
        if is_too_much { Err(FilesFromError::TooMany) } else { Ok(()) }
    }

    /// The listed paths, sorted by the number of their source and then by their bytes.
    pub fn listed(&self) -> impl Iterator<Item = ListedPath> {
        self.sources.iter().flat_map(|(argument, source)| source.listed(*argument))
    }

    /// The list for one source.
    pub fn of(&self, argument: u32) -> &ListedSource {
        self.sources.get(&argument).unwrap_or(&NOTHING)
    }
}

impl FilesFrom {
    /// The directories that aren't listed themselves but are parents of listed paths. If `whole` is set, directories
    /// inside a listed directory are left out, because a listed directory then stands for all its contents.
    pub fn implied(&self, whole: bool) -> BTreeSet<RelPath> {
        let mut all = ListedSource::default();
        self.listed().for_each(|listed| {
            all.add(listed);
        });
        let is_implied = |path: &RelPath| path.is_root() || all.wants(path, whole).as_directory;
        let below = all.known.iter().filter(|(path, known)| known.on_the_way && !path.is_root());
        let implied =
            below.filter(|(path, _)| is_implied(path) && path.ancestors().all(|above| is_implied(&above)));
        implied.map(|(path, _)| path.clone()).collect()
    }
}

impl FilesFromError {
    /// Sets the line number of this error.
    #[must_use]
    pub fn in_line(self, line: usize) -> Self {
        match self {
            Self::Path { shown, error, .. } => Self::Path { line, shown, error },
            other => other,
        }
    }
}

impl ListedSource {
    /// Adds a path and its parent directories; returns the approximate memory of new paths, in bytes.
    fn add(&mut self, listed: ListedPath) -> usize {
        let mut bytes = 0;
        let ancestors = listed.path.ancestors();
        let known = self.known(listed.path, &mut bytes);
        known.listed = true;
        known.contents |= listed.contents;
        for parent in ancestors {
            let known = self.known(parent, &mut bytes);
            if std::mem::replace(&mut known.on_the_way, true) {
                break;
            }
        }
        bytes
    }

    fn known(&mut self, path: RelPath, bytes: &mut usize) -> &mut Mention {
        let length = path.as_bytes().len();
        self.known.entry(path).or_insert_with(|| {
            *bytes += length + PATH_OVERHEAD;
            Mention::default()
        })
    }

    /// The listed paths, sorted by their bytes.
    pub fn listed(&self, argument: u32) -> impl Iterator<Item = ListedPath> {
        let listed = self.known.iter().filter(|(_, known)| known.listed);
        listed.map(move |(path, known)| ListedPath { path: path.clone(), contents: known.contents, argument })
    }

    /// Whether `path` itself is listed.
    pub fn names(&self, path: &RelPath) -> bool {
        self.known.get(path).is_some_and(|known| known.listed)
    }

    /// Whether a link at `path` is followed as a directory, because a path behind it is listed.
    pub fn leads_through(&self, path: &RelPath) -> bool {
        self.known.get(path).is_some_and(|known| known.on_the_way || known.contents)
    }

    /// Looks up `path`: whether it is sent, and whether a walk has to enter it. `recursive` is true if the user
    /// requested whole trees.
    pub fn wants(&self, path: &RelPath, recursive: bool) -> Selected {
        let is_in_whole = |above: RelPath| self.is_whole(&above);
        self.wants_in(path, recursive && path.ancestors().any(is_in_whole), recursive)
    }

    /// The number of the components of `path`, from the top, that are only parents of listed paths.
    pub fn implied_above(&self, path: &RelPath) -> usize {
        let mut above: Vec<RelPath> = path.ancestors().filter(|above| !above.is_root()).collect();
        above.reverse();
        above.push(path.clone());
        above.iter().take_while(|path| self.wants(path, true).as_directory).count()
    }

    /// Looks up a path as [`Self::wants`] does, if the caller knows whether the path's parent directory is
    /// sent as a whole.
    pub fn wants_in(&self, path: &RelPath, whole: bool, recursive: bool) -> Selected {
        if whole || recursive && self.is_whole(path) {
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

    /// Whether the entries directly in this directory are wanted.
    pub fn has_contents(&self, directory: &RelPath) -> bool {
        self.known.get(directory).is_some_and(|known| known.contents)
    }

    /// Whether the directory at `path` is sent with all its contents, provided that the user requested whole
    /// trees.
    pub fn is_whole(&self, path: &RelPath) -> bool {
        let known = self.known.get(path);
        known.is_some_and(|known| known.listed && (known.contents || !path.is_root()))
    }
}

/// The names in the text of a list, with the numbers of their lines. With `comments`, lines that begin with `#` or `;`
/// are comments.
pub fn names(text: &[u8], nul: bool, comments: bool) -> impl Iterator<Item = (usize, &[u8])> {
    let numbered = lines(text, nul).enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(move |(_, line)| !line.is_empty() && (!comments || !matches!(line[0], b'#' | b';')))
}

fn listed(argument: u32, text: &[u8]) -> Result<ListedPath, BadPath> {
    let parts: Vec<&[u8]> =
        text.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    let path = RelPath::new(parts.join(&b"/"[..]))?;
    let contents = path.is_root() || text.ends_with(b"/") || text.ends_with(b"/.");
    Ok(ListedPath { path, contents, argument })
}
