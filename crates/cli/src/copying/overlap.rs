//! Sources and a destination on the same host that are the same, or contain each other.

use linerate_sys::mounts::Mounts;
use linerate_transfer::filter::FilesFrom;
use linerate_transfer::sender::SourceRoot;
use linerate_wire::control::Options;
use linerate_wire::path::{RelPath, printable};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Checks that each source, or the `listed` part of it, can be copied to `destination` by a transfer with `options`.
///
/// # Errors
/// A message if a source would be copied onto or into itself, be deleted by `--delete`, or be overwritten with backups or
/// incomplete files.
pub fn check(
    sources: &[SourceRoot],
    destination: &Path,
    options: &Options,
    listed: Option<&FilesFrom>,
) -> Result<(), String> {
    let check = Check { destination, options, mounts: Mounts::read() };
    sources.iter().try_for_each(|source| {
        let argument = source.source.argument;
        match listed.map(|listed| listed.of(argument)) {
            None => check.one(source, &RelPath::root()),
            Some(list) => {
                let below = list.listed(argument).filter(|listed| listed.contents || !listed.path.is_root());
                below.into_iter().try_for_each(|path| check.one(source, &path.path))
            }
        }
    })
}

struct Check<'a> {
    destination: &'a Path,
    options: &'a Options,
    mounts: Mounts,
}

impl Check<'_> {
    fn one(&self, source: &SourceRoot, path: &RelPath) -> Result<(), String> {
        let written = source.shown(path);
        // A source that can't be examined is reported when it is opened.
        let Ok(there) = fs::metadata(&written) else { return Ok(()) };
        let top = place(source, self.destination, self.mirrors());
        let place = if path.is_root() { top } else { top.join(path.as_os_str()) };
        let said = |what: &str| Err(format!("{} {what} {}", shown(&written), shown(&place)));
        // A link at the destination is replaced, and never followed, unless a directory is mirrored.
        let found = if self.mirrors() { fs::metadata(&place) } else { fs::symlink_metadata(&place) };
        if found.is_ok_and(|found| is_same(&found, &there)) {
            return said("is the same as");
        }
        if there.is_dir() && self.is_in(&place, self.mirrors(), &written) {
            return said("can't be copied into itself:");
        }
        let deletes = self.options.sync.as_ref().is_some_and(|sync| sync.delete) && place.is_dir();
        if deletes && self.is_in(&written, true, &place) {
            return said("is in a directory that --delete would clear:");
        }
        let inner = self.mounts.inner(&written).filter(|_| deletes);
        if let Some(point) = inner.and_then(|inner| self.mounts.mounted_below(&place, &inner)) {
            return said(&format!(
                "is also at {}, or a part of it, in a directory that --delete would clear:",
                shown(point)
            ));
        }
        self.keeps_files_apart(&written, &there)
    }

    fn mirrors(&self) -> bool {
        self.options.sync.as_ref().is_some_and(|sync| !sync.into)
    }

    /// True if `path` is below the directory `top`, by the directories above it or by another mount; with `follows` also if
    /// `path` is a link that leads there.
    fn is_in(&self, path: &Path, follows: bool, top: &Path) -> bool {
        let (Ok(found), inner_top) = (fs::metadata(top), self.mounts.inner(top)) else { return false };
        let itself = path.canonicalize().ok().filter(|_| follows);
        let mut above = holders(path).chain(itself.iter().flat_map(|real| holders(real)));
        if above.any(|above| fs::metadata(above).is_ok_and(|above| is_same(&above, &found))) {
            return true;
        }
        let inner = match &itself {
            Some(itself) => self.mounts.inner(itself).filter(|inner| Some(inner) != inner_top.as_ref()),
            None => holders(path).next().and_then(|holder| self.mounts.inner(&holder)),
        };
        inner.zip(inner_top).is_some_and(|(inner, top)| inner.is_in(&top))
    }

    /// Backups and incomplete files have the names of the files that they are of.
    fn keeps_files_apart(&self, written: &Path, there: &Metadata) -> Result<(), String> {
        let backup = self.options.sync.as_ref().and_then(|sync| sync.backup.as_ref()?.directory.as_ref());
        let partial = self.options.details.placing.partial.as_ref();
        for (option, directory) in [("--backup-dir", backup), ("--partial-dir", partial)] {
            let directory = directory.map(|directory| self.destination.join(OsStr::from_bytes(directory)));
            if directory.is_some_and(|path| fs::metadata(path).is_ok_and(|found| is_same(&found, there))) {
                let message = format!(
                    "{} is the directory of {option}, whose files would replace its own",
                    shown(written)
                );
                return Err(message);
            }
        }
        Ok(())
    }
}

fn shown(path: &Path) -> impl std::fmt::Display {
    printable(path.as_os_str().as_bytes())
}

/// The place of the source's own entry at the destination.
fn place(source: &SourceRoot, destination: &Path, mirrors: bool) -> PathBuf {
    let into = destination.is_dir() || destination.as_os_str().as_bytes().ends_with(b"/");
    if !into || mirrors {
        return destination.to_owned();
    }
    destination.join(OsStr::from_bytes(source.source.name.as_bytes()))
}

/// The directories that hold `path`, as far as they exist, the nearest first.
fn holders(path: &Path) -> impl Iterator<Item = PathBuf> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    existing.into_iter().flat_map(|real| real.ancestors().map(Path::to_owned).collect::<Vec<_>>())
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
