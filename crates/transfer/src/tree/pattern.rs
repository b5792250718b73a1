//! Expands the names of sources at the far end, which no shell has expanded: `~`, and patterns.

use linerate_wire::control::{Problem, ProblemKind};
use linerate_wire::filter::MAX_PATTERN;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::base::problem::problem;
use crate::tree::bounds::Named;
use crate::tree::filter::Pattern;
use crate::tree::source_root::own_name;

/// The most patterns to which a pattern with braces may expand.
const MOST_ALTERNATIVES: usize = 256;

/// The name that the source `written` gets below a destination directory. `far` states that it is a path at
/// the far end.
pub fn name_of(written: &[u8], far: bool) -> Vec<u8> {
    let is_home = far && written.strip_prefix(b"~").is_some_and(|rest| rest.iter().all(|&b| b == b'/'));
    if is_home { Vec::new() } else { own_name(Path::new(OsStr::from_bytes(written))) }
}

/// Replaces `~` and `~/...` by the login directory.
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

/// The paths to which `named` expands at the far end: `named` itself if it exists or contains no pattern,
/// else all matches.
///
/// # Errors
/// If a pattern matches nothing.
pub fn expand(named: Named) -> Result<Vec<Named>, Problem> {
    let path = named.path();
    if !is_pattern(path) || named.exists(path) {
        return Ok(vec![named]);
    }
    let start = if path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
    let mut found = vec![start];
    for component in path.split(|&b| b == b'/').filter(|component| !component.is_empty()) {
        found = found.iter().flat_map(|directory| step(&named, directory, component)).collect();
    }
    if found.is_empty() {
        let why = "there is no source with this name, and as a pattern it matches no file";
        return Err(problem(OsStr::from_bytes(&named.written), ProblemKind::Failed, why));
    }
    found.sort();
    if !path.ends_with(b"/") {
        found.iter_mut().for_each(|path| without_slash(&named, path));
    }
    Ok(found.into_iter().map(|path| named.matched(path)).collect())
}

/// True if the single path component `name` matches `pattern`. A name that begins with a dot matches only if
/// the pattern begins with a dot too. A text without a wildcard isn't a pattern, and matches no name.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    Alternatives::new(pattern).match_any(name)
}

/// A pattern for one path component, with all alternatives of its braces, ready to match names.
struct Alternatives(Vec<(Pattern, bool)>);

impl Alternatives {
    /// Reads `written`, and the patterns to which its braces expand; empty if it isn't a pattern, or is too long.
    fn new(written: &[u8]) -> Self {
        // If a text has braces or backslashes but no wildcard, it isn't a pattern: it names the file with
        // exactly this name.
        if !is_pattern(written) || written.len() > MAX_PATTERN {
            return Self(Vec::new());
        }
        let ready = |pattern: &Vec<u8>| (Pattern::new(pattern), pattern.starts_with(b"."));
        Self(alternatives(written).iter().map(ready).collect())
    }

    fn match_any(&self, name: &[u8]) -> bool {
        let is_hidden = name.starts_with(b".");
        self.0.iter().any(|(pattern, has_dot)| (!is_hidden || *has_dot) && pattern.matches(name, false))
    }
}

/// The patterns to which the braces of `written` expand, as in a shell: `*.{c,h}` becomes `*.c` and `*.h`.
/// Braces that aren't closed or contain no comma are literal. If there would be too many patterns, all braces
/// are literal.
fn alternatives(written: &[u8]) -> Vec<Vec<u8>> {
    let (mut done, mut open) = (Vec::new(), vec![written.to_vec()]);
    while let Some(pattern) = open.pop() {
        match braces(&pattern) {
            Some(signs) => {
                let (begin, end) = (signs[0], signs[signs.len() - 1]);
                let parts = signs.windows(2).map(|pair| &pattern[pair[0] + 1..pair[1]]);
                open.extend(parts.map(|part| [&pattern[..begin], part, &pattern[end + 1..]].concat()));
            }
            None => done.push(pattern),
        }
        if done.len() + open.len() > MOST_ALTERNATIVES {
            return vec![written.to_vec()];
        }
    }
    done
}

/// The positions of the opening brace, the commas and the closing brace of the first braces that contain a
/// comma.
fn braces(pattern: &[u8]) -> Option<Vec<usize>> {
    let (mut open, mut first) = (Vec::<Vec<usize>>::new(), None::<Vec<usize>>);
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            // A backslash makes the next byte literal.
            b'\\' => at += 1,
            b'{' => open.push(vec![at]),
            b',' => open.last_mut().into_iter().for_each(|signs| signs.push(at)),
            b'}' => {
                let closed = open.pop().filter(|signs| signs.len() > 1);
                let closed = closed.map(|signs| [signs, vec![at]].concat());
                first = first.into_iter().chain(closed).min_by_key(|signs| signs[0]);
            }
            _ => {}
        }
        at += 1;
    }
    first
}

fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[".contains(byte))
}

/// The paths below `directory` (which ends in a slash or is empty) that match one component of a pattern.
fn step(within: &Named, directory: &[u8], component: &[u8]) -> Vec<Vec<u8>> {
    // Only a directory can contain matches.
    if !directory.is_empty() && !directory.ends_with(b"/") {
        return Vec::new();
    }
    let path = |name: &[u8]| with_slash(within, [directory, name].concat());
    if !is_pattern(component) {
        let exists = within.exists(&[directory, component].concat());
        return if exists { vec![path(component)] } else { Vec::new() };
    }
    // A directory that can't be listed has no matches, as in a shell.
    let (names, wanted) = (within.list(directory), Alternatives::new(component));
    names.iter().filter(|name| wanted.match_any(name)).map(|name| path(name)).collect()
}

/// Appends a slash to a directory, so that the next component can follow.
fn with_slash(within: &Named, mut path: Vec<u8>) -> Vec<u8> {
    if within.is_directory(&path) {
        path.push(b'/');
    }
    path
}

/// Removes the slash after a link: if a pattern matches a link to a directory, the result is the link itself.
fn without_slash(within: &Named, path: &mut Vec<u8>) {
    if let Some(link) = path.strip_suffix(b"/")
        && within.is_link(link)
    {
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::bounds::Bounds;
    use std::fs;

    #[test]
    fn patterns_name_what_is_there() {
        let top = tempfile::tempdir().unwrap();
        for name in [&b"a1"[..], b"a2", b"b", b"[x]*", b".hidden", b"a\xff"] {
            fs::write(top.path().join(OsStr::from_bytes(name)), "").unwrap();
        }
        fs::create_dir(top.path().join("dir")).unwrap();
        fs::write(top.path().join("dir/a3"), "").unwrap();
        let named =
            |name: &str| Bounds::anywhere().name(top.path().join(name).as_os_str().as_bytes()).unwrap();
        let count = |name: &str| expand(named(name)).map_or(0, |found| found.len());
        assert_eq!(count("a*"), 3, "with one name that is no text");
        assert_eq!(count("*"), 6, "hidden names are left out");
        assert_eq!(count(".h*"), 1);
        assert_eq!(count("d*/a?"), 1);
        assert_eq!(count("[x]*"), 1, "a name that exists is no pattern");
        assert_eq!(count("c*"), 0);
    }

    #[test]
    fn braces_are_alternatives() {
        for name in [&b"a.c"[..], b"a.h", b"b.tar.gz", b"b.tar.xz"] {
            assert!(matches(b"*.{c,h,tar.{g,x}z}", name), "{name:?}");
        }
        assert!(!matches(b"*.{c,h}", b"a.o") && !matches(b"*.{c,h}", b".c"));
        assert!(matches(b"*{}", b"x{}") && matches(b"*\\{a,b\\}", b"x{a,b}") && matches(b"*{a,b", b"x{a,b"));
        assert!(!matches("*{a,b}".repeat(20).as_bytes(), b"a"), "a million patterns");
    }

    #[test]
    fn a_pattern_without_end_matches_nothing() {
        assert!(
            !matches(&[b'?'; 5000], b"abc") && !matches(&[b"*".as_slice(), &[b'?'; 5000]].concat(), b"abc")
        );
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
