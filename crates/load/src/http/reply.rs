//! Parses one reply in pieces of any size, without a socket: the caller passes the bytes.

use super::body::Body;
use super::head::{BadReply, LONGEST_HEAD, ResponseHead};

/// The state of the parser within a reply.
#[derive(Debug, Default)]
pub struct Reply {
    head: Option<ResponseHead>,
    body: Option<Body>,
    /// The bytes of the head that were received so far.
    gathered: Vec<u8>,
    received: u64,
}

/// The number of bytes of each kind in a piece of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyPiece {
    /// The number of payload bytes.
    pub payload: u64,
    /// The number of bytes of the head and of chunk framing.
    pub framing: u64,
    /// Whether the reply is complete.
    pub done: bool,
}

impl Reply {
    /// Begins the next reply, and reuses the memory of this one.
    pub fn clear(&mut self) {
        self.gathered.clear();
        (self.head, self.body, self.received) = (None, None, 0);
    }

    /// The head, once it is complete.
    pub fn head(&self) -> Option<&ResponseHead> {
        self.head.as_ref()
    }

    /// Whether no byte of the reply was received yet.
    pub fn is_untouched(&self) -> bool {
        self.received == 0
    }

    /// Parses the next bytes of the reply.
    ///
    /// # Errors
    /// If the bytes can't belong to a reply.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<ReplyPiece, BadReply> {
        self.received += bytes.len() as u64;
        let mut rest = bytes;
        while self.body.is_none() {
            match self.feed_head(rest)? {
                Some(taken) => rest = &rest[taken..],
                None => return Ok(ReplyPiece { framing: bytes.len() as u64, ..ReplyPiece::default() }),
            }
        }
        let body = self.body.as_mut().expect("the loop above ends with a body");
        let (taken, payload) = body.feed(rest)?;
        if taken < rest.len() {
            return Err(BadReply::Long);
        }
        Ok(ReplyPiece { payload, framing: bytes.len() as u64 - payload, done: body.is_done() })
    }

    /// Handles the end of the connection, which may be the end of the reply.
    ///
    /// # Errors
    /// If the server announced more bytes than it sent.
    pub fn end(&self) -> Result<(), BadReply> {
        match &self.body {
            Some(Body::Closed) => Ok(()),
            Some(body) if body.is_done() => Ok(()),
            _ => Err(BadReply::Short(self.received)),
        }
    }

    /// The number of these bytes that belong to the head, if the head ends within them; `None` if the head continues.
    /// Interim heads (1xx) are skipped.
    fn feed_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadReply> {
        let before = self.gathered.len();
        let room = LONGEST_HEAD - before;
        self.gathered.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let Some((head, length)) = ResponseHead::parse(&self.gathered)? else {
            return if self.gathered.len() == LONGEST_HEAD { Err(BadReply::LongHead) } else { Ok(None) };
        };
        self.gathered.clear();
        if !(100..200).contains(&head.status) {
            self.body = Some(head.length.into());
            self.head = Some(head);
        }
        // The bytes received earlier held no complete head, so the head ends after them.
        Ok(Some(length.saturating_sub(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0b\r\n big world!\r\n0\r\nX: y\r\n\r\n";
    const INTERIM: &[u8] =
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";

    /// Payload bytes, framing bytes, and completeness of a reply that arrives in pieces of these sizes.
    fn fed(bytes: &[u8], sizes: &[usize]) -> Result<(u64, u64, bool), BadReply> {
        let (mut reply, mut rest, mut sum) = (Reply::default(), bytes, (0, 0, false));
        for size in sizes.iter().chain(std::iter::repeat(&usize::MAX)) {
            let (now, later) = rest.split_at(rest.len().min((*size).max(1)));
            let piece = reply.feed(now)?;
            sum = (sum.0 + piece.payload, sum.1 + piece.framing, piece.done);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        Ok(sum)
    }

    #[test]
    fn more_than_announced_is_noticed() {
        let long = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
        assert_eq!(fed(long, &[]), Err(BadReply::Long));
        assert_eq!(fed(&[CHUNKED, b"x"].concat(), &[]), Err(BadReply::Long));
    }

    #[test]
    fn less_than_announced_is_noticed_at_the_end() {
        let mut reply = Reply::default();
        assert_eq!(reply.end(), Err(BadReply::Short(0)));
        reply.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab").unwrap();
        assert!(matches!(reply.end(), Err(BadReply::Short(_))));
        reply.clear();
        assert!(!reply.feed(b"HTTP/1.1 200 OK\r\n\r\nab").unwrap().done);
        assert_eq!(reply.end(), Ok(()));
    }

    #[test]
    fn endless_heads_and_lines_are_cut_off() {
        let head = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &vec![b'a'; 1 << 20]].concat();
        assert_eq!(fed(&head, &[]), Err(BadReply::LongHead));
        assert_eq!(fed(&head, &[1000; 2000]), Err(BadReply::LongHead));
        let start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice();
        let line = [start, b"1;", &vec![b'a'; 1 << 20]].concat();
        assert!(matches!(fed(&line, &[1000; 2000]), Err(BadReply::Garbage(_))));
        let trailers = [start, b"0\r\n", &b"X: y\r\n".repeat(1000)].concat();
        assert!(matches!(fed(&trailers, &[]), Err(BadReply::Garbage(_))));
        let hints = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(3);
        assert_eq!(fed(&hints, &[]), Ok((0, hints.len() as u64, false)));
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(sizes in proptest::collection::vec(1usize..30, 0..80)) {
            prop_assert_eq!(fed(CHUNKED, &sizes), Ok((16, CHUNKED.len() as u64 - 16, true)));
            prop_assert_eq!(fed(INTERIM, &sizes), Ok((4, INTERIM.len() as u64 - 4, true)));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, cut in 0usize..200, at in 0usize..80, byte: u8) {
            let _ = fed(&bytes, &[cut]);
            let mut reply = CHUNKED.to_vec();
            let at = at.min(reply.len() - 1);
            reply[at] = byte;
            let _ = fed(&[reply, bytes].concat(), &[cut]);
        }
    }
}
