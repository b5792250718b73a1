//! Omits directories that contain no other entries than directories (`--prune-empty-dirs`).

use linerate_wire::entry::{Entry, Kind};

use crate::tree::scan::Seen;

/// Directories of the current path that have not been sent yet.
#[derive(Default)]
pub struct WaitingDirectories(Vec<(Entry, Seen)>);

impl WaitingDirectories {
    /// Returns the entries to send after the scan has found `entry`. A directory is kept back; for another
    /// entry, the directories that contain it are sent first.
    pub fn ready(&mut self, entry: Entry, seen: Seen) -> Vec<(Entry, Seen)> {
        while self.0.last().is_some_and(|(above, _)| !holds(above, &entry)) {
            self.0.pop();
        }
        if entry.kind == Kind::Directory {
            self.0.push((entry, seen));
            return Vec::new();
        }
        let mut ready = std::mem::take(&mut self.0);
        ready.push((entry, seen));
        ready
    }
}

fn holds(above: &Entry, entry: &Entry) -> bool {
    above.source == entry.source
        && (above.path.is_root() || entry.path.ancestors().any(|path| path == above.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::scan::entry;
    use linerate_wire::path::{RelPath, printable};

    #[test]
    fn directories_wait_for_what_is_in_them() {
        let stat = rustix::fs::stat("/").unwrap();
        let mut held = WaitingDirectories::default();
        let mut found = |path: &str, kind: Kind| {
            let seen = Seen::of(&kind, &stat);
            let ready = held.ready(entry(0, RelPath::new(path.as_bytes()).unwrap(), kind, &stat), seen);
            ready.iter().map(|(entry, _)| printable(entry.path.as_bytes())).collect::<Vec<_>>()
        };
        assert!(found("a", Kind::Directory).is_empty() && found("a/b", Kind::Directory).is_empty());
        assert!(found("c", Kind::Directory).is_empty() && found("c/d", Kind::Directory).is_empty());
        assert_eq!(found("c/d/e", Kind::File { size: 0 }), ["c", "c/d", "c/d/e"]);
        assert_eq!(found("c/d/f", Kind::File { size: 0 }), ["c/d/f"]);
        assert!(found("c/d/g", Kind::Directory).is_empty());
        assert_eq!(found("c/x", Kind::File { size: 0 }), ["c/x"]);
    }
}
