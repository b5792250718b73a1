//! Reports entries that aren't sent, and why.

use linerate_wire::control::ProblemKind;
use linerate_wire::path::RelPath;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::left_out::named;
use super::{ScanWalk, Taker};
use crate::base::problem::problem;
use crate::tree::selection::MissingPath;

impl<T: Taker> ScanWalk<'_, '_, T> {
    /// Reports listed paths that the walk hasn't found because they don't exist.
    pub(super) fn report_missing(&self, source: usize) {
        let found = &self.scanner.sources[source];
        let argument = found.source.argument;
        for listed in self.list(source).into_iter().flat_map(|list| list.listed(argument)) {
            let Some((parent, name)) = listed.path.split() else { continue };
            let parent = match found.root.directory(&parent) {
                Err(Errno::LOOP | Errno::NOTDIR) if self.scanner.selection.like_rsync => {
                    found.root.follow_way(&parent)
                }
                other => other,
            };
            match (parent.and_then(|parent| parent.stat(name)), self.scanner.selection.missing) {
                (Ok(_), _) | (Err(Errno::NOENT), MissingPath::Ignored) => {}
                // A parent directory of the path may also have become another kind of entry.
                (Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP), MissingPath::Vanished) => {
                    self.report(
                        source,
                        &listed.path,
                        ProblemKind::Changed,
                        "vanished since it was listed".into(),
                    );
                }
                (Err(error), _) => {
                    self.fail(source, &listed.path, "finding an entry of the list of files", error)
                }
            }
        }
    }

    pub(super) fn fail(&self, source: usize, path: &RelPath, doing: &str, error: Errno) {
        self.report(source, path, ProblemKind::Failed, format!("{doing} failed: {error}"));
    }

    pub(super) fn leads_nowhere(&self, source: usize, path: &RelPath, error: Errno) {
        match error {
            Errno::NOENT => {
                let why = "is a symbolic link whose target doesn't exist; nothing is sent".to_owned();
                self.report(source, path, ProblemKind::Failed, why);
            }
            error => self.fail(source, path, "following the symbolic link", error),
        }
    }

    pub(super) fn vanished(&self, source: usize, path: &RelPath) {
        self.report(source, path, ProblemKind::Changed, "vanished while the tree was read".into());
    }

    pub(super) fn skip(&self, source: usize, path: &RelPath, kind: FileType) {
        self.report(source, path, ProblemKind::Skipped, format!("is {}; not copied", named(kind)));
    }

    pub(super) fn report(&self, source: usize, path: &RelPath, kind: ProblemKind, message: String) {
        let shown = self.scanner.sources[source].shown(path);
        (self.scanner.problem)(problem(shown, kind, message));
    }
}
