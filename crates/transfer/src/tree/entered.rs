//! Determines whether a scan of a source enters a directory, according to the options.

use linerate_wire::path::RelPath;
use rustix::fs::{CWD, Mode, OFlags};
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::filter::{Filter, Side, merge_file};
use super::selection::Selection;
use super::source_root::SourceRoot;

/// False if a scan of `source` leaves out the directory `path`, or a directory above it, because of a filter
/// rule or because the directory is on another file system. The directory needn't exist. Symbolic links
/// aren't followed.
pub fn reaches(source: &SourceRoot, selection: &Selection, path: &RelPath) -> bool {
    let place = source.place(selection.like_rsync);
    let mut scope = Filter::new(&selection.filter, Side::Sender, place).scope();
    let device = |path: &RelPath| fs::symlink_metadata(source.shown(path)).map(|found| found.dev()).ok();
    let here = device(&RelPath::root());
    let mut above = vec![path.clone()];
    above.extend(path.ancestors());
    for directory in above.iter().rev() {
        let is_elsewhere = || device(directory).is_some_and(|device| Some(device) != here);
        if scope.excludes(directory, true) || selection.one_file_system && is_elsewhere() {
            return false;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(held) = rustix::fs::openat(CWD, source.shown(directory), flags, Mode::empty()) else {
            continue;
        };
        match scope.enter(directory, &mut |name| merge_file(&held, name)) {
            Ok(inside) => scope = inside,
            // If the rules can't be read, the scan reports that and leaves the directory out.
            Err(_) => return false,
        }
    }
    true
}
