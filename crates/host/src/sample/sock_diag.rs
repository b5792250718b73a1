//! Requests the TCP connections of a network namespace from the kernel (sock_diag(7)), and writes each connection as
//! one line of text.
//!
//! The layouts are those of include/uapi/linux/inet_diag.h and include/uapi/linux/tcp.h, to which new kernels only
//! append fields.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::netlink::{DUMP, attributes, error, message, number, request};

/// The most connections of each address family that are recorded.
const MOST_CONNECTIONS: usize = 1024;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const TCP: u8 = 6;
/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// INET_DIAG_INFO, INET_DIAG_CONG and INET_DIAG_SKMEMINFO. They are attributes of the answer; in the request, each is a
/// bit.
const INFO: u16 = 2;
const CONG: u16 = 4;
const MEMORY: u16 = 7;
const EXTENSIONS: u8 = 1 << (INFO - 1) | 1 << (CONG - 1) | 1 << (MEMORY - 1);
/// The requested states: ESTABLISHED, and the states in which data may still be in flight (FIN_WAIT1,
/// FIN_WAIT2, CLOSE_WAIT, LAST_ACK).
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9;
/// The size of struct inet_diag_msg, which comes before the attributes.
const FIXED: usize = 72;

/// The fields of struct tcp_info that are recorded: name, offset, and size in bytes.
const FIELDS: [(&str, usize, usize); 23] = [
    ("rto", 8, 4),
    ("mss", 16, 4),
    ("unacked", 24, 4),
    ("lost", 32, 4),
    ("rtt", 68, 4),
    ("rttvar", 72, 4),
    ("ssthresh", 76, 4),
    ("cwnd", 80, 4),
    ("rcv_space", 96, 4),
    ("retrans", 100, 4),
    ("pacing_rate", 104, 8),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("notsent", 144, 4),
    ("min_rtt", 148, 4),
    ("data_segs_in", 152, 4),
    ("data_segs_out", 156, 4),
    ("delivery_rate", 160, 8),
    ("busy", 168, 8),
    ("rwnd_limited", 176, 8),
    ("sndbuf_limited", 184, 8),
    ("bytes_retrans", 208, 8),
    ("snd_wnd", 228, 4),
];

/// The values of SK_MEMINFO_VARS that are recorded (include/uapi/linux/sock_diag.h): name and index. These values count
/// bytes of memory, which are more than the bytes of data in this memory.
const MEMORY_FIELDS: [(&str, usize); 2] = [("sndbuf", 3), ("wmem_queued", 5)];

/// A socket for requests to the kernel about connections.
pub(crate) struct SockDiag {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens the socket in the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(Self { socket, buffer: vec![0; 64 << 10] })
    }

    /// Appends a line to `text` for each connection.
    pub fn read(&mut self, text: &mut String) -> io::Result<()> {
        for family in [AF_INET, AF_INET6] {
            send(&self.socket, &question(family), SendFlags::empty())?;
            let mut reported = 0;
            while self.receive(text, &mut reported)? {}
        }
        Ok(())
    }

    /// Receives one answer of the kernel; false if it was the last one.
    fn receive(&mut self, text: &mut String, reported: &mut usize) -> io::Result<bool> {
        let (got, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
        let mut rest = &self.buffer[..got];
        while let Some((kind, message, after)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(false),
                NLMSG_ERROR => return error(message),
                _ if *reported < MOST_CONNECTIONS => {
                    *reported += 1;
                    line(message, text);
                }
                _ => {}
            }
            rest = after;
        }
        Ok(got > 0)
    }
}

/// A request with struct inet_diag_req_v2.
fn question(family: u8) -> Vec<u8> {
    let mut body = [0; 56];
    body[0..3].copy_from_slice(&[family, TCP, EXTENSIONS]);
    body[4..8].copy_from_slice(&STATES.to_ne_bytes());
    request(BY_FAMILY, DUMP, &body)
}

/// Appends a line about one connection: both addresses, the state, the cookie that identifies the connection,
/// the queues, the socket's inode number (0 after all processes have closed it), and the values of TCP_INFO.
fn line(message: &[u8], text: &mut String) {
    let Some((near, far)) = ends(message) else { return };
    let get = |at, size| number(message, at, size).unwrap_or(0);
    // Writing to a string can't fail.
    let _ = write!(text, "{near} {far} state={} cookie={:x}", get(1, 1), get(44, 8));
    let _ = write!(text, " rqueue={} wqueue={} inode={}", get(56, 4), get(60, 4), get(68, 4));
    for (kind, value) in attributes(message.get(FIXED..).unwrap_or_default()) {
        match kind {
            INFO => info(value, text),
            MEMORY => memory(value, text),
            CONG => {
                let name: String =
                    value.iter().take_while(|b| b.is_ascii_graphic()).map(|b| *b as char).collect();
                let _ = write!(text, " congestion={name}");
            }
            _ => {}
        }
    }
    text.push('\n');
}

fn ends(message: &[u8]) -> Option<(String, String)> {
    let family = *message.first()?;
    let end = |port: usize, address: usize| {
        let port = u16::from_be_bytes(message.get(port..port + 2)?.try_into().ok()?);
        let bytes: [u8; 16] = message.get(address..address + 16)?.try_into().ok()?;
        Some(match family {
            AF_INET => format!("{}:{port}", Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            // A socket for both address families may have IPv4 addresses, which are written as IPv6 addresses here.
            _ => match Ipv6Addr::from(bytes).to_canonical() {
                IpAddr::V4(address) => format!("{address}:{port}"),
                IpAddr::V6(address) => format!("[{address}]:{port}"),
            },
        })
    };
    Some((end(4, 8)?, end(6, 24)?))
}

/// Appends the values of TCP_INFO. Fields that an older kernel lacks are omitted.
fn info(bytes: &[u8], text: &mut String) {
    for (name, at, size) in FIELDS {
        if let Some(value) = number(bytes, at, size) {
            let _ = write!(text, " {name}={value}");
        }
    }
}

fn memory(bytes: &[u8], text: &mut String) {
    for (name, place) in MEMORY_FIELDS {
        if let Some(value) = number(bytes, 4 * place, 4) {
            let _ = write!(text, " {name}={value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_of_ours_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 4321]).unwrap();
        far.read_exact(&mut [0; 4321]).unwrap();
        let mut text = String::new();
        SockDiag::open().unwrap().read(&mut text).unwrap();
        let both = format!("{} {} state=1 ", far.local_addr().unwrap(), far.peer_addr().unwrap());
        let reported =
            text.lines().find(|line| line.starts_with(&both)).unwrap_or_else(|| panic!("{both}: {text}"));
        assert!(reported.contains(" bytes_received=4321 ") && reported.contains(" rtt="), "{reported}");
        assert!(reported.contains(" sndbuf=") && !reported.contains(" sndbuf=0"), "{reported}");
        assert!(reported.contains(" snd_wnd=") && !reported.contains(" snd_wnd=0"), "{reported}");
        assert!(reported.contains(" data_segs_in=") && !reported.contains(" data_segs_in=0"), "{reported}");
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut text = String::new();
            line(&bytes, &mut text);
        }
    }
}
