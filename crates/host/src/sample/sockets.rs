//! The open sockets of processes, from the links in /proc/PID/fd (proc_pid_fd(5)). The sockets of a process show which
//! connections belong to it.
//!
//! The text of the processes contains the sockets as one line: `sockets INODE ...`. The line ends in `?` if the sockets
//! of some processes couldn't be read, for example because this user may not examine them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::Recording;

const WORD: &str = "sockets";
const HIDDEN: &str = "?";
/// The most open files of a process. If a process has more files, its sockets aren't read, because that would take too
/// long.
const MOST_FILES: usize = 1024;

/// The open sockets of all followed processes at one moment.
#[derive(Default)]
pub(super) struct Sockets {
    inodes: BTreeSet<u64>,
    is_hidden: bool,
}

impl Sockets {
    /// Adds the open sockets of a process; if they can't be read, records that they aren't known.
    pub fn add(&mut self, open: io::Result<Vec<u64>>) {
        match open {
            Ok(inodes) => self.inodes.extend(inodes),
            // A process that has just ended has no sockets.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => self.is_hidden = true,
        }
    }

    /// Appends the line with the sockets to `text`.
    pub fn report(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(WORD.as_bytes());
        self.inodes.iter().for_each(|inode| text.extend_from_slice(format!(" {inode}").as_bytes()));
        if self.is_hidden {
            text.extend_from_slice(format!(" {HIDDEN}").as_bytes());
        }
        text.push(b'\n');
    }
}

/// The inode numbers of the sockets in /proc/PID/fd.
pub(super) fn open_in(directory: &Path) -> io::Result<Vec<u64>> {
    let mut inodes = Vec::new();
    for (place, entry) in fs::read_dir(directory)?.enumerate() {
        if place == MOST_FILES {
            return Err(io::Error::other("too many files are open"));
        }
        match fs::read_link(entry?.path()) {
            Ok(target) => inodes.extend(inode(&target)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // The file has just been closed.
            Err(_) => {}
        }
    }
    Ok(inodes)
}

fn inode(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// All sockets that the followed processes had open in any sample; `None` if the sockets of some process
/// aren't known.
pub(super) fn followed(recording: &Recording) -> Option<BTreeSet<u64>> {
    let lines = recording.texts(super::processes::NAME).flat_map(|(_, text)| text.lines());
    let mut words = lines.filter_map(|line| line.strip_prefix(WORD)).peekable();
    words.peek()?;
    let words: Vec<&str> = words.flat_map(str::split_whitespace).collect();
    (!words.contains(&HIDDEN)).then(|| words.iter().filter_map(|word| word.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn an_open_socket_is_found_by_its_inode() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = inode(&link).unwrap();
        assert!(open_in(Path::new("/proc/self/fd")).unwrap().contains(&inode));
    }

    #[test]
    fn what_may_not_be_seen_is_not_known() {
        let reported = |open: Vec<io::Result<Vec<u64>>>| {
            let mut sockets = Sockets::default();
            open.into_iter().for_each(|open| sockets.add(open));
            let mut text = b"1 (a) S 0\n".to_vec();
            sockets.report(&mut text);
            followed(&recording_of("processes", &[&String::from_utf8(text).unwrap()]))
        };
        let error = |kind: io::ErrorKind| Err(io::Error::from(kind));
        assert_eq!(
            reported(vec![Ok(vec![7, 5]), error(io::ErrorKind::NotFound), Ok(vec![7])]),
            Some([5, 7].into())
        );
        assert_eq!(reported(vec![Ok(Vec::new())]), Some(BTreeSet::new()));
        assert_eq!(reported(vec![Ok(vec![7]), error(io::ErrorKind::PermissionDenied)]), None);
        assert_eq!(followed(&recording_of("processes", &["1 (a) S 0\n"])), None, "an older recording");
    }
}
