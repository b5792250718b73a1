//! Links in the paths of a list of files. If the user lists entries behind such links, the entries are sent as if the
//! links were directories.

use linerate_wire::path::RelPath;
use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::base::lock::lock;

/// The links below a destination that are followed because only entries behind them are sent.
#[derive(Debug, Default)]
pub enum ImpliedWays {
    /// No links are followed.
    #[default]
    None,
    /// All links may be followed, because the other end has the list of files and so decides.
    Any,
    /// The links at these paths are followed. The set also contains every parent of each of these paths.
    At(BTreeSet<RelPath>),
}

impl ImpliedWays {
    /// The last of these links in the path `path`, and the rest of the path after it.
    pub fn on_the_way_to(&self, path: &RelPath) -> Option<(RelPath, RelPath)> {
        match self {
            Self::None => None,
            Self::Any => Some((path.clone(), RelPath::root())),
            Self::At(paths) => last_of(paths, path),
        }
    }
}

/// The longest path in `ways` that is a parent of `path`, and the rest of `path` after it.
fn last_of(ways: &BTreeSet<RelPath>, path: &RelPath) -> Option<(RelPath, RelPath)> {
    let mut above = std::iter::once(path.clone()).chain(path.ancestors());
    let way = above.find(|above| ways.contains(above))?;
    let below = path.as_bytes().get(way.as_bytes().len() + 1..).unwrap_or_default();
    let below = RelPath::new(below).ok()?;
    Some((way, below))
}

/// The paths of links that the scan has followed.
#[derive(Default)]
pub struct Ways(Mutex<BTreeSet<RelPath>>);

impl Ways {
    /// Adds `path`.
    pub fn add(&self, path: &RelPath) {
        lock(&self.0).insert(path.clone());
    }

    /// True if `path` itself was added.
    pub fn has(&self, path: &RelPath) -> bool {
        lock(&self.0).contains(path)
    }

    /// The last followed link in the path `path`, and the rest of the path after it; `None` if the path
    /// contains no such link.
    pub fn on_the_way_to(&self, path: &RelPath) -> Option<(RelPath, RelPath)> {
        let ways = lock(&self.0);
        if ways.is_empty() { None } else { last_of(&ways, path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_link_leads_there() {
        let path = |text: &str| RelPath::new(text.as_bytes()).unwrap();
        let ways = Ways::default();
        assert_eq!(ways.on_the_way_to(&path("a/b")), None);
        ways.add(&path("a"));
        ways.add(&path("a/b/c"));
        for (at, way, below) in
            [("a", "a", ""), ("a/b", "a", "b"), ("a/b/c", "a/b/c", ""), ("a/b/c/d/e", "a/b/c", "d/e")]
        {
            assert_eq!(ways.on_the_way_to(&path(at)), Some((path(way), path(below))), "{at}");
        }
        assert_eq!(ways.on_the_way_to(&path("ab")), None);
    }
}
