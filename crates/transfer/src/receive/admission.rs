//! Judges every entry that the other end offers or sends, in a push and in a pull: whether the entry was requested,
//! whether its name is allowed, and whether its kind fits. Only entries of the type [`Admitted`] are ever written, and
//! only this module makes values of this type.

use linerate_wire::control::{Keep, MUNGED, Options, Source};
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::{RelPath, printable};
use std::borrow::Cow;
use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::problem::{Refused, TransferError};
use crate::tree::charsets::NameConversion;
use crate::tree::filter::{Certain, FilesFrom, ListedSource};
use crate::tree::landing::Landing;
use crate::tree::metadata::unasked;
use crate::tree::pattern;
use crate::tree::safe_link::leads_out;
use crate::tree::temporary::is_reserved;

/// The user's request to a far end that sends.
pub struct Request<'a> {
    /// The sources as the user wrote them.
    pub sources: &'a [Vec<u8>],
    /// The options of the request.
    pub options: &'a Options,
    /// The list of files, if the user gave one. If there is a list, only the files on it are sent.
    pub listed: Option<&'a FilesFrom>,
}

/// An entry that may be written, and its place. The entry is borrowed if it needn't be changed, so that comparing an
/// unchanged tree copies no entries in memory.
#[derive(Clone, Debug)]
pub struct Admitted<'e> {
    entry: Cow<'e, Entry>,
    /// The place, if it differs from the entry's own path.
    place: Option<RelPath>,
}

/// The rules by which all entries of a transfer are judged.
pub struct Terms<'a> {
    landing: &'a Landing,
    keep: Keep,
    asked: Option<Asked<'a>>,
    /// For each source: whether the source's own entry has arrived.
    arrived: Vec<AtomicBool>,
    /// True if a source directory's own entry may be missing.
    may_lack: bool,
    /// True if a source may be a symbolic link.
    takes_links: bool,
    /// True if each link's text is changed so that the link leads nowhere.
    munges: bool,
}

/// The part of a request that concerns the entries below the sources.
struct Asked<'a> {
    rules: Certain,
    listed: Option<&'a FilesFrom>,
    /// For each announced source, the number of the command-line argument that named it.
    arguments: Vec<u32>,
    /// True if a listed directory stands for all its contents.
    listed_whole: bool,
    safe_links: bool,
    no_links: bool,
}

/// Judges the entries of a transfer, one after another.
pub struct Judge<'a> {
    terms: &'a Terms<'a>,
    /// The number of the last entry's source.
    source: u32,
    /// The directory that holds the last entry.
    parent: RelPath,
    /// For each directory above `parent`, from the top, and then for `parent`: whether the rules leave it out.
    left_out: Vec<bool>,
    /// The number of entries for which the rules were evaluated so far.
    asked_about: usize,
    /// The number of parent directories for which the rules were evaluated so far.
    directories: usize,
}

/// The most parent directories for which the rules are evaluated, in addition to `DIRECTORIES_EACH` for each entry. A
/// walk names the entries of a directory one after the other, so few of an entry's parent directories are new.
/// Without a limit, a far end could make this end evaluate rules without end by naming new directories again and
/// again.
const DIRECTORIES: usize = 16_384;
/// For each entry, the rules may be evaluated for this many more parent directories.
const DIRECTORIES_EACH: usize = 64;

impl Request<'_> {
    /// Judges the sources that the far end announces. Only requested sources are allowed, and only under
    /// their own names. If an argument ends in a slash, its source must be a directory.
    ///
    /// # Errors
    /// If an announced source wasn't requested, or was requested under another name or as another kind of entry.
    pub fn admit(&self, announced: &[Source]) -> Result<(), TransferError> {
        match announced.iter().find(|source| !self.names(source)) {
            None => Ok(()),
            Some(source) => Err(TransferError::FarEnd(format!(
                "the far end wants to send '{}', which this command didn't request: nothing was written",
                printable(source.name.as_bytes())
            ))),
        }
    }

    fn names(&self, source: &Source) -> bool {
        let Some(asked) = self.sources.get(source.argument as usize) else { return false };
        let fits = if source.directory { self.options.recursive } else { !must_be_directory(asked) };
        let wanted = pattern::name_of(asked, true);
        let name = source.name.as_bytes();
        let is_home = pattern::name_of_home(asked).is_some_and(|user| name == user);
        let is_named = name == wanted || is_home || pattern::matches(&wanted, name);
        fits && is_named && source.name.components().count() <= 1
    }
}

/// Refuses a source whose name is reserved for temporary files, even if it was requested.
///
/// # Errors
/// If a source has such a name.
pub fn refuse_reserved(announced: &[Source]) -> Result<(), TransferError> {
    match announced.iter().find(|source| source.name.components().any(is_reserved)) {
        None => Ok(()),
        Some(source) => Err(TransferError::Breach(format!(
            "the far end breaks the protocol: it sends '{}', a name reserved for temporary files of linerate: nothing was written",
            printable(source.name.as_bytes())
        ))),
    }
}

/// True for an argument that can only name a directory, such as one that ends in a slash.
fn must_be_directory(asked: &[u8]) -> bool {
    asked.ends_with(b"/") || pattern::name_of(asked, true).is_empty()
}

/// The entry. If it is a symbolic link, [`MUNGED`] is inserted before its target.
fn munged(entry: Cow<'_, Entry>) -> Cow<'_, Entry> {
    let Kind::Symlink { target } = &entry.kind else { return entry };
    let target = [MUNGED, target].concat();
    Cow::Owned(Entry { kind: Kind::Symlink { target }, ..entry.into_owned() })
}

/// The entry. If it is a symbolic link, its target is converted to the receiver's character set.
fn with_converted_link(entry: Cow<'_, Entry>, conversion: NameConversion) -> Result<Cow<'_, Entry>, Refused> {
    let Kind::Symlink { target } = &entry.kind else { return Ok(entry) };
    let why = "a link whose target can't be written in the destination's character set";
    let Some(target) = conversion.forth(target) else {
        return Err(Refused { path: entry.path.clone(), why });
    };
    Ok(Cow::Owned(Entry { kind: Kind::Symlink { target }, ..entry.into_owned() }))
}

impl Admitted<'_> {
    /// The admitted entry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The place of the entry, below the root of the landing.
    pub fn place(&self) -> &RelPath {
        self.place.as_ref().unwrap_or(&self.entry.path)
    }
}

impl<'a> Terms<'a> {
    /// The terms for a transfer with `options` whose entries land at `landing`; `request` is set if this end requested
    /// the entries.
    pub fn new(landing: &'a Landing, options: &Options, request: Option<&Request<'a>>) -> Self {
        let asked = request.map(|request| Asked {
            rules: Certain::new(&options.filter),
            listed: request.listed,
            arguments: Vec::new(),
            listed_whole: options.listed_whole,
            safe_links: options.safe_links,
            no_links: options.no_links || options.copy_links,
        });
        let arrived = landing.places.iter().map(|_| AtomicBool::new(false)).collect();
        let may_lack = options.listed || options.prune_empty;
        let takes_links = options.sync.as_ref().is_some_and(|sync| sync.into);
        let munges = options.details.munge;
        Self { landing, keep: options.keep, asked, arrived, may_lack, takes_links, munges }
    }

    /// These terms, completed by the sources that the other end announced. Before this call, the terms treat no entry
    /// as listed.
    pub fn announced(mut self, sources: &[Source]) -> Self {
        if let Some(asked) = &mut self.asked {
            asked.arguments = sources.iter().map(|source| source.argument).collect();
        }
        self
    }

    /// The landing.
    pub fn landing(&self) -> &'a Landing {
        self.landing
    }

    /// True if this end requested the sources.
    pub fn is_request(&self) -> bool {
        self.asked.is_some()
    }

    /// Whether links that point outside the tree are refused.
    pub fn refuses_links_out(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.safe_links)
    }

    /// The path of a link that decides whether the link points outside its tree: `place`, the path below the
    /// destination, if a source may be a symbolic link; otherwise `path`, the path at the sender.
    pub fn seen<'p>(&self, place: &'p RelPath, path: &'p RelPath) -> &'p RelPath {
        if self.takes_links { place } else { path }
    }

    /// The number of announced sources whose own entries haven't arrived. The count leaves out directories whose own
    /// entries may be missing, because there is a list of files or because empty directories aren't sent. It also
    /// leaves out sources that may be symbolic links, because the command may leave out such links.
    pub fn missing(&self) -> usize {
        let may_be_left_out = |directory: bool| if directory { self.may_lack } else { self.takes_links };
        let each = self.landing.places.iter().zip(&self.arrived);
        let missing = each.filter(|((_, directory), arrived)| {
            !may_be_left_out(*directory) && !arrived.load(Ordering::Relaxed)
        });
        missing.count()
    }

    /// The places of directories whose own entries haven't arrived and may be missing.
    pub fn unlisted(&self) -> impl Iterator<Item = &RelPath> {
        let places = self.landing.places.iter().zip(&self.arrived).filter(|_| self.may_lack);
        places.filter_map(|((place, directory), arrived)| {
            (*directory && !arrived.load(Ordering::Relaxed)).then_some(place)
        })
    }
}

impl<'a> Asked<'a> {
    /// The list of files for an announced source.
    fn list(&self, source: u32) -> Option<&'a ListedSource> {
        // If a source wasn't announced, its entries have already been refused.
        let argument = self.arguments.get(source as usize).copied().unwrap_or(u32::MAX);
        self.listed.map(|listed| listed.of(argument))
    }
}

impl<'a> Judge<'a> {
    /// A judge that uses `terms`.
    pub fn new(terms: &'a Terms<'a>) -> Self {
        Self {
            terms,
            source: 0,
            parent: RelPath::root(),
            left_out: Vec::new(),
            asked_about: 0,
            directories: 0,
        }
    }

    /// Admits an entry.
    ///
    /// # Errors
    /// If the entry wasn't requested or isn't allowed, or if the target of a link can't be converted to the receiver's
    /// character set.
    pub fn admit<'e>(&mut self, entry: Cow<'e, Entry>) -> Result<Admitted<'e>, Refused> {
        let place = match self.place(&entry) {
            Ok(Cow::Owned(place)) => Some(place),
            Ok(Cow::Borrowed(_)) => None,
            Err(why) => return Err(Refused { path: entry.path.clone(), why }),
        };
        let entry = match self.terms.landing.conversion {
            Some(conversion) => with_converted_link(entry, conversion)?,
            None => entry,
        };
        Ok(Admitted { entry: if self.terms.munges { munged(entry) } else { entry }, place })
    }

    /// Whether entries in the directory `entry` may be deleted. If there is a list of files, they may be deleted only
    /// if the directory's contents are on the list.
    pub fn may_clear(&self, entry: &Entry) -> bool {
        let asked = self.terms.asked.as_ref();
        asked.and_then(|asked| Some((asked, asked.list(entry.source)?))).is_none_or(|(asked, list)| {
            let is_listed = || entry.path.ancestors().any(|above| list.is_whole(&above));
            list.has_contents(&entry.path)
                || asked.listed_whole && (list.is_whole(&entry.path) || is_listed())
        })
    }

    /// The place of the file's first name, if `entry` is a further hard link of the file. The sender has the first name
    /// at `path` of the source `source`.
    ///
    /// # Errors
    /// If the first name doesn't belong to an announced source.
    pub fn first_place(&self, entry: &Entry, source: u32, path: &RelPath) -> Result<RelPath, Refused> {
        let first = Entry { source, path: path.clone(), kind: Kind::Fifo, extra: None, ..*entry };
        let why = "a hard link to a file that was not announced";
        let place = self.terms.landing.place(&first).map(Cow::into_owned);
        place.ok_or_else(|| Refused { path: entry.path.clone(), why })
    }

    fn place<'e>(&mut self, entry: &'e Entry) -> Result<Cow<'e, RelPath>, &'static str> {
        if let Some(why) = unasked(&entry.kind, entry.extra.as_deref(), &self.terms.keep) {
            return Err(why);
        }
        let place =
            self.terms.landing.place(entry).ok_or("an entry that doesn't belong to an announced source")?;
        if entry.path.components().chain(place.components()).any(is_reserved) {
            return Err("a name reserved for temporary files of linerate");
        }
        let conversion = self.terms.landing.conversion;
        // Rules and link texts are the sender's, so they are evaluated with the sender's names.
        let theirs = conversion.and_then(|conversion| conversion.path_back(&place)).map(Cow::Owned);
        let seen = theirs.unwrap_or(Cow::Borrowed(&*place));
        let seen = if self.terms.takes_links { &*seen } else { &entry.path };
        match entry.path.is_root() {
            true => self.own_entry(entry, seen)?,
            false => self.asked_for(entry, seen)?,
        }
        Ok(place)
    }

    /// Checks a source's own entry, which must be of the announced kind. If the source's name is a link, the sender
    /// followed the link when it looked up the source, unless links are sent as links.
    fn own_entry(&self, entry: &Entry, seen: &RelPath) -> Result<(), &'static str> {
        let is_directory = self.terms.landing.is_directory(entry.source);
        match entry.kind {
            Kind::Symlink { .. } if is_directory || !self.terms.takes_links => {
                return Err("a symbolic link in place of the source");
            }
            Kind::Symlink { ref target } => self.link_asked_for(seen, target)?,
            Kind::Directory => {}
            _ if is_directory => return Err("another kind of entry in place of the announced directory"),
            _ => {}
        }
        let listed = self.terms.asked.as_ref().and_then(|asked| asked.list(entry.source));
        if is_directory && listed.is_some_and(|listed| !listed.names(&RelPath::root())) {
            return Err("the source's own entry, which isn't on the list of files");
        }
        self.terms.arrived[entry.source as usize].store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that links were requested, and that this link points where links may point.
    fn link_asked_for(&self, seen: &RelPath, target: &[u8]) -> Result<(), &'static str> {
        let Some(asked) = &self.terms.asked else { return Ok(()) };
        if asked.no_links {
            return Err("a symbolic link, although this command leaves links out or follows them");
        }
        if asked.safe_links && leads_out(seen, target) {
            return Err("a link that leads out of the tree, although --safe-links leaves such links out");
        }
        Ok(())
    }

    /// Checks an entry by the list of files and by the rules. The rules see the entry at the path `seen`.
    fn asked_for(&mut self, entry: &Entry, seen: &RelPath) -> Result<(), &'static str> {
        let Some(asked) = &self.terms.asked else { return Ok(()) };
        let is_directory = entry.kind == Kind::Directory;
        if let Some(listed) = asked.list(entry.source)
            && !listed.wants(&entry.path, asked.listed_whole).admits(is_directory)
        {
            return Err("an entry that isn't on the list of files");
        }
        if let Kind::Symlink { target } = &entry.kind {
            self.link_asked_for(seen, target)?;
        }
        if asked.rules.is_empty() {
            return Ok(());
        }
        // The rules don't see the directories above listed paths.
        let above = seen.components().count().saturating_sub(entry.path.components().count());
        let implied = asked.list(entry.source).map_or(0, |listed| above + listed.implied_above(&entry.path));
        match self.is_left_out(&asked.rules, (entry.source, implied), seen, is_directory) {
            Some(false) => Ok(()),
            Some(true) => Err("an entry that this command's filter rules leave out"),
            None => Err("too many different directories in the paths"),
        }
    }

    /// Whether the rules leave out `path` or a directory above it; `None` if the evaluation would take too long.
    /// The first `implied` components of the path aren't judged.
    fn is_left_out(
        &mut self,
        rules: &Certain,
        (source, implied): (u32, usize),
        path: &RelPath,
        is_directory: bool,
    ) -> Option<bool> {
        let parent = path.parent().unwrap_or_default();
        self.asked_about += 1;
        self.go_to(rules, (source, implied), parent)?;
        let is_below = self.left_out.last().copied().unwrap_or(false);
        let is_judged = path.components().count() > implied;
        Some(is_below || is_judged && rules.excludes(path, is_directory))
    }

    /// Makes `parent` the current directory and evaluates the rules for it and the directories above it. For
    /// directories that were also above the last entry, the results are already known.
    fn go_to(&mut self, rules: &Certain, (source, implied): (u32, usize), parent: RelPath) -> Option<()> {
        // Another source has another list.
        if source != self.source {
            (self.source, self.parent) = (source, RelPath::root());
            self.left_out.clear();
        }
        // Most entries are in the same directory as the entry before.
        if parent == self.parent {
            return Some(());
        }
        let both = self.parent.components().zip(parent.components());
        let known = both.take_while(|(one, other)| one == other).count();
        self.left_out.truncate(known);
        let with_itself = iter::once(parent.clone()).chain(parent.ancestors());
        let mut above: Vec<_> = with_itself.filter(|path| !path.is_root()).collect();
        above.truncate(above.len() - known);
        self.directories += above.len();
        for path in above.into_iter().rev() {
            let is_below = self.left_out.last().copied().unwrap_or(false);
            let is_judged = path.components().count() > implied;
            self.left_out.push(is_below || is_judged && rules.excludes(&path, true));
        }
        self.parent = parent;
        (self.directories <= DIRECTORIES + self.asked_about * DIRECTORIES_EACH).then_some(())
    }
}

#[cfg(test)]
mod tests;
