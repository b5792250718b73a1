//! The device to which a socket is bound (`SO_BINDTOIFINDEX`, include/uapi/asm-generic/socket.h).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of the device to which a socket is bound: its program bound it, or runs in a VRF (ip-vrf(8)), where the kernel
/// binds each socket.
///
/// # Errors
/// If the descriptor isn't a socket, or the kernel is older than Linux 5.1.
pub fn bound_device(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let mut index: libc::c_int = 0;
    let mut length = mem::size_of_val(&index) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `index`, which is that long and lives on.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTOIFINDEX,
            (&raw mut index).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u32::try_from(index).ok().filter(|index| *index > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn an_ordinary_socket_is_bound_to_none() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(bound_device(socket.as_fd()).unwrap(), None);
        assert!(bound_device(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }
}
