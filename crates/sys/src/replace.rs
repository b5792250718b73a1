//! Writes a file completely or not at all.

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Writes `bytes` to a new file in the same directory and renames it to `file`, so that no reader sees an incomplete
/// file. A link or a fifo of that name is replaced, and not written to, because it may belong to somebody else. A
/// device (`/dev/null`) or a descriptor of this process (`/dev/stdout`, `/dev/fd/63`) can't be replaced, so `bytes` is
/// written to it directly.
///
/// # Errors
/// If the new file can't be created, written or renamed. The old file then stays.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(file, bytes, None)
}

/// Writes a file as [`replace`] does. Regardless of the umask, everybody may read the file, and its owner may write it.
///
/// # Errors
/// The errors of [`replace`].
pub fn replace_readable(file: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(file, bytes, Some(0o644))
}

fn replace_with(file: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    if is_descriptor(file) {
        return opened_descriptor(file)?.write_all(bytes);
    }
    let device = if is_device(file)? { opened_device(file)? } else { None };
    if let Some(mut device) = device {
        return device.write_all(bytes);
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

/// Checks in advance whether [`replace`] can write `file`. An existing file isn't changed, and a missing file isn't
/// created, not even for a moment.
///
/// # Errors
/// The error of creating a file in the same directory, or of replacing an existing file; `EISDIR` for a directory, or
/// for a path that can only name a directory; `ENAMETOOLONG`; an error if `file` is a disk or a mount point; the error
/// of writing to a device or a descriptor.
pub fn may_replace(file: &Path) -> io::Result<()> {
    if is_descriptor(file) {
        return opened_descriptor(file).map(drop);
    }
    if is_device(file)? {
        return Ok(rustix::fs::accessat(CWD, file, Access::WRITE_OK, AtFlags::EACCESS)?);
    }
    if file.is_dir() || names_directory(file) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let directory = directory_of(file);
    // In an append-only directory, the temporary file below could not be removed.
    if has_attribute(directory, StatxAttributes::APPEND) {
        return Err(Errno::PERM.into());
    }
    may_take_name(file)?;
    let beside = beside(file);
    File::create_new(&beside).and_then(|_| fs::remove_file(&beside))
}

/// The directory that contains the entry that a path names.
#[must_use]
pub fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// True for a path that can only name a directory: an empty path, or a path that ends in a slash, `.` or
/// `..`.
fn names_directory(file: &Path) -> bool {
    let last = file.as_os_str().as_encoded_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    matches!(last, b"" | b"." | b"..")
}

/// Checks whether a file may be renamed to `file`. This function doesn't check the permissions of the directory.
fn may_take_name(file: &Path) -> io::Result<()> {
    match file.symlink_metadata() {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    if has_attribute(file, StatxAttributes::MOUNT_ROOT) {
        let why = "it is a mount point, which can't be replaced: mount its directory instead";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
    }
    // This call asks the kernel to remove a file as if it were a directory, which the kernel always refuses. But first
    // the kernel checks whether the name may be removed at all (the sticky bit and the owner, immutable and append-only
    // files). So the call checks by the kernel's own rules, and removes nothing.
    match rustix::fs::unlinkat(CWD, file, AtFlags::REMOVEDIR) {
        Err(Errno::PERM) => Err(Errno::PERM.into()),
        _ => Ok(()),
    }
}

/// True if the file has the attribute; false if the kernel doesn't report the attribute. A link isn't followed.
fn has_attribute(file: &Path, attribute: StatxAttributes) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = rustix::fs::statx(CWD, file, flags, StatxFlags::empty());
    stat.is_ok_and(|stat| stat.stx_attributes.contains(attribute))
}

/// True if [`replace`] replaces the file; false for a device or a descriptor, to which [`replace`] writes directly.
#[must_use]
pub fn is_replaced(file: &Path) -> bool {
    !is_descriptor(file) && !is_device(file).unwrap_or(false)
}

/// A new name in the same directory. The name is random: if it contained the process ID, a killed process with the same
/// ID may have left a file of this name, and in containers, processes often have the same IDs. The length of the new
/// name doesn't depend on the file's own name, which may have any length.
fn beside(file: &Path) -> PathBuf {
    let name = format!(".linerate.new.{:016x}", RandomState::new().build_hasher().finish());
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// True for the kernel's links to the descriptors of this process, which nobody else can change.
#[must_use]
pub fn is_descriptor(file: &Path) -> bool {
    let is_number =
        |name: &OsStr| name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    ["/dev/stdout", "/dev/stderr"].iter().any(|name| file == Path::new(name))
        || ["/dev/fd", "/proc/self/fd"].iter().any(|above| file.parent() == Some(Path::new(above)))
            && file.file_name().is_some_and(is_number)
}

/// A duplicate of the descriptor of this process that `file` names. The file isn't opened again, so the duplicate
/// shares the position and flags of the descriptor, and data that other processes write to the descriptor isn't
/// overwritten. `None` if `file` doesn't name a [descriptor](is_descriptor).
///
/// # Errors
/// If no descriptor of this number is open.
pub fn duplicate(file: &Path) -> io::Result<Option<File>> {
    if !is_descriptor(file) {
        return Ok(None);
    }
    let number = match file.file_name().and_then(OsStr::to_str) {
        Some("stdout") => 1,
        Some("stderr") => 2,
        name => name.and_then(|name| name.parse().ok()).ok_or(Errno::BADF)?,
    };
    // SAFETY: this is a plain system call, which fails if no descriptor has this number.
    let duplicated = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if duplicated < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(Some(unsafe { File::from_raw_fd(duplicated) }))
}

/// Opens a descriptor of this process for writing. A socket, or a file that this user may no longer write, can't be
/// opened again; in these cases, a duplicate of the descriptor is returned.
fn opened_descriptor(file: &Path) -> io::Result<File> {
    match open_existing(file, OFlags::APPEND) {
        Ok(opened) => Ok(opened),
        Err(Errno::NXIO | Errno::ACCESS) => {
            let duplicate = duplicate(file)?.ok_or(Errno::BADF)?;
            let is_written = rustix::fs::fcntl_getfl(&duplicate)?.intersects(OFlags::WRONLY | OFlags::RDWR);
            if is_written { Ok(duplicate) } else { Err(Errno::BADF.into()) }
        }
        Err(error) => Err(error.into()),
    }
}

/// True for a device that accepts a stream of bytes. A disk is refused with an error.
fn is_device(file: &Path) -> io::Result<bool> {
    let Ok(there) = file.symlink_metadata() else { return Ok(false) };
    if there.file_type().is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a disk (a block device)"));
    }
    Ok(there.file_type().is_char_device())
}

/// Opens the device `file`, and checks the opened file again, because the name may meanwhile belong to a link, a fifo
/// or a regular file, to which nothing must be written. `None` if the opened file isn't a device.
fn opened_device(file: &Path) -> io::Result<Option<File>> {
    match open_existing(file, OFlags::NOFOLLOW) {
        Ok(opened) => Ok(opened.metadata()?.file_type().is_char_device().then_some(opened)),
        Err(Errno::LOOP | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens the existing file for writing. If the file is a fifo, this call doesn't wait for a reader, but later writes
/// wait if the fifo is full.
fn open_existing(file: &Path, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::open(file, flags | OFlags::NONBLOCK, Mode::empty())?;
    rustix::fs::fcntl_setfl(&opened, flags & OFlags::APPEND)?;
    Ok(opened.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_duplicate_writes_where_the_descriptor_does() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one").unwrap();
        let path = |number| PathBuf::from(format!("/dev/fd/{number}"));
        let mut again = duplicate(&path(file.as_raw_fd())).unwrap().unwrap();
        again.write_all(b"two").unwrap();
        file.write_all(b"three").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 11);
        assert_eq!(duplicate(&path(99_999)).unwrap_err().raw_os_error(), Some(9));
        assert!(duplicate(Path::new("/dev/fd/99999999999")).is_err());
        assert!(duplicate(Path::new("/dev/null")).unwrap().is_none());
    }

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
    }

    fn make_fifo(fifo: &Path) {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, fifo, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    #[test]
    fn a_fifo_is_replaced_and_its_reader_not_awaited() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        make_fifo(&fifo);
        may_replace(&fifo).unwrap();
        replace(&fifo, b"new").unwrap();
        assert_eq!(fs::read(&fifo).unwrap(), b"new");
        assert!(fifo.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn only_what_was_opened_is_taken_for_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| directory.path().join(name));
        fs::write(&file, "kept").unwrap();
        symlink(&file, &link).unwrap();
        make_fifo(&fifo);
        assert!(opened_device(&file).unwrap().is_none());
        assert!(opened_device(&link).unwrap().is_none());
        assert!(opened_device(&directory.path().join("missing")).unwrap().is_none());
        // The fifo has no reader, so it can't be opened for writing without waiting.
        assert_eq!(opened_device(&fifo).unwrap_err().raw_os_error(), Some(Errno::NXIO.raw_os_error()));
        assert_eq!(fs::read(&file).unwrap(), b"kept");
        replace(Path::new("/dev/null"), b"x").unwrap();
        let full = replace(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(full.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    }

    #[test]
    fn a_descriptor_of_this_process_is_written_to() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        for above in ["/dev/fd", "/proc/self/fd"] {
            let name = Path::new(above).join(writer.as_raw_fd().to_string());
            may_replace(&name).unwrap();
            replace(&name, b"x").unwrap();
        }
        let mut read = [0; 3];
        assert_eq!(rustix::io::read(&reader, &mut read).unwrap(), 2);
        for other in ["/proc/self/cwd/1", "/dev/fd/../x/1", "/proc/self/fd/1/x", "/dev/stdout/x", "1"] {
            assert!(!is_descriptor(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_socket_of_this_process_is_written_to() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let name = Path::new("/dev/fd").join(writer.as_raw_fd().to_string());
        may_replace(&name).unwrap();
        replace(&name, b"x").unwrap();
        drop(writer);
        let mut read = String::new();
        io::Read::read_to_string(&mut reader, &mut read).unwrap();
        assert_eq!(read, "x");
    }

    #[test]
    fn what_a_killed_process_of_the_same_number_left_is_not_in_the_way() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let left = directory.path().join(format!(".linerate.file.{}", std::process::id()));
        fs::write(&left, "left").unwrap();
        may_replace(&file).unwrap();
        replace(&file, b"new").unwrap();
        assert_eq!((fs::read(&file).unwrap(), fs::read(&left).unwrap()), (b"new".to_vec(), b"left".to_vec()));
        assert_ne!(beside(&file), beside(&file));
    }

    #[test]
    fn a_name_may_have_the_greatest_length() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x".repeat(255));
        may_replace(&file).unwrap();
        replace(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
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
    fn a_path_that_no_file_can_have_is_refused_in_advance() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "kept").unwrap();
        let long = "x".repeat(256);
        for name in ["new/", "file/", "new/.", "new/..", "file/x", "", &long] {
            let path = PathBuf::from(format!("{}/{name}", directory.path().display()));
            assert!(may_replace(&path).is_err() && replace(&path, b"new").is_err(), "{name}");
        }
        assert!(may_replace(Path::new("")).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(fs::read(at("file")).unwrap(), b"kept");
    }

    #[test]
    fn what_no_descriptor_or_device_takes_is_refused_in_advance() {
        may_replace(Path::new("/dev/null")).unwrap();
        for missing in ["/dev/fd/99999", "/proc/self/fd/99999"] {
            assert!(may_replace(Path::new(missing)).is_err(), "{missing}");
        }
    }

    #[test]
    fn a_file_that_may_not_be_taken_away_is_refused_in_advance_and_stays() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "kept").unwrap();
        let attribute = |flag: &str, of: &Path| {
            std::process::Command::new("chattr")
                .arg(flag)
                .arg(of)
                .status()
                .is_ok_and(|status| status.success())
        };
        for (set, unset, of) in [("+i", "-i", &*file), ("+a", "-a", &file), ("+a", "-a", directory.path())] {
            if !attribute(set, of) {
                continue;
            }
            let refused = may_replace(&file).map_err(|error| error.raw_os_error());
            let count = fs::read_dir(directory.path()).unwrap().count();
            assert!(attribute(unset, of));
            assert_eq!((refused, count), (Err(Some(Errno::PERM.raw_os_error())), 1), "{set} {of:?}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"kept");
        may_replace(&file).unwrap();
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
