//! Sends entries to systemd's journal in its native protocol <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>:
//! one datagram for each entry, with fields specific to this program. An entry that doesn't fit into a
//! datagram isn't sent.

use rustix::fs::fstat;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The socket on which the journal receives entries.
const SOCKET: &str = "/run/systemd/journal/socket";
/// The most bytes of a field's value: more than a path has, but few enough that several such values fit into
/// a datagram.
const MOST_VALUE_BYTES: usize = 16 << 10;
/// How long to try to send an entry. Then the entry is given up.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The name of a field, and its value.
pub type JournalField<'a> = (&'a str, &'a str);

/// A connection to systemd's journal.
#[derive(Debug)]
pub struct JournalSocket {
    socket: UnixDatagram,
    /// True if standard output goes to the journal too.
    pub has_stdout: bool,
}

impl JournalSocket {
    /// The journal, if standard error is connected to it. This is the case if the variable JOURNAL_STREAM
    /// contains the device and inode numbers of standard error (systemd.exec(5)).
    pub fn of_stderr() -> Option<Self> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        if !is_stream(&stream, io::stderr()) {
            return None;
        }
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_write_timeout(Some(SEND_TIMEOUT)).ok()?;
        Some(Self { socket, has_stdout: is_stream(&stream, io::stdout()) })
    }

    /// Sends an entry; false if the journal doesn't accept it.
    pub fn send<'a>(&self, fields: impl IntoIterator<Item = JournalField<'a>>) -> bool {
        let mut datagram = Vec::new();
        fields.into_iter().for_each(|field| put(&mut datagram, field));
        loop {
            match self.socket.send_to(&datagram, SOCKET) {
                // The process was stopped meanwhile, and continues.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent.is_ok(),
            }
        }
    }
}

fn is_stream(stream: &str, file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Appends a field to a datagram. If the value contains newlines, its length is written before it.
fn put(datagram: &mut Vec<u8>, (name, value): JournalField<'_>) {
    let value = &value[..value.floor_char_boundary(MOST_VALUE_BYTES)];
    datagram.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        datagram.push(b'\n');
        datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        datagram.push(b'=');
    }
    datagram.extend_from_slice(value.as_bytes());
    datagram.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_begins_another_field() {
        let mut datagram = Vec::new();
        put(&mut datagram, ("MESSAGE", "a=b"));
        put(&mut datagram, ("X", "two\nPRIORITY=0"));
        assert_eq!(datagram, b"MESSAGE=a=b\nX\n\x0e\0\0\0\0\0\0\0two\nPRIORITY=0\n");
        datagram.clear();
        put(&mut datagram, ("X", &"\u{e9}".repeat(MOST_VALUE_BYTES)));
        assert_eq!(datagram.len(), MOST_VALUE_BYTES + 3);
    }

    #[test]
    fn only_the_stream_itself_is_the_journals() {
        let file = tempfile::tempfile().unwrap();
        let stat = fstat(&file).unwrap();
        assert!(is_stream(&format!("{}:{}", stat.st_dev, stat.st_ino), &file));
        for other in [format!("{}:{}", stat.st_dev, stat.st_ino + 1), String::new(), "x".into()] {
            assert!(!is_stream(&other, &file), "{other}");
        }
    }
}
