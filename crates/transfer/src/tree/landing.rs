//! Where sources land: scp's rules for the destination, and one more for a slash at its end.

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

/// The destination, held open, and where each source begins below it.
pub struct Landing {
    /// The directory that everything lands below.
    pub root: Root,
    /// For each source the path that its own entry gets, and whether it was announced as a directory.
    pub places: Vec<(RelPath, bool)>,
    /// Sources keep their own names; else the destination is the one source's new name.
    pub within: bool,
    /// True where a directory gets a name that a second run finds taken, and would land in.
    pub is_new: bool,
    /// The destination directory was made for the sources, or would be.
    pub is_made: bool,
    /// How names of the sender become names here.
    pub conversion: Option<NameConversion>,
}

impl Landing {
    /// This landing; if it `keeps_links`, a link to a directory counts as the directory.
    pub fn keeping_links(mut self, keeps_links: bool) -> Self {
        self.root.keeps_links = keeps_links;
        self
    }

    /// This landing with a conversion of the names that the sender sends. The names of the sources are converted already.
    pub fn converting(mut self, conversion: Option<NameConversion>) -> Self {
        self.conversion = conversion;
        self
    }

    /// This landing, where links that are `implied` are followed, as far as they lead nowhere else than below the top.
    /// Directories on the way to what lands are made with `mode`.
    pub fn with_ways(mut self, implied: ImpliedWays, mode: Mode) -> Self {
        (self.root.implied, self.root.mode_above) = (implied, mode);
        self
    }

    /// Decides where `sources` land for a destination as the user wrote it.
    ///
    /// - An existing directory takes every source under its own name; a link to one is followed where nobody else can
    ///   turn it.
    /// - A name that ends in a slash is a directory too, and is made where it is missing.
    /// - Else a single source gets the destination's name; its parent must exist. A link of that name is replaced, and
    ///   never followed: a sender may have put it there the last time.
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

    /// The one source becomes what is at `written`: a directory's contents lie in it. It is made where it is missing;
    /// its parent must exist.
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
                "the destination {} is a directory and the source a file: name the file's place in it",
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
            conversion: None,
        })
    }

    /// Everything lands in `written`, a directory, under its own name, as with rsync: it is made where it is missing, but not in
    /// a dry run. A single file may get the destination's name instead.
    ///
    /// # Errors
    /// If the destination can't take the sources.
    pub fn into(named: &Named, sources: &[Source], dry_run: bool) -> Result<Self, TransferError> {
        let mut at = named.destination()?;
        let has_slash = at.shown.as_os_str().as_bytes().ends_with(b"/");
        let is_one_file = matches!(sources, [source] if !source.directory) && !has_slash;
        match at.there {
            DestinationState::Directory { held, .. } => {
                Ok(Self::side_by_side(open(held, &at.shown)?, sources))
            }
            DestinationState::Nothing if !is_one_file && dry_run => Self::into_nothing(at, sources),
            DestinationState::Nothing if !is_one_file => {
                let made = Self::side_by_side(open(make(&at)?, &at.shown)?, sources);
                Ok(Self { is_made: true, ..made })
            }
            // As rsync does it, it is replaced as a file is.
            DestinationState::Special => {
                at.there = DestinationState::File;
                Self::under_new_name(at, sources)
            }
            _ => Self::under_new_name(at, sources),
        }
    }

    /// Decides as [`Self::into`] does and makes nothing, where directories above the destination would be made, too; returns
    /// how many those are.
    ///
    /// # Errors
    /// If what is there isn't what the sources need.
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
            Self { root, places, within: true, is_new: false, is_made: !is_one_file, conversion: None },
            missing,
        ))
    }

    /// Sources of the same name land on each other.
    fn side_by_side(root: Root, sources: &[Source]) -> Self {
        let places = sources.iter().map(|source| (source.name.clone(), source.directory)).collect();
        Self { root, places, within: true, is_new: false, is_made: false, conversion: None }
    }

    /// In a directory that isn't made.
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
        Ok(Self { root, places, within: true, is_new: false, is_made: true, conversion: None })
    }

    /// As it was when a directory that is there now was not yet: the one source gets its name. `None` where that can't
    /// have been: a slash behind a name has a copy land in it, where a `mirror` becomes it.
    pub fn as_new(named: &Named, sources: &[Source], mirror: bool) -> Option<Self> {
        let at = named.destination().ok()?;
        // A link is no directory that was made.
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
            conversion: None,
        })
    }

    /// True where that directory is there already.
    pub fn has_new_directory(&self) -> bool {
        self.is_new && self.places.iter().any(|(place, _)| self.root.directory(place).is_ok())
    }

    /// The path of an entry below [`Landing::root`]; `None` for an entry of a source that was not announced, or
    /// not as a directory.
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

    /// Whether this source was announced as a directory.
    pub fn is_directory(&self, source: u32) -> bool {
        self.places.get(source as usize).is_some_and(|(_, directory)| *directory)
    }

    /// Where each source begins below [`Landing::root`].
    pub fn places(&self) -> Vec<RelPath> {
        self.places.iter().map(|(place, _)| place.clone()).collect()
    }

    fn into_directory(held: Held, path: &Path, sources: &[Source]) -> Result<Self, TransferError> {
        let root = open(held, path)?;
        let mut places: Vec<RelPath> = sources.iter().map(|source| source.name.clone()).collect();
        places.sort();
        if let Some(twice) = places.windows(2).find(|pair| pair[0] == pair[1] && !pair[0].is_root()) {
            return Err(TransferError::Arguments(format!(
                "two sources are both named {:?} and would land on each other in {}: copy them one by one",
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
            conversion: None,
        })
    }
}

/// Whether the one source, which gets the name of what is there, is a directory; else why it can't get it.
fn takes_name(there: &DestinationState, sources: &[Source]) -> Result<bool, String> {
    let refusal = match (there, sources) {
        (DestinationState::Nothing, [source]) => return Ok(source.directory),
        (DestinationState::Nothing, _) => {
            let count = sources.len();
            return Err(format!(
                "doesn't exist, and {count} sources need a directory: end it in '/' to have it made"
            ));
        }
        (_, [source]) if !source.directory => match there {
            DestinationState::Special => "is a device, a pipe or a socket: name a file or a directory",
            _ => return Ok(false),
        },
        (DestinationState::Link, [_]) => {
            "is a symbolic link that leads to no directory: remove it, or name another place"
        }
        (_, [_]) => "is a file, a directory can't be copied onto it",
        _ => return Err(format!("is a file, and {} sources need a directory: name another", sources.len())),
    };
    Err(refusal.into())
}

pub(crate) fn make(at: &Destination) -> Result<Held, TransferError> {
    // The kernel takes the process's mask from it, unless a default ACL says more.
    at.make(Mode::from_raw_mode(0o777))
}

fn open(held: Held, path: &Path) -> Result<Root, TransferError> {
    Root::at(held, path).map_err(|error| refused("opened", path, error))
}

/// The process's mask for new files, read without leaving it changed.
pub fn umask() -> Mode {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::bounds::Bounds;
    use crate::tree::bounds::tests::while_exchanging;
    use linerate_testing::skip;
    use linerate_wire::entry::Timestamp;
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};
    use std::path::PathBuf;

    fn source(name: &str, directory: bool) -> Source {
        Source { argument: 0, name: RelPath::new(name.as_bytes()).unwrap(), directory }
    }

    /// Neither root nor whoever runs tests.
    const STRANGER: u32 = 5005;

    fn named(directory: &Path, written: &str) -> Named {
        let written = format!("{}/{written}", directory.display());
        Bounds::here().name(written.as_bytes()).unwrap()
    }

    fn find(directory: &Path, written: &str, sources: &[Source]) -> Result<Landing, TransferError> {
        Landing::find(&named(directory, written), sources)
    }

    fn mirror(directory: &Path, written: &str, sources: &[Source]) -> Result<Landing, TransferError> {
        Landing::mirror(&named(directory, written), sources)
    }

    fn entry(source: u32, path: &str) -> Entry {
        let (path, time) = (RelPath::new(path.as_bytes()).unwrap(), Timestamp::default());
        Entry {
            source,
            path,
            kind: Kind::File { size: 0 },
            mode: 0o644,
            mtime: time,
            atime: time,
            extra: None,
        }
    }

    fn place(landing: &Landing, path: &str) -> PathBuf {
        landing.root.shown(&landing.place(&entry(0, path)).unwrap())
    }

    #[test]
    fn an_existing_directory_takes_sources_by_name() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "", &[source("tree", true)]).unwrap();
        assert!(place(&landing, "x/y").ends_with("tree/x/y"));
    }

    #[test]
    fn a_missing_name_becomes_the_source() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "new", &[source("tree", true)]).unwrap();
        assert_eq!(place(&landing, "x"), top.path().join("new/x"));
        assert!(find(top.path(), "no/new", &[source("tree", true)]).is_err(), "the parent must exist");
    }

    #[test]
    fn a_slash_makes_the_directory() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "new/", &[source("a", false), source("b", false)]).unwrap();
        assert_eq!(place(&landing, ""), top.path().join("new/").join("a"));
        assert!(top.path().join("new").is_dir());
    }

    #[test]
    fn what_cannot_land_is_refused() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        assert!(find(top.path(), "file", &[source("tree", true)]).is_err());
        assert!(find(top.path(), "file", &[source("a", false), source("b", false)]).is_err());
        assert!(find(top.path(), "missing", &[source("a", false), source("b", false)]).is_err());
        assert!(find(top.path(), "", &[source("a", false), source("a", false)]).is_err(), "same names");
        assert!(find(top.path(), "file/", &[source("a", false)]).is_err());
    }

    #[test]
    fn a_file_brings_nothing_below_it() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "", &[source("x", false)]).unwrap();
        assert!(landing.place(&entry(0, "")).is_some());
        assert!(landing.place(&entry(0, "y")).is_none());
        assert!(landing.place(&Entry { kind: Kind::Directory, ..entry(0, "") }).is_none());
    }

    /// A link of somebody else's; none where only root could make one.
    fn strange_link(target: &Path, link: &Path) -> Option<()> {
        symlink(target, link).unwrap();
        lchown(link, Some(STRANGER), Some(STRANGER)).ok()
    }

    #[test]
    fn a_link_is_replaced_by_a_file_wherever_it_leads() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("sub")).unwrap();
        fs::write(top.path().join("sub/victim"), "").unwrap();
        for (link, target) in [
            ("file", "sub/victim"),
            ("nowhere", "missing/x"),
            ("loop", "loop"),
            ("chain", "file"),
            ("odd", "file/x"),
        ] {
            symlink(target, top.path().join(link)).unwrap();
            for landing in [find, mirror] {
                let landing = landing(top.path(), link, &[source("x", false)]).unwrap();
                assert_eq!(place(&landing, ""), top.path().join(link), "{link}");
                assert!(landing.root.top().stat("sub".as_ref()).is_ok(), "{link}: beside the link");
                let refused = landing_of_a_tree(top.path(), link);
                assert!(refused.contains("leads to no directory"), "{link}: {refused}");
            }
        }
        assert!(find(top.path(), "nowhere/", &[source("x", false)]).is_err());
        assert!(!top.path().join("missing").exists());
    }

    fn landing_of_a_tree(top: &Path, written: &str) -> String {
        let errors = [find, mirror].map(|landing| landing(top, written, &[source("tree", true)]).err());
        errors.map(|error| error.expect("no place for a tree").to_string()).concat()
    }

    #[test]
    fn a_link_to_a_directory_is_followed_where_nobody_else_can_turn_it() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("real/sub")).unwrap();
        symlink("real", top.path().join("own")).unwrap();
        symlink("own", top.path().join("chain")).unwrap();
        symlink(top.path().join("chain/sub"), top.path().join("far")).unwrap();
        for (written, lands) in [("own", "real"), ("chain", "real"), ("chain/", "real"), ("far", "real/sub")]
        {
            let landing = find(top.path(), written, &[source("x", false)]).unwrap();
            let real = rustix::fs::stat(top.path().join(lands)).unwrap();
            assert_eq!(rustix::fs::fstat(landing.root.top()).unwrap().st_ino, real.st_ino, "{written}");
        }
        assert!(find(top.path(), "own/new", &[source("x", false)]).is_ok(), "on the way");
        assert!(
            Landing::as_new(&named(top.path(), "own"), &[source("tree", true)], false).is_none(),
            "a link was not made by an earlier run"
        );
    }

    #[test]
    fn a_stranger_s_link_is_not_followed_and_named() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("real")).unwrap();
        fs::write(top.path().join("victim"), "").unwrap();
        let at = |name: &str| top.path().join(name);
        if strange_link("real".as_ref(), &at("trap")).is_none() {
            return skip("root", "only root gives links to others");
        }
        symlink("trap", at("own")).unwrap();
        strange_link("own".as_ref(), &at("first")).unwrap();
        for written in ["trap", "trap/", "trap/.", "trap/x", "trap/..", "own", "own/x", "first/x"] {
            for landing in [find, mirror] {
                let error =
                    landing(top.path(), written, &[source("x", false)]).err().expect(written).to_string();
                assert!(error.contains("belongs to user") && error.contains("5005"), "{written}: {error}");
                let link = if written.starts_with("first") { "first" } else { "trap" };
                assert!(error.contains(&format!("/{link} belongs")), "{written}: {error}");
                assert!(error.contains("chown -h"), "{written}: {error}");
            }
        }
        // It is not followed where it leads to no directory: the file takes its place.
        for target in ["victim", "missing"] {
            strange_link(target.as_ref(), &at(&format!("to-{target}"))).unwrap();
            let landing = find(top.path(), &format!("to-{target}"), &[source("x", false)]).unwrap();
            assert_eq!(place(&landing, ""), at(&format!("to-{target}")));
        }
    }

    #[test]
    fn what_was_reached_is_held_though_its_name_goes_to_another() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::create_dir(at("other")).unwrap();
        let landing = find(top.path(), "real", &[source("x", false)]).unwrap();
        let single = find(top.path(), "real/new", &[source("x", false)]).unwrap();
        fs::rename(at("real"), at("moved")).unwrap();
        symlink("other", at("real")).unwrap();
        for landing in [landing, single] {
            let parent = landing.root.directory_or_make(&RelPath::root(), Mode::RWXU).unwrap();
            let mode = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
            rustix::fs::openat(&*parent, "landed", mode, Mode::RUSR).unwrap();
        }
        assert!(at("moved/landed").exists() && !at("other/landed").exists());
    }

    #[test]
    fn a_turning_link_leads_where_it_was_checked() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        for directory in ["mine", "theirs"] {
            fs::create_dir(at(directory)).unwrap();
        }
        symlink("mine", at("own")).unwrap();
        if strange_link("theirs".as_ref(), &at("strange")).is_none() {
            return skip("root", "only root gives links to others");
        }
        let theirs = rustix::fs::stat(at("theirs")).unwrap().st_ino;
        let reached = while_exchanging(&at("own"), &at("strange"), || {
            let landing = find(top.path(), "own", &[source("x", true)]).ok();
            landing.map(|landing| rustix::fs::fstat(landing.root.top()).unwrap().st_ino)
        });
        assert!(reached.iter().any(Option::is_some) && reached.iter().any(Option::is_none), "it turned");
        assert!(!reached.contains(&Some(theirs)), "a stranger's link was followed");
    }

    #[test]
    fn dots_merge_into_the_destination() {
        let top = tempfile::tempdir().unwrap();
        let landing = find(top.path(), "", &[source("", true)]).unwrap();
        assert_eq!(place(&landing, "x"), top.path().join("").join("x"));
        assert!(landing.place(&entry(7, "")).is_none());
    }
}
