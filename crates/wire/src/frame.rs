//! Frames on a data stream: a header of fixed size, then a payload.
//!
//! The parser takes bytes as they come and hands the payload on in the pieces in which it came, so that nothing
//! is copied to make it whole.

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a header.
pub const HEADER: usize = 16;
/// The largest payload of a [`FrameKind::Data`], [`FrameKind::Packed`] or [`FrameKind::Sealed`] frame in bytes.
pub const MAX_DATA: usize = 1 << 20;
/// The largest payload of any other frame in bytes.
pub const MAX_OTHER: usize = 2 << 20;
/// How far back compressed bytes may repeat themselves on a stream, as a power of two in bytes. It is memory at the
/// receiver. One stream of a transfer may go further back, where the receiver takes that.
pub const WINDOW_LOG: u8 = 23;
/// The most for the one stream of a transfer that may go further back than [`WINDOW_LOG`], as a power of two in bytes.
pub const LONG_WINDOW_LOG: u8 = 27;
/// The unit of [`Header::sure`] in bytes.
pub const SURE_UNIT: usize = 64 << 10;

/// The kind of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Records of entries with the whole contents of small files ([`crate::batch`]).
    Batch = 1,
    /// A [`crate::entry::Chunk`] in postcard; its bytes follow in data frames.
    Chunk = 2,
    /// The next bytes of the chunk.
    Data = 3,
    /// The chunk can't be finished; the entry is given up. No payload.
    GiveUp = 4,
    /// Nothing follows on this stream. No payload.
    End = 5,
    /// The next bytes of the chunk are zeros that take no space at the sender: how many, 8 bytes, little endian.
    Hole = 6,
    /// The rest of the chunk is as the receiver said it has it. No payload.
    Same = 7,
    /// BLAKE3 of what the sender read of the chunk, behind its last bytes: the root where the chunk is the whole file, else
    /// the chaining value of its subtree. 32 bytes.
    Digest = 8,
    /// The chunk ends here, and the rest of it comes in other chunks: the number of parts that the file has now, 4 bytes, little
    /// endian.
    Split = 9,
    /// The next bytes of the chunk are in the older version: where, and how many; 8 bytes each, little endian.
    Copy = 10,
    /// The next bytes of the stream's zstd frame, which holds further frames of the other kinds but the end.
    Packed = 11,
    /// The next bytes of a chain's stream, which hold frames of the other kinds, with the marks by which each host of the chain sees
    /// that they are the source's ([`crate::sealed`]).
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

    /// True for a kind whose frames have a payload: an empty one would be sent only to keep the other end busy.
    fn has_payload(self) -> bool {
        matches!(self, Self::Batch | Self::Chunk | Self::Data | Self::Packed | Self::Sealed)
    }

    /// True where frames of this kind may be among frames that are compressed together.
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

/// The header of a frame: kind (1 byte), flags (1, bit 0: checksum present), units that are sure to follow
/// (2, little endian), payload length (4, little endian), CRC-64/NVME of the payload or zero (8, little endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of what follows.
    pub kind: FrameKind,
    /// Payload bytes, as they travel.
    pub length: u32,
    /// The payload's checksum, on streams without a cipher.
    pub checksum: Option<u64>,
    /// Behind this data frame follow that many times [`SURE_UNIT`] of the chunk at least without compression.
    pub sure: u16,
}

/// Why a stream's bytes aren't frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first byte is no kind.
    #[error("unknown frame kind {0}")]
    Kind(u8),
    /// Reserved bits are set.
    #[error("reserved bits are set in a frame header")]
    Reserved,
    /// The payload is larger than its kind allows, or empty where there must be one.
    #[error("a frame of kind {0:?} claims {1} bytes")]
    Length(FrameKind, u32),
    /// A frame has no checksum where the stream needs one, or has one where it needs none.
    #[error("a frame's checksum is missing or not expected")]
    ChecksumFlag,
    /// The payload isn't what was sent.
    #[error("checksum mismatch in a frame: the data was changed on its way")]
    Checksum,
}

impl Header {
    /// The header of `payload`, with its checksum where `checked`.
    pub fn of(kind: FrameKind, payload: &[u8], checked: bool) -> Self {
        let checksum = checked.then(|| crc_fast::checksum(CrcAlgorithm::Crc64Nvme, payload));
        Self { checksum, ..Self::unchecked(kind, payload.len()) }
    }

    /// The header of a payload of `length` bytes that a cipher protects.
    pub fn unchecked(kind: FrameKind, length: usize) -> Self {
        let length = u32::try_from(length).expect("payloads are below 4 MiB");
        Self { kind, length, checksum: None, sure: 0 }
    }

    /// This header with the promise that at least `bytes` of the chunk follow without compression.
    pub fn before(self, bytes: u64) -> Self {
        Self { sure: u16::try_from(bytes / SURE_UNIT as u64).unwrap_or(u16::MAX), ..self }
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.checksum.is_some());
        bytes[2..4].copy_from_slice(&self.sure.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.checksum.unwrap_or(0).to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// If the kind is unknown, reserved bits are set, or the length is above what the kind allows.
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

/// An event of the parser.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame begins.
    Start(Header),
    /// Bytes of its payload, in order.
    Payload(&'a [u8]),
    /// The payload is whole, and its checksum right where it has one.
    Done(FrameKind),
}

/// Cuts a stream of bytes into frames.
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
    /// A parser for a stream whose frames are `checked` by a checksum (no cipher), or not (TLS).
    pub fn new(checked: bool) -> Self {
        Self { checked, partial: [0; HEADER], have: 0, current: None }
    }

    /// True between frames: a stream that ends elsewhere was cut.
    pub fn is_between_frames(&self) -> bool {
        self.have == 0 && self.current.is_none()
    }

    /// Takes the next piece from the front of `bytes` and shortens them; `None` where more bytes are needed.
    ///
    /// # Errors
    /// If the bytes aren't frames. The stream can't be used afterwards.
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
