//! Names that an attempt left out although it is done: they vanished or changed at the source meanwhile, or an option left them
//! out. The next plan lists them again if the source still has them.

use anyhow::Context;
use linerate_sys::replace::replace;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::attempt::AttemptState;
use crate::plan::{FleetPart, PlanDirectory};
use crate::status::FleetStatus;

/// The entries that done shards have brought.
pub struct Brought {
    shards: HashMap<u32, LeftNames>,
    is_all_done: bool,
}

/// The names that an attempt left out.
enum LeftNames {
    These(HashSet<Vec<u8>>),
    /// It left something out, but no file lists it.
    Any,
}

/// Lists the names that attempt `number` at a part left out, each ended by a zero byte. `paths` are those of problems, below the
/// plan's source. A path elsewhere counts as any name.
///
/// # Errors
/// If it can't be written.
pub fn note(
    directory: &PlanDirectory,
    part: FleetPart,
    number: u32,
    paths: &[Vec<u8>],
) -> anyhow::Result<()> {
    let source = Path::new(&directory.plan.source);
    let below = |path: &Vec<u8>| {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let path = Path::new(std::ffi::OsStr::from_bytes(path)).strip_prefix(source).ok()?;
        Some([path.as_os_str().to_owned().into_vec(), vec![0]].concat())
    };
    let names: Option<Vec<_>> = paths.iter().map(below).collect();
    match names {
        Some(names) if !names.is_empty() => {
            let file = file(&directory.round(), part, number);
            replace(&file, &names.concat()).with_context(|| format!("writing {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn file(round: &Path, part: FleetPart, number: u32) -> PathBuf {
    round.join(format!("{}.{number}.left", part.name()))
}

impl Brought {
    /// Reads what the attempts of a plan's round left out.
    ///
    /// # Errors
    /// If that can't be read.
    pub fn read(directory: &PlanDirectory, status: &FleetStatus) -> anyhow::Result<Self> {
        let mut shards = HashMap::new();
        for (part, number, attempt) in status.done() {
            if let (FleetPart::Shard(shard), AttemptState::Done) = (part, attempt.state) {
                let has_left = attempt.progress.changed > 0;
                shards.insert(shard, LeftNames::read(&file(&directory.round(), part, number), has_left)?);
            }
        }
        Ok(Self { shards, is_all_done: status.is_done_all() })
    }

    /// True if the shard has brought this entry.
    pub fn by_shard(&self, shard: u32, path: &[u8]) -> bool {
        self.shards.get(&shard).is_some_and(|left| !left.has(path))
    }

    /// True if all shards together, and the part of the directories, have brought this entry.
    pub fn by_all(&self, path: &[u8]) -> bool {
        self.is_all_done && self.shards.values().all(|left| !left.has(path))
    }
}

impl LeftNames {
    fn read(file: &Path, has_left: bool) -> anyhow::Result<Self> {
        match fs::read(file) {
            Ok(names) => {
                let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
                Ok(Self::These(names.map(<[u8]>::to_vec).collect()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound && has_left => Ok(Self::Any),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::These(HashSet::new())),
            Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
        }
    }

    fn has(&self, path: &[u8]) -> bool {
        match self {
            Self::These(names) => names.contains(path),
            Self::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_attempt_left_is_known_by_name_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("00000.1.left");
        assert!(!LeftNames::read(&file, false).unwrap().has(b"a"));
        assert!(LeftNames::read(&file, true).unwrap().has(b"a"), "an earlier version wrote no list");
        fs::write(&file, b"a\n\0d/b\0").unwrap();
        let left = LeftNames::read(&file, true).unwrap();
        assert!(left.has(b"a\n") && left.has(b"d/b") && !left.has(b"a") && !left.has(b""));
    }
}
