//! The previous plan, with which a new plan is compared.

use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::catalogue::{CatalogueReader, EntryStamp, IN_NONE, IN_PLACE, IN_SEVERAL};
use crate::left::Brought;
use crate::plan::{CATALOGUE_FILE, PlanDirectory};
use crate::source::{is_gone, is_here};
use crate::status::FleetStatus;

/// The entries of the previous plan, by hashes of their paths, and whether each was copied.
pub struct EarlierRound {
    directory: PlanDirectory,
    entries: HashMap<[u8; 16], EarlierEntry>,
}

struct EarlierEntry {
    /// A hash of the entry's stamp; `None` if the entry wasn't copied.
    stamp: Option<u64>,
    is_there: bool,
}

impl EarlierRound {
    /// Reads the catalogue and the attempts of a plan.
    pub fn read(directory: PlanDirectory) -> anyhow::Result<Self> {
        let status = FleetStatus::read(&directory)?;
        ensure!(
            !status.is_at_work(),
            "tasks of the plan in {} are running: wait for their end, or stop them",
            directory.path.display()
        );
        let mut entries = HashMap::new();
        let brought = Brought::read(&directory, &status)?;
        for entry in CatalogueReader::open(&directory.round().join(CATALOGUE_FILE))? {
            let entry = entry?;
            let is_done = match entry.shard {
                IN_PLACE => true,
                // The part of the directories also completes divided files.
                IN_NONE | IN_SEVERAL => brought.by_all(&entry.path),
                shard => brought.by_shard(shard, &entry.path),
            };
            let stamp = is_done.then(|| hash_of(&entry.stamp));
            entries.insert(key(&entry.path), EarlierEntry { stamp, is_there: false });
        }
        Ok(Self { directory, entries })
    }

    /// The number of the previous round.
    pub fn round(&self) -> u32 {
        self.directory.plan.round
    }

    /// The random name of the plan.
    pub fn id(&self) -> &str {
        &self.directory.plan.id
    }

    /// Whether the entry was copied and has the same stamp now. Also records that the source still has the
    /// entry.
    pub fn has(&mut self, path: &[u8], stamp: &EntryStamp) -> bool {
        let Some(entry) = self.entries.get_mut(&key(path)) else { return false };
        entry.is_there = true;
        entry.stamp == Some(hash_of(stamp))
    }

    /// Fails if the source can't be the planned directory, because it is another directory and has none of the planned
    /// names. An example is the empty mount point of a file system that isn't mounted.
    ///
    /// # Errors
    /// If the source can't be the planned directory, or the catalogue can't be read.
    pub fn check_source(&self) -> anyhow::Result<()> {
        let entries = CatalogueReader::open(&self.directory.round().join(CATALOGUE_FILE))?;
        ensure!(
            is_here(&self.directory.plan, entries.map(|entry| Ok(entry?.path)))?,
            "{} isn't the planned directory, and has none of the planned names: mount the planned directory, or, if the source was created again, plan into another directory",
            self.directory.plan.source
        );
        Ok(())
    }

    /// Writes the list of paths that the source no longer has, each with a zero byte at its end, and returns their
    /// number. Each path that the scan didn't find is looked up, because the scan may also have missed it through a
    /// filter or an error.
    pub fn write_gone(&self, path: &Path) -> anyhow::Result<u64> {
        let file = File::create_new(path).with_context(|| format!("making {}", path.display()))?;
        let (mut file, mut count) = (BufWriter::new(file), 0);
        let source = Path::new(&self.directory.plan.source);
        for entry in CatalogueReader::open(&self.directory.round().join(CATALOGUE_FILE))? {
            let entry = entry?;
            let is_found = self.entries.get(&key(&entry.path)).is_none_or(|known| known.is_there);
            if !is_found && is_gone(&source.join(OsStr::from_bytes(&entry.path))) {
                count += 1;
                file.write_all(&entry.path).and_then(|()| file.write_all(b"\0")).context("writing a list")?;
            }
        }
        file.flush().and_then(|()| file.get_ref().sync_all()).context("writing a list")?;
        Ok(count)
    }
}

fn key(path: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    key
}

fn hash_of(stamp: &EntryStamp) -> u64 {
    let EntryStamp { size, mtime, ctime, inode } = *stamp;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&size.to_le_bytes()).update(&inode.to_le_bytes());
    for (seconds, nanoseconds) in [mtime, ctime] {
        hasher.update(&seconds.to_le_bytes()).update(&nanoseconds.to_le_bytes());
    }
    let mut hash = [0; 8];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(hash)
}
