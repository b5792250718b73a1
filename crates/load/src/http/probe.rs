//! Sends one request before the load, so that a wrong URL is reported at once.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::LoadError;
use crate::serve::{PatientStream, prepare};
use crate::window::StopFlag;

use super::reply::Reply;
use super::url::Url;

const BLOCK: usize = 64 * 1024;

/// Fetches the object once, and returns its size in bytes.
///
/// # Errors
/// If the object can't be fetched, or if the answer isn't the object.
pub fn probe(url: &Url, timeout: Duration, stop: &StopFlag) -> Result<u64, LoadError> {
    let connection = TcpStream::connect_timeout(&url.address(), timeout)
        .map_err(|error| LoadError::Connect(url.address(), error))?;
    let peer = |why: String| LoadError::Peer(url.to_string(), why);
    prepare(&connection).map_err(|error| peer(error.to_string()))?;
    let patient = PatientStream { connection: &connection, stop, patience: timeout };
    let (reply, bytes) =
        fetch(&patient, url).map_err(|why| if stop.is_set() { LoadError::Interrupted } else { peer(why) })?;
    match reply.head().map(|head| (head.status, head.location.as_deref())) {
        Some((200..300, _)) => Ok(bytes),
        Some((status @ 300..400, Some(location))) => Err(peer(format!(
            "the server answers {status}, a redirect to {location}, which isn't followed; give the URL of the object itself"
        ))),
        Some((status, _)) => {
            Err(peer(format!("the server answers {status}; give the URL of an existing object")))
        }
        None => Err(peer("the server's answer has no head".into())),
    }
}

fn fetch(patient: &PatientStream<'_>, url: &Url) -> Result<(Reply, u64), String> {
    let said = |error: std::io::Error| format!("no complete reply: {error}");
    patient.write_all(&url.request(true)).map_err(said)?;
    let (mut reply, mut bytes, mut buffer) = (Reply::default(), 0, vec![0; BLOCK]);
    let deadline = Instant::now() + patient.patience;
    loop {
        // The time limit also applies to a reply that arrives slowly or never ends.
        if Instant::now() > deadline {
            return Err(format!("no complete reply within {} s", patient.patience.as_secs_f64()));
        }
        let n = patient.read(&mut buffer).map_err(said)?;
        if n == 0 {
            reply.end().map_err(|bad| bad.to_string())?;
            return Ok((reply, bytes));
        }
        let piece = reply.feed(&buffer[..n]).map_err(|bad| bad.to_string())?;
        bytes += piece.payload;
        if piece.done {
            return Ok((reply, bytes));
        }
    }
}
