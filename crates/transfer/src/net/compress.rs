//! Compression of one stream's payloads, by zstd. A stream's compressed payloads belong together: each may repeat what
//! was in those before it, as far back as the window reaches.

use linerate_wire::control::MAX_COMPRESSION;
use linerate_wire::frame::{Header, PACKED_PREFIX};
use std::io;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name,
};

use crate::net::stream::StreamError;

/// How far back a payload may repeat others, as a power of two in bytes. It is memory at the receiver.
const WINDOW_LOG: u32 = 23;
/// The same for levels that look less far.
const SHORT_WINDOW_LOG: u32 = 21;
/// The first level with the long window.
const LONG_WINDOW_LEVEL: u8 = 6;
/// Bytes that end one zstd frame and begin another, and that the blocks of a payload take beside its bytes.
const AROUND: usize = 64;

const NOT_SO_LONG: &str = "a compressed frame that doesn't decompress to the length that it claims";
const BROKEN: &str = "a compressed frame that can't be decompressed";

/// Compresses the payloads of one stream.
pub struct Compressor {
    context: CCtx<'static>,
    level: Option<u8>,
}

impl Compressor {
    /// Nothing is compressed yet.
    pub fn new() -> Self {
        Self { context: CCtx::create(), level: None }
    }

    /// Compresses `plain` by a level from 1 to 19 to `out`, which is replaced: with the prefix that such a payload has.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn pack(&mut self, level: u8, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        out.reserve(PACKED_PREFIX + compress_bound(plain.len()) + AROUND);
        let length = u32::try_from(plain.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&length.to_le_bytes());
        if self.level != Some(level) {
            self.begin(level, out)?;
        }
        let start = out.len();
        let mut to = OutBuffer::around_pos(out, start);
        let mut from = InBuffer::around(plain);
        while from.pos() < plain.len() {
            self.context.compress_stream(&mut to, &mut from).map_err(failed)?;
        }
        // There is room for all of it.
        match self.context.flush_stream(&mut to).map_err(failed)? {
            0 => Ok(()),
            _ => Err(io::Error::other("a compressed payload is larger than zstd says that it can be")),
        }
    }

    /// Compresses `plain` for itself by the first level, without a prefix, to `out`, which is replaced.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn alone(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        out.reserve(compress_bound(plain.len()));
        self.context.compress(out, plain, 1).map(drop).map_err(failed)
    }

    /// Another level is another zstd frame, which repeats nothing of those before it.
    fn begin(&mut self, level: u8, out: &mut Vec<u8>) -> io::Result<()> {
        if self.level.is_some() {
            let start = out.len();
            self.context.end_stream(&mut OutBuffer::around_pos(out, start)).map_err(failed)?;
            self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
        }
        let level = level.clamp(1, MAX_COMPRESSION);
        let window = if level >= LONG_WINDOW_LEVEL { WINDOW_LOG } else { SHORT_WINDOW_LOG };
        for parameter in [CParameter::CompressionLevel(level.into()), CParameter::WindowLog(window)] {
            self.context.set_parameter(parameter).map_err(failed)?;
        }
        self.level = Some(level);
        Ok(())
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::other(format!("compressing failed: {}", get_error_name(code)))
}

/// Decompresses the payloads of one stream.
pub struct Decompressor {
    context: DCtx<'static>,
    plain: Vec<u8>,
    /// The frame that comes.
    open: Option<Opened>,
}

struct Opened {
    header: Header,
    prefix: [u8; PACKED_PREFIX],
    /// Bytes of the prefix so far.
    have: usize,
    /// Bytes that it has without compression, known behind the prefix,
    length: usize,
    /// and so far.
    filled: usize,
}

impl Decompressor {
    /// Nothing has come yet.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new() -> Result<Self, StreamError> {
        let mut context =
            DCtx::try_create().ok_or_else(|| StreamError::Io(io::ErrorKind::OutOfMemory.into()))?;
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
            .map_err(|_| StreamError::Protocol(BROKEN))?;
        Ok(Self { context, plain: Vec::new(), open: None })
    }

    /// A frame begins.
    pub fn begin(&mut self, header: Header) {
        self.open = Some(Opened { header, prefix: [0; PACKED_PREFIX], have: 0, length: 0, filled: 0 });
    }

    /// True inside a frame.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the next bytes of its payload.
    ///
    /// # Errors
    /// If they aren't compressed, or the frame is longer than it claims or may be.
    pub fn take(&mut self, mut piece: &[u8]) -> Result<(), StreamError> {
        let Some(open) = &mut self.open else { return Err(StreamError::Protocol(BROKEN)) };
        if open.take_prefix(&mut piece)? && self.plain.len() < open.length {
            self.plain.resize(open.length, 0);
        }
        let mut from = InBuffer::around(piece);
        while from.pos() < piece.len() {
            let mut to = OutBuffer::around(&mut self.plain[open.filled..open.length]);
            let before = from.pos();
            self.context.decompress_stream(&mut to, &mut from).map_err(|_| StreamError::Protocol(BROKEN))?;
            let written = to.pos();
            open.filled += written;
            if written == 0 && from.pos() == before {
                return Err(StreamError::Protocol(NOT_SO_LONG));
            }
        }
        Ok(())
    }

    /// The whole frame, as it would have come without compression.
    ///
    /// # Errors
    /// If it isn't as long as it claims.
    pub fn finish(&mut self) -> Result<(Header, &[u8]), StreamError> {
        let open = self.open.take().filter(|open| open.length > 0 && open.filled == open.length);
        let open = open.ok_or(StreamError::Protocol(NOT_SO_LONG))?;
        // Bytes that are left over would be in front of the next frame's.
        let mut more = [0; 1];
        let mut to = OutBuffer::around(&mut more[..]);
        let rest = self.context.decompress_stream(&mut to, &mut InBuffer::around(&[]));
        if rest.is_err() || to.pos() > 0 {
            return Err(StreamError::Protocol(NOT_SO_LONG));
        }
        Ok((open.header, &self.plain[..open.length]))
    }
}

impl Opened {
    /// Takes the prefix from the front of `piece`; true once it is there.
    fn take_prefix(&mut self, piece: &mut &[u8]) -> Result<bool, StreamError> {
        if self.have == PACKED_PREFIX {
            return Ok(true);
        }
        let take = piece.len().min(PACKED_PREFIX - self.have);
        let (front, rest) = piece.split_at(take);
        self.prefix[self.have..self.have + take].copy_from_slice(front);
        (*piece, self.have) = (rest, self.have + take);
        if self.have < PACKED_PREFIX {
            return Ok(false);
        }
        // It is judged before memory is taken for it.
        let too_long =
            |_| StreamError::Protocol("a compressed frame that claims more than its kind may have");
        self.header = self.header.unpacked(u32::from_le_bytes(self.prefix)).map_err(too_long)?;
        self.length = self.header.length as usize;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
