//! Opens files that a command line names in addition to its sources and destination: lists, rules, logs. If
//! another user's link were followed, it could redirect such a path to any file that only this user can read
//! or write.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Bounds;
use super::walk::{Follow, PathEnd, PathWalk, Stop};
use crate::tree::identity::{Identity, identity};

/// Opens the file at `path` to read it, if all links in the path belong to root or to this process's user.
///
/// # Errors
/// The errors of open(2); an error if another user's link is in the path, or if the path is changed
/// meanwhile.
pub fn open_trusted(path: &Path) -> io::Result<File> {
    if let Err(stop @ Stop::Strange { .. }) = reached(path) {
        return Err(stop.into());
    }
    let file = File::open(path)?;
    let opened = file.metadata()?;
    match reached(path) {
        Ok(Some(found)) if found == (opened.dev(), opened.ino()) => Ok(file),
        // The file is a pipe of /dev/fd or the like, whose link text isn't a path.
        Err(Stop::System(_)) if !opened.is_file() => Ok(file),
        Ok(None) if opened.is_dir() => Ok(file),
        Err(stop @ Stop::Strange { .. }) => Err(stop.into()),
        _ => Err(io::Error::other("another file replaced it while it was opened: run the command again")),
    }
}

/// Opens the file at `path` for appending, and creates the file if it is missing. All links in the path must belong to
/// root or to this process's user. If somebody puts a link at `path` meanwhile, no file is created at the link's
/// target. Opening a fifo doesn't wait for a reader.
///
/// # Errors
/// If the file can't be opened, or another user's link is in the path.
pub fn append_trusted(path: &Path) -> io::Result<File> {
    let path = path.as_os_str().as_bytes();
    let mut walk = PathWalk::begin(&Bounds::here(), path, Follow::Trusted)?;
    let name = match walk.end_of(path)? {
        PathEnd::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        PathEnd::Other(name) | PathEnd::Missing(name) => name,
    };
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&walk.held().fd, name, flags, Mode::from_raw_mode(0o644))?;
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file.into())
}

/// The identity of the file at `path`; `None` for a directory. All links in the path must be trusted.
fn reached(path: &Path) -> Result<Option<Identity>, Stop> {
    let path = path.as_os_str().as_bytes();
    let mut walk = PathWalk::begin(&Bounds::here(), path, Follow::Trusted)?;
    let Some(name) = walk.along(path)? else { return Ok(None) };
    Ok(Some(identity(&walk.stat(&name)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn a_strangers_link_on_the_way_is_refused_and_ones_own_followed() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::fs::write(at("real/list"), "x").unwrap();
        symlink("real", at("own")).unwrap();
        symlink("real/list", at("leaf")).unwrap();
        let open = |name: &str| open_trusted(&at(name));
        for name in ["real/list", "own/list", "leaf"] {
            let mut text = String::new();
            open(name).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "x", "{name}");
        }
        assert_eq!(open("real/none").unwrap_err().kind(), io::ErrorKind::NotFound);
        if lchown(at("own"), Some(65534), Some(65534)).is_err() {
            return linerate_testing::skip("root", "only root makes a stranger's link");
        }
        lchown(at("leaf"), Some(65534), Some(65534)).unwrap();
        for name in ["own/list", "leaf"] {
            assert!(open(name).unwrap_err().to_string().contains("belongs to"), "{name}");
        }
    }

    #[test]
    fn a_file_is_made_or_appended_to_where_trusted_links_lead() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        symlink("log", at("own")).unwrap();
        for name in ["own", "log", "own"] {
            append_trusted(&at(name)).unwrap().write_all(b"x").unwrap();
        }
        assert_eq!(std::fs::read(at("log")).unwrap(), b"xxx");
        assert_eq!(append_trusted(top.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        for (name, kind) in [
            ("none/log", io::ErrorKind::NotFound),
            ("new/", io::ErrorKind::NotFound),
            ("log/x", io::ErrorKind::NotADirectory),
        ] {
            assert_eq!(append_trusted(&at(name)).unwrap_err().kind(), kind, "{name}");
        }
        symlink("made", at("strange")).unwrap();
        if lchown(at("strange"), Some(65534), Some(65534)).is_err() {
            return linerate_testing::skip("root", "only root makes a stranger's link");
        }
        assert!(append_trusted(&at("strange")).unwrap_err().to_string().contains("belongs to"));
        assert!(!at("made").exists());
    }

    #[test]
    fn a_pipe_by_its_number_is_opened() {
        let (read, _write) = std::io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&read));
        assert!(open_trusted(Path::new(&path)).is_ok());
    }
}
