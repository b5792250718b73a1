//! Queries network drivers, and changes their settings (include/uapi/linux/ethtool.h). The functions in this file read
//! the drivers' statistics, for each queue and in total, as `ethtool -S` shows them (`ETHTOOL_GSTATS`).

mod change;
mod module;
mod settings;

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub use settings::{CHANNELS, COALESCING, Driver, Feature, PAUSE, PortLink, Question, RINGS, Spread};

/// The commands ETHTOOL_GSTRINGS, ETHTOOL_GSTATS and ETHTOOL_GSSET_INFO.
const STRINGS: u32 = 0x1b;
const STATISTICS: u32 = 0x1d;
const SET_INFO: u32 = 0x37;
/// ETH_SS_STATS: the set of strings that names statistics.
const SET: u32 = 1;
/// ETH_GSTRING_LEN: the bytes of a name.
const NAME: usize = 32;
/// The most statistics that are read from a driver. The largest drivers have a few thousand.
const MOST_STATISTICS: usize = 1 << 15;
/// The number of values for which the buffer has room. The kernel writes all values of the driver, even if fewer values
/// were requested. So the buffer would overflow only if a driver gained more than `MOST_STATISTICS` values between two
/// system calls.
const ROOM: usize = 2 * MOST_STATISTICS;

/// A socket for requests to the drivers of a network namespace.
pub struct Ethtool {
    socket: OwnedFd,
    // Most pages of the buffer are never touched, so they take no memory.
    buffer: Vec<u8>,
}

impl Ethtool {
    /// Opens the socket. It stays in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub fn open() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, buffer: vec![0; 12 + ROOM * NAME] })
    }

    /// The names of an interface's statistics, in the order of their values.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the interface's driver has no statistics, `ENODEV` if there is no such interface.
    pub fn names(&mut self, interface: &str) -> io::Result<Vec<String>> {
        self.set(interface, SET)
    }

    /// The values of an interface's statistics.
    ///
    /// # Errors
    /// The errors of [`Ethtool::names`].
    pub fn values(&mut self, interface: &str) -> io::Result<Vec<u64>> {
        let count = self.count(interface, SET)?;
        self.put([STATISTICS, u32::try_from(count).unwrap_or(0), 0]);
        self.ask(interface)?;
        let reported = (self.word(4) as usize).min(MOST_STATISTICS);
        let values = self.buffer[8..8 + reported * 8].as_chunks().0.iter();
        Ok(values.map(|bytes| u64::from_ne_bytes(*bytes)).collect())
    }

    /// The names of the strings in a set of the driver.
    fn set(&mut self, interface: &str, set: u32) -> io::Result<Vec<String>> {
        let count = self.count(interface, set)?;
        self.put([STRINGS, set, u32::try_from(count).unwrap_or(0)]);
        self.ask(interface)?;
        let reported = (self.word(8) as usize).min(MOST_STATISTICS);
        Ok(self.buffer[12..12 + reported * NAME].chunks(NAME).map(name).collect())
    }

    /// The number of strings that a set of the driver has now.
    fn count(&mut self, interface: &str, set: u32) -> io::Result<usize> {
        self.put([SET_INFO, 0, 0]);
        // The layout of struct ethtool_sset_info: a mask of the requested sets (64 bits), and then one count
        // for each set that the driver has.
        self.buffer[8..16].copy_from_slice(&(1u64 << set).to_ne_bytes());
        self.ask(interface)?;
        let mask = u64::from(self.word(8)) | u64::from(self.word(12));
        let count = if mask == 0 { 0 } else { self.word(16) as usize };
        match count {
            0 => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            1..=MOST_STATISTICS => Ok(count),
            _ => Err(io::Error::other(format!(
                "{interface} has {count} statistics or features, more than are read"
            ))),
        }
    }

    fn put(&mut self, words: [u32; 3]) {
        for (bytes, word) in self.buffer.chunks_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes([self.buffer[at], self.buffer[at + 1], self.buffer[at + 2], self.buffer[at + 3]])
    }

    fn ask(&mut self, interface: &str) -> io::Result<()> {
        // SAFETY: ifreq consists of integers, arrays and a pointer, for which zero is a value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        let name = interface.as_bytes();
        // The last byte must stay zero.
        if name.len() >= request.ifr_name.len() || name.contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = self.buffer.as_mut_ptr().cast();
        // SAFETY: `request` and the buffer that it points to outlive the call. The kernel writes one of the following
        // to the buffer: a structure of at most 196 bytes; a header of at most 48 bytes, with at most the number of
        // words that the request states (65,536 at most) or with 3 x 127 words of link modes; or a header of at most 16
        // bytes, with the requested bytes of a module (2,048 at most) or with one name (32 bytes) or value (8 bytes)
        // for each string of a set. `count` has just refused more than MOST_STATISTICS strings, and the buffer has room
        // for twice that number of names. If a request changes something, the kernel reads no more bytes than these.
        let result =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        // A change of features returns flags, which are positive numbers.
        if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn name(bytes: &[u8]) -> String {
    let name = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    String::from_utf8_lossy(name).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_has_none_is_refused() {
        let mut ethtool = Ethtool::open().unwrap();
        let refused = |error: io::Error| error.raw_os_error().unwrap_or(0);
        assert_eq!(refused(ethtool.names("no-such-if").unwrap_err()), libc::ENODEV);
        assert_eq!(refused(ethtool.values("a-name-that-is-too-long").unwrap_err()), libc::ENODEV);
        assert_eq!(refused(ethtool.values("lo").unwrap_err()), libc::EOPNOTSUPP);
    }

    #[test]
    fn every_value_has_a_name() {
        let mut ethtool = Ethtool::open().unwrap();
        let listed = std::fs::read_to_string("/proc/net/dev").unwrap();
        let names = listed.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
        for interface in names {
            if let Ok(values) = ethtool.values(interface) {
                assert_eq!(ethtool.names(interface).unwrap().len(), values.len(), "{interface}");
            }
        }
    }
}
