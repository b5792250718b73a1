//! Compares a tree with its copy at the end of a round, once with rsync and once with the test's own code.

use anyhow::Context;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::operation::{Operation, Special};
use super::tree::{is_same, names};
use super::watch::is_unfinished;

/// The differences between a tree and its copy, a line for each.
pub fn differences(operation: &Operation, tree: &Path, copy: &Path) -> anyhow::Result<Vec<String>> {
    let mut lines = by_rsync(operation, tree, copy)?;
    lines.extend(by_hand(operation, tree, copy));
    Ok(lines)
}

/// The changes that rsync would still make, a line for each.
fn by_rsync(operation: &Operation, tree: &Path, copy: &Path) -> anyhow::Result<Vec<String>> {
    let mut rsync = Command::new("rsync");
    rsync.args(["--dry-run", "--checksum", "--itemize-changes", operation.kept]);
    // XFS shows each ACL a second time under these attribute names.
    rsync.arg("--filter=-x trusted.SGI_ACL_*");
    if operation.special == Special::Delete || !operation.is_onto {
        rsync.arg("--delete");
    }
    let output = rsync.arg(with_slash(tree)).arg(with_slash(copy)).output().context("running rsync")?;
    let reported = [output.stdout, output.stderr].concat();
    let lines = String::from_utf8_lossy(&reported).lines().map(|line| format!("rsync: {line}")).collect();
    Ok(lines)
}

fn with_slash(path: &Path) -> PathBuf {
    path.join("")
}

fn by_hand(operation: &Operation, tree: &Path, copy: &Path) -> Vec<String> {
    let follows = operation.special == Special::Follow;
    let look = |path: &Path| if follows { path.metadata() } else { path.symlink_metadata() };
    let mut lines = Vec::new();
    for name in names(tree) {
        let (here, there) = (tree.join(&name), copy.join(&name));
        let (Ok(a), Ok(b)) = (look(&here), there.symlink_metadata()) else {
            lines.push(format!("{name:?} is missing"));
            continue;
        };
        if a.file_type() != b.file_type() {
            lines.push(format!("{name:?} is of another kind"));
        } else if a.is_file() && !is_same(&here, &there).unwrap_or(false) {
            lines.push(format!("{name:?} has other contents"));
        }
        lines.extend(attributes(operation, &a, &b).map(|what| format!("{name:?} has another {what}")));
    }
    lines
}

fn attributes(operation: &Operation, a: &Metadata, b: &Metadata) -> Option<&'static str> {
    let keeps = |letter| operation.kept.contains(['a', letter]);
    let has_time = !(a.is_dir() && operation.kept.contains('O'));
    if keeps('t') && has_time && (a.mtime(), a.mtime_nsec()) != (b.mtime(), b.mtime_nsec()) {
        Some("time")
    } else if keeps('p') && !a.is_symlink() && a.mode() != b.mode() {
        Some("mode")
    } else if keeps('o') && (a.uid(), a.gid()) != (b.uid(), b.gid()) {
        Some("owner")
    } else {
        None
    }
}

/// The files of the older version that were replaced but of which no backup exists.
pub fn missing_backups(tree: &Path, older: &Path, backup: &Path) -> Vec<String> {
    let is_replaced = |name: &PathBuf| {
        let both = older.join(name).symlink_metadata().is_ok_and(|meta| meta.is_file())
            && tree.join(name).symlink_metadata().is_ok_and(|meta| meta.is_file());
        both && !is_same(&older.join(name), &tree.join(name)).unwrap_or(false)
    };
    let has_no_backup = |name: &PathBuf| !is_same(&older.join(name), &backup.join(name)).unwrap_or(false);
    let lost = names(older).into_iter().filter(is_replaced).filter(has_no_backup);
    lost.map(|name| format!("{name:?} has no backup")).collect()
}

/// The files that no longer exist at the source and aren't complete at the destination.
pub fn lost_sources(tree: &Path, source: &Path, copy: &Path) -> Vec<String> {
    let is_file = |name: &PathBuf| tree.join(name).symlink_metadata().is_ok_and(|meta| meta.is_file());
    let has = |top: &Path, name: &PathBuf| is_same(&tree.join(name), &top.join(name)).unwrap_or(false);
    let lost = names(tree).into_iter().filter(is_file).filter(|name| !has(source, name) && !has(copy, name));
    lost.map(|name| format!("{name:?} is lost: not at the source, and not at the destination")).collect()
}

/// The names of temporary and unfinished files below `top`.
pub fn leftovers(top: &Path) -> Vec<String> {
    let left = names(top).into_iter().filter(|path| path.file_name().is_some_and(is_unfinished));
    left.map(|path| format!("{} is left", top.join(path).display())).collect()
}
