//! The source of a host's facts: a directory that is used in place of `/`, or a snapshot. Each value that is read
//! becomes a [`Fact`].

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::Fact;
use crate::snapshot::{Entry, Snapshot};

/// An upper limit for the bytes of any file in /proc or /sys that is read here, even with 4,096 processors.
const MOST_BYTES: u64 = 16 << 20;

/// A directory or snapshot that is used in place of `/`.
pub(crate) struct Root<'a> {
    source: RootSource<'a>,
    /// Everything that was read so far; `None` if the values that are read aren't recorded.
    kept: Option<RefCell<Snapshot>>,
    /// True if requests may also be sent to the running host's drivers and kernel, for facts that no file contains.
    asks: bool,
}

enum RootSource<'a> {
    Dir(&'a Path),
    Snapshot(&'a Snapshot),
}

impl<'a> Root<'a> {
    /// The facts in a directory; `/` is the running host.
    pub fn dir(path: &'a Path) -> Self {
        Self { source: RootSource::Dir(path), kept: None, asks: true }
    }

    /// The facts in a directory, only from files, even if the directory is the running host's `/`.
    pub fn files(path: &'a Path) -> Self {
        Self { asks: false, ..Self::dir(path) }
    }

    /// The facts in a snapshot.
    pub fn snapshot(snapshot: &'a Snapshot) -> Self {
        Self { source: RootSource::Snapshot(snapshot), kept: None, asks: false }
    }

    /// Records everything that is read from now on.
    pub fn keeping(mut self) -> Self {
        self.kept = Some(RefCell::default());
        self
    }

    /// The recorded readings, as a snapshot.
    pub fn into_kept(self) -> Snapshot {
        self.kept.map(RefCell::into_inner).unwrap_or_default()
    }

    /// True if the source is the running host and requests may be sent to its drivers and kernel, for facts that no
    /// file contains.
    pub fn is_live(&self) -> bool {
        self.asks && matches!(self.source, RootSource::Dir(path) if path == Path::new("/"))
    }

    /// The text of a file without white space at its ends. If the file is missing, the fact is not applicable.
    pub fn text(&self, path: &str) -> Fact<String> {
        let entry = match self.source {
            RootSource::Dir(root) => entry(read_capped(root, path), |bytes| {
                Entry::Text(String::from_utf8_lossy(&bytes).trim().to_owned())
            }),
            RootSource::Snapshot(snapshot) => snapshot.get(path).cloned().unwrap_or(Entry::Absent),
        };
        self.keep(path, &entry);
        match entry {
            Entry::Text(text) => Fact::Known(text),
            other => no_value(path, &other),
        }
    }

    /// The text of a file that every host has. If the file is missing, the fact is unreadable; otherwise as
    /// [`Root::text`].
    pub fn needed(&self, path: &str) -> Fact<String> {
        match self.text(path) {
            Fact::NotApplicable => Fact::Unreadable(format!("/{path} is missing")),
            fact => fact,
        }
    }

    /// The first 256 bytes of a file; a snapshot contains them as hexadecimal digits.
    pub fn hex(&self, path: &str) -> Fact<Vec<u8>> {
        let entry = match self.source {
            RootSource::Dir(root) => entry(read_capped(root, path), |bytes| {
                let start = bytes.iter().take(256);
                Entry::Text(start.map(|byte| format!("{byte:02x}")).collect())
            }),
            RootSource::Snapshot(snapshot) => snapshot.get(path).cloned().unwrap_or(Entry::Absent),
        };
        self.keep(path, &entry);
        match entry {
            Entry::Text(digits) => match from_hex(&digits) {
                Some(bytes) => Fact::Known(bytes),
                None => Fact::Unreadable(format!("/{path} isn't written in hexadecimal digits")),
            },
            other => no_value(path, &other),
        }
    }

    /// The last component of a symbolic link's target.
    pub fn link_name(&self, path: &str) -> Fact<String> {
        let entry = match self.source {
            RootSource::Dir(root) => entry(target(root, path), link),
            RootSource::Snapshot(snapshot) => snapshot.get(path).cloned().unwrap_or(Entry::Absent),
        };
        self.keep(path, &entry);
        match entry {
            Entry::Link(target) => match target.rsplit('/').next() {
                Some(name) if !name.is_empty() && name != ".." => Fact::Known(name.to_owned()),
                _ => Fact::Unreadable(format!("/{path} points at {target}")),
            },
            other => no_value(path, &other),
        }
    }

    /// The path `path` below the root, with all symbolic links resolved.
    pub fn real(&self, path: &str) -> Fact<String> {
        let entry = match self.source {
            RootSource::Dir(root) => entry(canonical(root, path), link),
            RootSource::Snapshot(snapshot) => snapshot.get(path).cloned().unwrap_or(Entry::Absent),
        };
        self.keep(path, &entry);
        match entry {
            Entry::Link(target) => Fact::Known(target),
            other => no_value(path, &other),
        }
    }

    /// The names in a directory, sorted.
    pub fn names(&self, path: &str) -> Fact<Vec<String>> {
        let entry = match self.source {
            RootSource::Dir(root) => entry(place(root, path).and_then(|path| list(&path)), Entry::Names),
            RootSource::Snapshot(snapshot) => snapshot.get(path).cloned().unwrap_or(Entry::Absent),
        };
        self.keep(path, &entry);
        match entry {
            Entry::Names(names) => Fact::Known(names),
            other => no_value(path, &other),
        }
    }

    /// A fact that no file contains, as text. On the running host, `ask` requests the fact. A snapshot contains the
    /// answer from the time at which the snapshot was made, as if it were a file below `live`.
    pub fn answer(&self, path: &str, ask: impl FnOnce() -> io::Result<String>) -> Fact<String> {
        let entry = match self.source {
            RootSource::Dir(_) if self.is_live() => answered(ask()),
            RootSource::Dir(_) => match self.text(path) {
                Fact::Known(text) => Entry::Text(text),
                _ => return Fact::Unreadable("is available on a live host only".into()),
            },
            RootSource::Snapshot(snapshot) => match snapshot.get(path) {
                Some(entry) => entry.clone(),
                None => return Fact::Unreadable(format!("the snapshot holds no /{path}")),
            },
        };
        self.keep(path, &entry);
        match entry {
            Entry::Text(text) => Fact::Known(text),
            other => no_value(path, &other),
        }
    }

    fn keep(&self, path: &str, entry: &Entry) {
        // A path that isn't in a snapshot didn't exist on the host. So `Absent` is recorded only for requests to a live
        // host.
        let reported = *entry != Entry::Absent || path.starts_with("live/");
        if let Some(kept) = self.kept.as_ref().filter(|_| reported) {
            kept.borrow_mut().put(path, entry.clone());
        }
    }
}

fn entry<T>(read: io::Result<T>, of: impl FnOnce(T) -> Entry) -> Entry {
    match read {
        Ok(value) => of(value),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Entry::Absent,
        Err(e) => Entry::Error(e.to_string()),
    }
}

/// The entry for an answer. If the driver or kernel doesn't support the request, the fact is not applicable.
fn answered(answer: io::Result<String>) -> Entry {
    match answer {
        Err(e) if e.kind() == ErrorKind::Unsupported => Entry::Absent,
        // Some versions of the standard library have no error kind for EOPNOTSUPP.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => Entry::Absent,
        answer => entry(answer, |text| Entry::Text(text.trim().to_owned())),
    }
}

fn no_value<T>(path: &str, entry: &Entry) -> Fact<T> {
    match entry {
        Entry::Absent => Fact::NotApplicable,
        Entry::Error(reason) => Fact::Unreadable(format!("/{path}: {reason}")),
        _ => Fact::Unreadable(format!("/{path} isn't of the expected kind")),
    }
}

fn link(target: PathBuf) -> Entry {
    Entry::Link(target.to_string_lossy().into_owned())
}

fn list(path: &Path) -> io::Result<Vec<String>> {
    let names = std::fs::read_dir(path)?.map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn canonical(root: &Path, path: &str) -> io::Result<PathBuf> {
    let (root, real) = (root.canonicalize()?, root.join(path).canonicalize()?);
    let below = real.strip_prefix(&root).map_err(|_| io::Error::other("points out of the root directory"))?;
    Ok(Path::new("/").join(below))
}

/// The path `path` below `root`, with all links resolved. In a tree of another host, links may lead out of the tree to
/// files of this host; such links aren't followed.
fn place(root: &Path, path: &str) -> io::Result<PathBuf> {
    if root == Path::new("/") {
        return Ok(root.join(path));
    }
    let below = canonical(root, path)?;
    Ok(root.join(below.strip_prefix("/").unwrap_or(&below)))
}

fn target(root: &Path, path: &str) -> io::Result<PathBuf> {
    let (above, name) = path.rsplit_once('/').unwrap_or((".", path));
    std::fs::read_link(place(root, above)?.join(name))
}

fn read_capped(root: &Path, path: &str) -> io::Result<Vec<u8>> {
    let path = place(root, path)?;
    // Reading a pipe in the tree could block.
    if root != Path::new("/") && !path.is_file() {
        return Err(io::Error::other("not an ordinary file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(pair).collect()
}
