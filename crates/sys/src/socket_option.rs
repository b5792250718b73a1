//! Reads options of sockets (getsockopt(2)).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads an option of a socket into `value`. If an older kernel returns fewer bytes, the rest of `value` stays
/// unchanged.
///
/// # Errors
/// If the descriptor isn't a socket of the right kind, or the kernel doesn't know the option.
///
/// # Safety
/// Any bytes must be a valid value of `T`.
pub(crate) unsafe fn read<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, which has that length and outlives the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut *value).cast(), &raw mut length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
