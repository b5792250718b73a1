//! A chunked body (RFC 9112, section 7.1), read in pieces of any size.

use httparse::Status;

use super::head::BadReply;

/// The greatest length in bytes of a line: a chunk's size with extensions, or a trailer.
const LONGEST_LINE: usize = 8 * 1024;
/// The greatest number of trailer lines.
const MOST_TRAILERS: u32 = 64;

/// The part of a chunked body to which the next byte belongs.
#[derive(Debug)]
pub struct ChunkedBody {
    place: ChunkPlace,
    line: Vec<u8>,
    trailers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPlace {
    Size,
    Data(u64),
    /// The empty line after a chunk's data.
    Behind,
    Trailer,
    End,
}

impl ChunkedBody {
    pub fn new() -> Self {
        Self { place: ChunkPlace::Size, line: Vec::new(), trailers: 0 }
    }

    /// Whether the last byte of the body was read.
    pub fn is_done(&self) -> bool {
        self.place == ChunkPlace::End
    }

    /// Takes the bytes that belong to the body. Returns their number, and the number of payload bytes among
    /// them.
    ///
    /// # Errors
    /// If the chunks are malformed.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, u64), BadReply> {
        let (mut taken, mut payload) = (0, 0);
        while taken < bytes.len() && !self.is_done() {
            let rest = &bytes[taken..];
            if let ChunkPlace::Data(left) = self.place {
                let length = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                taken += length;
                payload += length as u64;
                let left = left - length as u64;
                self.place = if left == 0 { ChunkPlace::Behind } else { ChunkPlace::Data(left) };
            } else {
                taken += self.take_line(rest)?;
            }
        }
        Ok((taken, payload))
    }

    fn take_line(&mut self, bytes: &[u8]) -> Result<usize, BadReply> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(bytes.len(), |end| end + 1);
        if self.line.len() + length > LONGEST_LINE {
            return Err(garbage("a line between its chunks has no end"));
        }
        self.line.extend_from_slice(&bytes[..length]);
        if end.is_some() {
            self.place = self.next_place()?;
            self.line.clear();
        }
        Ok(length)
    }

    fn next_place(&mut self) -> Result<ChunkPlace, BadReply> {
        let is_empty = self.line == b"\r\n" || self.line == b"\n";
        match self.place {
            ChunkPlace::Size => match httparse::parse_chunk_size(&self.line) {
                Ok(Status::Complete((_, 0))) => Ok(ChunkPlace::Trailer),
                Ok(Status::Complete((_, size))) => Ok(ChunkPlace::Data(size)),
                _ => Err(garbage("a chunk's size isn't a number")),
            },
            ChunkPlace::Behind if is_empty => Ok(ChunkPlace::Size),
            ChunkPlace::Behind => Err(garbage("a chunk is longer than its size")),
            ChunkPlace::Trailer if is_empty => Ok(ChunkPlace::End),
            ChunkPlace::Trailer if self.trailers == MOST_TRAILERS => Err(garbage("its trailers have no end")),
            place => {
                self.trailers += 1;
                Ok(place)
            }
        }
    }
}

fn garbage(why: &str) -> BadReply {
    BadReply::Garbage(why.into())
}
