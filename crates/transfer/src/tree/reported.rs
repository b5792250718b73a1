//! The paths by which entries are reported to the user.

use linerate_wire::control::Source;
use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;

/// Joins `path` to the place `top`.
pub fn below(top: &RelPath, path: &RelPath) -> RelPath {
    let parts = [top.as_bytes(), path.as_bytes()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    RelPath::new(parts.join(&b'/')).unwrap_or_else(|_| path.clone())
}

/// The path of an entry, with its source's name before it if sources keep their names as with rsync (`into`).
/// A source that is a file is reported by its own name.
pub fn reported_path(sources: &[Source], entry: &Entry, into: bool) -> RelPath {
    let is_source = entry.path.is_root() && entry.kind != Kind::Directory;
    match sources.get(entry.source as usize) {
        Some(source) if is_source => source.name.clone(),
        Some(source) if into => below(&source.name, &entry.path),
        _ => entry.path.clone(),
    }
}
