//! `--relative` and lists of files: named entries keep their paths, or the part after `/./`.

use linerate_transfer::filter::{FilesFrom, FilesFromError, names};
use linerate_wire::control::MAX_SOURCES;
use linerate_wire::filter::ListedPath;
use linerate_wire::path::RelPath;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::common::spec::Spec;

/// Base directories, and the paths below them that are sent.
#[derive(Default)]
pub struct Below {
    /// The base directories, which are used as sources.
    pub tops: Vec<OsString>,
    /// The paths below the base directories that are sent.
    pub listed: FilesFrom,
    numbers: HashMap<OsString, u32>,
    /// The index of the base directory of the first path that began with `./`.
    top: Option<u32>,
}

/// Sources with `--relative`.
///
/// # Errors
/// A message if a path goes up.
pub fn of_sources(sources: &[OsString]) -> Result<Below, String> {
    let mut below = Below::default();
    for source in sources {
        let (host, path) = match Spec::parse(source) {
            Spec::Local(path) => (Vec::new(), path.into_vec()),
            Spec::Remote(host, path) => ([host.as_bytes(), b":"].concat(), path),
        };
        if !host.is_empty() && path.iter().any(|byte| b"*?[".contains(byte)) {
            return Err(
                "-R with a pattern of the far end is not supported by linerate rsync: name the paths".into(),
            );
        }
        let (top, path) = split(&path);
        below.name([&host, top].concat(), path).map_err(|error| match error {
            FilesFromError::Path { shown, error, .. } => {
                format!("-R {shown}: {error}; put '/./' after the '..'")
            }
            error => error.to_string(),
        })?;
    }
    Ok(below)
}

/// The list of files in `text`, below `source`; if its paths are not `relative`, each keeps only its last name.
///
/// # Errors
/// A message if a path is too long, or there are too many.
pub fn of_list(source: &OsString, text: &[u8], nul: bool, relative: bool) -> Result<Below, String> {
    let mut below = Below::default();
    below.number(source.clone()).map_err(|error| error.to_string())?;
    for (number, line) in names(text, nul) {
        let clamped = clamped(line);
        let (top, path) = if relative { split_relative(&clamped) } else { split_name(&clamped) };
        let slash: &[u8] = if top.is_empty() || source.as_bytes().ends_with(b"/") { b"" } else { b"/" };
        let top = [source.as_bytes(), slash, top].concat();
        below.name(top, path).map_err(|error| error.in_line(number).to_string())?;
    }
    Ok(below)
}

impl Below {
    /// If `implies`, directories on the way to a path are sent too; then the base directory of the first path
    /// that began with `./` is sent as an entry itself.
    pub fn implying(mut self, implies: bool) -> Self {
        if let Some(argument) = self.top.filter(|_| implies) {
            // This adds one path beyond the counted limit; the other end checks the limit again.
            let _ = self.listed.add(ListedPath { path: RelPath::root(), contents: false, argument });
        }
        self
    }

    /// Adds `path` below the base directory `top`. If nothing follows `/./`, the path means the whole
    /// directory.
    fn name(&mut self, top: Vec<u8>, path: &[u8]) -> Result<(), FilesFromError> {
        let argument = self.number(OsString::from_vec(top))?;
        if path.len() > 2 && path.starts_with(b"./") {
            self.top = self.top.or(Some(argument));
        }
        self.listed.name(argument, path)
    }

    fn number(&mut self, top: OsString) -> Result<u32, FilesFromError> {
        if let Some(number) = self.numbers.get(&top) {
            return Ok(*number);
        }
        let number = u32::try_from(self.tops.len()).ok().filter(|number| (*number as usize) < MAX_SOURCES);
        let number = number.ok_or(FilesFromError::TooMany)?;
        self.numbers.insert(top.clone(), number);
        self.tops.push(top);
        Ok(number)
    }
}

/// Splits a path into the base directory and the part that is kept at the destination.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    if let Some((top, below)) = at_dot(path) {
        return (if top.is_empty() { b"/" } else { top }, below);
    }
    match path {
        [b'/', ..] => (b"/", path),
        [b'~', b'/', below @ ..] => (b"~", below),
        path => (b".", path),
    }
}

/// The directory below a source, empty for the source itself, and the path below it that is kept.
fn split_relative(path: &[u8]) -> (&[u8], &[u8]) {
    at_dot(path).unwrap_or((b"", path))
}

fn at_dot(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.windows(3).position(|three| three == b"/./")?;
    Some((&path[..at], &path[at + 3..]))
}

/// Splits a path into its directory and its last name.
fn split_name(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) if path.len() == at + 1 => (&path[..at], b"."),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Normalizes a path from a list so that it can't leave the base directory: `..` removes the preceding name,
/// if any.
fn clamped(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split_inclusive(|byte| *byte == b'/') {
        match part {
            b"/" => {}
            b".." | b"../" => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    kept.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_part_begins_behind_a_dot() {
        for (path, top, below) in [
            ("a/b", ".", "a/b"),
            ("/a/b", "/", "/a/b"),
            ("/a/./b/", "/a", "b/"),
            ("a/./b/c", "a", "b/c"),
            ("~/x", "~", "x"),
        ] {
            assert_eq!(split(path.as_bytes()), (top.as_bytes(), below.as_bytes()), "{path}");
        }
    }

    #[test]
    fn each_top_has_its_own_list() {
        let read = |sources: &[&str]| of_sources(&sources.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(read(&["h:a/b", "h:c"]).unwrap().tops, ["h:."]);
        let two = read(&["./a", "x/./c", "./b"]).unwrap().implying(true);
        assert_eq!(two.tops, [".", "x"]);
        let listed: Vec<_> = two.listed.listed().map(|listed| (listed.argument, listed.path)).collect();
        let wanted = [(0, ""), (0, "a"), (0, "b"), (1, "c")];
        assert_eq!(listed, wanted.map(|(argument, path)| (argument, RelPath::new(path).unwrap())));
        assert!(read(&["../x"]).is_err() && read(&["h:x/*"]).is_err());
        assert_eq!(read(&["../y/./x"]).unwrap().tops, ["../y"]);
    }

    #[test]
    fn a_list_goes_no_higher_than_its_source() {
        for (path, clamp) in [
            ("../keep", "keep"),
            ("/a//b/../c", "a/c"),
            ("a/../../..", ""),
            ("x/y/..", "x/"),
            ("./x", "./x"),
            ("a/./../b", "a/b"),
            ("..x", "..x"),
        ] {
            assert_eq!(clamped(path.as_bytes()), clamp.as_bytes(), "{path}");
        }
        let below = of_list(&"s".into(), b"from/./a\n../b\n", false, true).unwrap();
        assert_eq!(below.tops, ["s", "s/from"]);
        let below = of_list(&"s/".into(), b"a/b/c\nd/\n", false, false).unwrap();
        assert_eq!(below.tops, ["s/", "s/a/b", "s/d"]);
    }
}
