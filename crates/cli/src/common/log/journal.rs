//! systemd's journal, in its native protocol <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>: a datagram for each entry, with
//! fields of its own. An entry that doesn't fit into a datagram isn't sent.

use rustix::fs::fstat;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The socket at which the journal takes entries.
const SOCKET: &str = "/run/systemd/journal/socket";
/// The most bytes of a value: more than a path has, and several such values fit into a datagram.
const MOST: usize = 16 << 10;
/// The time after which an entry that the journal doesn't take is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// A field's name, and its value.
pub type JournalField<'a> = (&'a str, &'a str);

/// A connection to the journal.
#[derive(Debug)]
pub struct JournalSocket {
    socket: UnixDatagram,
    /// Standard output goes to the journal too.
    pub has_stdout: bool,
}

impl JournalSocket {
    /// The journal, if standard error is connected to it: then JOURNAL_STREAM has the numbers of its device and inode, as
    /// systemd.exec(5) says.
    pub fn of_stderr() -> Option<Self> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        if !is_stream(&stream, io::stderr()) {
            return None;
        }
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Self { socket, has_stdout: is_stream(&stream, io::stdout()) })
    }

    /// Sends an entry; false if the journal doesn't take it.
    pub fn send<'a>(&self, fields: impl IntoIterator<Item = JournalField<'a>>) -> bool {
        let mut datagram = Vec::new();
        fields.into_iter().for_each(|field| put(&mut datagram, field));
        self.socket.send_to(&datagram, SOCKET).is_ok()
    }
}

fn is_stream(stream: &str, file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Before a value with newlines comes its length.
fn put(datagram: &mut Vec<u8>, (name, value): JournalField<'_>) {
    let value = &value[..value.floor_char_boundary(MOST)];
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
        put(&mut datagram, ("X", &"\u{e9}".repeat(MOST)));
        assert_eq!(datagram.len(), MOST + 3);
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
