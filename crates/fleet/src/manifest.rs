//! The hashes of all files that a plan's tasks have brought, in all rounds.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::catalogue::{CatalogueReader, EntryKind, IN_PLACE};
use crate::plan::{CATALOGUE_FILE, FleetPart, PlanDirectory, round_path};

/// The hash of each path, both in a manifest's form.
pub type Hashes = BTreeMap<Vec<u8>, Vec<u8>>;

/// The hashes of the files that the last scan found, and the number of those that have none: a round without hashes brought them, or
/// no attempt has brought them yet. Of several attempts and rounds that brought a file, the last one counts.
///
/// # Errors
/// If a manifest or a catalogue can't be read.
pub fn hashes(directory: &PlanDirectory) -> anyhow::Result<(Hashes, u64)> {
    let mut hashes = Hashes::new();
    for round in 1..=directory.plan.round {
        let path = round_path(&directory.path, round);
        // A plan that was interrupted at its end has left a round that nobody ran.
        if path.join(CATALOGUE_FILE).exists() {
            read_round(&path, &mut hashes)?;
        }
    }
    let (mut there, mut missing) = (Hashes::new(), 0);
    for entry in CatalogueReader::open(&directory.round().join(CATALOGUE_FILE))? {
        let entry = entry?;
        let path = escaped(&entry.path);
        match hashes.remove(&path) {
            Some(hash) => drop(there.insert(path, hash)),
            None => missing += u64::from(entry.kind == EntryKind::File),
        }
    }
    Ok((there, missing))
}

/// Hashes of earlier rounds don't hold for the files that this round brings.
fn read_round(path: &Path, hashes: &mut Hashes) -> anyhow::Result<()> {
    for entry in CatalogueReader::open(&path.join(CATALOGUE_FILE))? {
        let entry = entry?;
        if entry.shard != IN_PLACE {
            hashes.remove(&escaped(&entry.path));
        }
    }
    manifests(path)?
        .values()
        .try_for_each(|file| read(file, hashes).with_context(|| format!("reading {}", file.display())))
}

/// The manifests of a round, earlier attempts first.
fn manifests(round: &Path) -> anyhow::Result<BTreeMap<(u32, FleetPart), PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(round).with_context(|| format!("reading {}", round.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let named = name.to_str().and_then(|name| name.strip_suffix(".b3")?.split_once('.'));
        let named = named.and_then(|(part, attempt)| Some((attempt.parse().ok()?, FleetPart::named(part)?)));
        named.into_iter().for_each(|key| drop(found.insert(key, entry.path())));
    }
    Ok(found)
}

/// Lines of `HASH  PATH`, with a backslash before those whose path is escaped.
fn read(file: &Path, hashes: &mut Hashes) -> anyhow::Result<()> {
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        let line = line?;
        let bare = line.strip_prefix(b"\\").unwrap_or(&line);
        if let Some((hash, path)) = bare.split_at_checked(64) {
            let path = path.strip_prefix(b"  ").unwrap_or(path);
            hashes.insert(path.to_vec(), hash.to_vec());
        }
    }
    Ok(())
}

/// A name in the form of b3sum and sha256sum.
fn escaped(path: &[u8]) -> Vec<u8> {
    let each = |byte: &u8| match byte {
        b'\\' => b"\\\\".to_vec(),
        b'\n' => b"\\n".to_vec(),
        b'\r' => b"\\r".to_vec(),
        byte => vec![*byte],
    };
    path.iter().flat_map(each).collect()
}

/// A line of a manifest, without its end.
pub fn line(path: &[u8], hash: &[u8]) -> Vec<u8> {
    let mark: &[u8] = if path.contains(&b'\\') { b"\\" } else { b"" };
    [mark, hash, b"  ", path].concat()
}
