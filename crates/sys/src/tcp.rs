//! The kernel's counters of a TCP connection (`TCP_INFO`, include/uapi/linux/tcp.h).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::socket_option;

/// The flag TCPI_OPT_TIMESTAMPS.
const TIMESTAMPS: u8 = 1;

/// The fields of `struct tcp_info` that show what limits a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// The shortest round-trip time of the last minutes, in microseconds; 0 before Linux 4.6.
    pub min_rtt_us: u32,
    /// The payload bytes of a segment.
    pub segment_size: u32,
    /// True if each segment carries timestamps, which take 12 of the segment's bytes.
    pub timestamps: bool,
    /// The number of segments sent with data, including retransmissions; 0 before Linux 4.6.
    pub segments: u32,
    /// Microseconds in which TCP had something to send; 0 before Linux 4.10.
    pub busy_us: u64,
    /// The microseconds of `busy_us` in which the other end's receive window was the limit.
    pub rwnd_limited_us: u64,
    /// The microseconds of `busy_us` in which this end's send buffer was the limit.
    pub sndbuf_limited_us: u64,
    /// The number of retransmitted segments.
    pub retransmits: u32,
    /// True as long as a retransmitted segment, or a probe (of a closed window, or of an other end that is idle), waits
    /// for its acknowledgment. If this host's own firewall or routes discard a segment, that segment never counts as in
    /// flight, and TCP sends probes instead.
    pub repeats: bool,
    /// Bytes that the other end has acknowledged; 0 before Linux 4.1.
    pub acknowledged: u64,
    /// Milliseconds since the other end last acknowledged something.
    pub acknowledged_ms: u32,
    /// Bytes in the send buffer that have not been sent yet; 0 before Linux 4.6.
    pub unsent: u32,
    /// Bytes that were sent and not yet acknowledged, counted in whole segments.
    pub in_flight: u64,
    /// The most recent delivery rate in bytes per second; 0 before Linux 4.9.
    pub delivery_rate: u64,
    /// The size, in bytes, of the window that the other end announces; 0 if the window is closed, and before Linux 5.4.
    pub peer_window: u64,
    /// The send buffer; its size is 0 before Linux 4.12.
    pub send_buffer: SendBuffer,
}

impl TcpInfo {
    /// Reads the counters of a connected TCP socket.
    ///
    /// # Errors
    /// If the descriptor isn't a TCP socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: tcp_info consists of integers, for which zero is a value.
        let mut info: libc::tcp_info = unsafe { mem::zeroed() };
        // SAFETY: integers can have any value.
        unsafe { socket_option::read(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)? };
        Ok(Self {
            rtt_us: info.tcpi_rtt,
            min_rtt_us: info.tcpi_min_rtt,
            segment_size: info.tcpi_snd_mss,
            timestamps: info.tcpi_options & TIMESTAMPS != 0,
            segments: info.tcpi_data_segs_out,
            busy_us: info.tcpi_busy_time,
            rwnd_limited_us: info.tcpi_rwnd_limited,
            sndbuf_limited_us: info.tcpi_sndbuf_limited,
            retransmits: info.tcpi_total_retrans,
            repeats: (info.tcpi_unacked > 0 && info.tcpi_retransmits > 0) || info.tcpi_probes > 0,
            acknowledged: info.tcpi_bytes_acked,
            acknowledged_ms: info.tcpi_last_ack_recv,
            unsent: info.tcpi_notsent_bytes,
            in_flight: u64::from(info.tcpi_unacked) * u64::from(info.tcpi_snd_mss),
            delivery_rate: info.tcpi_delivery_rate,
            peer_window: info.tcpi_snd_wnd.into(),
            send_buffer: SendBuffer::of(socket).unwrap_or_default(),
        })
    }
}

/// The memory of a socket's send buffer (`SO_MEMINFO`, Linux 4.12). The memory is larger than the data in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendBuffer {
    /// The most memory that the buffer may use, in bytes; 0 if it is unknown.
    pub size: u64,
    /// The memory that the buffer uses, in bytes.
    pub queued: u64,
}

impl TcpInfo {
    /// True if a larger send buffer would have allowed more bytes in flight. This function must be called right after a
    /// write for which the writer has waited. At that time the kernel has just woken the writer, so the buffer has room
    /// again, and acknowledgments that arrive in bursts have freed even more. If at least a third of the memory is
    /// still in use, the connection didn't run out of data.
    pub fn has_limited_its_writer(&self) -> bool {
        let SendBuffer { size, queued } = self.send_buffer;
        3 * queued >= size && self.send_buffer.is_all_in_flight(self.unsent.into(), self.in_flight)
    }
}

impl SendBuffer {
    fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // SK_MEMINFO_VARS of include/uapi/linux/sock_diag.h: number 3 is the size, number 5 the memory in use.
        let mut values = [0_u32; 9];
        // SAFETY: integers can have any value.
        unsafe { socket_option::read(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut values)? };
        Ok(Self { size: u64::from(values[3]), queued: u64::from(values[5]) })
    }

    /// True if the buffer is too full to wake a waiting writer, and nearly all its bytes are in flight, so
    /// that a larger buffer would allow more bytes in flight. The kernel wakes a writer once a third of the
    /// buffer is free (sk_stream_min_wspace in include/net/sock.h).
    pub fn limits(self, unsent: u64, in_flight: u64) -> bool {
        3 * self.queued >= 2 * self.size && self.is_all_in_flight(unsent, in_flight)
    }

    /// True if nearly all bytes in the buffer are in flight. If TCP's congestion window or the other end limits a
    /// sender, the buffer also holds unsent bytes.
    fn is_all_in_flight(self, unsent: u64, in_flight: u64) -> bool {
        self.size > 0 && 8 * unsent <= in_flight
    }
}

/// Makes the kernel wake readers of `socket` only when this number of bytes, or the end of the stream, has arrived
/// (`SO_RCVLOWAT`, socket(7)).
///
/// # Errors
/// If the descriptor isn't a socket.
pub fn set_least_to_receive(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads `bytes`, whose length is given, and which outlives the call.
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
        assert!(info.rtt_us > 0 && info.peer_window > 1000, "{info:?}");
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
        // A read at this point would return the four bytes, and the next read would wait for eight bytes.
        assert!(!ready(&far, 50));
        near.write_all(b"more").unwrap();
        assert!(ready(&far, 900));
        assert_eq!(far.read(&mut [0; 100]).unwrap(), 8);
        near.write_all(b"end").unwrap();
        drop(near);
        assert_eq!((far.read(&mut [0; 100]).unwrap(), far.read(&mut [0; 100]).unwrap()), (3, 0));
    }

    #[test]
    fn a_send_buffer_that_nobody_empties_fills() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        let empty = TcpInfo::of(near.as_fd()).unwrap().send_buffer;
        assert!(empty.size > 0 && empty.queued == 0, "{empty:?}");
        near.set_nonblocking(true).unwrap();
        while near.write(&[7; 65536]).is_ok() {}
        let info = TcpInfo::of(near.as_fd()).unwrap();
        assert!(3 * info.send_buffer.queued >= 2 * info.send_buffer.size, "{info:?}");
        assert!(!info.has_limited_its_writer(), "the other end's window does: {info:?}");
    }

    #[test]
    fn a_send_buffer_limits_where_all_in_it_is_under_way() {
        let full = SendBuffer { size: 65536, queued: 68158 };
        assert!(full.limits(0, 66_608) && full.limits(1448, 65_000));
        assert!(!full.limits(30_000, 36_000), "the rest could be sent");
        assert!(!SendBuffer { queued: 20_000, ..full }.limits(0, 18_000), "the writer has room");
        assert!(!SendBuffer::default().limits(0, 0), "unknown");
        // The values were measured right after a write, on a path of 20 ms with net.ipv4.tcp_wmem of 512 KiB.
        let after = |unsent, queued| {
            let send_buffer = SendBuffer { size: 524_280, queued };
            TcpInfo { unsent, in_flight: 242_000, send_buffer, ..TcpInfo::default() }.has_limited_its_writer()
        };
        assert!(after(0, 245_000) && !after(100_000, 345_000), "the rest could be sent");
        assert!(!after(0, 100_000), "it ran dry");
    }

    #[test]
    fn a_file_is_not_a_connection() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(TcpInfo::of(file.as_fd()).is_err());
    }
}
