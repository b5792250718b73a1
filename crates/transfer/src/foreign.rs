//! Entry points for the fuzzer and for the replay of its corpus: decoders of foreign bytes that are otherwise
//! private to this crate.

pub use crate::receive::journal::foreign::journal;

use std::cell::RefCell;
use std::io;
use std::os::unix::net::UnixStream;

use crate::net::keys::Keys;
use crate::net::tls::{Handshake, OpenedRecord, RECORD, Tls, whole_record};

thread_local! {
    static PAIR: RefCell<Option<(Tls, Tls)>> = const { RefCell::new(None) };
}

/// Feeds TLS records to an established connection. The first byte of each record selects the record's origin: if the
/// byte is even, a stranger, whose bytes must be refused; if it is odd, the other end itself, which has the keys and
/// may send anything.
///
/// # Panics
/// If a stranger's bytes are accepted, or the other end's bytes are changed.
pub fn tls_records(data: &[u8]) {
    PAIR.with_borrow_mut(|pair| {
        let (near, far) = pair.get_or_insert_with(|| connect().expect("two ends in one process"));
        let in_step = data.split(|byte| *byte == b'|').all(|part| record(near, far, part));
        // One end now has keys that the other end doesn't have.
        if !in_step {
            *pair = None;
        }
    });
}

/// Sends one record; false if the two ends no longer have the same keys.
fn record(near: &mut Tls, far: &mut Tls, part: &[u8]) -> bool {
    let Some((kind, rest)) = part.split_first() else { return true };
    if kind % 2 == 0 {
        let mut incoming = rest.to_vec();
        if let Ok(Some(length)) = whole_record(&incoming) {
            assert!(far.open(&mut incoming[..length]).is_err(), "a stranger's record was taken");
        }
        return true;
    }
    let contents = &rest[..rest.len().min(RECORD)];
    let mut sealed = Vec::new();
    near.protect_as(kind / 2, contents, &mut sealed).expect("the cipher takes any contents");
    assert_eq!(whole_record(&sealed).expect("it is a record"), Some(sealed.len()));
    match far.open(&mut sealed) {
        Ok(OpenedRecord::Data(plain)) => {
            assert_eq!(plain, contents);
            true
        }
        Ok(OpenedRecord::Nothing) => false,
        Ok(OpenedRecord::End) | Err(_) => true,
    }
}

fn connect() -> io::Result<(Tls, Tls)> {
    let keys = || Keys::generate().map_err(io::Error::other);
    let (client, server) = (keys()?, keys()?);
    let pin = |own: &Keys, other: &Keys| own.pin(other.public()).map_err(io::Error::other);
    let opening = Handshake::client(&pin(&client, &server)?).map_err(io::Error::other)?;
    let accepting = Handshake::server(&pin(&server, &client)?).map_err(io::Error::other)?;
    let (mut here, mut there) = UnixStream::pair()?;
    let far = std::thread::spawn(move || accepting.run(&mut there));
    let (near, _) = opening.run(&mut here)?;
    let (far, _) = far.join().map_err(|_| io::Error::other("the accepting end panicked"))??;
    Ok((near, far))
}
