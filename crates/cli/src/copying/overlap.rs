//! Sources and a destination on the same host that are the same, or contain each other.

use linerate_transfer::filter::FilesFrom;
use linerate_transfer::sender::SourceRoot;
use linerate_wire::control::Sync;
use linerate_wire::path::{RelPath, printable};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Checks that each source, or the `listed` part of it, can be copied to `destination`.
///
/// # Errors
/// A message if a source would be copied onto or into itself, or be deleted by `--delete`.
pub fn check(
    sources: &[SourceRoot],
    destination: &Path,
    sync: Option<&Sync>,
    listed: Option<&FilesFrom>,
) -> Result<(), String> {
    sources.iter().try_for_each(|source| {
        let argument = source.source.argument;
        match listed.map(|listed| listed.of(argument)) {
            None => check_one(source, &RelPath::root(), destination, sync),
            Some(list) => {
                let below = list.listed(argument).filter(|listed| listed.contents || !listed.path.is_root());
                below.into_iter().try_for_each(|path| check_one(source, &path.path, destination, sync))
            }
        }
    })
}

fn check_one(
    source: &SourceRoot,
    path: &RelPath,
    destination: &Path,
    sync: Option<&Sync>,
) -> Result<(), String> {
    let written = source.shown(path);
    // A source that can't be examined is reported when it is opened.
    let Ok(there) = fs::metadata(&written) else { return Ok(()) };
    let mirrors = sync.is_some_and(|sync| !sync.into);
    let top = place(source, destination, mirrors);
    let place = if path.is_root() { top } else { top.join(path.as_os_str()) };
    let shown = |path: &Path| printable(path.as_os_str().as_bytes());
    let said = |what: &str| Err(format!("{} {what} {}", shown(&written), shown(&place)));
    // A link at the destination is replaced, and never followed, unless a directory is mirrored.
    let found = if mirrors { fs::metadata(&place) } else { fs::symlink_metadata(&place) };
    if found.is_ok_and(|found| is_same(&found, &there)) {
        return said("is the same as");
    }
    if there.is_dir() && directories_above(&place).any(|above| is_same(&above, &there)) {
        return said("can't be copied into itself:");
    }
    let deletes = sync.is_some_and(|sync| sync.delete);
    match fs::metadata(&place) {
        Ok(place) if deletes && directories_above(&written).any(|above| is_same(&above, &place)) => {
            said("is in a directory that --delete would clear:")
        }
        _ => Ok(()),
    }
}

/// The place of the source's own entry at the destination.
fn place(source: &SourceRoot, destination: &Path, mirrors: bool) -> PathBuf {
    let into = destination.is_dir() || destination.as_os_str().as_bytes().ends_with(b"/");
    if !into || mirrors {
        return destination.to_owned();
    }
    destination.join(OsStr::from_bytes(source.source.name.as_bytes()))
}

/// The directories that hold `path`, as far as they exist.
fn directories_above(path: &Path) -> impl Iterator<Item = Metadata> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    let above: Vec<PathBuf> = existing.iter().flat_map(|real| real.ancestors().map(Path::to_owned)).collect();
    above.into_iter().filter_map(|above| fs::metadata(above).ok())
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
