//! A source or destination as scp reads it: a path, `[USER@]HOST:PATH`, or `scp://[USER@]HOST[:PORT][/PATH]`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use linerate_wire::path::printable;

use super::table::port;
use crate::common::spec::Spec;

/// A source or the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// The word in linerate's notation: a path, or `HOST:PATH`.
    pub written: OsString,
    /// The host, which may have a user before it; `None` for this host.
    pub host: Option<OsString>,
    /// The port, which only a URI can contain.
    pub port: Option<u16>,
    /// The path on the host.
    pub path: Vec<u8>,
}

impl SourcePlace {
    /// Reads one word.
    ///
    /// # Errors
    /// If it is a URI that scp doesn't take.
    pub fn parse(word: &OsStr) -> Result<Self, String> {
        if let Some(uri) = word.as_bytes().strip_prefix(b"scp://") {
            return of_uri(uri).ok_or_else(|| format!("{}: invalid uri", printable(word.as_bytes())));
        }
        let (host, path) = match Spec::parse(word) {
            Spec::Local(path) => (None, path.into_vec()),
            Spec::Remote(host, path) => (Some(host), path),
        };
        Ok(Self { written: word.to_owned(), host, port: None, path })
    }

    /// The same place without slashes at its end; the root directory keeps its slash.
    pub fn without_slash(mut self) -> Self {
        let end = self.path.iter().rposition(|byte| *byte != b'/').map_or(1, |at| at + 1);
        let mut written = self.written.into_vec();
        written.truncate(written.len() - (self.path.len() - end));
        self.path.truncate(end);
        self.written = OsString::from_vec(written);
        self
    }

    /// The contents of the directory at this place.
    pub fn contents(self) -> Self {
        let mut place = self.without_slash();
        let end: &[u8] = if place.path.ends_with(b"/") { b"." } else { b"/." };
        place.path.extend_from_slice(end);
        place.written = OsString::from_vec([place.written.as_bytes(), end].concat());
        place
    }

    /// Whether the path is a pattern of the far host.
    pub fn is_pattern(&self) -> bool {
        self.host.is_some() && self.path.iter().any(|byte| b"*?[".contains(byte))
    }

    /// The last name of the path.
    pub fn name(&self) -> &[u8] {
        let path = self.path.strip_suffix(b"/.").unwrap_or(&self.path);
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        path[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

fn of_uri(uri: &[u8]) -> Option<SourcePlace> {
    let (user, rest) = match split(uri, b'@') {
        Some((user, rest)) => (Some(split(user, b';').map_or(user, |(user, _)| user)), rest),
        None => (None, uri),
    };
    let user = match user {
        Some(user) => Some(decoded(user)?),
        None => None,
    };
    let (at, path) = split(rest, b'/').map_or((rest, &b""[..]), |found| found);
    let colon = at.iter().rposition(|byte| *byte == b':').filter(|colon| !at[*colon..].contains(&b']'));
    let (host, number) = colon.map_or((at, None), |colon| (&at[..colon], Some(&at[colon + 1..])));
    let port = number.map(port).transpose().ok()?;
    if host.is_empty() || user.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    let host = user.map_or_else(|| host.to_vec(), |user| [user.as_slice(), b"@", host].concat());
    let path = if path.is_empty() { b".".to_vec() } else { decoded(path)? };
    let written = OsString::from_vec([&host, &b":"[..], &path].concat());
    Some(SourcePlace { written, host: Some(OsString::from_vec(host)), port, path })
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let found = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..found], &bytes[found + 1..]))
}

/// Decodes `%2F` to a slash and `+` to a space, as OpenSSH's urldecode does.
fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::new(), bytes.iter());
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'%' => {
                let digits = [*rest.next()?, *rest.next()?];
                let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok().filter(|byte| *byte != 0)?
            }
            b'+' => b' ',
            other => *other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_as_scp_does() {
        for (uri, written, port) in [
            ("scp://h", "h:.", None),
            ("scp://h/", "h:.", None),
            ("scp://h/a/b", "h:a/b", None),
            ("scp://u@h:22//a%20b+c", "u@h:/a b c", Some(22)),
            ("scp://u;fingerprint=x@h/a", "u@h:a", None),
            ("scp://[fd00::1]:2222/a", "[fd00::1]:a", Some(2222)),
            ("scp://[fd00::1]/a", "[fd00::1]:a", None),
        ] {
            let place = SourcePlace::parse(OsStr::new(uri)).unwrap();
            assert_eq!((place.written.to_str().unwrap(), place.port), (written, port), "{uri}");
            assert!(place.host.is_some());
        }
        for wrong in ["scp://", "scp://@h/a", "scp://h:0/a", "scp://h:x/a", "scp://h/%0", "scp://h/%00"] {
            assert_eq!(SourcePlace::parse(OsStr::new(wrong)), Err(format!("{wrong}: invalid uri")));
        }
    }

    #[test]
    fn slashes_at_the_end_are_left_out() {
        for (word, plain) in [("a//", "a"), ("h:x/b/", "h:x/b"), ("h:/", "h:/"), ("/", "/"), ("//", "/")] {
            let place = SourcePlace::parse(OsStr::new(word)).unwrap().without_slash();
            assert_eq!(place.written, plain, "{word}");
            assert_eq!(SourcePlace::parse(&place.written).unwrap(), place);
            assert_eq!(place.clone().contents().name(), place.name());
        }
    }

    #[test]
    fn names_are_the_last_in_the_path() {
        for (word, name) in [("a", "a"), ("h:x/b//", "b"), ("b/.", "b"), ("h:", ""), ("/", "")] {
            assert_eq!(SourcePlace::parse(OsStr::new(word)).unwrap().name(), name.as_bytes(), "{word}");
        }
    }
}
