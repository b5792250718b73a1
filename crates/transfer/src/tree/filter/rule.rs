//! A rule that is ready to match, with the base of its pattern.

use linerate_wire::filter::PatternRule;
use std::borrow::Cow;
use std::sync::Arc;

use super::pattern::Pattern;

/// The directory that a leading slash in a rule's pattern means.
#[derive(Clone, Debug)]
pub(super) enum Base {
    /// The directory with this path below the transfer's root; an empty path means the root itself.
    Below(Arc<[u8]>),
    /// A directory above the transfer's root. The value is the path from there to the root, without a leading
    /// slash.
    Above(Arc<[u8]>),
}

/// A rule that is ready to match.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// True if the rule includes entries, false if it excludes them.
    pub include: bool,
    /// True if the rule doesn't apply in a directory that is being deleted.
    pub perishable: bool,
    negated: bool,
    base: Base,
    pattern: Pattern,
}

impl Base {
    /// The transfer's root.
    pub fn root() -> Self {
        Self::Below(Arc::default())
    }
}

impl Compiled {
    /// Prepares `rule`, which comes from a file in the directory `base`; `root` is the absolute path of the
    /// transfer's root.
    pub fn new(rule: &PatternRule, base: &Base, root: &[u8]) -> Self {
        let pattern = Pattern::new(&rule.pattern);
        let base = match (rule.absolute, pattern.is_anchored()) {
            (true, _) => Base::Above(root.strip_prefix(b"/").unwrap_or(root).into()),
            (false, true) => base.clone(),
            (false, false) => Base::root(),
        };
        let PatternRule { include, perishable, negated, .. } = *rule;
        Self { include, perishable, negated, base, pattern }
    }

    /// True if the rule matches `path`, which is below the transfer's root.
    pub fn applies(&self, path: &[u8], is_directory: bool) -> bool {
        let matches = match self.seen(path) {
            Some(seen) => self.pattern.matches(&seen, is_directory),
            None => false,
        };
        matches != self.negated
    }

    /// The path relative to the rule's base; `None` if the path isn't below the base.
    fn seen<'a>(&self, path: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match &self.base {
            Base::Below(directory) if directory.is_empty() => Some(path.into()),
            Base::Below(directory) => path.strip_prefix(&directory[..])?.strip_prefix(b"/").map(Cow::from),
            Base::Above(way) => Some(joined(way, path)),
        }
    }
}

/// Joins two paths, with a slash between them if neither is empty.
pub(super) fn joined<'a>(front: &[u8], path: &'a [u8]) -> Cow<'a, [u8]> {
    match (front.is_empty(), path.is_empty()) {
        (true, _) => path.into(),
        (false, true) => front.to_vec().into(),
        (false, false) => [front, b"/", path].concat().into(),
    }
}
