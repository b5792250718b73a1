//! Whether a program on one host waits for reading or for writing, by the bytes that the kernel counted.

use super::Limiter;
use super::evidence::bytes;

/// With fewer bytes the comparison isn't significant: the program's own file may have been read from a device, too.
const LEAST_BYTES: u64 = 1_000_000;
/// If the bytes read are at least this many times the bytes written, or the other way round, only the larger number
/// counts.
const MOSTLY: u64 = 2;

/// Bytes that processes read from devices and wrote to them (getrusage(2)). Bytes of files in memory don't count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl DeviceBytes {
    /// Reading or writing, whichever uses devices; `None` if both or neither use them.
    pub(super) fn limiter(self) -> Option<Limiter> {
        let Self { read, written } = self;
        let is_mostly = |one: u64, other: u64| one >= LEAST_BYTES && one >= other.saturating_mul(MOSTLY);
        match () {
            () if is_mostly(read, written) => Some(Limiter::SourceRead),
            () if is_mostly(written, read) => Some(Limiter::DestinationWrite),
            () => None,
        }
    }

    pub(super) fn words(self) -> String {
        let Self { read, written } = self;
        format!("{} came from devices, {} went to devices", bytes(read as f64), bytes(written as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_with_most_of_the_bytes_is_named() {
        let of = |read, written| DeviceBytes { read, written }.limiter();
        assert_eq!(of(60_000_000, 4096), Some(Limiter::SourceRead));
        assert_eq!(of(20_000_000, 60_000_000), Some(Limiter::DestinationWrite));
        assert_eq!([of(60_000_000, 60_000_000), of(0, 0), of(900_000, 0)], [None; 3]);
    }
}
