//! A list of files: exactly what is to be sent.

use linerate_wire::filter::ListedPath;
use linerate_wire::path::{BadPath, RelPath, printable};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The path is to be sent: it is listed, on the way to something listed, or in a directory whose contents are wanted.
    pub sent: bool,
    /// A directory: something in it is to be sent.
    pub entered: bool,
    /// The path is to be sent only where it is a directory: it is on the way to something listed.
    pub as_directory: bool,
}

impl Selected {
    /// Whether a directory, or something else, of this name is to be sent.
    pub fn admits(&self, is_directory: bool) -> bool {
        self.sent && (is_directory || !self.as_directory)
    }
}

/// The paths of a list, those below each source for themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesFrom {
    /// By the sources' numbers on the command line.
    sources: BTreeMap<u32, ListedSource>,
    /// How many paths all of them have.
    count: usize,
    /// Bytes in memory of all of them, about.
    bytes: usize,
}

/// The paths of a list that are below one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedSource {
    /// Every path that is listed or on the way to one.
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
    /// Reads a list of what is below the only source: a path a line, or ended by zero bytes. Slashes in front are taken away;
    /// empty lines are passed over, and so are those that begin with `#` or `;`, unless zero bytes end the names: then they
    /// are names.
    ///
    /// # Errors
    /// If a path has `..`, is too long, or there are too many.
    pub fn parse(text: &[u8], nul: bool) -> Result<Self, FilesFromError> {
        let mut list = Self::default();
        for (number, line) in names(text, nul) {
            list.name(0, line).map_err(|error| error.in_line(number))?;
        }
        Ok(list)
    }

    /// Adds the path that `text` writes, below the source of that number.
    ///
    /// # Errors
    /// If it has `..` or is too long, or there are too many.
    pub fn name(&mut self, argument: u32, text: &[u8]) -> Result<(), FilesFromError> {
        let listed = listed(argument, text);
        self.add(listed.map_err(|error| FilesFromError::Path { line: 1, shown: printable(text), error })?)
    }

    /// Adds one path, such as one from the other end.
    ///
    /// # Errors
    /// If there are too many.
    pub fn add(&mut self, listed: ListedPath) -> Result<(), FilesFromError> {
        let source = self.sources.entry(listed.argument).or_default();
        let before = source.known.len();
        self.bytes += source.add(listed);
        self.count += source.known.len() - before;
        let is_too_much = self.count > MAX_LISTED || self.bytes > MAX_LISTED_MIB << 20;
        if is_too_much { Err(FilesFromError::TooMany) } else { Ok(()) }
    }

    /// The paths that the list names, in the order of their sources and of their bytes.
    pub fn listed(&self) -> impl Iterator<Item = ListedPath> {
        self.sources.iter().flat_map(|(argument, source)| source.listed(*argument))
    }

    /// The list for one source.
    pub fn of(&self, argument: u32) -> &ListedSource {
        self.sources.get(&argument).unwrap_or(&NOTHING)
    }
}

impl FilesFrom {
    /// The directories that are only on the way to what is listed, and so is everything above them. `whole`: listed ones come with
    /// all that is in them.
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
    /// This error, with the number of a line of a list.
    #[must_use]
    pub fn in_line(self, line: usize) -> Self {
        match self {
            Self::Path { shown, error, .. } => Self::Path { line, shown, error },
            other => other,
        }
    }
}

impl ListedSource {
    /// Adds a path with those on the way to it; gives the bytes in memory of what is new, about.
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
            *bytes += length + AROUND;
            Mention::default()
        })
    }

    /// The paths that are named, in the order of their bytes.
    pub fn listed(&self, argument: u32) -> impl Iterator<Item = ListedPath> {
        let listed = self.known.iter().filter(|(_, known)| known.listed);
        listed.map(move |(path, known)| ListedPath { path: path.clone(), contents: known.contents, argument })
    }

    /// Whether the list names `path` itself.
    pub fn names(&self, path: &RelPath) -> bool {
        self.known.get(path).is_some_and(|known| known.listed)
    }

    /// Whether a link at `path` stands for the directory that it leads to: something in that is named.
    pub fn leads_through(&self, path: &RelPath) -> bool {
        self.known.get(path).is_some_and(|known| known.on_the_way || known.contents)
    }

    /// Whether `path` is to be sent, and whether a walk has to look into it; `recursive` where the user asked for
    /// whole trees.
    pub fn wants(&self, path: &RelPath, recursive: bool) -> Selected {
        let is_in_whole = |above: RelPath| self.is_whole(&above);
        self.wants_in(path, recursive && path.ancestors().any(is_in_whole), recursive)
    }

    /// As [`Self::wants`], where it is known whether the directory that holds `path` is sent as a `whole`.
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

    /// Whether what is directly in it is wanted.
    pub fn has_contents(&self, directory: &RelPath) -> bool {
        self.known.get(directory).is_some_and(|known| known.contents)
    }

    /// Whether a directory at `path` comes with all that is in it, where the user asked for whole trees.
    pub fn is_whole(&self, path: &RelPath) -> bool {
        let known = self.known.get(path);
        known.is_some_and(|known| known.listed && (known.contents || !path.is_root()))
    }
}

/// The names in the text of a list, with the numbers of their lines.
pub fn names(text: &[u8], nul: bool) -> impl Iterator<Item = (usize, &[u8])> {
    let numbered = lines(text, nul).enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(move |(_, line)| !line.is_empty() && (nul || !matches!(line[0], b'#' | b';')))
}

fn listed(argument: u32, text: &[u8]) -> Result<ListedPath, BadPath> {
    let parts: Vec<&[u8]> =
        text.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    let path = RelPath::new(parts.join(&b"/"[..]))?;
    let contents = path.is_root() || text.ends_with(b"/") || text.ends_with(b"/.");
    Ok(ListedPath { path, contents, argument })
}
