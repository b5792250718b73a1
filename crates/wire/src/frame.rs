//! Frames on a data stream: a header of fixed size, then a payload.
//!
//! The parser takes bytes as they come and hands the payload on in the pieces in which it came, so that nothing
//! is copied to make it whole.

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a header.
pub const HEADER: usize = 16;
/// The largest payload of a [`FrameKind::Data`] frame in bytes.
pub const MAX_DATA: usize = 1 << 20;
/// The largest payload of any other frame in bytes.
pub const MAX_OTHER: usize = 2 << 20;
/// Bytes before the compressed ones of a payload: how long it is without compression, little endian.
pub const PACKED_PREFIX: usize = 4;
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
}

impl FrameKind {
    fn parse(byte: u8) -> Option<Self> {
        const ALL: [FrameKind; 10] = [
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
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// One of these without anything in it would be sent by nobody but to keep the other end busy.
    fn has_payload(self) -> bool {
        matches!(self, Self::Batch | Self::Chunk | Self::Data)
    }

    /// One of these may be compressed.
    fn may_be_packed(self) -> bool {
        matches!(self, Self::Batch | Self::Data)
    }

    fn largest_payload(self) -> usize {
        match self {
            Self::Data => MAX_DATA,
            Self::Batch | Self::Chunk => MAX_OTHER,
            Self::Hole => 8,
            Self::Copy => 16,
            Self::Digest => 64,
            Self::Split => 4,
            Self::GiveUp | Self::End | Self::Same => 0,
        }
    }
}

/// The header of a frame: kind (1 byte), flags (1, bit 0: checksum present, bit 1: compressed), units that are sure to follow
/// (2, little endian), payload length (4, little endian), CRC-64/NVME of the payload or zero (8, little endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of what follows.
    pub kind: FrameKind,
    /// Payload bytes, as they travel.
    pub length: u32,
    /// The payload's checksum, on streams without a cipher.
    pub checksum: Option<u64>,
    /// The payload is compressed: [`PACKED_PREFIX`], and then the next bytes of the stream's zstd frames.
    pub packed: bool,
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
    /// A frame is compressed that may not be.
    #[error("a compressed frame of kind {0:?}, or one that wasn't asked for")]
    Packed(FrameKind),
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
        Self { kind, length, checksum: None, packed: false, sure: 0 }
    }

    /// The same, of a compressed payload.
    pub fn packed(self) -> Self {
        Self { packed: true, ..self }
    }

    /// The same, where `bytes` of the chunk follow without compression, at least.
    pub fn before(self, bytes: u64) -> Self {
        Self { sure: u16::try_from(bytes / SURE_UNIT as u64).unwrap_or(u16::MAX), ..self }
    }

    /// Whether a payload that is `plain` bytes long without compression may be so long.
    ///
    /// # Errors
    /// If it is empty, or longer than its kind may be.
    pub fn unpacked(self, plain: u32) -> Result<Self, FrameError> {
        if plain == 0 || plain as usize > self.kind.largest_payload() {
            return Err(FrameError::Length(self.kind, plain));
        }
        Ok(Self { length: plain, packed: false, checksum: None, sure: 0, ..self })
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.checksum.is_some()) | u8::from(self.packed) << 1;
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
        let (packed, sure) = (bytes[1] & 2 != 0, u16::from_le_bytes([bytes[2], bytes[3]]));
        if bytes[1] > 3 || sure > 0 && (packed || kind != FrameKind::Data) {
            return Err(FrameError::Reserved);
        }
        let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if length as usize > kind.largest_payload() || length == 0 && kind.has_payload() {
            return Err(FrameError::Length(kind, length));
        }
        if packed && (!kind.may_be_packed() || length as usize <= PACKED_PREFIX) {
            return Err(FrameError::Packed(kind));
        }
        let sum = u64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
        match bytes[1] & 1 {
            0 if sum != 0 => Err(FrameError::Reserved),
            flag => Ok(Self { kind, length, checksum: (flag == 1).then_some(sum), packed, sure }),
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
    fn only_data_and_batches_are_compressed_or_sure_of_more() {
        let decoded = |header: Header| Header::decode(&header.encode());
        let data = Header::unchecked(FrameKind::Data, 5);
        assert_eq!(decoded(data.packed()), Ok(Header { packed: true, ..data }));
        assert_eq!(decoded(data.before(1 << 20)), Ok(Header { sure: 16, ..data }));
        assert_eq!(data.before(u64::MAX).sure, u16::MAX);
        let chunk = Header::unchecked(FrameKind::Chunk, 5);
        assert_eq!(decoded(chunk.packed()), Err(FrameError::Packed(FrameKind::Chunk)));
        let nothing = Header::unchecked(FrameKind::Data, PACKED_PREFIX).packed();
        assert_eq!(decoded(nothing), Err(FrameError::Packed(FrameKind::Data)));
        for reserved in [chunk.before(1 << 20), data.packed().before(1 << 20)] {
            assert_eq!(decoded(reserved), Err(FrameError::Reserved));
        }
    }

    #[test]
    fn the_length_without_compression_is_bounded_as_any_other() {
        let packed = Header::unchecked(FrameKind::Data, 5).packed();
        assert_eq!(packed.unpacked(MAX_DATA as u32), Ok(Header::unchecked(FrameKind::Data, MAX_DATA)));
        for plain in [0, MAX_DATA as u32 + 1, u32::MAX] {
            assert_eq!(packed.unpacked(plain), Err(FrameError::Length(FrameKind::Data, plain)));
        }
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
