//! Names of sources at the far end, which no shell has seen: `~`, and patterns.

use globset::GlobBuilder;
use linerate_wire::control::{Problem, ProblemKind};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::problem::problem;
use crate::source::own_name;

/// A source as it was written, and the path that this means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As the user wrote it, or as a pattern found it.
    pub written: Vec<u8>,
    /// Where it is.
    pub path: Vec<u8>,
}

impl Named {
    /// A name that means itself.
    pub fn plain(written: &[u8]) -> Self {
        Self { written: written.to_vec(), path: written.to_vec() }
    }

    /// The name that it gets below a destination directory; none for the login directory.
    pub fn own_name(&self) -> Vec<u8> {
        name_of(&self.written, self.written != self.path)
    }
}

/// The name that `written` gets below a destination directory, where it is a name at the `far` end.
pub fn name_of(written: &[u8], far: bool) -> Vec<u8> {
    let is_home = far && written.strip_prefix(b"~").is_some_and(|rest| rest.iter().all(|&b| b == b'/'));
    if is_home { Vec::new() } else { own_name(Path::new(OsStr::from_bytes(written))) }
}

/// `~` and `~/...` as the login directory.
pub fn expand_home(written: &[u8]) -> Vec<u8> {
    let rest = match written {
        b"~" => &b""[..],
        [b'~', rest @ ..] if rest.starts_with(b"/") => rest,
        _ => return written.to_vec(),
    };
    match std::env::var_os("HOME") {
        Some(home) => [home.as_bytes(), rest].concat(),
        None => written.to_vec(),
    }
}

/// What `written` stands for at the far end: itself where that exists or holds no pattern, else every match.
///
/// # Errors
/// Where a pattern matches nothing.
pub fn expand(written: &[u8]) -> Result<Vec<Named>, Problem> {
    let path = expand_home(written);
    if !is_pattern(&path) || exists(&path) {
        return Ok(vec![Named { written: written.to_vec(), path }]);
    }
    let start = if path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
    let mut found = vec![start];
    for component in path.split(|&b| b == b'/').filter(|component| !component.is_empty()) {
        found = found.iter().flat_map(|directory| step(directory, component)).collect();
    }
    if found.is_empty() {
        let why = "no such source, and as a pattern it matches nothing";
        return Err(problem(OsStr::from_bytes(written), ProblemKind::Failed, why));
    }
    found.sort();
    Ok(found.iter().map(|path| Named::plain(path)).collect())
}

/// True where `name`, one component, matches `pattern`. A pattern finds a hidden name only where it begins with a
/// dot itself.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let hidden = name.starts_with(b".") && !pattern.starts_with(b".");
    let Ok(pattern) = std::str::from_utf8(pattern) else { return false };
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    !hidden
        && !name.is_empty()
        && glob.is_ok_and(|glob| glob.compile_matcher().is_match(OsStr::from_bytes(name)))
}

fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[".contains(byte))
}

fn exists(path: &[u8]) -> bool {
    Path::new(OsStr::from_bytes(path)).symlink_metadata().is_ok()
}

/// The paths below `directory`, which ends in a slash or is empty, that one component of a pattern leads to.
fn step(directory: &[u8], component: &[u8]) -> Vec<Vec<u8>> {
    let path = |name: &[u8]| [directory, name].concat();
    if !is_pattern(component) {
        return if exists(&path(component)) { vec![with_slash(path(component))] } else { Vec::new() };
    }
    let listed = if directory.is_empty() { b"." } else { directory };
    // A directory that can't be listed has no matches, as in a shell.
    let Ok(entries) = fs::read_dir(Path::new(OsStr::from_bytes(listed))) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name().into_vec());
    names.filter(|name| matches(component, name)).map(|name| with_slash(path(&name))).collect()
}

/// A directory gets a slash, so that the next component can follow.
fn with_slash(mut path: Vec<u8>) -> Vec<u8> {
    if Path::new(OsStr::from_bytes(&path)).is_dir() {
        path.push(b'/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_what_is_there() {
        let top = tempfile::tempdir().unwrap();
        for name in [&b"a1"[..], b"a2", b"b", b"[x]*", b".hidden", b"a\xff"] {
            fs::write(top.path().join(OsStr::from_bytes(name)), "").unwrap();
        }
        fs::create_dir(top.path().join("dir")).unwrap();
        fs::write(top.path().join("dir/a3"), "").unwrap();
        let count =
            |name: &str| expand(top.path().join(name).as_os_str().as_bytes()).map_or(0, |found| found.len());
        assert_eq!(count("a*"), 3, "with one name that is no text");
        assert_eq!(count("*"), 6, "hidden names are left out");
        assert_eq!(count(".h*"), 1);
        assert_eq!(count("d*/a?"), 1);
        assert_eq!(count("[x]*"), 1, "a name that exists is no pattern");
        assert_eq!(count("c*"), 0);
    }

    #[test]
    fn only_the_login_directory_has_no_name() {
        assert_eq!(name_of(b"~", true), b"");
        assert_eq!(name_of(b"~//", true), b"");
        assert_eq!(name_of(b"dir/~", true), b"~");
        assert_eq!(name_of(b"~", false), b"~");
        assert_eq!(name_of(b"~/x", true), b"x");
    }

    #[test]
    fn home_keeps_a_final_slash() {
        let home = std::env::var_os("HOME").unwrap_or_default();
        assert_eq!(expand_home(b"~/made/"), [home.as_bytes(), b"/made/"].concat());
        assert_eq!(expand_home(b"~other/x"), b"~other/x");
    }
}
