//! Copies a user's own tree to the directory of data sets, so that the disk with the original tree doesn't affect the
//! measurement.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::tree::{Kind, Tree};

/// Copies the entries of `tree` from `from` to `to`: files with their modes, directories and links. Leaves
/// out devices, sockets and pipes, and returns their number.
///
/// # Errors
/// The first error of copying, with the name of the file.
pub(crate) fn copy(from: &Path, tree: &Tree, to: &Path) -> io::Result<u64> {
    fs::create_dir_all(to)?;
    let mut left_out = 0;
    for (path, kind) in tree.entries() {
        let (source, target) = (from.join(path), to.join(path));
        let copied = match kind {
            Kind::Directory => fs::create_dir(&target),
            Kind::File(_) => fs::copy(&source, &target).map(drop),
            Kind::Link(to) => symlink(to, &target),
            Kind::Other => {
                left_out += 1;
                Ok(())
            }
        };
        copied.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", source.display())))?;
    }
    Ok(left_out)
}
