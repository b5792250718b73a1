//! Paths as the output shows them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::common::spec::Spec;
use crate::rsync::escape::Escape;
use crate::rsync::line::Line;

/// The line about `--backup-dir`, with `(new)` if the directory is known to be missing.
pub(super) fn backup_dir(line: &Line, escape: Escape) -> Option<String> {
    let directory = line.sync.backup.as_ref()?.directory.as_ref()?;
    let shown = escape.shown(directory);
    let new = match line.paths.last().map(|destination| Spec::parse(destination)) {
        Some(Spec::Local(top)) if !Path::new(&top).join(OsStr::from_bytes(directory)).exists() => "(new) ",
        _ => "",
    };
    Some(format!("{new}backup_dir is {shown}"))
}

/// A source's path, safe on a terminal.
pub(super) fn shown(source: &OsStr, escape: Escape) -> String {
    match Spec::parse(source) {
        Spec::Local(path) => escape.shown(path.as_bytes()),
        Spec::Remote(_, path) => escape.shown(&path),
    }
}
