//! The kernel's counters of a TCP connection (`TCP_INFO`, include/uapi/linux/tcp.h).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The parts of `struct tcp_info` that show what limits a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// The shortest round-trip time of the last minutes in microseconds; 0 before Linux 4.6.
    pub min_rtt_us: u32,
    /// Bytes of a segment.
    pub segment_size: u32,
    /// Segments with data sent, retransmissions included; 0 before Linux 4.6.
    pub segments: u32,
    /// Microseconds in which there was something to send; 0 before Linux 4.10.
    pub busy_us: u64,
    /// Busy microseconds limited by the peer's receive window.
    pub rwnd_limited_us: u64,
    /// Busy microseconds limited by the own send buffer.
    pub sndbuf_limited_us: u64,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// True while a retransmitted segment awaits its acknowledgement.
    pub repeats: bool,
    /// Bytes that the peer has acknowledged; 0 before Linux 4.1.
    pub acknowledged: u64,
    /// Milliseconds since the peer last acknowledged something.
    pub acknowledged_ms: u32,
    /// Bytes in the send buffer that have not been sent yet; 0 before Linux 4.6.
    pub unsent: u32,
    /// The most recent delivery rate in bytes a second; 0 before Linux 4.9.
    pub delivery_rate: u64,
}

impl TcpInfo {
    /// Reads the counters of a connected TCP socket.
    ///
    /// # Errors
    /// If the descriptor isn't a TCP socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: tcp_info consists of integers, for which zero is a value.
        let mut info: libc::tcp_info = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&info) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `info`, which is that long and lives on; an
        // older kernel writes fewer and the rest stays zero.
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
            min_rtt_us: info.tcpi_min_rtt,
            segment_size: info.tcpi_snd_mss,
            segments: info.tcpi_data_segs_out,
            busy_us: info.tcpi_busy_time,
            rwnd_limited_us: info.tcpi_rwnd_limited,
            sndbuf_limited_us: info.tcpi_sndbuf_limited,
            retransmits: info.tcpi_total_retrans,
            repeats: info.tcpi_unacked > 0 && info.tcpi_retransmits > 0,
            acknowledged: info.tcpi_bytes_acked,
            acknowledged_ms: info.tcpi_last_ack_recv,
            unsent: info.tcpi_notsent_bytes,
            delivery_rate: info.tcpi_delivery_rate,
        })
    }
}

/// Wakes readers of `socket` only when this number of bytes, or its end, has arrived (`SO_RCVLOWAT`,
/// socket(7)).
///
/// # Errors
/// If the descriptor isn't a socket.
pub fn set_least_to_receive(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads `bytes`, whose length is given and which lives on.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            mem::size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
    fn a_reader_waits_for_the_least_or_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        set_least_to_receive(far.as_fd(), 8).unwrap();
        let ready = |far: &TcpStream, milliseconds: i64| {
            let wait = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
            poll(&mut [PollFd::new(far, PollFlags::IN)], Some(&wait)).unwrap() == 1
        };
        near.write_all(b"four").unwrap();
        // A read now would take the four, and then wait for eight more.
        assert!(!ready(&far, 50));
        near.write_all(b"more").unwrap();
        assert!(ready(&far, 900));
        assert_eq!(far.read(&mut [0; 100]).unwrap(), 8);
        near.write_all(b"end").unwrap();
        drop(near);
        assert_eq!((far.read(&mut [0; 100]).unwrap(), far.read(&mut [0; 100]).unwrap()), (3, 0));
    }

    #[test]
    fn a_file_is_not_a_connection() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(TcpInfo::of(file.as_fd()).is_err());
    }
}
