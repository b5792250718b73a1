//! Expands the names of sources at the far end, which no shell has expanded: `~`, and patterns.

use linerate_wire::control::{Problem, ProblemKind};
use linerate_wire::filter::MAX_PATTERN;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::base::problem::problem;
use crate::tree::bounds::Named;
use crate::tree::filter::Pattern;
use crate::tree::metadata::accounts::home_of;
use crate::tree::source_root::own_name;

/// The most patterns to which a pattern with braces may expand.
const MOST_ALTERNATIVES: usize = 256;

/// The name that the source `written` gets below a destination directory. `far` is true if `written` is a path at the
/// far end.
pub fn name_of(written: &[u8], far: bool) -> Vec<u8> {
    match user_of(written).filter(|(_, rest)| far && rest.iter().all(|&byte| byte == b'/')) {
        Some((b"", _)) => Vec::new(),
        _ => own_name(Path::new(OsStr::from_bytes(written))),
    }
}

/// The name that a home directory `~USER` has as a source; `None` for other paths.
pub fn name_of_home(written: &[u8]) -> Option<&[u8]> {
    let (user, rest) = user_of(written)?;
    (!user.is_empty() && rest.iter().all(|&byte| byte == b'/')).then_some(user)
}

/// Replaces `~` at the beginning by the login directory, and `~USER` by the home directory of that user. A
/// name that no user has stays as it is, as in a shell.
pub fn expand_home(written: &[u8]) -> Vec<u8> {
    let Some((user, rest)) = user_of(written) else { return written.to_vec() };
    let home = match std::str::from_utf8(user) {
        Ok("") => std::env::var_os("HOME"),
        Ok(user) => home_of(user).map(OsString::from),
        Err(_) => None,
    };
    home.map_or_else(|| written.to_vec(), |home| [home.as_bytes(), rest].concat())
}

/// Splits `~USER/REST` into the user's name, which may be empty, and `/REST`.
fn user_of(written: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = written.strip_prefix(b"~")?;
    Some(rest.split_at(rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len())))
}

/// The paths to which `named` expands at the far end: all matches if it is a pattern that matches anything,
/// as in a shell, else `named` itself.
///
/// # Errors
/// If `named` is a pattern that matches nothing, and no file has exactly this name.
pub fn expand(named: Named) -> Result<Vec<Named>, Problem> {
    let found = matching(&named);
    if !found.is_empty() {
        return Ok(found);
    }
    if !is_pattern(named.path()) || named.exists(named.path()) {
        return Ok(vec![named]);
    }
    let why = "as a pattern, this name matches no file, and no file has exactly this name";
    Err(problem(OsStr::from_bytes(&named.written), ProblemKind::Failed, why))
}

/// The destination that `named` means at the far end if it is read as a shell would read it: the first match if it is a
/// pattern that matches anything, else `named` without the backslashes that make characters literal.
pub fn expand_destination(named: Named) -> Named {
    if !is_pattern(named.path()) {
        return named;
    }
    let first = matching(&named).into_iter().next();
    first.unwrap_or_else(|| named.matched(without_escapes(named.path())))
}

/// The path that means only `path` itself: a backslash precedes each character that has a meaning in a pattern.
pub fn literal(path: &[u8]) -> Vec<u8> {
    let escaped = |component: &[u8]| {
        let is_special = |byte: &u8| is_pattern(component) && b"*?[]\\{}".contains(byte);
        let escaped =
            component.iter().map(|byte| if is_special(byte) { vec![b'\\', *byte] } else { vec![*byte] });
        escaped.collect::<Vec<_>>().concat()
    };
    path.split(|&byte| byte == b'/').map(escaped).collect::<Vec<_>>().join(&b'/')
}

/// The paths that match `named` as a pattern; none if it isn't one.
fn matching(named: &Named) -> Vec<Named> {
    let path = named.path();
    if !is_pattern(path) {
        return Vec::new();
    }
    let start = if path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
    let mut found = vec![start];
    for component in path.split(|&b| b == b'/').filter(|component| !component.is_empty()) {
        found = found.iter().flat_map(|directory| step(named, directory, component)).collect();
    }
    found.sort();
    if !path.ends_with(b"/") {
        found.iter_mut().for_each(|path| without_slash(named, path));
    }
    found.into_iter().map(|path| named.matched(path)).collect()
}

/// `path` without each backslash that makes the next byte of a pattern literal.
fn without_escapes(path: &[u8]) -> Vec<u8> {
    let plain = |component: &[u8]| {
        let (mut plain, mut rest) = (Vec::with_capacity(component.len()), component.iter());
        while let Some(byte) = rest.next() {
            plain.push(if *byte == b'\\' { *rest.next().unwrap_or(byte) } else { *byte });
        }
        plain
    };
    let components = path.split(|&byte| byte == b'/');
    let components = components.map(|one| if is_pattern(one) { plain(one) } else { one.to_vec() });
    components.collect::<Vec<_>>().join(&b'/')
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
        for name in [&b"a1"[..], b"a2", b"b", b"[x]*", b"[b]", b".hidden", b"a\xff"] {
            fs::write(top.path().join(OsStr::from_bytes(name)), "").unwrap();
        }
        fs::create_dir(top.path().join("dir")).unwrap();
        fs::write(top.path().join("dir/a3"), "").unwrap();
        let named =
            |name: &str| Bounds::anywhere().name(top.path().join(name).as_os_str().as_bytes()).unwrap();
        let count = |name: &str| expand(named(name)).map_or(0, |found| found.len());
        assert_eq!(count("a*"), 3, "with one name that is no text");
        assert_eq!(count("*"), 7, "hidden names are left out");
        assert_eq!(count(".h*"), 1);
        assert_eq!(count("d*/a?"), 1);
        let only = |name: &str| expand(named(name)).unwrap().pop().unwrap().own_name();
        assert_eq!((count("[x]*"), only("[x]*")), (1, b"[x]*".to_vec()), "matches nothing, but exists");
        assert_eq!(
            (count("[b]"), only("[b]")),
            (1, b"b".to_vec()),
            "what matches comes before the name itself"
        );
        assert_eq!((count("\\[b]"), only("\\[b]")), (1, b"[b]".to_vec()));
        assert_eq!(count("c*"), 0);
    }

    #[test]
    fn a_destination_is_the_first_match() {
        let top = tempfile::tempdir().unwrap();
        ["d1", "d2"].iter().for_each(|name| fs::create_dir(top.path().join(name)).unwrap());
        let expanded = |name: &str| {
            let named = Bounds::anywhere().name(top.path().join(name).as_os_str().as_bytes()).unwrap();
            OsStr::from_bytes(&expand_destination(named).own_name()).to_owned()
        };
        for (written, meant) in
            [("d?", "d1"), ("d[2]/", "d2"), ("x*", "x*"), ("x\\*", "x*"), ("x\\y*", "xy*"), ("x\\y", "x\\y")]
        {
            assert_eq!(expanded(written), meant, "{written}");
        }
        for path in [&b"d?"[..], b"a/x\\[y]{z}", b"a\\b/c", b"d1"] {
            assert_eq!(without_escapes(&literal(path)), path);
        }
        assert_eq!(expanded(std::str::from_utf8(&literal(b"d?")).unwrap()), "d?");
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
        assert_eq!((name_of_home(b"~root/"), name_of_home(b"~root/x")), (Some(&b"root"[..]), None));
        assert_eq!((name_of_home(b"~/"), name_of_home(b"x")), (None, None));
    }

    #[test]
    fn home_keeps_a_final_slash() {
        let home = std::env::var_os("HOME").unwrap_or_default();
        assert_eq!(expand_home(b"~/made/"), [home.as_bytes(), b"/made/"].concat());
        assert_eq!(expand_home(b"~root/x"), b"/root/x");
        assert_eq!(expand_home(b"~no such user/x"), b"~no such user/x");
    }
}
