//! A server with one object in memory. It supports GET and HEAD and persistent connections, with a thread for each
//! connection. Replies have no header `Date`.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Error, Request, Status};

use crate::serve::{PatientStream, Service};
use crate::window::StopFlag;

/// The greatest size of the object, in bytes.
pub const LARGEST_OBJECT: u64 = 1 << 30;
/// The greatest length of a request's head, in bytes.
const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// The longest time that a persistent connection may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time in which a request's head must arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The paths at which the object is served.
const PATHS: [&str; 2] = ["/object", "/"];
/// The greatest number of bytes that the server reads from a client after it has refused the client's
/// request.
const MOST_DRAINED_BYTES: usize = 64 * 1024;

/// Serves one object.
pub struct HttpService {
    object: Vec<u8>,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerAnswer {
    Object { body: bool, keep: bool },
    Refusal { status: &'static str, keep: bool },
}

impl HttpService {
    /// An object of this number of incompressible bytes.
    pub fn new(bytes: usize) -> Self {
        let mut object = vec![0; bytes];
        fastrand::Rng::with_seed(3).fill(&mut object);
        Self { object }
    }

    fn talk(&self, patient: &PatientStream<'_>) -> io::Result<()> {
        let (mut buffer, mut filled) = (vec![0; LONGEST_HEAD], 0);
        loop {
            let (answer, used) = match read_head(patient, &mut buffer, &mut filled)? {
                Some(found) => found,
                None => return Ok(()),
            };
            self.report(patient, answer)?;
            if !answer.keeps() {
                return finish(patient, &mut buffer);
            }
            buffer.copy_within(used..filled, 0);
            filled -= used;
        }
    }

    fn report(&self, patient: &PatientStream<'_>, answer: ServerAnswer) -> io::Result<()> {
        match answer {
            ServerAnswer::Object { body, keep } => {
                let head = head("200 OK", self.object.len(), keep);
                patient.write_both(head.as_bytes(), if body { &self.object } else { &[] })
            }
            ServerAnswer::Refusal { status, keep } => patient.write_all(head(status, 0, keep).as_bytes()),
        }
    }
}

impl Service for HttpService {
    fn serve(&self, connection: TcpStream, stop: &StopFlag) {
        // A client that closes the connection early doesn't cause an error of the server.
        let _ = self.talk(&PatientStream { connection: &connection, stop, patience: IDLE_TIMEOUT });
    }
}

impl ServerAnswer {
    fn keeps(self) -> bool {
        match self {
            Self::Object { keep, .. } | Self::Refusal { keep, .. } => keep,
        }
    }

    fn refuse(status: &'static str) -> Self {
        Self::Refusal { status, keep: false }
    }

    fn to(request: &Request<'_, '_>) -> Self {
        let is = |header: &httparse::Header<'_>, name: &str| header.name.eq_ignore_ascii_case(name);
        let has_body = request.headers.iter().any(|header| {
            is(header, "transfer-encoding") || is(header, "content-length") && header.value != b"0"
        });
        let body = match request.method {
            Some("GET") => true,
            Some("HEAD") => false,
            _ => return Self::refuse("405 Method Not Allowed\r\nAllow: GET, HEAD"),
        };
        if has_body {
            return Self::refuse("400 Bad Request");
        }
        let keep = keeps(request);
        let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
        match PATHS.contains(&path) {
            true => Self::Object { body, keep },
            false => Self::Refusal { status: "404 Not Found", keep },
        }
    }
}

/// Whether the connection stays open after this request (RFC 9112, section 9.3).
fn keeps(request: &Request<'_, '_>) -> bool {
    let connection = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection"));
    let says = |word: &[u8]| {
        let tokens = connection.clone().flat_map(|header| header.value.split(|byte| *byte == b','));
        tokens.map(<[u8]>::trim_ascii).any(|token| token.eq_ignore_ascii_case(word))
    };
    if request.version == Some(1) { !says(b"close") } else { says(b"keep-alive") }
}

fn head(status: &str, length: usize, keep: bool) -> String {
    let connection = if keep { "keep-alive" } else { "close" };
    format!(
        "HTTP/1.1 {status}\r\nServer: linerate\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\
         Connection: {connection}\r\n\r\n"
    )
}

/// The answer to the next request, and the length of the request's head; `None` if the client has closed the
/// connection.
fn read_head(
    patient: &PatientStream<'_>,
    buffer: &mut [u8],
    filled: &mut usize,
) -> io::Result<Option<(ServerAnswer, usize)>> {
    let mut begun = None;
    loop {
        match parse(&buffer[..*filled]) {
            Some(found) => return Ok(Some(found)),
            None if *filled == buffer.len() => {
                return Ok(Some((ServerAnswer::refuse("431 Request Header Fields Too Large"), *filled)));
            }
            None => {}
        }
        if begun.is_some_and(|begun: Instant| begun.elapsed() > HEAD_TIMEOUT) {
            return Ok(Some((ServerAnswer::refuse("408 Request Timeout"), *filled)));
        }
        let n = patient.read(&mut buffer[*filled..])?;
        if n == 0 {
            return Ok(None);
        }
        begun.get_or_insert_with(Instant::now);
        *filled += n;
    }
}

fn parse(bytes: &[u8]) -> Option<(ServerAnswer, usize)> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Partial) => None,
        Ok(Status::Complete(length)) => Some((ServerAnswer::to(&request), length)),
        Err(Error::TooManyHeaders) => {
            Some((ServerAnswer::refuse("431 Request Header Fields Too Large"), bytes.len()))
        }
        Err(_) => Some((ServerAnswer::refuse("400 Bad Request"), bytes.len())),
    }
}

/// Closes the connection so that the client can still read the answer. If unread bytes were left, closing
/// would reset the connection.
fn finish(patient: &PatientStream<'_>, buffer: &mut [u8]) -> io::Result<()> {
    patient.connection.shutdown(Shutdown::Write)?;
    let patient = PatientStream { patience: Duration::from_secs(1), ..*patient };
    let mut rest = MOST_DRAINED_BYTES;
    while rest > 0 {
        match patient.read(buffer)? {
            0 => return Ok(()),
            n => rest = rest.saturating_sub(n),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(text: &str) -> ServerAnswer {
        parse(text.as_bytes()).expect("a whole head").0
    }

    #[test]
    fn requests_get_the_answer_that_fits() {
        let object = |body, keep| ServerAnswer::Object { body, keep };
        assert_eq!(answer("GET /object HTTP/1.1\r\n\r\n"), object(true, true));
        assert_eq!(answer("GET /?x HTTP/1.1\r\nConnection: Close\r\n\r\n"), object(true, false));
        assert_eq!(answer("HEAD / HTTP/1.0\r\n\r\n"), object(false, false));
        assert_eq!(answer("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), object(true, true));
        let refused = |text: &str, want: &str| {
            assert!(
                matches!(answer(text), ServerAnswer::Refusal { status, .. } if status.starts_with(want)),
                "{text}"
            );
        };
        refused("GET /x HTTP/1.1\r\n\r\n", "404");
        refused("POST / HTTP/1.1\r\n\r\n", "405");
        refused("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "400");
        refused("\u{1}\u{2}\r\n\r\n", "400");
        refused(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100)), "431");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            if let Some((_, used)) = parse(&bytes) {
                prop_assert!(used <= bytes.len());
            }
        }
    }
}
