//! Frames on a data stream: a header of fixed size, then a payload.
//!
//! The parser takes bytes as they arrive, and passes each payload on in the same pieces. So it doesn't copy the pieces
//! of a payload to join them.

use crc_fast::{CrcAlgorithm, Digest};

/// The length of a header in bytes.
pub const HEADER: usize = 16;
/// The largest payload of a [`FrameKind::Data`], [`FrameKind::Packed`] or [`FrameKind::Sealed`] frame in bytes.
pub const MAX_DATA: usize = 1 << 20;
/// The largest payload of any other frame in bytes.
pub const MAX_OTHER: usize = 2 << 20;
/// The window of a compressed stream: the largest distance over which compressed bytes may refer back, as a power of
/// two in bytes. The receiver needs memory of this size for each stream. One stream of a transfer may have a larger
/// window if the receiver permits it.
pub const WINDOW_LOG: u8 = 23;
/// The largest window that this one stream may have, as a power of two in bytes.
pub const LONG_WINDOW_LOG: u8 = 27;
/// The unit of [`Header::sure`] in bytes.
pub const SURE_UNIT: usize = 64 << 10;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The payload is a batch: records of entries, with the complete contents of small files ([`crate::batch`]).
    Batch = 1,
    /// The payload is a [`crate::entry::Chunk`] in postcard, which begins a chunk. The chunk's bytes follow in other
    /// frames.
    Chunk = 2,
    /// The payload is the next bytes of the current chunk.
    Data = 3,
    /// The current chunk can't be finished, and its entry is given up. No payload.
    GiveUp = 4,
    /// The end of this stream. No payload.
    End = 5,
    /// The next bytes of the current chunk are zeros that take no space at the sender (a hole). Payload: the number of
    /// these zeros, 8 bytes, little endian.
    Hole = 6,
    /// The receiver already has the rest of the current chunk, as its answer to the offer reported. No payload.
    Same = 7,
    /// Comes after the last bytes of a chunk. If digests are sent, the payload begins with the BLAKE3 hash of the chunk
    /// as the sender read it, 32 bytes: the root hash if the chunk is the whole file, else the chaining value of the
    /// chunk's subtree. If the chunk contained a `Copy`, the digest of the copied pieces follows, 32 bytes.
    Digest = 8,
    /// The current chunk ends here, and the rest of it is sent in other chunks. Payload: the number of parts
    /// that the file now has, 4 bytes, little endian.
    Split = 9,
    /// The receiver copies the next bytes of the current chunk from its older version of the file. Payload: the offset
    /// in the older version and the number of bytes, 8 bytes each, little endian.
    Copy = 10,
    /// The payload is the next bytes of the stream's zstd frame. Decompressed, this zstd frame contains frames of all
    /// kinds except `End`, `Packed` and `Sealed`.
    Packed = 11,
    /// The payload has the next bytes of a stream that passes through several hosts; these bytes contain frames of
    /// other kinds. Marks prove to each host that the bytes come from the source ([`crate::sealed`]).
    Sealed = 12,
}

impl FrameKind {
    fn parse(byte: u8) -> Option<Self> {
        const ALL: [FrameKind; 12] = [
            FrameKind::Batch,
            FrameKind::Chunk,
            FrameKind::Data,
            FrameKind::GiveUp,
            FrameKind::End,
            FrameKind::Hole,
            FrameKind::Same,
            FrameKind::Digest,
            FrameKind::Split,
            FrameKind::Copy,
            FrameKind::Packed,
            FrameKind::Sealed,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// True if a frame of this kind must have a payload. A frame without payload would only keep the other end busy.
    fn has_payload(self) -> bool {
        matches!(self, Self::Batch | Self::Chunk | Self::Data | Self::Packed | Self::Sealed)
    }

    /// True if frames of this kind may be among frames that are compressed together.
    pub fn may_be_packed(self) -> bool {
        !matches!(self, Self::End | Self::Packed | Self::Sealed)
    }

    fn largest_payload(self) -> usize {
        match self {
            Self::Data | Self::Packed | Self::Sealed => MAX_DATA,
            Self::Batch | Self::Chunk => MAX_OTHER,
            Self::Hole => 8,
            Self::Copy => 16,
            Self::Digest => 64,
            Self::Split => 4,
            Self::GiveUp | Self::End | Self::Same => 0,
        }
    }
}

/// The header of a frame. Its bytes are: the kind (1 byte), flags (1 byte; bit 0 is set if there is a checksum),
/// [`Header::sure`] (2 bytes), the length of the payload (4 bytes), and the CRC-64/NVME of the payload or zero (8
/// bytes). Numbers are little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The frame's kind.
    pub kind: FrameKind,
    /// The number of payload bytes that are sent.
    pub length: u32,
    /// The payload's checksum; `None` on streams with a cipher.
    pub checksum: Option<u64>,
    /// The sender's promise that after this data frame, at least `sure` times [`SURE_UNIT`] bytes of the chunk follow
    /// without compression.
    pub sure: u16,
}

/// The reason why the bytes of a stream aren't valid frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first byte isn't a known kind.
    #[error("unknown frame kind {0}")]
    Kind(u8),
    /// Reserved bits are set.
    #[error("reserved bits are set in a frame header")]
    Reserved,
    /// The payload is larger than the frame's kind allows, or is empty although frames of this kind need a payload.
    #[error("a frame of kind {0:?} claims {1} bytes")]
    Length(FrameKind, u32),
    /// A frame has no checksum although the stream requires one, or has one although the stream uses none.
    #[error("a frame's checksum is missing or not expected")]
    ChecksumFlag,
    /// The payload's checksum is wrong, so the payload was changed on the way.
    #[error("checksum mismatch in a frame: the data was changed on its way")]
    Checksum,
}

impl Header {
    /// The header of a frame with this payload, with a checksum if `checked` is set.
    pub fn of(kind: FrameKind, payload: &[u8], checked: bool) -> Self {
        let checksum = checked.then(|| crc_fast::checksum(CrcAlgorithm::Crc64Nvme, payload));
        Self { checksum, ..Self::unchecked(kind, payload.len()) }
    }

    /// The header of a frame whose payload has `length` bytes. It has no checksum, because a cipher protects the
    /// payload.
    pub fn unchecked(kind: FrameKind, length: usize) -> Self {
        let length = u32::try_from(length).expect("payloads are below 4 MiB");
        Self { kind, length, checksum: None, sure: 0 }
    }

    /// Adds the promise that at least `bytes` more bytes of the chunk follow without compression (rounded down to a
    /// multiple of [`SURE_UNIT`]).
    pub fn before(self, bytes: u64) -> Self {
        Self { sure: u16::try_from(bytes / SURE_UNIT as u64).unwrap_or(u16::MAX), ..self }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.checksum.is_some());
        bytes[2..4].copy_from_slice(&self.sure.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.checksum.unwrap_or(0).to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// If the kind is unknown, reserved bits are set, or frames of this kind can't have this length.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, FrameError> {
        let kind = FrameKind::parse(bytes[0]).ok_or(FrameError::Kind(bytes[0]))?;
        let sure = u16::from_le_bytes([bytes[2], bytes[3]]);
        if bytes[1] > 1 || sure > 0 && kind != FrameKind::Data {
            return Err(FrameError::Reserved);
        }
        let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if length as usize > kind.largest_payload() || length == 0 && kind.has_payload() {
            return Err(FrameError::Length(kind, length));
        }
        let sum = u64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
        match bytes[1] {
            0 if sum != 0 => Err(FrameError::Reserved),
            flag => Ok(Self { kind, length, checksum: (flag == 1).then_some(sum), sure }),
        }
    }
}

/// An event that the parser reports.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame with this header begins.
    Start(Header),
    /// These bytes are the next bytes of the current frame's payload.
    Payload(&'a [u8]),
    /// The current frame, of this kind, is complete, and its checksum is right if it has one.
    Done(FrameKind),
}

/// Splits a stream of bytes into frames.
pub struct Parser {
    checked: bool,
    partial: [u8; HEADER],
    have: usize,
    current: Option<Open>,
}

struct Open {
    header: Header,
    left: usize,
    digest: Option<Digest>,
}

impl Parser {
    /// A parser for a stream. If `checked` is set, which is for streams without a cipher, each frame must have a
    /// checksum; otherwise no frame may have a checksum.
    pub fn new(checked: bool) -> Self {
        Self { checked, partial: [0; HEADER], have: 0, current: None }
    }

    /// True if the parser is between two frames. If a stream ends at any other point, it was cut.
    pub fn is_between_frames(&self) -> bool {
        self.have == 0 && self.current.is_none()
    }

    /// Parses the next event from the front of `bytes`, and removes its bytes from `bytes`; `None` if more
    /// bytes are needed.
    ///
    /// # Errors
    /// If the bytes aren't valid frames. The parser can't be used afterwards.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, FrameError> {
        match self.current.take() {
            Some(open) if open.left == 0 => finish(open).map(|kind| Some(Piece::Done(kind))),
            Some(open) => Ok(self.payload(open, bytes)),
            None => self.start(bytes),
        }
    }

    fn payload<'a>(&mut self, mut open: Open, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        let take = open.left.min(bytes.len());
        let (piece, rest) = bytes.split_at(take);
        *bytes = rest;
        if let Some(digest) = &mut open.digest {
            digest.update(piece);
        }
        open.left -= take;
        self.current = Some(open);
        (take > 0).then_some(Piece::Payload(piece))
    }

    fn start<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, FrameError> {
        let take = (HEADER - self.have).min(bytes.len());
        let (front, rest) = bytes.split_at(take);
        self.partial[self.have..self.have + take].copy_from_slice(front);
        *bytes = rest;
        self.have += take;
        if self.have < HEADER {
            return Ok(None);
        }
        self.have = 0;
        let header = Header::decode(&self.partial)?;
        if header.checksum.is_some() != self.checked {
            return Err(FrameError::ChecksumFlag);
        }
        let digest = self.checked.then(|| Digest::new(CrcAlgorithm::Crc64Nvme));
        self.current = Some(Open { header, left: header.length as usize, digest });
        Ok(Some(Piece::Start(header)))
    }
}

fn finish(open: Open) -> Result<FrameKind, FrameError> {
    let actual = open.digest.map(|digest| digest.finalize());
    if actual != open.header.checksum {
        return Err(FrameError::Checksum);
    }
    Ok(open.header.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [FrameKind; 3] = [FrameKind::Batch, FrameKind::Chunk, FrameKind::Data];

    fn read(bytes: &[u8], cuts: &[usize], checked: bool) -> Result<Vec<(FrameKind, Vec<u8>)>, FrameError> {
        let mut parser = Parser::new(checked);
        let mut frames = Vec::new();
        let mut start = 0;
        let ends = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([bytes.len()]);
        for end in ends {
            let mut rest = &bytes[start..end.max(start)];
            start = end.max(start);
            while let Some(piece) = parser.next(&mut rest)? {
                match piece {
                    Piece::Start(header) => frames.push((header.kind, Vec::new())),
                    Piece::Payload(piece) => frames.last_mut().unwrap().1.extend_from_slice(piece),
                    Piece::Done(kind) => assert_eq!(kind, frames.last().unwrap().0),
                }
            }
        }
        assert!(parser.is_between_frames());
        Ok(frames)
    }

    fn written(frames: &[(FrameKind, Vec<u8>)], checked: bool) -> Vec<u8> {
        let frame = |(kind, payload): &(FrameKind, Vec<u8>)| {
            [&Header::of(*kind, payload, checked).encode()[..], payload].concat()
        };
        frames.iter().flat_map(frame).collect()
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut bytes = written(&[(FrameKind::Data, vec![7; 100])], true);
        bytes[HEADER + 50] ^= 4;
        assert_eq!(read(&bytes, &[], true), Err(FrameError::Checksum));
    }

    #[test]
    fn lengths_are_checked_before_they_are_believed() {
        let mut bytes = Header::of(FrameKind::Data, &[], false).encode();
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Err(FrameError::Length(FrameKind::Data, u32::MAX)));
    }

    #[test]
    fn an_empty_frame_is_refused() {
        for kind in KINDS {
            let bytes = Header::of(kind, &[], false).encode();
            assert_eq!(Header::decode(&bytes), Err(FrameError::Length(kind, 0)));
        }
        assert!(Header::decode(&Header::of(FrameKind::End, &[], false).encode()).is_ok());
    }

    #[test]
    fn only_data_is_sure_of_more_and_flags_are_reserved() {
        let decoded = |header: Header| Header::decode(&header.encode());
        let data = Header::unchecked(FrameKind::Data, 5);
        assert_eq!(decoded(data.before(1 << 20)), Ok(Header { sure: 16, ..data }));
        assert_eq!(data.before(u64::MAX).sure, u16::MAX);
        for kind in [FrameKind::Chunk, FrameKind::Packed] {
            let other = Header::unchecked(kind, 5);
            assert_eq!(decoded(other), Ok(other));
            assert_eq!(decoded(other.before(1 << 20)), Err(FrameError::Reserved));
        }
        let mut flagged = data.encode();
        flagged[1] = 2;
        assert_eq!(Header::decode(&flagged), Err(FrameError::Reserved));
    }

    #[test]
    fn compressed_frames_are_bounded_and_hold_neither_each_other_nor_the_end() {
        let too_long = MAX_DATA as u32 + 1;
        for length in [0, too_long] {
            let bytes = Header::unchecked(FrameKind::Packed, length as usize).encode();
            assert_eq!(Header::decode(&bytes), Err(FrameError::Length(FrameKind::Packed, length)));
        }
        assert!(!FrameKind::Packed.may_be_packed() && !FrameKind::End.may_be_packed());
        assert!(FrameKind::Batch.may_be_packed() && FrameKind::GiveUp.may_be_packed());
    }

    #[test]
    fn a_clear_stream_without_checksums_is_refused() {
        let bytes = written(&[(FrameKind::Data, vec![1; 10])], false);
        assert_eq!(read(&bytes, &[], true), Err(FrameError::ChecksumFlag));
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(
            payloads in prop::collection::vec((0usize..3, prop::collection::vec(any::<u8>(), 1..300)), 0..8),
            mut cuts in prop::collection::vec(any::<usize>(), 0..10),
            checked: bool,
        ) {
            let frames: Vec<_> = payloads.into_iter().map(|(kind, bytes)| (KINDS[kind], bytes)).collect();
            let bytes = written(&frames, checked);
            cuts.sort_by_key(|cut| cut % (bytes.len() + 1));
            prop_assert_eq!(read(&bytes, &cuts, checked).unwrap(), frames);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), checked: bool) {
            let mut parser = Parser::new(checked);
            let mut rest = &bytes[..];
            while let Ok(Some(_)) = parser.next(&mut rest) {}
        }
    }
}
