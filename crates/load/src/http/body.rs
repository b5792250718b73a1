//! A response's body, read in whatever pieces it comes.

use super::chunks::Chunks;
use super::head::{BadReply, Length};

/// What is still to come of a body.
#[derive(Debug)]
pub enum Body {
    Known(u64),
    Chunked(Chunks),
    Closed,
}

impl From<Length> for Body {
    fn from(length: Length) -> Self {
        match length {
            Length::Known(bytes) => Self::Known(bytes),
            Length::Chunked => Self::Chunked(Chunks::new()),
            Length::Closed => Self::Closed,
        }
    }
}

impl Body {
    /// True behind the last byte.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Known(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_done(),
            Self::Closed => false,
        }
    }

    /// Takes what belongs to the body: how many bytes that is, and how many of them are payload.
    ///
    /// # Errors
    /// Where it isn't framed as announced.
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
