//! A rule that is ready to match, and from where its pattern counts.

use linerate_wire::filter::PatternRule;
use std::borrow::Cow;
use std::sync::Arc;

use super::pattern::Pattern;

/// Where a rule's slash in front stands, seen from the transfer's root.
#[derive(Clone, Debug)]
pub(super) enum Base {
    /// In this directory below the root; empty is the root itself.
    Below(Arc<[u8]>),
    /// In a directory above the root: the path that leads from there to the root, without a slash in front.
    Above(Arc<[u8]>),
}

/// A rule that is ready to match.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// Its decision.
    pub include: bool,
    /// The rule doesn't count in a directory that is being deleted.
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
    /// Prepares `rule`, which stood in a file at `base`; `root` is the absolute path of the transfer's root.
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

    /// True where it decides about `path`, which is below the transfer's root.
    pub fn applies(&self, path: &[u8], is_directory: bool) -> bool {
        let matches = match self.seen(path) {
            Some(seen) => self.pattern.matches(&seen, is_directory),
            None => false,
        };
        matches != self.negated
    }

    /// `path` from the rule's base on; `None` where it isn't below that.
    fn seen<'a>(&self, path: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match &self.base {
            Base::Below(directory) if directory.is_empty() => Some(path.into()),
            Base::Below(directory) => path.strip_prefix(&directory[..])?.strip_prefix(b"/").map(Cow::from),
            Base::Above(way) => Some(joined(way, path)),
        }
    }
}

/// One path behind another, with a slash between them where neither is empty.
pub(super) fn joined<'a>(front: &[u8], path: &'a [u8]) -> Cow<'a, [u8]> {
    match (front.is_empty(), path.is_empty()) {
        (true, _) => path.into(),
        (false, true) => front.to_vec().into(),
        (false, false) => [front, b"/", path].concat().into(),
    }
}
