//! The hashes of all files that the tasks of a plan have copied, in all rounds.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::catalogue::{CatalogueReader, EntryKind, IN_PLACE};
use crate::plan::{CATALOGUE_FILE, FleetPart, PlanDirectory, round_path};

/// The hash of each path's file. Hashes and paths are written as in a manifest file.
pub type Hashes = BTreeMap<Vec<u8>, Vec<u8>>;

/// The hashes of the files that the last scan found, and the number of these files that have no hash, because a round
/// without hashes copied them or no attempt has copied them yet. If several attempts or rounds copied a file, the last
/// hash counts.
///
/// # Errors
/// If a manifest or a catalogue can't be read.
pub fn hashes(directory: &PlanDirectory) -> anyhow::Result<(Hashes, u64)> {
    let mut hashes = Hashes::new();
    for round in 1..=directory.plan.round {
        let path = round_path(&directory.path, round);
        // A round's number may have no catalogue, for example if the user has removed the round's directory.
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

/// Reads the hashes of a round. They replace the hashes that earlier rounds gave for the same files.
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

/// The manifest files of a round, ordered so that earlier attempts come first.
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

/// Reads lines of the form `HASH  PATH`. A backslash at the start of a line means that the path is escaped.
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

/// A path in the notation of b3sum and sha256sum, which escapes some characters.
fn escaped(path: &[u8]) -> Vec<u8> {
    let each = |byte: &u8| match byte {
        b'\\' => b"\\\\".to_vec(),
        b'\n' => b"\\n".to_vec(),
        b'\r' => b"\\r".to_vec(),
        byte => vec![*byte],
    };
    path.iter().flat_map(each).collect()
}

/// A line of a manifest, without the newline.
pub fn line(path: &[u8], hash: &[u8]) -> Vec<u8> {
    let mark: &[u8] = if path.contains(&b'\\') { b"\\" } else { b"" };
    [mark, hash, b"  ", path].concat()
}
