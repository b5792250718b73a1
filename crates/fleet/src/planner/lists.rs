//! The lists of paths that the parts of a plan copy.

use anyhow::{Context, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::MAX_LIST;
use crate::divide::PlannedFile;
use crate::plan::{FleetPart, PlannedShard};

/// The greatest number of bytes in write buffers, for all lists together.
const BUFFERS: usize = 32 << 20;
const BUFFER: std::ops::RangeInclusive<usize> = 4 << 10..=64 << 10;

/// The approximate memory that a task needs for each name, in bytes, in addition to the name itself.
const NAME_OVERHEAD: u64 = 64;

/// A list that is being written.
pub struct ListWriter {
    part: FleetPart,
    file: BufWriter<File>,
    hasher: blake3::Hasher,
    length: u64,
    planned: PlannedShard,
}

/// The files that are divided among several shards: `names` holds their paths, each with a zero byte at its
/// end, and `files` holds their divisions in the same order.
#[derive(Default)]
pub struct DividedLists {
    pub names: Vec<u8>,
    pub files: Vec<PlannedFile>,
}

impl DividedLists {
    pub fn add(&mut self, path: &[u8], file: PlannedFile) {
        self.names.extend_from_slice(path);
        self.names.push(0);
        self.files.push(file);
    }
}

impl ListWriter {
    /// Creates the list of a part; `shards` lists are written at the same time.
    pub fn create(directory: &Path, part: FleetPart, shards: u32) -> anyhow::Result<Self> {
        let path = directory.join(part.list_name());
        let file = File::create_new(&path).with_context(|| format!("making {}", path.display()))?;
        let buffer = (BUFFERS / shards.max(1) as usize).clamp(*BUFFER.start(), *BUFFER.end());
        Ok(Self {
            part,
            file: BufWriter::with_capacity(buffer, file),
            hasher: blake3::Hasher::new(),
            length: 0,
            planned: PlannedShard::default(),
        })
    }

    /// Adds a path; the source itself is written as a dot.
    pub fn add(&mut self, path: &[u8], bytes: u64) -> anyhow::Result<()> {
        let path = if path.is_empty() { b"." } else { path };
        for part in [path, &b"\0"[..]] {
            self.file.write_all(part).context("writing a list")?;
            self.hasher.update(part);
            self.length += part.len() as u64;
        }
        self.planned.files += 1;
        ensure!(
            self.length + self.planned.files * NAME_OVERHEAD <= MAX_LIST,
            "the names of {} take more than {} MiB; request more shards, or plan parts of the tree",
            self.part,
            MAX_LIST >> 20
        );
        self.planned.bytes = self.planned.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Adds pieces of a file whose path is in the list of divided files. `is_first` means that the file's first piece
    /// is among them, so that the file counts for this shard.
    pub fn add_pieces(&mut self, bytes: u64, is_first: bool) {
        self.planned.files += u64::from(is_first);
        self.planned.bytes = self.planned.bytes.saturating_add(bytes);
    }

    /// Writes the list to stable storage.
    pub fn finish(mut self) -> anyhow::Result<PlannedShard> {
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).context("writing a list")?;
        Ok(PlannedShard { blake3: self.hasher.finalize().to_hex().to_string(), ..self.planned })
    }
}
