//! The device to which a socket is bound (`SO_BINDTOIFINDEX`, include/uapi/asm-generic/socket.h).

use std::io;
use std::os::fd::BorrowedFd;

use crate::socket_option;

/// The number of the device to which a socket is bound; `None` if the socket isn't bound. A socket is bound if the
/// program has bound it, or if the program runs in a VRF (ip-vrf(8)), in which the kernel binds each socket.
///
/// # Errors
/// If the descriptor isn't a socket, or the kernel is older than Linux 5.1.
pub fn bound_device(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let mut index: libc::c_int = 0;
    // SAFETY: any bytes are a valid integer.
    unsafe { socket_option::read(socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &mut index)? };
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
