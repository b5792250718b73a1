//! Extended attributes of a name in an open directory (listxattrat(2), Linux 6.13).

use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::{CStr, c_long};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of the system call on all architectures that use the common numbers. linerate is released only for such
/// architectures.
const LISTXATTRAT: c_long = 465;

/// Writes the names of a file's extended attributes to `names`, each followed by a zero byte, and returns
/// their total length in bytes. A link isn't followed. The call takes only one look-up in the directory;
/// llistxattr(2) would resolve a whole path.
///
/// # Errors
/// `ENOSYS` before Linux 6.13, `EPERM` if a seccomp filter doesn't know the call, and the errors of
/// llistxattr(2).
pub fn list_at(directory: BorrowedFd<'_>, name: impl Arg, names: &mut [u8]) -> Result<usize, Errno> {
    name.into_with_c_str(|name| list(directory, name, names))
}

fn list(directory: BorrowedFd<'_>, name: &CStr, names: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: `directory` is open, and `name` ends in a zero byte. The kernel writes at most `names.len()`
    // bytes to `names`, which has that length and outlives the call.
    let length = unsafe {
        libc::syscall(
            LISTXATTRAT,
            directory.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            names.as_mut_ptr(),
            names.len(),
        )
    };
    usize::try_from(length).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, XattrFlags, setxattr};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_are_those_of_what_is_there_and_not_of_where_a_link_leads() {
        let directory = std::env::temp_dir().join(format!("linerate-xattr-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), "").unwrap();
        symlink("file", directory.join("link")).unwrap();
        let opened = rustix::fs::open(&directory, OFlags::RDONLY, Mode::empty()).unwrap();
        let set = setxattr(directory.join("file"), "user.a", b"x", XattrFlags::empty());
        let mut names = [0; 4096];
        let mut listed =
            |name: &str| list_at(opened.as_fd(), name, &mut names).map(|length| names[..length].to_vec());
        let (file, link, missing) = (listed("file"), listed("link"), listed("missing"));
        std::fs::remove_dir_all(&directory).unwrap();
        if matches!(missing, Err(Errno::NOSYS | Errno::PERM)) || set.is_err() {
            let why = format_args!("no listxattrat(2), or no attributes here: {missing:?}, {set:?}");
            return linerate_testing::skip("listxattrat", why);
        }
        let has = |names: &[u8]| names.split(|&byte| byte == 0).any(|name| name == b"user.a");
        assert!(has(&file.unwrap()) && !has(&link.unwrap()));
        assert_eq!(missing, Err(Errno::NOENT));
    }
}
