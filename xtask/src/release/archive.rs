//! Makes tar archives whose bytes depend only on their files: sorted, owned by root, with the same time for
//! all entries.

use anyhow::Context;
use std::collections::BTreeSet;
use std::path::Path;
use tar::{Builder, EntryType, Header};

use super::product::InstalledFile;

/// Adds a directory before the paths of the files.
pub fn below(directory: &str, files: &[InstalledFile]) -> Vec<InstalledFile> {
    let moved =
        |file: &InstalledFile| InstalledFile { path: format!("{directory}/{}", file.path), ..file.clone() };
    files.iter().map(moved).collect()
}

/// An archive of `files` and of the directories above them, in the form that dpkg needs.
pub fn tar(files: &[InstalledFile], seconds: u32) -> anyhow::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for directory in directories(files) {
        append(&mut archive, EntryType::Directory, &format!("{directory}/"), 0o755, &[], seconds)?;
    }
    with_files(archive, files, seconds)
}

/// An archive of only `files`, so that unpacking it doesn't change existing directories.
pub fn tar_of_files(files: &[InstalledFile], seconds: u32) -> anyhow::Result<Vec<u8>> {
    with_files(Builder::new(Vec::new()), files, seconds)
}

fn with_files(
    mut archive: Builder<Vec<u8>>,
    files: &[InstalledFile],
    seconds: u32,
) -> anyhow::Result<Vec<u8>> {
    let mut sorted: Vec<_> = files.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    for file in sorted {
        append(&mut archive, EntryType::Regular, &file.path, file.mode, &file.bytes, seconds)?;
    }
    archive.into_inner().context("ending an archive")
}

/// Every directory above a file, parents first.
fn directories(files: &[InstalledFile]) -> BTreeSet<String> {
    let above = files.iter().flat_map(|file| Path::new(&file.path).ancestors().skip(1));
    above.filter(|path| *path != Path::new("")).map(|path| path.display().to_string()).collect()
}

fn append(
    archive: &mut Builder<Vec<u8>>,
    kind: EntryType,
    path: &str,
    mode: u32,
    bytes: &[u8],
    seconds: u32,
) -> anyhow::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(seconds.into());
    header.set_size(bytes.len() as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    archive.append_data(&mut header, path, bytes).with_context(|| format!("packing {path}"))
}
