//! The directories of the sources that are on this host.

use linerate_wire::control::Change;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::line::Line;
use crate::common::spec::Spec;

/// The directory that contains a source, and the source's name in it; no name if the source is the directory
/// itself.
pub struct Top {
    directory: Vec<u8>,
    /// Whether the source was written as an absolute path.
    is_absolute: bool,
    name: Option<Vec<u8>>,
}

/// The directory and name of each source of a command line that is on this host.
pub fn tops(line: &Line) -> Vec<Top> {
    let keeps_path = line.relative.unwrap_or(line.files_from.is_some());
    let sources = line.sources().iter().filter_map(|source| match Spec::parse(source) {
        Spec::Local(path) => Some(path.into_vec()),
        Spec::Remote(..) => None,
    });
    let top = |path: Vec<u8>| {
        let is_absolute = path.starts_with(b"/");
        let directory = |bytes: &[u8]| bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec();
        if keeps_path {
            let dot = path.windows(3).position(|three| three == b"/./");
            let top =
                if line.files_from.is_some() { &path[..] } else { dot.map_or(&[][..], |dot| &path[..dot]) };
            return Top { directory: directory(top), is_absolute, name: None };
        }
        match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) if slash + 1 == path.len() => {
                Top { directory: directory(&path), is_absolute, name: None }
            }
            slash => {
                let own = slash.map_or(0, |slash| slash + 1);
                let name = Some(path[own..].to_vec());
                Top { directory: directory(&path[..own]), is_absolute, name }
            }
        }
    };
    sources.map(top).collect()
}

/// The paths that a changed file may have among the sources of this host, the most probable first.
pub fn sources_of(tops: &[Top], change: &Change) -> impl Iterator<Item = PathBuf> {
    let path = change.path.as_bytes();
    let first = path.split(|byte| *byte == b'/').next().unwrap_or(path);
    let tops = tops.iter().filter(move |top| top.name.as_deref().is_none_or(|name| name == first));
    tops.map(move |top| {
        let slash: &[u8] = if top.directory.is_empty() && !top.is_absolute { b"" } else { b"/" };
        PathBuf::from(OsString::from_vec([&top.directory, slash, path].concat()))
    })
}

/// The file's path at a sender on this host, without the leading slash.
pub fn full_name(tops: &[Top], change: &Change, pulls: bool) -> Vec<u8> {
    let path = change.path.as_bytes();
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    if pulls || change.item == Change::DELETED {
        return path.to_vec();
    }
    let first = path.split(|byte| *byte == b'/').next().unwrap_or(path);
    let top = tops.iter().find(|top| top.name.as_deref().is_none_or(|name| name == first));
    let directory = top.map(|top| top.directory.as_slice()).unwrap_or_default();
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    let full = [directory, slash, path].concat();
    full.strip_prefix(b"/").map(<[u8]>::to_vec).unwrap_or(full)
}

/// Whether a sender keeps absolute paths whole: `-R` is given, and no `/./` marks the beginning of the kept
/// part.
pub fn keeps_root(line: &Line) -> bool {
    let is_whole = |path: &OsString| {
        path.as_bytes().starts_with(b"/") && !path.as_bytes().windows(3).any(|three| three == b"/./")
    };
    let keeps = line.relative == Some(true) && line.files_from.is_none() && !line.pulls();
    keeps && line.sources().iter().all(is_whole)
}
