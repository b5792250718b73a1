//! Lines of `--list-only`.

use linerate_wire::entry::{Entry, Kind};

use super::RsyncPrinter;
use crate::rsync::log::shown_time;
use crate::rsync::numbers::{Human, permissions};

impl RsyncPrinter {
    /// Prints the line for a listed entry.
    pub(super) fn listing(&self, path: &[u8], entry: &Entry, size: u64) -> Vec<u8> {
        let shown = self.escape.shown(path);
        let name = self.listed_name(&shown);
        let names: Vec<_> = path.split(|byte| *byte == b'/').collect();
        // `name` consists of the last names of the path, and may be escaped differently.
        let own = names.len().saturating_sub(name.split('/').count());
        let own = names[own..].join(&b'/');
        let name = if name == "." { b".".to_vec() } else { self.escape.bytes(&own) };
        let width = if self.human == Human(0) { 11 } else { 14 };
        let link = match &entry.kind {
            Kind::Symlink { target } if self.shows_links => {
                [b" -> ", &self.escape.bytes(target)[..]].concat()
            }
            _ => Vec::new(),
        };
        let size = match &entry.kind {
            Kind::File { size } => *size,
            Kind::Directory | Kind::Symlink { .. } => size,
            _ => 0,
        };
        let facts = format!(
            "{} {:>width$} {} {}",
            kind_and_permissions(entry),
            self.human.number(size),
            shown_time(entry.mtime.seconds),
            if self.shows_atimes { accessed(entry) } else { String::new() },
        );
        [facts.as_bytes(), &name, &link].concat()
    }

    /// The name of a listed entry, without the part in front of its source's own name.
    fn listed_name<'a>(&self, path: &'a str) -> &'a str {
        if path == "." || path.ends_with("/.") {
            return ".";
        }
        if let Some((_, below)) = path.rsplit_once("/./") {
            return below;
        }
        let path = path.strip_prefix("./").unwrap_or(path);
        let named = self.named(path);
        let pattern = self.sources.iter().find(|source| source.contains(['*', '?', '[']));
        // Wildcards match no slash, so the name begins after as many slashes as the pattern has.
        let slashes = pattern.map_or(0, |pattern| pattern.matches('/').count());
        let start = path.match_indices('/').nth(slashes.wrapping_sub(1)).map_or(0, |(at, _)| at + 1);
        if named.len() == path.len() { &path[start..] } else { named }
    }
}

/// The column with the time of the last access, which directories don't have.
fn accessed(entry: &Entry) -> String {
    let time = shown_time(entry.atime.seconds);
    let shown = if entry.kind == Kind::Directory { "" } else { &time };
    format!("{shown:width$} ", width = time.len())
}

/// An entry's kind and permissions, as ls(1) prints them.
fn kind_and_permissions(entry: &Entry) -> String {
    let kind = match entry.kind {
        Kind::Directory => 'd',
        Kind::Symlink { .. } => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::Device { block: true, .. } => 'b',
        Kind::Device { .. } => 'c',
        Kind::File { .. } | Kind::HardLink { .. } => '-',
    };
    format!("{kind}{}", permissions(entry.mode))
}
