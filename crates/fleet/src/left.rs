//! The names of entries that a completed attempt did not copy, because they vanished or changed at the
//! source, or because an option excludes them. The next plan lists them again if the source still has them.

use anyhow::Context;
use linerate_sys::replace::replace;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::plan::{FleetPart, PlanDirectory};
use crate::status::FleetStatus;

/// Knows which entries the completed shards have copied.
pub struct Brought {
    /// The completed shards for which the names that weren't copied are all known.
    shards: HashSet<u32>,
    left: HashSet<Vec<u8>>,
    /// Whether all parts are completed, and the names that weren't copied are all known.
    is_all: bool,
}

/// Writes a list of the names that attempt `number` at a part did not copy, each with a zero byte at its end.
/// `paths` are the paths of problems; a path that isn't below the plan's source becomes an empty name, which
/// stands for any name.
///
/// # Errors
/// If it can't be written.
pub fn note(
    directory: &PlanDirectory,
    part: FleetPart,
    number: u32,
    paths: &[Vec<u8>],
) -> anyhow::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let source = Path::new(&directory.plan.source);
    let below = |path: &Vec<u8>| {
        let name = Path::new(OsStr::from_bytes(path)).strip_prefix(source).unwrap_or(Path::new(""));
        [name.as_os_str().as_bytes(), b"\0"].concat()
    };
    let names: Vec<_> = paths.iter().map(below).collect();
    let file = file(&directory.round(), part, number);
    replace(&file, &names.concat()).with_context(|| format!("writing {}", file.display()))
}

fn file(round: &Path, part: FleetPart, number: u32) -> PathBuf {
    round.join(format!("{}.{number}.left", part.name()))
}

impl Brought {
    /// Reads the names that the attempts of a plan's round did not copy.
    ///
    /// # Errors
    /// If these names can't be read.
    pub fn read(directory: &PlanDirectory, status: &FleetStatus) -> anyhow::Result<Self> {
        let mut brought = Self { shards: HashSet::new(), left: HashSet::new(), is_all: status.is_done_all() };
        for (part, number, attempt) in status.done() {
            if let FleetPart::Shard(shard) = part {
                let names = names(&file(&directory.round(), part, number))?;
                brought.add(shard, names, attempt.progress.changed > 0);
            }
        }
        Ok(brought)
    }

    /// Adds a completed shard with the names that it did not copy. `names` is `None` if there is no list, because all
    /// entries were copied or an earlier version of linerate made the attempt; then `has_left` is true if some entries
    /// weren't copied.
    fn add(&mut self, shard: u32, names: Option<Vec<u8>>, has_left: bool) {
        let text = names.unwrap_or_else(|| if has_left { b"\0".to_vec() } else { Vec::new() });
        let names =
            || text.split_inclusive(|byte| *byte == 0).map(|name| name.strip_suffix(b"\0").unwrap_or(name));
        if names().any(<[u8]>::is_empty) {
            self.is_all = false;
        } else {
            self.left.extend(names().map(<[u8]>::to_vec));
            self.shards.insert(shard);
        }
    }

    /// Whether the shard has copied this entry.
    pub fn by_shard(&self, shard: u32, path: &[u8]) -> bool {
        self.shards.contains(&shard) && !self.left.contains(path)
    }

    /// Whether all shards and the part of the directories have copied this entry.
    pub fn by_all(&self, path: &[u8]) -> bool {
        self.is_all && !self.left.contains(path)
    }
}

fn names(file: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(file) {
        Ok(names) => Ok(Some(names)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_attempt_left_is_known_by_name_or_not_at_all() {
        let has = |names: Option<&[u8]>, has_left, path: &[u8]| {
            let mut brought = Brought { shards: HashSet::new(), left: HashSet::new(), is_all: true };
            brought.add(3, names.map(<[u8]>::to_vec), has_left);
            assert_eq!(brought.by_shard(3, path), brought.by_all(path));
            assert!(!brought.by_shard(4, path), "another shard");
            !brought.by_shard(3, path)
        };
        assert!(!has(None, false, b"a"));
        assert!(has(None, true, b"a"), "an earlier version wrote no list");
        let names: &[u8] = b"a\n\0d/b\0";
        assert!(has(Some(names), true, b"a\n") && has(Some(names), true, b"d/b"));
        assert!(!has(Some(names), true, b"a") && !has(Some(names), true, b""));
        assert!(has(Some(b"a\0\0"), false, b"x"), "a path that isn't below the source");
    }
}
