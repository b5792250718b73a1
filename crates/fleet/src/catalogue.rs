//! The catalogue: a file with every entry that a scan found, and with the stamp and the shard of each entry.
//!
//! The next plan compares the source with the catalogue, to find the entries that have changed since the scan.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// The first bytes of a catalogue.
const MAGIC: &[u8; 16] = b"linerate-fleet1\n";
/// The number of bytes in a record before the path.
const FIXED: usize = 4 + 1 + 8 + 8 + 4 + 8 + 4 + 8 + 2;
const BUFFER: usize = 256 << 10;

/// The shard number of an entry that is in no shard: a directory.
pub const IN_NONE: u32 = u32::MAX;
/// The shard number of an entry that an earlier round moved and that hasn't changed since.
pub const IN_PLACE: u32 = u32::MAX - 1;
/// The shard number of a file that is divided among several shards.
pub const IN_SEVERAL: u32 = u32::MAX - 2;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a fifo or a socket.
    Special,
}

/// The values by which a changed entry is detected. They are only compared for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryStamp {
    /// The size of a file's contents, in bytes.
    pub size: u64,
    /// The time of the last modification of the contents: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// The time of the inode's last change: seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// The inode's number.
    pub inode: u64,
}

/// An entry of the source, as a catalogue records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CataloguedEntry {
    /// The entry's path below the source; empty for the source itself.
    pub path: Vec<u8>,
    /// The entry's kind.
    pub kind: EntryKind,
    /// The entry's stamp, to detect later changes.
    pub stamp: EntryStamp,
    /// The number of the entry's shard, or [`IN_NONE`], [`IN_PLACE`] or [`IN_SEVERAL`].
    pub shard: u32,
}

/// Writes a catalogue.
pub struct CatalogueWriter(BufWriter<File>);

/// Reads a catalogue, and detects a truncated one.
pub struct CatalogueReader {
    file: BufReader<File>,
    left: u64,
}

impl CatalogueWriter {
    /// Creates the file, which must be new.
    ///
    /// # Errors
    /// If it can't be made or written.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create_new(path).with_context(|| format!("making {}", path.display()))?;
        let mut file = BufWriter::with_capacity(BUFFER, file);
        file.write_all(MAGIC)?;
        Ok(Self(file))
    }

    /// Writes the next entry.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&mut self, entry: &CataloguedEntry) -> io::Result<()> {
        let length = u16::try_from(entry.path.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let EntryStamp { size, mtime, ctime, inode } = entry.stamp;
        let mut record = [0; FIXED];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            record[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&entry.shard.to_le_bytes());
        put(&[entry.kind.letter()]);
        put(&size.to_le_bytes());
        for (seconds, nanoseconds) in [mtime, ctime] {
            put(&seconds.to_le_bytes());
            put(&nanoseconds.to_le_bytes());
        }
        put(&inode.to_le_bytes());
        put(&length.to_le_bytes());
        self.0.write_all(&record)?;
        self.0.write_all(&entry.path)
    }

    /// Puts everything on stable storage.
    ///
    /// # Errors
    /// If that fails.
    pub fn finish(&mut self) -> io::Result<()> {
        self.0.flush()?;
        self.0.get_ref().sync_all()
    }
}

impl CatalogueReader {
    /// Opens the file.
    ///
    /// # Errors
    /// If it can't be opened, or isn't a catalogue.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = || format!("reading {}", path.display());
        let file = File::open(path).with_context(shown)?;
        let size = file.metadata().with_context(shown)?.len();
        let mut file = BufReader::with_capacity(BUFFER, file);
        let mut magic = [0; MAGIC.len()];
        if file.read_exact(&mut magic).is_err() || &magic != MAGIC {
            bail!("{} isn't a catalogue of this version of linerate", path.display());
        }
        Ok(Self { file, left: size - MAGIC.len() as u64 })
    }

    /// Reads the next entry; `None` after the last one.
    ///
    /// # Errors
    /// If it can't be read, or the file ends in the middle of it.
    pub fn read(&mut self) -> anyhow::Result<Option<CataloguedEntry>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut record = [0; FIXED];
        self.file.read_exact(&mut record).context("the catalogue ends in the middle of an entry")?;
        let mut fields = Fields(&record);
        let shard = u32::from_le_bytes(fields.take());
        let [letter] = fields.take();
        let size = u64::from_le_bytes(fields.take());
        let mtime = fields.time();
        let ctime = fields.time();
        let inode = u64::from_le_bytes(fields.take());
        let mut path = vec![0; u16::from_le_bytes(fields.take()).into()];
        self.file.read_exact(&mut path).context("the catalogue ends in the middle of a path")?;
        self.left = self.left.saturating_sub((FIXED + path.len()) as u64);
        let kind = EntryKind::of(letter).context("the catalogue has an entry of an unknown kind")?;
        let stamp = EntryStamp { size, mtime, ctime, inode };
        Ok(Some(CataloguedEntry { path, kind, stamp, shard }))
    }
}

impl Iterator for CatalogueReader {
    type Item = anyhow::Result<CataloguedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl EntryKind {
    fn letter(self) -> u8 {
        match self {
            Self::File => b'f',
            Self::Directory => b'd',
            Self::Link => b'l',
            Self::Special => b's',
        }
    }

    fn of(letter: u8) -> Option<Self> {
        [Self::File, Self::Directory, Self::Link, Self::Special].into_iter().find(|it| it.letter() == letter)
    }
}

/// The fields of a record that weren't read yet. The caller has checked that the record has enough bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *field
    }

    fn time(&mut self) -> (i64, u32) {
        (i64::from_le_bytes(self.take()), u32::from_le_bytes(self.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn entry(path: &[u8], kind: EntryKind) -> CataloguedEntry {
        let stamp = EntryStamp { size: 7, mtime: (-5, 999_999_999), ctime: (1, 2), inode: u64::MAX };
        CataloguedEntry { path: path.to_vec(), kind, stamp, shard: IN_PLACE }
    }

    #[test]
    fn what_is_written_is_read_and_a_file_that_was_cut_off_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("catalogue");
        let entries = [
            entry(b"", EntryKind::Directory),
            entry(b"a/\xff\n", EntryKind::File),
            entry(&[b'x'; 4096], EntryKind::Link),
            entry(b"s", EntryKind::Special),
        ];
        let mut writer = CatalogueWriter::create(&file).unwrap();
        entries.iter().for_each(|entry| writer.write(entry).unwrap());
        assert!(CatalogueWriter::create(&file).is_err(), "it is new");
        writer.finish().unwrap();
        let read: Vec<_> = CatalogueReader::open(&file).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, entries);
        let whole = fs::read(&file).unwrap();
        for length in 0..whole.len() {
            fs::write(&file, &whole[..length]).unwrap();
            let read = CatalogueReader::open(&file).and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
            // If the file is cut off after a whole record, only the number of entries in the plan shows that
            // some are missing.
            assert!(read.is_err() || read.unwrap().len() < entries.len(), "{length}");
        }
    }
}
