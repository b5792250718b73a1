//! The payload of a [`crate::frame::FrameKind::Sealed`] frame: bytes of a stream that passes through several
//! hosts, and a mark for each host.
//!
//! A mark is made with a key that only the source and the mark's host know. So if a host through which the bytes have
//! passed changes, repeats, reorders, omits or adds bytes, the hosts behind it detect this.

/// The largest number of hosts in a chain or tree.
pub const MAX_CHAINED: usize = 64;
/// The length of a mark in bytes.
pub const MARK: usize = 32;
/// The number of bytes before the marks: the stream's number (4 bytes) and the part's number in the stream
/// (8), little endian.
pub const SEALED_HEAD: usize = 12;
/// The most bytes of the stream in one frame.
pub const MAX_SEALED: usize = 256 << 10;

/// A mark: a keyed BLAKE3 hash by which a host verifies that a part comes from the source.
pub type Mark = [u8; MARK];

/// A part of a stream, decoded from a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedPart<'a> {
    /// The number of the source's stream to which the part belongs.
    pub stream: u32,
    /// The number of the part in that stream, from 0.
    pub number: u64,
    marks: &'a [u8],
    /// The bytes of the stream in this part.
    pub bytes: &'a [u8],
}

impl<'a> SealedPart<'a> {
    /// Decodes a part with marks for `hosts` hosts; `None` if the payload isn't a valid part, or if the part
    /// is empty or too long.
    pub fn decode(payload: &'a [u8], hosts: usize) -> Option<Self> {
        let (head, rest) = payload.split_at_checked(SEALED_HEAD)?;
        let (marks, bytes) = rest.split_at_checked(hosts.checked_mul(MARK)?)?;
        let (stream, number) = head.split_at_checked(4)?;
        let part = Self {
            stream: u32::from_le_bytes(stream.try_into().ok()?),
            number: u64::from_le_bytes(number.try_into().ok()?),
            marks,
            bytes,
        };
        (1..=MAX_SEALED).contains(&bytes.len()).then_some(part)
    }

    /// The mark for the host at the position `place`; `None` if there is no such host.
    pub fn mark(&self, place: usize) -> Option<Mark> {
        let from = place.checked_mul(MARK)?;
        self.marks.get(from..from.checked_add(MARK)?)?.try_into().ok()
    }
}

/// The first bytes of a part, which come before its marks.
pub fn sealed_head(stream: u32, number: u64) -> [u8; SEALED_HEAD] {
    let mut head = [0; SEALED_HEAD];
    head[..4].copy_from_slice(&stream.to_le_bytes());
    head[4..].copy_from_slice(&number.to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_is_read_as_it_was_written() {
        let payload = [&sealed_head(7, 1 << 40)[..], &[1; MARK], &[2; MARK], b"bytes"].concat();
        let part = SealedPart::decode(&payload, 2).unwrap();
        assert_eq!((part.stream, part.number, part.bytes), (7, 1 << 40, &b"bytes"[..]));
        assert_eq!((part.mark(0), part.mark(1), part.mark(2)), (Some([1; MARK]), Some([2; MARK]), None));
    }

    #[test]
    fn one_without_bytes_or_with_too_many_is_none() {
        let head = [&sealed_head(0, 0)[..], &[0; MARK]].concat();
        assert_eq!(SealedPart::decode(&head, 1), None);
        assert_eq!(SealedPart::decode(&[&head[..], &vec![0; MAX_SEALED + 1]].concat(), 1), None);
        assert!(SealedPart::decode(&[&head[..], &vec![0; MAX_SEALED]].concat(), 1).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), hosts: usize, place: usize) {
            for hosts in [hosts, hosts % 5] {
                SealedPart::decode(&bytes, hosts).map(|part| part.mark(place));
            }
        }
    }
}
