//! `--relative` and lists of files: named entries keep their paths, or the part after `/./`.

use linerate_transfer::filter::{FilesFrom, FilesFromError, names};
use linerate_wire::control::MAX_SOURCES;
use linerate_wire::filter::ListedPath;
use linerate_wire::path::RelPath;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::far_words::literal;
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
        let (top, path) = split(&path);
        let top = if host.is_empty() { top.to_vec() } else { literal_below_home(top) };
        below.name([host, top].concat(), path).map_err(|error| match error {
            FilesFromError::Path { shown, error, .. } => {
                format!("-R {shown}: {error}; put '/./' after the '..'")
            }
            error => error.to_string(),
        })?;
    }
    Ok(below)
}

/// The same source without `--relative`, if its path at the destination is a single name in any case. A single
/// file may then get the destination's own name.
pub fn without_path(source: &OsString) -> Option<OsString> {
    let (host, path) = match Spec::parse(source) {
        Spec::Local(path) => (Vec::new(), path.into_vec()),
        Spec::Remote(host, path) => ([host.as_bytes(), b":"].concat(), path),
    };
    let (top, name) = split(&path);
    let name = name.strip_prefix(b"/").unwrap_or(name);
    let is_name = !name.contains(&b'/') && !matches!(name, b"" | b"." | b"..");
    is_name.then(|| OsString::from_vec([host, joined(top, name)].concat()))
}

/// The form of a list of files.
#[derive(Clone, Copy)]
pub struct ListForm {
    /// Whether NUL bytes end the paths, and not line ends.
    pub nul: bool,
    /// Whether lines that begin with `#` or `;` are comments.
    pub comments: bool,
    /// Whether a path is kept whole, and not only its last name.
    pub relative: bool,
}

/// The list of files in `text`, below `source`.
///
/// # Errors
/// A message if a path is too long, or there are too many.
pub fn of_list(source: &OsString, text: &[u8], form: ListForm) -> Result<Below, String> {
    let mut below = Below::default();
    below.number(source.clone()).map_err(|error| error.to_string())?;
    for (number, line) in names(text, form.nul, form.comments) {
        let clamped = clamped(line);
        let (top, path) = if form.relative { split_relative(&clamped) } else { split_name(&clamped) };
        let slash: &[u8] = if top.is_empty() || source.as_bytes().ends_with(b"/") { b"" } else { b"/" };
        let top = [source.as_bytes(), slash, top].concat();
        below.name(top, path).map_err(|error| error.in_line(number).to_string())?;
    }
    Ok(below)
}

impl Below {
    /// The same paths without those that don't exist on this host.
    pub fn without_missing(self) -> Self {
        let is_there = |listed: &ListedPath| {
            let top = self.tops.get(listed.argument as usize);
            top.is_none_or(|top| fs::symlink_metadata(Path::new(top).join(listed.path.as_os_str())).is_ok())
        };
        let mut there = FilesFrom::default();
        // These paths were within the limits of the list before.
        self.listed.listed().filter(is_there).for_each(|listed| drop(there.add(listed)));
        Self { listed: there, ..self }
    }

    /// Whether no path is listed.
    pub fn is_empty(&self) -> bool {
        self.listed.listed().next().is_none()
    }

    /// The only path as a source, if it is a single name in its base directory, without a slash at its end.
    pub fn only_name(&self) -> Option<OsString> {
        let mut listed = self.listed.listed();
        let (Some(one), None) = (listed.next(), listed.next()) else { return None };
        let top = self.tops.get(one.argument as usize)?;
        let is_name = !one.contents && one.path.components().count() == 1;
        let (host, top) = match Spec::parse(top) {
            Spec::Local(path) => (Vec::new(), path.into_vec()),
            Spec::Remote(host, path) => ([host.as_bytes(), b":"].concat(), path),
        };
        let name = one.path.as_bytes();
        let name = if host.is_empty() { name.to_vec() } else { literal(name) };
        is_name.then(|| OsString::from_vec([host, joined(&top, &name)].concat()))
    }

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

/// A path in a directory; `.` is left out.
fn joined(top: &[u8], name: &[u8]) -> Vec<u8> {
    match top {
        b"" | b"." => name.to_vec(),
        [.., b'/'] => [top, name].concat(),
        _ => [top, b"/", name].concat(),
    }
}

/// A base directory at the far end, whose wildcards were expanded before; only a tilde at the beginning has a
/// meaning.
fn literal_below_home(top: &[u8]) -> Vec<u8> {
    let home = if top.starts_with(b"~") {
        top.iter().position(|byte| *byte == b'/').unwrap_or(top.len())
    } else {
        0
    };
    let (home, below) = top.split_at(home);
    [home, &literal(below)].concat()
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

    const LINES: ListForm = ListForm { nul: false, comments: true, relative: true };

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
        assert!(read(&["../x"]).is_err());
        assert_eq!(read(&["h:~/[x]/./y"]).unwrap().tops, ["h:~/\\[x\\]"]);
        assert_eq!(read(&["../y/./x"]).unwrap().tops, ["../y"]);
    }

    #[test]
    fn a_single_name_is_a_source_of_its_own() {
        let plain = |source: &str| without_path(&source.into()).map(|plain| plain.into_string().unwrap());
        for (source, wanted) in [
            ("/etc/./host", Some("/etc/host")),
            ("/etc", Some("/etc")),
            ("a", Some("a")),
            ("h:a/./*.c", Some("h:a/*.c")),
            ("h:~/x", Some("h:~/x")),
            ("h:/./x", Some("h:/x")),
            ("a/b", None),
            ("./a", None),
            ("a/./b/", None),
            ("a/./.", None),
            ("h:", None),
        ] {
            assert_eq!(plain(source).as_deref(), wanted, "{source}");
        }
        let only = |list: &str| of_list(&"h:s".into(), list.as_bytes(), LINES).unwrap().only_name();
        assert_eq!(only("[x]\n"), Some("h:s/\\[x\\]".into()));
        assert!(["a\nb\n", "a/b\n", "a/\n", ".\n", ""].iter().all(|list| only(list).is_none()));
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
        let below = of_list(&"s".into(), b"from/./a\n../b\n", LINES).unwrap();
        assert_eq!(below.tops, ["s", "s/from"]);
        let below = of_list(&"s/".into(), b"a/b/c\nd/\n", ListForm { relative: false, ..LINES }).unwrap();
        assert_eq!(below.tops, ["s/", "s/a/b", "s/d"]);
    }
}
