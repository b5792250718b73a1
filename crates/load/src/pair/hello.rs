//! The first message of a pair's client, and the last message of a bulk receiver. All numbers are big-endian.

/// The first bytes of every connection. The last of these bytes is the protocol's version. If the client's
/// version differs, the server closes the connection.
const MAGIC: [u8; 8] = *b"\x02LRLOAD2";
/// The first byte of the magic bytes. No other protocol of our servers begins with it.
pub const FIRST_BYTE: u8 = MAGIC[0];
/// The length of a hello in bytes.
pub const HELLO: usize = 28;
/// The length of a tally in bytes.
pub const TALLY: usize = 24;
/// The length of a tally of datagrams in bytes.
pub const DATAGRAM_TALLY: usize = 48;

/// The purpose of a connection, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Requests and responses of these sizes in bytes.
    Transactions { request: u32, response: u32 },
    /// One request and one response, after which the server closes the connection.
    Single { request: u32, response: u32 },
    /// The client sends. The server counts the bytes that arrive more than `ramp_us` microseconds after the first byte,
    /// with a receive buffer of `window` bytes (0: the kernel's default).
    Bulk { ramp_us: u64, window: u32 },
    /// The server sends for `us` microseconds, with a send buffer of `window` bytes (0: the kernel's default).
    SendFor { us: u64, window: u32 },
    /// The server sends this number of bytes, with a send buffer of `window` bytes (0: the kernel's default).
    SendBytes { bytes: u64, window: u32 },
    /// The client sends datagrams from the UDP port `port`. The server counts those that arrive more than `ramp_us`
    /// microseconds after the first one, with a receive buffer of `window` bytes (0: the kernel's default).
    Datagrams { ramp_us: u64, window: u32, port: u16 },
}

impl Role {
    /// Encodes the hello as bytes.
    pub fn encode(self) -> [u8; HELLO] {
        let (kind, a, b, c) = match self {
            Self::Transactions { request, response } => (1u32, u64::from(request), response, 0),
            Self::Single { request, response } => (2, u64::from(request), response, 0),
            Self::Bulk { ramp_us, window } => (3, ramp_us, window, 0),
            Self::SendFor { us, window } => (4, us, window, 0),
            Self::SendBytes { bytes, window } => (5, bytes, window, 0),
            Self::Datagrams { ramp_us, window, port } => (6, ramp_us, window, u32::from(port)),
        };
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&kind.to_be_bytes());
        bytes[12..20].copy_from_slice(&a.to_be_bytes());
        bytes[20..24].copy_from_slice(&b.to_be_bytes());
        bytes[24..].copy_from_slice(&c.to_be_bytes());
        bytes
    }

    /// Decodes a hello; `None` if the bytes aren't a hello.
    pub fn decode(bytes: &[u8; HELLO]) -> Option<Self> {
        if bytes[..8] != MAGIC {
            return None;
        }
        let a = u64::from_be_bytes(bytes[12..20].try_into().ok()?);
        let b = u32::from_be_bytes(bytes[20..24].try_into().ok()?);
        let port = u16::try_from(u32::from_be_bytes(bytes[24..].try_into().ok()?)).ok()?;
        let request = u32::try_from(a);
        match (u32::from_be_bytes(bytes[8..12].try_into().ok()?), port) {
            (1, 0) => Some(Self::Transactions { request: request.ok()?, response: b }),
            (2, 0) => Some(Self::Single { request: request.ok()?, response: b }),
            (3, 0) => Some(Self::Bulk { ramp_us: a, window: b }),
            (4, 0) => Some(Self::SendFor { us: a, window: b }),
            (5, 0) => Some(Self::SendBytes { bytes: a, window: b }),
            (6, 1..) => Some(Self::Datagrams { ramp_us: a, window: b, port }),
            _ => None,
        }
    }
}

/// The counts of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverTally {
    /// The number of bytes received after the ramp.
    pub bytes: u64,
    /// The time from the first counted byte to the last, in nanoseconds.
    pub nanos: u64,
    /// The receive buffer in bytes, as getsockopt(2) reports it.
    pub buffer: u64,
}

impl ReceiverTally {
    /// Encodes the tally as bytes.
    pub fn encode(self) -> [u8; TALLY] {
        joined([self.bytes, self.nanos, self.buffer])
    }

    /// Decodes a tally.
    pub fn decode(bytes: &[u8; TALLY]) -> Self {
        let [bytes, nanos, buffer] = numbers(bytes);
        Self { bytes, nanos, buffer }
    }
}

/// The counts of a receiver of datagrams, after the ramp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramTally {
    /// The payload bytes of the datagrams.
    pub bytes: u64,
    /// The time from the first counted datagram to the last, in nanoseconds.
    pub nanos: u64,
    /// The number of datagrams that arrived.
    pub received: u64,
    /// The number of datagrams that were sent after the first counted datagram and didn't arrive.
    pub lost: u64,
    /// The number of datagrams that arrived after a datagram that was sent later.
    pub reordered: u64,
    /// The jitter of the transit times in nanoseconds (RFC 3550, 6.4.1).
    pub jitter_nanos: u64,
}

impl DatagramTally {
    /// Encodes the tally as bytes.
    pub fn encode(self) -> [u8; DATAGRAM_TALLY] {
        joined([self.bytes, self.nanos, self.received, self.lost, self.reordered, self.jitter_nanos])
    }

    /// Decodes a tally of datagrams.
    pub fn decode(bytes: &[u8; DATAGRAM_TALLY]) -> Self {
        let [bytes, nanos, received, lost, reordered, jitter_nanos] = numbers(bytes);
        Self { bytes, nanos, received, lost, reordered, jitter_nanos }
    }
}

fn joined<const N: usize, const M: usize>(values: [u64; N]) -> [u8; M] {
    let mut bytes = [0; M];
    for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
        place.copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

fn numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut values = [0; N];
    for (value, eight) in values.iter_mut().zip(bytes.chunks_exact(8)) {
        *value = eight.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_said_is_what_is_heard(a: u32, b: u32, c: u64) {
            let roles = [
                Role::Transactions { request: a, response: b },
                Role::Single { request: a, response: b },
                Role::Bulk { ramp_us: c, window: b },
                Role::SendFor { us: c, window: b },
                Role::SendBytes { bytes: c, window: b },
                Role::Datagrams { ramp_us: c, window: b, port: (a as u16).max(1) },
            ];
            for role in roles {
                prop_assert_eq!(Role::decode(&role.encode()), Some(role));
            }
            let tally = ReceiverTally { bytes: c, nanos: u64::from(a), buffer: u64::from(b) };
            prop_assert_eq!(ReceiverTally::decode(&tally.encode()), tally);
            let (bytes, received) = (c, u64::from(a));
            let tally = DatagramTally { bytes, received, jitter_nanos: u64::from(b), ..DatagramTally::default() };
            prop_assert_eq!(DatagramTally::decode(&tally.encode()), tally);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: [u8; HELLO]) {
            let mut bytes = bytes;
            prop_assert_eq!(Role::decode(&bytes), None);
            bytes[..8].copy_from_slice(&MAGIC);
            if let Some(role) = Role::decode(&bytes) {
                prop_assert_eq!(role.encode(), bytes);
            }
        }
    }
}
