//! An argument that names a file or directory, which may be on another host: `HOST:PATH`, as in scp.

use linerate_transfer::lock::lock;
use linerate_wire::path::printable;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::Hash;
use std::io;
use std::net::Ipv6Addr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A source or a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// The path is on this host.
    Local(OsString),
    /// The path is on another host: the host, which may be preceded by a user, and the path as raw bytes.
    Remote(OsString, Vec<u8>),
}

impl Spec {
    /// Parses an argument. The first colon separates the host, if no slash precedes it. Colons inside
    /// brackets belong to the host.
    pub fn parse(text: &OsStr) -> Self {
        let bytes = text.as_bytes();
        match colon(bytes) {
            Some(at) if at > 0 => {
                Self::Remote(OsString::from_vec(bytes[..at].to_vec()), bytes[at + 1..].to_vec())
            }
            _ => Self::Local(text.to_owned()),
        }
    }
}

/// Returns an error if a place is empty. An unset shell variable results in an empty place, which would mean
/// the working directory; `--delete` could then clear it.
///
/// # Errors
/// A message that explains how to write the place.
pub fn check_places<'a>(places: impl IntoIterator<Item = &'a OsString>) -> Result<(), String> {
    let is_any_empty = places.into_iter().any(|place| place.is_empty());
    let message = "a source or destination is empty, perhaps because a variable isn't set; write '.' for the working directory";
    if is_any_empty { Err(message.to_owned()) } else { Ok(()) }
}

/// Returns an error for a place such as `HOST:` if `option` deletes entries there. The text `HOST:"$DIR"`
/// becomes `HOST:` if the variable isn't set, which would mean the login directory.
///
/// # Errors
/// A message that explains how to write the place.
pub fn check_paths<'a>(option: &str, places: impl IntoIterator<Item = &'a OsString>) -> Result<(), String> {
    let is_bare = |place: &&OsString| matches!(Spec::parse(place), Spec::Remote(_, path) if path.is_empty());
    let Some(place) = places.into_iter().find(is_bare) else { return Ok(()) };
    let shown = printable(place.as_bytes());
    Err(format!(
        "{option}: '{shown}' has no path, perhaps because a variable isn't set; write '{shown}.' for the home directory of that host"
    ))
}

/// Returns an error for a destination such as `:DIR`. The text `"$HOST:DIR"` becomes `:DIR` if the variable
/// isn't set, and the copy would stay on this host.
///
/// # Errors
/// A message that explains how to write the destination.
pub fn check_destination(place: &OsStr) -> Result<(), String> {
    if !place.as_bytes().starts_with(b":") {
        return Ok(());
    }
    let shown = printable(place.as_bytes());
    Err(format!("the host before the colon of '{shown}' is empty; write ./{shown} for a name on this host"))
}

/// Reads the places that `file` lists, one per line. Since a pipe can be read only once, later calls return
/// the same places without reading again.
///
/// # Errors
/// If the file can't be read.
pub fn listed(file: &Path) -> io::Result<Vec<OsString>> {
    static READ: Mutex<BTreeMap<PathBuf, Vec<OsString>>> = Mutex::new(BTreeMap::new());
    let mut read = lock(&READ);
    if let Some(places) = read.get(file) {
        return Ok(places.clone());
    }
    let text = std::fs::read(file)?;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let named = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let places: Vec<_> = named.map(|line| OsString::from_vec(line.to_vec())).collect();
    read.insert(file.to_owned(), places.clone());
    Ok(places)
}

/// Characters that can't be part of a host's name. ssh refuses all of them except the slash.
const NO_HOSTS: &str = "'`\"$\\;&<>|(){},/";

/// Parses the host in `word`: `[USER@]HOST`, an IPv6 address, or `HOST:PATH` as [`Spec`] reads it.
///
/// # Errors
/// A message if the word names no host.
pub fn host_of(word: &str) -> Result<OsString, String> {
    let bare = word.rsplit_once('@').map_or(word, |(_, host)| host);
    if is_ipv6(bare) {
        return check_host(word).map(|()| word.into());
    }
    if word.contains("://") {
        return Err(no_host(word, "write [USER@]HOST, not a URI"));
    }
    match Spec::parse(OsStr::new(word)) {
        Spec::Remote(host, _) => check_host(&host.to_string_lossy()).map(|()| host),
        Spec::Local(_) => check_host(word).map(|()| word.into()),
    }
}

/// Checks the name of a host, which may be preceded by a user, by the rules of ssh. An IPv6 address may have
/// brackets.
///
/// # Errors
/// A message if no host can have such a name.
pub fn check_host(word: &str) -> Result<(), String> {
    let (user, host) = word.rsplit_once('@').map_or((None, word), |(user, host)| (Some(user), host));
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || NO_HOSTS.contains(c);
    if inside.is_empty() || user.is_some_and(str::is_empty) {
        return Err(no_host(word, "the host's name, or the user before the @, is empty"));
    }
    if word.starts_with('-') || host.starts_with('-') {
        return Err(no_host(word, "ssh would take a name that begins with a dash for an option"));
    }
    if inside.contains('/') {
        return Err(no_host(word, "it is a path of this host"));
    }
    if inside.contains(is_odd) || user.is_some_and(|user| user.contains(char::is_control)) {
        return Err(no_host(
            word,
            "a host's name can't contain a blank or a character that shells interpret",
        ));
    }
    if inside.contains([':', '[', ']']) && !is_ipv6(inside) {
        return Err(no_host(word, "a name with a colon or brackets must be an IPv6 address"));
    }
    Ok(())
}

/// True for an IPv6 address, which may be followed by `%` and an interface.
fn is_ipv6(text: &str) -> bool {
    text.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

fn no_host(word: &str, why: &str) -> String {
    format!("'{}' isn't a host: {why}", printable(word.as_bytes()))
}

fn colon(bytes: &[u8]) -> Option<usize> {
    let mut inside = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'[' if at == 0 || bytes[at - 1] == b'@' => inside = true,
            b']' if inside => inside = false,
            b':' if !inside => return Some(at),
            b'/' => return None,
            _ => {}
        }
    }
    None
}

/// Removes repeated names: each host is asked once.
pub fn only_once<T: Clone + Eq + Hash>(names: &mut Vec<T>) {
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(host: &str, path: &str) -> Spec {
        Spec::Remote(host.into(), path.into())
    }

    #[test]
    fn hosts_and_paths_are_distinguished_as_by_scp() {
        for (text, spec) in [
            ("host:/a", remote("host", "/a")),
            ("u@host:", remote("u@host", "")),
            ("[::1]:a:b", remote("[::1]", "a:b")),
            ("u@[fd00::1]:~/x", remote("u@[fd00::1]", "~/x")),
            ("./a:b", Spec::Local("./a:b".into())),
            ("/a:b", Spec::Local("/a:b".into())),
            (":x", Spec::Local(":x".into())),
            ("plain", Spec::Local("plain".into())),
        ] {
            assert_eq!(Spec::parse(OsStr::new(text)), spec, "{text}");
        }
    }

    #[test]
    fn a_host_is_named_as_in_a_copy() {
        for (word, host) in [
            ("web1", "web1"),
            ("u@web1.example.org", "u@web1.example.org"),
            ("u@web1:dir/file", "u@web1"),
            ("web1:", "web1"),
            ("[web1]:dir", "[web1]"),
            ("fd00::1", "fd00::1"),
            ("u@::1", "u@::1"),
            ("fe80::1%eth0", "fe80::1%eth0"),
            ("[fd00::1]", "[fd00::1]"),
            ("[fd00::1]:dir", "[fd00::1]"),
            ("[fe80::1%eth0]:", "[fe80::1%eth0]"),
            ("DOMAIN\\some one@web1", "DOMAIN\\some one@web1"),
        ] {
            assert_eq!(host_of(word), Ok(host.into()), "{word}");
        }
        for (word, says) in [
            ("", "empty"),
            ("@", "empty"),
            ("u@", "empty"),
            ("@web1", "empty"),
            ("[]", "empty"),
            (":dir", "IPv6"),
            ("-oProxyCommand=x", "dash"),
            ("u@-x:dir", "dash"),
            ("-x@web1", "dash"),
            ("dir/file", "path of this host"),
            ("./a:b", "path of this host"),
            ("ssh://web1:22/dir", "URI"),
            ("scp://web1", "URI"),
            (" ", "blank"),
            ("web1\n", "'web1\\n' isn't a host"),
            ("u\u{7}@web1", "blank"),
            ("web1,web2", "blank"),
            ("$(id):x", "blank"),
            ("[::1", "IPv6"),
            ("::1::2", "IPv6"),
        ] {
            let error = host_of(word).unwrap_err();
            assert!(error.contains(says), "{word}: {error}");
        }
    }
}
