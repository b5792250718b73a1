//! Reads the memory of a pluggable module, as `ethtool -m NAME raw on` shows it. Both requests need
//! `CAP_NET_ADMIN`.

use std::io;

use super::Ethtool;

/// The commands ETHTOOL_GMODULEINFO and ETHTOOL_GMODULEEEPROM.
const INFO: u32 = 0x42;
const MEMORY: u32 = 0x43;
/// The length of struct ethtool_eeprom before its data.
const HEADER: usize = 16;
/// The most bytes that are read from a module. The kernel provides at most 640 (ETH_MODULE_SFF_8636_MAX_LEN).
const MOST_MODULE_BYTES: usize = 2048;

impl Ethtool {
    /// The memory of the module in a port, in the kernel's order. For an SFP, these are the addresses A0h and A2h, 256
    /// bytes each; for a QSFP, the lower half and then the upper pages, 128 bytes each.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the driver has no modules, `EPERM` without `CAP_NET_ADMIN`, and any error that the
    /// driver returns if no module is plugged in.
    pub fn module(&mut self, interface: &str) -> io::Result<Vec<u8>> {
        self.clear();
        self.put([INFO, 0, 0]);
        self.ask(interface)?;
        let length = (self.word(8) as usize).min(MOST_MODULE_BYTES);
        self.clear();
        // The words are the command, a number that is used only for writing, and the offset of the first byte.
        self.put([MEMORY, 0, 0]);
        self.buffer[12..HEADER].copy_from_slice(&u32::try_from(length).unwrap_or(0).to_ne_bytes());
        self.ask(interface)?;
        let read = (self.word(12) as usize).min(length);
        Ok(self.buffer[HEADER..HEADER + read].to_vec())
    }
}
