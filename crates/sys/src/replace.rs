//! Files that are written as a whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes `bytes` beside `file` and renames, so that no reader sees half of it. A link of that name is
/// replaced, not followed: it may be somebody else's. A device or a fifo (`/dev/stdout`) can't be replaced,
/// and is written to.
///
/// # Errors
/// If the new file can't be created, written or renamed; then the old one stays.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(file, bytes, None)
}

/// Does what [`replace`] does, with a file that everybody may read and its owner write, whatever the umask.
///
/// # Errors
/// As [`replace`].
pub fn replace_readable(file: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(file, bytes, Some(0o644))
}

fn replace_with(file: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    if is_no_file(file) {
        return fs::write(file, bytes);
    }
    let beside = beside(file);
    let written = File::create_new(&beside).and_then(|mut new| {
        mode.map_or(Ok(()), |mode| new.set_permissions(Permissions::from_mode(mode)))?;
        new.write_all(bytes)?;
        new.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&beside, file));
    renamed.inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Checks in advance whether [`replace`] can write `file`, which stays unchanged.
///
/// # Errors
/// That of creating a file beside it; `EISDIR` for a directory.
pub fn may_replace(file: &Path) -> io::Result<()> {
    if is_no_file(file) {
        return Ok(());
    }
    if file.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let beside = beside(file);
    File::create_new(&beside).and_then(|_| fs::remove_file(&beside))
}

fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(".linerate.");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// A device, a fifo, or one of the kernel's links to a descriptor of this process.
fn is_no_file(file: &Path) -> bool {
    let is_descriptor =
        ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"].iter().any(|name| file.starts_with(name));
    is_descriptor
        || file
            .symlink_metadata()
            .is_ok_and(|there| !there.is_file() && !there.is_symlink() && !there.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("file"), directory.path().join("other"));
        fs::write(&other, "kept").unwrap();
        symlink(&other, &file).unwrap();
        replace(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(file.symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read(&other).unwrap(), b"kept");
        replace(&file, b"newer").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"newer");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        replace(Path::new("/dev/null"), b"x").unwrap();
    }

    #[test]
    fn everybody_may_read_it_where_that_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        replace_readable(&file, b"new").unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("file")).unwrap();
        assert!(replace(&directory.path().join("file"), b"new").is_err());
        assert!(may_replace(&directory.path().join("file")).is_err());
        assert!(may_replace(&directory.path().join("missing/file")).is_err());
        assert!(may_replace(&directory.path().join("another")).is_ok());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
