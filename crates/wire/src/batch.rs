//! The payload of a batch frame: many entries, each with the whole contents of a small file.
//!
//! A record consists of the length of the entry and the length of the contents (4 bytes each, little endian), the entry
//! in postcard, and the contents. An entry that isn't a file has no contents. If digests are sent, the BLAKE3 hash of a
//! file's contents follows the contents; the length of the contents includes the hash.

use crate::control::Digest;
use crate::entry::{Entry, Kind};

const PREFIX: usize = 8;
/// The most records of one batch.
pub const MAX_RECORDS: usize = 1024;
/// The length of a digest in bytes.
const DIGEST: usize = size_of::<Digest>();

/// The reason why a batch can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The batch has more than [`MAX_RECORDS`] records.
    #[error("a batch has more than {MAX_RECORDS} records")]
    TooMany,
    /// A length points past the end of the payload.
    #[error("a batch record is longer than its frame")]
    Truncated,
    /// The bytes of the entry can't be decoded.
    #[error("a batch record's entry can't be decoded")]
    Entry,
    /// The contents don't have the length that the entry states.
    #[error("a batch record's contents differ from the size that it states")]
    Size,
    /// Digests are sent, but the record of a file has no digest.
    #[error("a batch record of a file has no digest")]
    Digest,
}

/// Appends entries with their contents to a payload.
pub struct Writer<'a> {
    payload: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `payload`.
    pub fn new(payload: &'a mut Vec<u8>) -> Self {
        Self { payload }
    }

    /// Appends an entry, and the contents that `read` writes to the end of the payload. The entry's size becomes the
    /// number of bytes that `read` wrote.
    ///
    /// # Errors
    /// The errors of `read`; the payload is then unchanged.
    pub fn push<E>(
        &mut self,
        entry: &mut Entry,
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.push_with(entry, read, |_| None).map(drop)
    }

    /// Appends an entry as [`Writer::push`] does. If the entry is a file and `digest` returns a digest of the contents,
    /// also appends this digest, and returns it.
    ///
    /// # Errors
    /// The errors of `read`; the payload is then unchanged.
    pub fn push_with<E>(
        &mut self,
        entry: &mut Entry,
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        digest: impl FnOnce(&[u8]) -> Option<Digest>,
    ) -> Result<Option<Digest>, E> {
        let start = self.payload.len();
        self.payload.extend_from_slice(&[0; PREFIX]);
        // The size is known only after the contents were read, and the encoding of a size has no fixed length. So the
        // entry is first encoded with the size that the scan found. If the size has changed, another encoding takes the
        // first one's place afterwards.
        let scanned = encode(entry);
        self.payload.extend_from_slice(&scanned);
        let contents = self.payload.len();
        if let Err(error) = read(self.payload) {
            self.payload.truncate(start);
            return Err(error);
        }
        let is_file = matches!(entry.kind, Kind::File { .. });
        let digest = is_file.then(|| digest(&self.payload[contents..])).flatten();
        let size = self.payload.len() - contents;
        self.payload.extend(digest.iter().flatten());
        let length = self.payload.len() - contents;
        self.correct_size(entry, contents - scanned.len()..contents, size);
        let entry_length = self.payload.len() - length - start - PREFIX;
        self.payload[start..start + 4].copy_from_slice(&length_bytes(entry_length));
        self.payload[start + 4..start + PREFIX].copy_from_slice(&length_bytes(length));
        Ok(digest)
    }

    fn correct_size(&mut self, entry: &mut Entry, at: std::ops::Range<usize>, actual: usize) {
        let Kind::File { size } = &mut entry.kind else { return };
        if *size != actual as u64 {
            *size = actual as u64;
            self.payload.splice(at, encode(entry));
        }
    }
}

fn encode(entry: &Entry) -> Vec<u8> {
    postcard::to_stdvec(entry).expect("an entry is always encodable")
}

fn length_bytes(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a batch is below 2 MiB").to_le_bytes()
}

/// One entry of a payload, with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The entry.
    pub entry: Entry,
    /// The entry's contents; empty unless the entry is a file.
    pub contents: &'a [u8],
    /// The BLAKE3 hash of the bytes that the sender read; `None` unless the entry is a file and digests are sent.
    pub digest: Option<Digest>,
}

/// Iterates over the records of a payload.
pub struct Reader<'a> {
    rest: &'a [u8],
    digests: bool,
    /// The number of records that may still follow.
    left: usize,
}

impl<'a> Reader<'a> {
    /// A reader that starts at the beginning of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload, digests: false, left: MAX_RECORDS }
    }

    /// A reader of a payload in which a digest follows the contents of each file.
    pub fn with_digests(payload: &'a [u8]) -> Self {
        Self { digests: true, ..Self::new(payload) }
    }

    fn record(&mut self) -> Result<Record<'a>, BatchError> {
        self.left = self.left.checked_sub(1).ok_or(BatchError::TooMany)?;
        let entry_length = self.length()?;
        let contents_length = self.length()?;
        let entry_bytes = self.take(entry_length)?;
        let mut contents = self.take(contents_length)?;
        let (entry, left) = postcard::take_from_bytes::<Entry>(entry_bytes).map_err(|_| BatchError::Entry)?;
        if !left.is_empty() {
            return Err(BatchError::Entry);
        }
        let mut digest = None;
        if self.digests && matches!(entry.kind, Kind::File { .. }) {
            let (read, behind) = contents.split_last_chunk::<DIGEST>().ok_or(BatchError::Digest)?;
            (contents, digest) = (read, Some(*behind));
        }
        let stated = if let Kind::File { size } = entry.kind { size } else { 0 };
        if stated != contents.len() as u64 {
            return Err(BatchError::Size);
        }
        Ok(Record { entry, contents, digest })
    }

    fn length(&mut self) -> Result<usize, BatchError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], BatchError> {
        let (front, rest) = self.rest.split_at_checked(length).ok_or(BatchError::Truncated)?;
        self.rest = rest;
        Ok(front)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Timestamp;
    use crate::path::RelPath;
    use proptest::prelude::*;

    fn file(name: &str, size: u64) -> Entry {
        let path = RelPath::new(name.as_bytes()).unwrap();
        let time = Timestamp { seconds: 1, nanoseconds: 2 };
        Entry {
            source: 0,
            path,
            kind: Kind::File { size },
            mode: 0o644,
            mtime: time,
            atime: time,
            extra: None,
        }
    }

    fn append(payload: &mut Vec<u8>, entry: &mut Entry, contents: &[u8]) {
        let read = |out: &mut Vec<u8>| {
            out.extend_from_slice(contents);
            Ok::<(), ()>(())
        };
        Writer::new(payload).push(entry, read).unwrap();
    }

    #[test]
    fn a_file_that_grew_keeps_its_neighbours() {
        let mut payload = Vec::new();
        append(&mut payload, &mut file("a", 1), &[1; 3000]);
        append(&mut payload, &mut file("b", 5000), &[2; 7]);
        let records: Vec<_> = Reader::new(&payload).map(Result::unwrap).collect();
        let record = |entry, contents| Record { entry, contents, digest: None };
        assert_eq!(records[0], record(file("a", 3000), &[1; 3000][..]));
        assert_eq!(records[1], record(file("b", 7), &[2; 7][..]));
    }

    #[test]
    fn digests_follow_the_contents_of_files_alone() {
        let mut payload = Vec::new();
        let reported = |bytes: &[u8]| Some([bytes.len() as u8; DIGEST]);
        let read = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"hello");
            Ok::<(), ()>(())
        };
        let mut directory = Entry { kind: Kind::Directory, ..file("d", 0) };
        let mut writer = Writer::new(&mut payload);
        assert_eq!(writer.push_with(&mut file("a", 9), read, reported), Ok(Some([5; DIGEST])));
        assert_eq!(writer.push_with(&mut directory, |_| Ok::<(), ()>(()), reported), Ok(None));
        let records: Vec<_> = Reader::with_digests(&payload).map(Result::unwrap).collect();
        let contents = &b"hello"[..];
        assert_eq!(records[0], Record { entry: file("a", 5), contents, digest: Some([5; DIGEST]) });
        assert_eq!(records[1], Record { entry: directory, contents: &[], digest: None });
        assert_eq!(
            Reader::new(&payload).next(),
            Some(Err(BatchError::Size)),
            "a digest that nobody asked for"
        );
    }

    #[test]
    fn a_missing_digest_is_noticed() {
        let mut payload = Vec::new();
        append(&mut payload, &mut file("a", 40), &[1; 40]);
        assert_eq!(Reader::with_digests(&payload).next(), Some(Err(BatchError::Size)));
        payload.clear();
        append(&mut payload, &mut file("a", 3), &[1; 3]);
        assert_eq!(Reader::with_digests(&payload).next(), Some(Err(BatchError::Digest)));
    }

    #[test]
    fn a_failed_read_leaves_no_trace() {
        let mut payload = vec![9];
        let failed = Writer::new(&mut payload).push(&mut file("a", 4), |out| {
            out.push(1);
            Err("no")
        });
        assert_eq!((failed, payload), (Err("no"), vec![9]));
    }

    proptest! {
        #[test]
        fn records_come_back(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..10)) {
            let mut payload = Vec::new();
            for (index, bytes) in contents.iter().enumerate() {
                append(&mut payload, &mut file(&format!("f{index}"), index as u64), bytes);
            }
            let back: Vec<_> = Reader::new(&payload).map(|r| r.unwrap().contents.to_vec()).collect();
            prop_assert_eq!(back, contents);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Reader::new(&bytes).count() <= bytes.len());
            prop_assert!(Reader::with_digests(&bytes).count() <= bytes.len());
        }
    }
}
