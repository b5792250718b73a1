//! TUN interfaces that accept super-packets: up to 64 KiB of TCP data in one packet, with a header that
//! describes its segmentation (Documentation/networking/tuntap.rst, include/uapi/linux/if_tun.h).

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// The length of the header (`struct virtio_net_hdr`) before each packet that is read or written.
pub const HEADER_BYTES: usize = 10;

/// IFF_TUN_EXCL: the call that creates an interface fails if an interface of that name exists. The libc crate declares
/// the constant as a signed number, so it is repeated here.
const EXCLUSIVE: libc::c_int = 0x8000;

/// A TUN interface, which exists as long as this value. Reads and writes never block.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Creates a TUN interface of this name in the network namespace of the calling thread. The interface is
    /// down at first.
    ///
    /// # Errors
    /// `NotFound` without /dev/net/tun, `EPERM` without `CAP_NET_ADMIN`, `EBUSY` if the name is taken,
    /// `EINVAL` if the name is longer than 15 bytes or the kernel doesn't know these offloads.
    pub fn make(interface: &str) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let tun = Self(rustix::fs::open("/dev/net/tun", flags, Mode::empty())?);
        tun.name(interface)?;
        tun.take_super_packets()?;
        Ok(tun)
    }

    /// Reads one packet with its header, and returns its length. Bytes that don't fit in `buffer` are lost.
    ///
    /// # Errors
    /// `WouldBlock` if no packet is waiting.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }

    /// Gives one packet with its header to the host, which receives it from the interface.
    ///
    /// # Errors
    /// `EIO` while the interface is down, `EINVAL` for bytes that aren't a packet, `ENOMEM` without memory.
    pub fn write(&self, packet: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, packet)?)
    }

    fn name(&self, interface: &str) -> io::Result<()> {
        // SAFETY: ifreq consists of integers, arrays and a pointer, for which zero is a value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        let name = interface.as_bytes();
        // The last byte must stay zero.
        if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | EXCLUSIVE;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes an ifreq, which `request` is, and which outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn take_super_packets(&self) -> io::Result<()> {
        let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
        // SAFETY: TUNSETOFFLOAD takes its argument as a number, not as an address.
        let result = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads))
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` in a new network namespace, if this process may create one.
    fn alone(work: impl FnOnce() + Send + 'static) {
        let job = move || {
            // SAFETY: unshare with CLONE_NEWNET affects only the calling thread, which ends with this
            // closure.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                linerate_testing::skip("root", "making a network namespace needs CAP_SYS_ADMIN");
            } else if linerate_testing::has_tun() {
                work();
            }
        };
        std::thread::spawn(job).join().expect("the work passes");
    }

    #[test]
    fn an_interface_lasts_as_long_as_it_is_held() {
        alone(|| {
            let listed = || std::fs::read_to_string("/proc/thread-self/net/dev").expect("procfs is mounted");
            let tun = Tun::make("to-b").expect("may make interfaces here");
            assert!(listed().contains("to-b:"), "{}", listed());
            assert_eq!(tun.read(&mut [0; 100]).expect_err("is down").kind(), io::ErrorKind::WouldBlock);
            let mut packet = [0; 30];
            assert_eq!(tun.write(&packet).expect_err("no version").raw_os_error(), Some(libc::EINVAL));
            packet[HEADER_BYTES] = 0x45;
            assert_eq!(tun.write(&packet).expect_err("is down").raw_os_error(), Some(libc::EIO));
            assert_eq!(Tun::make("to-b").expect_err("is taken").raw_os_error(), Some(libc::EBUSY));
            drop(tun);
            assert!(!listed().contains("to-b:"), "{}", listed());
        });
    }

    #[test]
    fn a_name_that_no_interface_has_is_refused() {
        alone(|| {
            for name in ["", "sixteen-letters!", "a\0b"] {
                assert_eq!(Tun::make(name).expect_err(name).raw_os_error(), Some(libc::EINVAL), "{name:?}");
            }
        });
    }
}
