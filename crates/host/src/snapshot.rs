//! Snapshots: everything that was read from a host, in one text file that people can read, shorten and send.
//!
//! docs/formats.md specifies the format. The facts that are read from a snapshot are those of the host on
//! which it was made.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;

use linerate_sys::replace::replace;

const HEAD: &str = "linerate snapshot 1";
/// The most bytes that a snapshot may have. The largest snapshots of real hosts have a few MB.
const MOST_BYTES: u64 = 64 << 20;
/// The first bytes of a zstd frame (RFC 8878, 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads at most as many bytes as a snapshot may have, because a few bytes of zstd can expand to any number of bytes.
fn read_most(from: impl Read, into: &mut Vec<u8>) -> io::Result<()> {
    from.take(MOST_BYTES + 1).read_to_end(into)?;
    if into.len() as u64 <= MOST_BYTES {
        return Ok(());
    }
    let message = format!("it holds more than {} MiB, which no snapshot of a host has", MOST_BYTES >> 20);
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

/// The result of reading one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file's text, or the kernel's answer, without white space at its ends.
    Text(String),
    /// A symbolic link's target.
    Link(String),
    /// The names in a directory.
    Names(Vec<String>),
    /// The path could not be read, for this reason.
    Error(String),
    /// The path doesn't exist.
    Absent,
}

/// Everything that was read from a host, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    entries: BTreeMap<String, Entry>,
}

impl Snapshot {
    /// Reads a snapshot's file, which may be compressed by zstd.
    ///
    /// # Errors
    /// If the file can't be read or isn't a snapshot; the error states the number of the invalid line.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        read_most(std::fs::File::open(path)?, &mut bytes)?;
        Self::from_bytes(&bytes)
    }

    /// Reads a snapshot from the bytes of a file or of an agent's answer: text, which may be compressed by
    /// zstd.
    ///
    /// # Errors
    /// If the bytes aren't a snapshot; the error states the number of the invalid line.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let mut plain = Vec::new();
        if bytes.starts_with(&ZSTD) {
            read_most(zstd::Decoder::new(bytes)?, &mut plain)?;
        } else {
            plain.extend_from_slice(bytes);
        }
        let text = String::from_utf8_lossy(&plain);
        Self::parse(&text).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
    }

    /// Parses the text of a snapshot.
    ///
    /// # Errors
    /// The first invalid line, and the reason why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().peekable();
        if lines.next().map(|(_, line)| line.trim_end()) != Some(HEAD) {
            return Err(format!("line 1 isn't {HEAD:?}: this isn't a snapshot of a host"));
        }
        let mut entries = BTreeMap::new();
        while let Some((at, line)) = lines.next() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || format!("line {}: {line:?} isn't an entry", at + 1);
            let line = line.strip_prefix('/').ok_or_else(wrong)?;
            // A value may also end in a colon. But a line with a value contains a blank, so the line isn't mistaken for
            // a path.
            if let Some(path) = line.strip_suffix(':').filter(|path| !path.contains(' ')) {
                let mut block = Vec::new();
                while let Some((_, inside)) = lines.next_if(|(_, l)| l.is_empty() || l.starts_with("  ")) {
                    block.push(inside.strip_prefix("  ").unwrap_or_default());
                }
                entries.insert(path.to_owned(), Entry::Text(block.join("\n").trim().to_owned()));
            } else {
                let (path, entry) = one_line(line).ok_or_else(wrong)?;
                entries.insert(path.to_owned(), entry);
            }
        }
        Ok(Self { entries })
    }

    /// The snapshot as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for (path, entry) in &self.entries {
            // Writing to a string can't fail.
            let _ = match entry {
                Entry::Text(block) if block.contains('\n') => write!(text, "/{path}:\n{}", indented(block)),
                Entry::Text(line) => writeln!(text, "/{path} = {line}"),
                Entry::Link(target) => writeln!(text, "/{path} -> {target}"),
                Entry::Names(names) => writeln!(text, "/{path}/ {}", names.join(" ")),
                Entry::Error(reason) => writeln!(text, "/{path} ! {}", reason.replace('\n', " ")),
                Entry::Absent => writeln!(text, "/{path} absent"),
            };
        }
        text
    }

    /// Writes the snapshot to a file, and replaces an existing file. The snapshot is compressed with zstd if the file's
    /// name ends in `.zst`.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        if path.extension().is_some_and(|ending| ending == "zst") {
            return replace(path, &self.compressed()?);
        }
        replace(path, self.to_text().as_bytes())
    }

    /// The snapshot as text, compressed by zstd.
    ///
    /// # Errors
    /// If there isn't enough memory.
    pub fn compressed(&self) -> io::Result<Vec<u8>> {
        zstd::encode_all(self.to_text().as_bytes(), 0)
    }

    /// True if `beginning` is the beginning of a snapshot's file, which may be compressed. For a compressed
    /// file, `beginning` must include the first block (at most 128 KiB).
    #[must_use]
    pub fn begins(beginning: &[u8]) -> bool {
        if !beginning.starts_with(&ZSTD) {
            return beginning.starts_with(HEAD.as_bytes());
        }
        let mut head = [0; HEAD.len()];
        let read = zstd::Decoder::new(beginning).and_then(|mut plain| plain.read_exact(&mut head));
        read.is_ok() && head == *HEAD.as_bytes()
    }

    /// The paths in the snapshot; the path of a directory ends in `/`.
    pub fn paths(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|(path, entry)| match entry {
            Entry::Names(_) => format!("{path}/"),
            _ => path.clone(),
        })
    }

    /// Removes the entry of one of [`Snapshot::paths`]; false if there is no such entry.
    pub fn remove(&mut self, path: &str) -> bool {
        self.entries.remove(path.trim_end_matches('/')).is_some()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    pub(crate) fn put(&mut self, path: &str, entry: Entry) {
        // A path whose line would be parsed as another kind of line isn't stored.
        if !path.contains(char::is_whitespace) && !path.ends_with(':') {
            self.entries.insert(path.to_owned(), entry);
        }
    }
}

fn one_line(line: &str) -> Option<(&str, Entry)> {
    let (path, rest) = line.split_once(' ').unwrap_or((line, ""));
    if let Some(path) = path.strip_suffix('/') {
        return Some((path, Entry::Names(rest.split_whitespace().map(str::to_owned).collect())));
    }
    let (sign, value) = rest.split_once(' ').unwrap_or((rest, ""));
    let value = value.trim().to_owned();
    match sign {
        "=" => Some((path, Entry::Text(value))),
        "->" => Some((path, Entry::Link(value))),
        "!" => Some((path, Entry::Error(value))),
        "absent" => Some((path, Entry::Absent)),
        _ => None,
    }
}

fn indented(block: &str) -> String {
    block.split('\n').fold(String::new(), |mut text, line| {
        if !line.is_empty() {
            text.push_str("  ");
            text.push_str(line);
        }
        text.push('\n');
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "linerate snapshot 1
/etc/os-release:
  ID=debian

  NAME=x
/live/ethtool/eth0/rings absent
/sys/class/net/eth0/device -> /sys/devices/pci0000:00/0000:03:00.0
/sys/class/net/eth0/mtu = 1500
/sys/class/net/eth0/queues/ rx-0 tx-0
/sys/class/net/eth0/speed ! Invalid argument (os error 22)
";

    #[test]
    fn a_text_is_read_and_written_as_it_stands() {
        let snapshot = Snapshot::parse(TEXT).unwrap();
        assert_eq!(snapshot.to_text(), TEXT);
        assert_eq!(snapshot.get("etc/os-release"), Some(&Entry::Text("ID=debian\n\nNAME=x".into())));
        assert_eq!(
            snapshot.get("sys/class/net/eth0/queues"),
            Some(&Entry::Names(vec!["rx-0".into(), "tx-0".into()]))
        );
        let commented = TEXT.replace("/live", "# asked of nobody\n\n/live");
        assert_eq!(Snapshot::parse(&commented).unwrap(), snapshot);
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        assert!(Snapshot::parse("hello").unwrap_err().contains("isn't a snapshot"));
        let error = Snapshot::parse("linerate snapshot 1\n/a = 1\nb = 2\n").unwrap_err();
        assert!(error.starts_with("line 3: \"b = 2\""), "{error}");
    }

    #[test]
    fn a_file_may_be_compressed() {
        let snapshot = Snapshot::parse(TEXT).unwrap();
        let dir = tempfile::TempDir::new().unwrap();
        for name in ["host.txt", "host.zst"] {
            let path = dir.path().join(name);
            snapshot.save(&path).unwrap();
            assert_eq!(Snapshot::open(&path).unwrap(), snapshot, "{name}");
        }
        assert!(std::fs::read(dir.path().join("host.zst")).unwrap().starts_with(&ZSTD));
    }

    proptest! {
        #[test]
        fn any_text_survives(block in "[ -~\n]{0,60}", other in "(/?[ -~]{0,20}\n){0,5}") {
            let block = block.trim().to_owned();
            let mut snapshot = Snapshot::default();
            snapshot.put("a/b", Entry::Text(block));
            snapshot.put("c", Entry::Error("no".into()));
            prop_assert_eq!(Snapshot::parse(&snapshot.to_text()).unwrap(), snapshot);
            let _ = Snapshot::parse(&format!("{HEAD}\n{other}"));
        }
    }
}
