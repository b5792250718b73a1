//! The first message of a pair's client, and the last one of a bulk receiver. All numbers are big-endian.

/// The first bytes of every connection.
const MAGIC: [u8; 8] = *b"\x02LRLOAD1";
/// The first byte; no other protocol of our servers begins with it.
pub const FIRST_BYTE: u8 = MAGIC[0];
/// Length of a hello.
pub const HELLO: usize = 28;
/// Length of a tally.
pub const TALLY: usize = 24;

/// The purpose of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Requests and responses of these sizes in bytes.
    Transactions { request: u32, response: u32 },
    /// One request and response, then the server closes.
    Single { request: u32, response: u32 },
    /// Bytes to count from `warm_up` after the first on, with a receive buffer of `window` bytes (0: the
    /// kernel's default).
    Bulk { warm_up_us: u64, window: u32 },
}

impl Role {
    /// Its bytes on the wire.
    pub fn encode(self) -> [u8; HELLO] {
        let (kind, a, b) = match self {
            Self::Transactions { request, response } => (1u32, u64::from(request), response),
            Self::Single { request, response } => (2, u64::from(request), response),
            Self::Bulk { warm_up_us, window } => (3, warm_up_us, window),
        };
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&kind.to_be_bytes());
        bytes[12..20].copy_from_slice(&a.to_be_bytes());
        bytes[20..24].copy_from_slice(&b.to_be_bytes());
        bytes
    }

    /// Decodes it; none for a stranger's bytes.
    pub fn decode(bytes: &[u8; HELLO]) -> Option<Self> {
        if bytes[..8] != MAGIC || bytes[24..] != [0; 4] {
            return None;
        }
        let a = u64::from_be_bytes(bytes[12..20].try_into().ok()?);
        let b = u32::from_be_bytes(bytes[20..24].try_into().ok()?);
        let request = u32::try_from(a);
        match u32::from_be_bytes(bytes[8..12].try_into().ok()?) {
            1 => Some(Self::Transactions { request: request.ok()?, response: b }),
            2 => Some(Self::Single { request: request.ok()?, response: b }),
            3 => Some(Self::Bulk { warm_up_us: a, window: b }),
            _ => None,
        }
    }
}

/// The counts of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverTally {
    /// Bytes after the warm-up.
    pub bytes: u64,
    /// Time from the first of these to the last.
    pub nanos: u64,
    /// The receive buffer in bytes, as getsockopt(2) reports it.
    pub buffer: u64,
}

impl ReceiverTally {
    /// Its bytes on the wire.
    pub fn encode(self) -> [u8; TALLY] {
        let mut bytes = [0; TALLY];
        for (place, value) in bytes.chunks_exact_mut(8).zip([self.bytes, self.nanos, self.buffer]) {
            place.copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8; TALLY]) -> Self {
        let mut numbers =
            bytes.chunks_exact(8).map(|n| n.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        let mut next = || numbers.next().unwrap_or_default();
        Self { bytes: next(), nanos: next(), buffer: next() }
    }
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
                Role::Bulk { warm_up_us: c, window: b },
            ];
            for role in roles {
                prop_assert_eq!(Role::decode(&role.encode()), Some(role));
            }
            let tally = ReceiverTally { bytes: c, nanos: u64::from(a), buffer: u64::from(b) };
            prop_assert_eq!(ReceiverTally::decode(&tally.encode()), tally);
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
