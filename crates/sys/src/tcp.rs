//! What the kernel knows about a TCP connection (`TCP_INFO`, include/uapi/linux/tcp.h).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The parts of `struct tcp_info` that tell what held a flow back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Microseconds in which there was something to send; 0 before Linux 4.10.
    pub busy_us: u64,
    /// Of these, limited by the peer's receive window.
    pub rwnd_limited_us: u64,
    /// Of these, limited by the own send buffer.
    pub sndbuf_limited_us: u64,
    /// Segments sent again.
    pub retransmits: u32,
    /// The most recent delivery rate in bytes a second; 0 before Linux 4.9.
    pub delivery_rate: u64,
}

impl TcpInfo {
    /// Asks the kernel about a connected TCP socket.
    ///
    /// # Errors
    /// Where the descriptor isn't a TCP socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: tcp_info consists of integers, for which zero is a value.
        let mut info: libc::tcp_info = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&info) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `info`, which is that long and lives on; an older
        // kernel writes fewer and the rest stays zero.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            rtt_us: info.tcpi_rtt,
            busy_us: info.tcpi_busy_time,
            rwnd_limited_us: info.tcpi_rwnd_limited,
            sndbuf_limited_us: info.tcpi_sndbuf_limited,
            retransmits: info.tcpi_total_retrans,
            delivery_rate: info.tcpi_delivery_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_connection_that_carried_data_has_a_round_trip_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"ping").unwrap();
        far.read_exact(&mut [0; 4]).unwrap();
        let info = TcpInfo::of(near.as_fd()).unwrap();
        assert!(info.rtt_us > 0, "{info:?}");
    }

    #[test]
    fn a_file_is_not_a_connection() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(TcpInfo::of(file.as_fd()).is_err());
    }
}
