//! Scopes: the rules that apply in one directory, including those of its merge files.

use linerate_wire::filter::{BadRules, DirMerge, MAX_RULES, PatternRule, Reading, Rule, Rules, Sides};
use linerate_wire::path::RelPath;
use std::ffi::OsStr;
use std::sync::Arc;

use super::error::FilterError;
use super::merge::{MergeReader, ReadsMergeFile, components, merge_file_above, resolved};
use super::rule::{Base, Compiled, joined};
use crate::tree::bounds::Bounds;

/// The greatest number of nested directories that all have a merge file.
const MAX_INHERITED: usize = 1024;

/// The end for which rules are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The sender: excluded entries aren't sent.
    Sender,
    /// The receiver: excluded entries aren't deleted.
    Receiver,
}

impl Side {
    /// Whether a rule for `sides` applies on this side.
    pub(super) fn has(self, sides: Sides) -> bool {
        match sides {
            Sides::Both => true,
            Sides::Sender => self == Self::Sender,
            Sides::Receiver => self == Self::Receiver,
        }
    }
}

/// The location of a source, to which the paths of a filter are relative.
#[derive(Clone, Debug)]
pub struct Place {
    /// The absolute path of the transfer's root: the source-side directory that corresponds to the
    /// destination.
    pub root: Vec<u8>,
    /// The path from the transfer's root to the source. It is the source's own name if the destination gets a
    /// directory of that name, and empty if the source's contents land in the destination itself.
    pub prefix: RelPath,
    /// The bounds within which merge files above the transfer's root may be read. The path `root` is relative
    /// to these bounds.
    pub bounds: Bounds,
}

/// The filter rules of one end of a transfer.
#[derive(Clone, Debug)]
pub struct Filter(Arc<Inner>);

#[derive(Clone, Debug)]
pub(super) struct Inner {
    side: Side,
    pub reading: Reading,
    place: Place,
    items: Vec<ScopeItem>,
    merges: Vec<MergeFile>,
}

/// The rules that apply to the entries of one directory.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(super) filter: Arc<Inner>,
    pub(super) merges: Vec<MergeFile>,
    /// True once merge files were searched in the parent directories of the first directory that was entered.
    is_inside: bool,
}

#[derive(Clone, Debug)]
pub(super) enum ScopeItem {
    Pattern(Compiled),
    /// At this point of the list come the rules of the scope's merge file with this number.
    Merge(usize),
}

/// A per-directory merge file, and the rules that it has in this scope.
#[derive(Clone, Debug)]
pub(super) struct MergeFile {
    /// The rule that names the merge file; `None` if a later rule removed it.
    pub spec: Option<Arc<DirMerge>>,
    pub list: Option<Arc<List>>,
}

/// The rules of a merge file in one directory, linked to those in its parent directories.
#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<ScopeItem>,
    pub inherited: Option<Arc<List>>,
    depth: usize,
    rules: usize,
}

impl Filter {
    /// The rules of `side`, for paths relative to `place`.
    pub fn new(rules: &Rules, side: Side, place: Place) -> Self {
        let mut inner =
            Inner { side, reading: rules.reading(), place, items: Vec::new(), merges: Vec::new() };
        for rule in rules.as_slice() {
            match rule {
                Rule::Pattern(rule) => inner.items.extend(inner.compiled(rule, &Base::root())),
                Rule::Merge(merge) => {
                    inner.items.push(ScopeItem::Merge(inner.merges.len()));
                    inner.merges.push(MergeFile { spec: Some(Arc::new(merge.clone())), list: None });
                }
            }
        }
        Self(Arc::new(inner))
    }

    /// The same filter, for paths below `prefix`.
    pub fn below(&self, prefix: &RelPath) -> Self {
        let inner = &*self.0;
        let place = Place { prefix: prefix.clone(), ..inner.place.clone() };
        Self(Arc::new(Inner { place, ..inner.clone() }))
    }

    /// The scope of the source itself, in which no merge file has been read.
    pub fn scope(&self) -> Scope {
        Scope { filter: self.0.clone(), merges: self.0.merges.clone(), is_inside: false }
    }
}

impl Inner {
    /// Compiles `rule`, unless it doesn't apply on this side; `base` is the directory that a leading slash
    /// means.
    pub fn compiled(&self, rule: &PatternRule, base: &Base) -> Option<ScopeItem> {
        let counts = self.side.has(rule.sides) && !rule.attributes;
        counts.then(|| ScopeItem::Pattern(Compiled::new(rule, base, &self.place.root)))
    }
}

impl Scope {
    /// True if `path`, relative to the source, is left out (at the sender) or protected (at the receiver). A directory
    /// that is left out isn't entered. The transfer's root itself is never left out.
    pub fn excludes(&self, path: &RelPath, is_directory: bool) -> bool {
        self.asked(path, is_directory, false)
    }

    /// Decides as [`Scope::excludes`] does, for entries in a directory that is being deleted: perishable
    /// rules don't apply there.
    pub fn protects_in_deleted(&self, path: &RelPath, is_directory: bool) -> bool {
        self.asked(path, is_directory, true)
    }

    /// The scope for the entries of `directory`, which was found in this scope. `read` returns the contents of the
    /// directory's merge files; merge files above the transfer's root are read by their paths.
    ///
    /// # Errors
    /// If a merge file can't be read or is invalid. The directory's entries must then be neither sent nor deleted,
    /// because the user's rules for them aren't known.
    pub fn enter(&self, directory: &RelPath, read: &mut ReadsMergeFile) -> Result<Scope, FilterError> {
        let mut inside = self.clone();
        if inside.merges.is_empty() {
            return Ok(inside);
        }
        let path = joined(self.filter.place.prefix.as_bytes(), directory.as_bytes());
        if !inside.is_inside {
            inside.enter_above(&path)?;
            inside.is_inside = true;
        }
        inside.read_merges(|_| true, &Base::Below(path[..].into()), &path, read)?;
        Ok(inside)
    }

    fn asked(&self, path: &RelPath, is_directory: bool, in_deleted: bool) -> bool {
        if self.filter.items.is_empty() {
            return false;
        }
        let path = joined(self.filter.place.prefix.as_bytes(), path.as_bytes());
        if path.is_empty() {
            return false;
        }
        let asks = |rule: &Compiled| !(in_deleted && rule.perishable) && rule.applies(&path, is_directory);
        self.decided(&self.filter.items, &asks).is_some_and(|include| !include)
    }

    fn decided(&self, items: &[ScopeItem], asks: &dyn Fn(&Compiled) -> bool) -> Option<bool> {
        items.iter().find_map(|item| match item {
            ScopeItem::Pattern(rule) => asks(rule).then_some(rule.include),
            ScopeItem::Merge(number) => {
                lists(&self.merges[*number]).find_map(|list| self.decided(&list.items, asks))
            }
        })
    }

    /// Reads merge files in the parent directories of the first directory that is entered.
    fn enter_above(&mut self, first: &[u8]) -> Result<(), FilterError> {
        let filter = self.filter.clone();
        let root = components(&filter.place.root);
        let below = components(first);
        let all = [&root[..], &below[..]].concat();
        for length in 0..all.len() {
            let base = match length.checked_sub(root.len()) {
                None => Base::Above(root[length..].join(&b"/"[..]).into()),
                Some(depth) => Base::Below(below[..depth].join(&b"/"[..]).into()),
            };
            let directory = [b"/", &all[..length].join(&b"/"[..])[..]].concat();
            let is_asked = |merge: &DirMerge| {
                let above = merge.above.as_deref().map(|above| resolved(&root, above));
                above.is_some_and(|above| all[..length].starts_with(&above))
            };
            let mut read = |name: &OsStr| merge_file_above(&filter.place.bounds, &directory, name);
            self.read_merges(is_asked, &base, &directory, &mut read)?;
        }
        Ok(())
    }

    fn read_merges(
        &mut self,
        is_asked: impl Fn(&DirMerge) -> bool,
        base: &Base,
        directory: &[u8],
        read: &mut ReadsMergeFile,
    ) -> Result<(), FilterError> {
        let mut number = 0;
        // A merge file may name further merge files, which are then searched in the same directory, so
        // `self.merges` may grow.
        while number < self.merges.len() {
            if let Some(spec) = self.merges[number].spec.clone()
                && is_asked(&spec)
            {
                let inherited = self.merges[number].list.take().filter(|_| spec.inherited);
                let mut reader = MergeReader {
                    scope: self,
                    base,
                    directory,
                    read,
                    items: Vec::new(),
                    inherited,
                    files: 0,
                };
                reader.file(&spec.name, spec.style, 0, false)?;
                let list = List::new(reader.items, reader.inherited)?;
                self.merges[number].list = list;
            }
            number += 1;
        }
        Ok(())
    }
}

/// The rules of a merge file in all directories, beginning with the deepest directory.
fn lists(merge: &MergeFile) -> impl Iterator<Item = &Arc<List>> {
    std::iter::successors(merge.list.as_ref(), |list| list.inherited.as_ref())
}

impl List {
    fn new(items: Vec<ScopeItem>, inherited: Option<Arc<List>>) -> Result<Option<Arc<List>>, FilterError> {
        if items.is_empty() {
            return Ok(inherited);
        }
        let depth = inherited.as_ref().map_or(0, |list| list.depth) + 1;
        let rules = inherited.as_ref().map_or(0, |list| list.rules) + items.len();
        if depth > MAX_INHERITED || rules > MAX_RULES {
            return Err(BadRules::TooMany.into());
        }
        Ok(Some(Arc::new(Self { items, inherited, depth, rules })))
    }
}

impl ScopeItem {
    pub fn merge(&self) -> Option<usize> {
        if let ScopeItem::Merge(number) = self { Some(*number) } else { None }
    }
}
