//! Detects sources and a destination on the same host that are equal or contain each other.

use linerate_sys::mounts::Mounts;
use linerate_transfer::sender::{Selection, SourceRoot, reaches};
use linerate_wire::control::Options;
use linerate_wire::path::{RelPath, printable};
use std::cell::LazyCell;
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
    selection: &Selection,
) -> Result<(), String> {
    let check = Check { destination, options, selection, mounts: LazyCell::new(Mounts::read) };
    sources.iter().try_for_each(|source| {
        let argument = source.source.argument;
        match selection.listed.as_ref().map(|listed| listed.of(argument)) {
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
    selection: &'a Selection,
    mounts: LazyCell<Mounts>,
}

impl Check<'_> {
    fn one(&self, source: &SourceRoot, path: &RelPath) -> Result<(), String> {
        let written = source.shown(path);
        // If a source can't be examined, that is reported when it is opened.
        let Ok(there) = fs::metadata(&written) else { return Ok(()) };
        let mirrors = self.options.sync.as_ref().is_some_and(|sync| !sync.into);
        let top = place(source, self.destination, mirrors);
        let place = if path.is_root() { top } else { top.join(path.as_os_str()) };
        // A link at the destination is replaced and not followed, unless it is the destination itself.
        let follows = mirrors || path.is_root() && source.source.name.is_root();
        let said = |what: &str| Err(format!("{} {what} {}", shown(&written), shown(&place)));
        let found = if follows { fs::metadata(&place) } else { fs::symlink_metadata(&place) };
        if found.is_ok_and(|found| is_same(&found, &there)) {
            return said("is the same as");
        }
        if there.is_dir() && self.would_copy(&place, follows, (source, path, &written)) {
            return said("can't be copied into itself:");
        }
        let deletes = self.options.sync.as_ref().is_some_and(|sync| sync.delete) && place.is_dir();
        if deletes && self.below(&written, true, &place).is_some() {
            return said("is in a directory that --delete would clear:");
        }
        // A filter rule may protect the mount point.
        let inner = || self.mounts.inner(&written);
        let inner = (deletes && self.options.filter.is_empty()).then(inner).flatten();
        if let Some(point) = inner.and_then(|inner| self.mounts.mounted_below(&place, &inner)) {
            let seen = shown(point);
            return said(&format!(
                "or a part of it is also mounted at {seen}, in a directory that --delete would clear:"
            ));
        }
        self.keeps_files_apart(&written, &there)
    }

    /// True if a scan of the source's directory `path`, which the user wrote as `written`, would enter
    /// `place`.
    fn would_copy(
        &self,
        place: &Path,
        follows: bool,
        (source, path, written): (&SourceRoot, &RelPath, &Path),
    ) -> bool {
        if !self.options.recursive {
            return false;
        }
        let Some(below) = self.below(place, follows, written) else { return false };
        // The scan sees paths that are relative to the source.
        let below = below.and_then(|below| {
            RelPath::new(Path::new(path.as_os_str()).join(below).as_os_str().as_bytes()).ok()
        });
        below.is_none_or(|below| reaches(source, self.selection, &below))
    }

    /// The part of `path` below the directory `top`, found by the directories above `path` or by another mount. `None`
    /// if `path` isn't below `top`; `Some(None)` if it is, but that part can't be determined. If `follows` is set,
    /// `path` may also be a link that leads below `top`.
    fn below(&self, path: &Path, follows: bool, top: &Path) -> Option<Option<PathBuf>> {
        let (found, real_top) = (fs::metadata(top).ok()?, top.canonicalize().ok()?);
        let written = place_of(path)?;
        let itself = path.canonicalize().ok().filter(|_| follows);
        let real = itself.as_ref().unwrap_or(&written);
        let mut above = written.ancestors().skip(1).chain(real.ancestors().skip(1));
        if above.any(|above| fs::metadata(above).is_ok_and(|above| is_same(&above, &found))) {
            return Some(real.strip_prefix(&real_top).ok().map(Path::to_owned));
        }
        let holder = real.ancestors().find(|above| above.exists())?;
        let (inner, inner_top) = (self.mounts.inner(holder)?, self.mounts.inner(top)?);
        let below = inner.below(&inner_top)?.join(real.strip_prefix(holder).ok()?);
        (below != Path::new("")).then_some(Some(below))
    }

    /// Returns an error if a backup or an incomplete file could overwrite a source. This could happen because such
    /// files have the names of the files to which they belong.
    fn keeps_files_apart(&self, written: &Path, there: &Metadata) -> Result<(), String> {
        let backup = self.options.sync.as_ref().and_then(|sync| sync.backup.as_ref()?.directory.as_ref());
        let partial = self.options.details.placing.partial.as_ref();
        for (option, directory) in [("--backup-dir", backup), ("--partial-dir", partial)] {
            let directory = directory.map(|directory| self.destination.join(OsStr::from_bytes(directory)));
            if directory.is_some_and(|path| fs::metadata(path).is_ok_and(|found| is_same(&found, there))) {
                let message = format!(
                    "{} is also the directory of {option}, whose files would replace the source's",
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

/// The real path of a path that may not exist. If its last component is a link, the link isn't followed.
fn place_of(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let above = absolute.ancestors().skip(1).find(|above| above.exists());
    above.map_or(Some(absolute.clone()), |above| {
        Some(above.canonicalize().ok()?.join(absolute.strip_prefix(above).ok()?))
    })
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
