//! The head of a response.

use httparse::{EMPTY_HEADER, Header, Response, Status};
use thiserror::Error;

/// The greatest length of a response's head, in bytes.
pub const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 96;

/// The reason why a response is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadReply {
    /// The bytes aren't a well-formed response.
    #[error("it isn't HTTP: {0}")]
    Garbage(String),
    /// The head is too long.
    #[error("its head is longer than {} KiB", LONGEST_HEAD / 1024)]
    LongHead,
    /// The connection ended before the reply did.
    #[error("the server closed the connection {0} bytes into the reply, before its end")]
    Short(u64),
    /// The server sent more bytes than it announced.
    #[error("the server sent more than it announced")]
    Long,
}

/// How the end of a body is determined (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// The body ends after this number of bytes.
    Known(u64),
    /// The body ends with its last chunk.
    Chunked,
    /// The body ends with the connection.
    Closed,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The HTTP status; 200 means success.
    pub status: u16,
    /// How the end of the body is determined.
    pub length: BodyLength,
    /// Whether the connection can be used for the next request.
    pub keep: bool,
    /// The target of a redirect.
    pub location: Option<String>,
}

impl ResponseHead {
    /// Parses a head, and its length, from the first bytes of a reply; `None` if the head is incomplete.
    ///
    /// # Errors
    /// If the bytes can't be a head.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, BadReply> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut response = Response::new(&mut headers);
        match response.parse(bytes) {
            Err(error) => Err(BadReply::Garbage(error.to_string())),
            Ok(Status::Partial) => Ok(None),
            Ok(Status::Complete(length)) => Ok(Some((Self::of(&response)?, length))),
        }
    }

    fn of(response: &Response<'_, '_>) -> Result<Self, BadReply> {
        let (status, headers) = (response.code.unwrap_or_default(), &*response.headers);
        let length = match status {
            100..200 | 204 | 304 => BodyLength::Known(0),
            _ => length(headers)?,
        };
        let says = |word: &str| tokens(headers, "connection").any(|token| token.eq_ignore_ascii_case(word));
        let persistent = if response.version == Some(1) { !says("close") } else { says("keep-alive") };
        let location = values(headers, "location").next();
        Ok(Self {
            status,
            length,
            keep: persistent && length != BodyLength::Closed,
            location: location.map(|value| value.escape_debug().to_string()),
        })
    }
}

fn length(headers: &[Header<'_>]) -> Result<BodyLength, BadReply> {
    let mut codings = tokens(headers, "transfer-encoding");
    match (codings.next(), codings.next()) {
        (Some(one), None) if one.eq_ignore_ascii_case("chunked") => return Ok(BodyLength::Chunked),
        (Some(other), _) => return Err(BadReply::Garbage(format!("transfer coding {other:?} is unknown"))),
        (None, _) => {}
    }
    let mut lengths = tokens(headers, "content-length");
    let Some(first) = lengths.next() else { return Ok(BodyLength::Closed) };
    let number = first.parse().ok().filter(|_| first.bytes().all(|byte| byte.is_ascii_digit()));
    match number {
        Some(number) if lengths.all(|other| other == first) => Ok(BodyLength::Known(number)),
        _ => Err(BadReply::Garbage(format!("its length {first:?} isn't one number"))),
    }
}

fn values<'a>(headers: &'a [Header<'_>], name: &'a str) -> impl Iterator<Item = &'a str> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    // A value that isn't UTF-8 must not be ignored: it makes a length or coding invalid.
    named.map(|header| std::str::from_utf8(header.value).unwrap_or("\u{fffd}"))
}

fn tokens<'a>(headers: &'a [Header<'_>], name: &'a str) -> impl Iterator<Item = &'a str> {
    values(headers, name).flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<ResponseHead, BadReply> {
        Ok(ResponseHead::parse(text.as_bytes())?.expect("a whole head").0)
    }

    #[test]
    fn the_body_ends_as_the_head_says() {
        let of = |headers: &str| head(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).unwrap();
        assert_eq!(of("Content-Length: 12\r\n").length, BodyLength::Known(12));
        assert_eq!(of("Transfer-Encoding: chunked\r\nContent-Length: 12\r\n").length, BodyLength::Chunked);
        let closed = of("Server: x\r\n");
        assert!(closed.length == BodyLength::Closed && !closed.keep);
        assert!(of("content-length: 1\r\nConnection: Upgrade, keep-alive\r\n").keep);
        assert!(!of("content-length: 1\r\nConnection: foo, Close\r\n").keep);
        assert_eq!(
            head("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n").unwrap().length,
            BodyLength::Known(0)
        );
        assert!(!head("HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n").unwrap().keep);
    }

    #[test]
    fn lengths_that_are_none_are_garbage() {
        for value in ["-1", "+1", "1x", "", "1, 2", "99999999999999999999999"] {
            assert!(head(&format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n")).is_err(), "{value}");
        }
        assert!(head("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_redirect_says_where_to() {
        let found = head("HTTP/1.1 302 Found\r\nLocation: /x\x7f\r\nContent-Length: 0\r\n\r\n");
        let found = found
            .or_else(|_| head("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"))
            .unwrap();
        assert!(found.location.unwrap().starts_with("/x"));
    }
}
