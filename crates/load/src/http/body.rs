//! A response's body, read in pieces of any size.

use super::chunks::ChunkedBody;
use super::head::{BadReply, BodyLength};

/// The part of a body that is still expected.
#[derive(Debug)]
pub enum Body {
    Known(u64),
    Chunked(ChunkedBody),
    Closed,
}

impl From<BodyLength> for Body {
    fn from(length: BodyLength) -> Self {
        match length {
            BodyLength::Known(bytes) => Self::Known(bytes),
            BodyLength::Chunked => Self::Chunked(ChunkedBody::new()),
            BodyLength::Closed => Self::Closed,
        }
    }
}

impl Body {
    /// Whether the last byte of the body was read.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Known(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_done(),
            Self::Closed => false,
        }
    }

    /// Takes the bytes that belong to the body. Returns their number, and the number of payload bytes among
    /// them.
    ///
    /// # Errors
    /// If the body's framing isn't the announced one.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, u64), BadReply> {
        match self {
            Self::Known(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok((taken, taken as u64))
            }
            Self::Chunked(chunks) => chunks.feed(bytes),
            Self::Closed => Ok((bytes.len(), bytes.len() as u64)),
        }
    }
}
