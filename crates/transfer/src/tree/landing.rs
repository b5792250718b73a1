//! Determines where sources land at the destination: by scp's rules, and an additional rule for a slash at
//! the end of the destination.

use linerate_wire::control::Source;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::Mode;
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::base::problem::TransferError;
use crate::tree::bounds::{Destination, DestinationState, Held, Named, refused};
use crate::tree::charsets::NameConversion;
use crate::tree::root::Root;
use crate::tree::ways::ImpliedWays;

/// The destination, kept open, and the path at which each source lands below it.
pub struct Landing {
    /// The directory below which everything lands.
    pub root: Root,
    /// For each source: the path of its own entry, and whether it was announced as a directory.
    pub places: Vec<(RelPath, bool)>,
    /// True if sources keep their own names; false if the only source gets the destination's name.
    pub within: bool,
    /// True if the only source is a directory that gets a new name. In a second run, the name would already
    /// exist, and the source would land inside that directory.
    pub is_new: bool,
    /// True if the destination directory was created for the sources, or would be created without a dry run.
    pub is_made: bool,
    /// True if the destination was written with a slash at its end.
    pub has_slash: bool,
    /// The conversion of the sender's names to names at this end.
    pub conversion: Option<NameConversion>,
}

impl Landing {
    /// Sets whether a link to a directory below the destination counts as the directory.
    pub fn keeping_links(mut self, keeps_links: bool) -> Self {
        self.root.keeps_links = keeps_links;
        self
    }

    /// Sets the conversion for names that the sender sends. The names of the sources are already converted.
    pub fn converting(mut self, conversion: Option<NameConversion>) -> Self {
        self.conversion = conversion;
        self
    }

    /// Sets whether the destination was written with a slash at its end.
    pub fn written_with_slash(mut self, has_slash: bool) -> Self {
        self.has_slash = has_slash;
        self
    }

    /// Sets the `implied` links, which are followed if they lead below the landing's top. Missing parent
    /// directories are created with `mode`.
    pub fn with_ways(mut self, implied: ImpliedWays, mode: Mode) -> Self {
        (self.root.implied, self.root.mode_above) = (implied, mode);
        self
    }

    /// Decides where `sources` land for a destination as the user wrote it.
    ///
    /// - An existing directory takes every source under its own name. A link to a directory is followed if no other
    ///   user can change the link.
    /// - A name that ends in a slash is a directory too, and is created if it is missing.
    /// - Otherwise a single source gets the destination's name; the destination's parent must exist. A link of that
    ///   name is replaced and never followed, because a sender may have created the link in an earlier run.
    ///
    /// # Errors
    /// If the destination can't take the sources.
    pub fn find(named: &Named, sources: &[Source]) -> Result<Self, TransferError> {
        let at = named.destination()?;
        if let DestinationState::Directory { held, .. } = at.there {
            return Self::into_directory(held, &at.shown, sources);
        }
        if at.shown.as_os_str().as_bytes().ends_with(b"/") {
            let made = make(&at)?;
            return Self::into_directory(made, &at.shown, sources);
        }
        Self::under_new_name(at, sources)
    }

    /// A landing in which the only source becomes the entry at `named`, so that a source directory's contents
    /// are directly in the destination. The directory is created if it is missing; its parent must exist.
    ///
    /// # Errors
    /// If the destination can't take the source.
    pub fn mirror(named: &Named, sources: &[Source]) -> Result<Self, TransferError> {
        let [source] = sources else {
            let message = "sync takes exactly one source, and the pattern matches several: name one";
            return Err(TransferError::Arguments(message.into()));
        };
        let at = named.destination()?;
        let DestinationState::Directory { held, .. } = at.there else {
            let landing = Self::under_new_name(at, sources)?;
            return Ok(Self { is_new: false, ..landing });
        };
        if !source.directory {
            return Err(TransferError::Arguments(format!(
                "the destination {} is a directory and the source a file: name the file's path in that directory",
                at.shown.display()
            )));
        }
        let root = open(held, &at.shown)?;
        Ok(Self {
            root,
            places: vec![(RelPath::root(), true)],
            within: false,
            is_new: false,
            is_made: false,
            has_slash: false,
            conversion: None,
        })
    }

    /// A landing in which all sources land in the directory `named` under their own names, as with rsync. The
    /// directory is created if it is missing, except in a dry run. A single file may get the destination's
    /// name instead.
    ///
    /// # Errors
    /// If the destination can't take the sources.
    pub fn into(named: &Named, sources: &[Source], dry_run: bool) -> Result<Self, TransferError> {
        let has_slash = named.shown().as_os_str().as_bytes().ends_with(b"/");
        let is_one_file = matches!(sources, [source] if !source.directory) && !has_slash;
        let make = |at: &Destination| make(at).map_err(not_made);
        let unreached = |error| {
            let is_wrong = is_one_file || named.strangers_link().is_some();
            if is_wrong { error } else { not_made(error) }
        };
        let mut at = named.destination().map_err(unreached)?;
        match at.there {
            DestinationState::Directory { held, .. } => {
                Ok(Self::side_by_side(open(held, &at.shown)?, sources))
            }
            DestinationState::Nothing if !is_one_file && dry_run => Self::into_nothing(at, sources),
            DestinationState::Nothing if !is_one_file => {
                let made = Self::side_by_side(open(make(&at)?, &at.shown)?, sources);
                Ok(Self { is_made: true, ..made })
            }
            _ if has_slash => Err(TransferError::Arguments(format!(
                "the destination {} is not a directory: remove it, or name another place",
                at.shown.display()
            ))),
            // As with rsync, a special file is replaced like a regular file.
            DestinationState::Special => {
                at.there = DestinationState::File;
                Self::under_new_name(at, sources)
            }
            _ => Self::under_new_name(at, sources),
        }
    }

    /// The landing of [`Self::into`] for a dry run in which missing directories above the destination would be created
    /// too. Creates nothing. Also returns the number of the missing directories above the destination.
    ///
    /// # Errors
    /// If an existing entry is of the wrong kind for the sources.
    pub fn into_unmade(named: &Named, sources: &[Source]) -> Result<(Self, u64), TransferError> {
        let (above, below) = named.above();
        let below = RelPath::new(below).ok().filter(|below| below.components().count() > 1);
        let Some(below) = below else { return Ok((Self::into(named, sources, true)?, 0)) };
        let missing = below.components().count() as u64 - 1;
        let has_slash = named.shown().as_os_str().as_bytes().ends_with(b"/");
        let is_one_file = matches!(sources, [source] if !source.directory) && !has_slash;
        let place = |source: &Source| match is_one_file || source.name.is_root() {
            true => Some((below.clone(), source.directory)),
            false => Some((below.join(source.name.as_bytes()).ok()?, source.directory)),
        };
        let places = sources.iter().map(place).collect::<Option<_>>();
        let places =
            places.ok_or_else(|| TransferError::Arguments("the destination's name is too long".into()))?;
        let root = above.directory()?;
        Ok((
            Self {
                root,
                places,
                within: true,
                is_new: false,
                is_made: !is_one_file,
                has_slash: false,
                conversion: None,
            },
            missing,
        ))
    }

    /// A landing in `root` under the sources' own names. Sources of the same name land at the same place.
    fn side_by_side(root: Root, sources: &[Source]) -> Self {
        let places = sources.iter().map(|source| (source.name.clone(), source.directory)).collect();
        Self { root, places, within: true, is_new: false, is_made: false, has_slash: false, conversion: None }
    }

    /// A landing in a directory that isn't created (dry run).
    fn into_nothing(at: Destination, sources: &[Source]) -> Result<Self, TransferError> {
        let (root, name) = at.into_place()?;
        let name = RelPath::new(name.as_bytes());
        let below = |source: &Source| match source.name.is_root() {
            true => name.clone(),
            false => name.clone().and_then(|name| name.join(source.name.as_bytes())),
        };
        let places = sources.iter().map(|source| below(source).map(|place| (place, source.directory)));
        let places: Result<Vec<_>, _> = places.collect();
        let places =
            places.map_err(|error| TransferError::Arguments(format!("the destination's name: {error}")))?;
        Ok(Self {
            root,
            places,
            within: true,
            is_new: false,
            is_made: true,
            has_slash: false,
            conversion: None,
        })
    }

    /// The landing as it was before the existing destination directory was created: the only source gets the
    /// directory's name. `None` if the directory can't have been created in this way. For example, a copy to a name
    /// with a slash at its end lands inside the directory. If `mirror` is set, the source becomes the directory in this
    /// case too.
    pub fn as_new(named: &Named, sources: &[Source], mirror: bool) -> Option<Self> {
        let at = named.destination().ok()?;
        // A link at the destination isn't a directory that an earlier run created.
        let is_directory = matches!(at.there, DestinationState::Directory { by_link: false, .. });
        let has_slash = at.shown.as_os_str().as_bytes().ends_with(b"/");
        let ([source], true) = (sources, is_directory && (mirror || !has_slash)) else { return None };
        let (root, name) = at.into_place().ok()?;
        let place = RelPath::new(name.as_bytes()).ok().filter(|_| source.directory)?;
        Some(Self {
            root,
            places: vec![(place, true)],
            within: false,
            is_new: !mirror,
            is_made: false,
            has_slash: false,
            conversion: None,
        })
    }

    /// True if the new directory of this landing already exists.
    pub fn has_new_directory(&self) -> bool {
        self.is_new && self.places.iter().any(|(place, _)| self.root.directory(place).is_ok())
    }

    /// The place of an entry below [`Landing::root`]; `None` if the entry's source wasn't announced, or if only a
    /// directory can have such an entry and the source wasn't announced as one.
    pub fn place<'e>(&self, entry: &'e Entry) -> Option<Cow<'e, RelPath>> {
        let (place, directory) = self.places.get(entry.source as usize)?;
        let path = &entry.path;
        if !directory && (!path.is_root() || entry.kind == Kind::Directory) {
            return None;
        }
        if path.is_root() {
            return Some(Cow::Owned(place.clone()));
        }
        let path = match self.conversion {
            Some(conversion) => Cow::Owned(conversion.path(path)?),
            None => Cow::Borrowed(path),
        };
        if place.is_root() {
            return Some(path);
        }
        RelPath::new([place.as_bytes(), b"/", path.as_bytes()].concat()).ok().map(Cow::Owned)
    }

    /// True if `entry` is a source's own entry, and an earlier source lands at the same place.
    pub fn has_earlier(&self, entry: &Entry) -> bool {
        let (source, is_top) = (entry.source as usize, entry.path.is_root());
        self.places.get(source).is_some_and(|place| is_top && self.places[..source].contains(place))
    }

    /// Whether this source was announced as a directory.
    pub fn is_directory(&self, source: u32) -> bool {
        self.places.get(source as usize).is_some_and(|(_, directory)| *directory)
    }

    /// The place of each source below [`Landing::root`].
    pub fn places(&self) -> Vec<RelPath> {
        self.places.iter().map(|(place, _)| place.clone()).collect()
    }

    fn into_directory(held: Held, path: &Path, sources: &[Source]) -> Result<Self, TransferError> {
        let root = open(held, path)?;
        let mut places: Vec<RelPath> = sources.iter().map(|source| source.name.clone()).collect();
        places.sort();
        if let Some(twice) = places.windows(2).find(|pair| pair[0] == pair[1] && !pair[0].is_root()) {
            return Err(TransferError::Arguments(format!(
                "two sources are both named {:?} and would overwrite each other in {}: copy them one by one",
                twice[0],
                path.display()
            )));
        }
        Ok(Self {
            root,
            places: sources.iter().map(|source| (source.name.clone(), source.directory)).collect(),
            within: true,
            is_new: false,
            is_made: false,
            has_slash: false,
            conversion: None,
        })
    }

    fn under_new_name(at: Destination, sources: &[Source]) -> Result<Self, TransferError> {
        let shown = at.shown.clone();
        let refused =
            |why: String| TransferError::Arguments(format!("the destination {} {why}", shown.display()));
        let directory = takes_name(&at.there, sources).map_err(refused)?;
        let (root, name) = at.into_place()?;
        let place =
            RelPath::new(name.as_bytes()).map_err(|error| refused(format!("has no name: {error}")))?;
        Ok(Self {
            root,
            places: vec![(place, directory)],
            within: false,
            is_new: directory,
            is_made: false,
            has_slash: false,
            conversion: None,
        })
    }
}

/// Whether the only source, which gets the name of an existing entry, is a directory; or the reason why the
/// source can't get that name.
fn takes_name(there: &DestinationState, sources: &[Source]) -> Result<bool, String> {
    let refusal = match (there, sources) {
        (DestinationState::Nothing, [source]) => return Ok(source.directory),
        (DestinationState::Nothing, _) => {
            let count = sources.len();
            return Err(format!(
                "doesn't exist, and {count} sources need a directory: write a '/' at its end, so that it is created"
            ));
        }
        (_, [source]) if !source.directory => match there {
            DestinationState::Special => "is a device, a pipe or a socket: name a file or a directory",
            _ => return Ok(false),
        },
        (DestinationState::Link, [_]) => {
            "is a symbolic link that leads to no directory: remove it, or name another place"
        }
        (_, [_]) => "is a file, and a directory can't replace it",
        _ => {
            return Err(format!(
                "is a file, and {} sources need a directory: name a directory",
                sources.len()
            ));
        }
    };
    Err(refusal.into())
}

/// Changes the kind of the error that a directory can't be created: for rsync, this isn't an error of the arguments.
fn not_made(error: TransferError) -> TransferError {
    match error {
        TransferError::Arguments(why) => TransferError::Failed(why),
        error => error,
    }
}

pub(crate) fn make(at: &Destination) -> Result<Held, TransferError> {
    // The kernel applies the process's umask to this mode, unless a default ACL replaces the umask.
    at.make(Mode::from_raw_mode(0o777))
}

fn open(held: Held, path: &Path) -> Result<Root, TransferError> {
    Root::at(held, path).map_err(|error| refused("opened", path, error))
}

#[cfg(test)]
mod tests;
