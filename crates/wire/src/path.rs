//! Relative paths that are exchanged with the other end.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// The longest name of one directory entry in bytes (`NAME_MAX`).
pub const MAX_NAME: usize = 255;
/// The longest relative path in bytes that an end accepts: twice the longest path that a system call accepts
/// (`PATH_MAX`).
pub const MAX_PATH: usize = 8 * 1024;
/// The most components of a path: half the number of components that the kernel resolves in one call. Real trees aren't
/// that deep.
pub const MAX_COMPONENTS: usize = 1024;

/// The reason why bytes aren't a valid path below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// The path begins with a slash.
    #[error("the path is absolute")]
    Absolute,
    /// A component is `.` or `..`.
    #[error("a component of the path is '.' or '..'")]
    Dots,
    /// Two slashes follow each other, or the path ends in a slash.
    #[error("a component of the path is empty")]
    EmptyComponent,
    /// The path contains a zero byte.
    #[error("the path has a zero byte")]
    Nul,
    /// A component is longer than [`MAX_NAME`], or the path is longer than [`MAX_PATH`].
    #[error("the path is too long")]
    TooLong,
    /// The path has more than [`MAX_COMPONENTS`] components.
    #[error("the path has more than {MAX_COMPONENTS} components")]
    TooDeep,
}

/// A path below a root: it has no leading slash, no zero byte, and no component that is empty, `.` or `..`. The empty
/// path is the root itself.
///
/// Each path is checked when it is made, also when it is decoded from the other end's bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// The empty path, which is the root itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Makes a path from `bytes` if they are valid.
    ///
    /// # Errors
    /// If a component is empty, `.`, `..` or too long; if the path is absolute, too long or too deep; or if a byte is
    /// zero.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, BadPath> {
        let bytes = bytes.into();
        check(&bytes)?;
        Ok(Self(bytes))
    }

    /// The path of the entry `name` in the directory at this path.
    ///
    /// # Errors
    /// The errors of [`RelPath::new`]; an error if `name` contains a slash.
    pub fn join(&self, name: &[u8]) -> Result<Self, BadPath> {
        if name.contains(&b'/') {
            return Err(BadPath::EmptyComponent);
        }
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        check(name)?;
        if name.is_empty() {
            return Err(BadPath::EmptyComponent);
        }
        check_size(&bytes)?;
        Ok(Self(bytes))
    }

    /// True if the path stays valid after a name of any permitted length is put in front of it. At the destination, the
    /// name of a source may be put in front of the paths of its entries.
    pub fn fits_below_a_name(&self) -> bool {
        let length = self.0.len();
        length < MAX_COMPONENTS || slashes(&self.0) + 1 < MAX_COMPONENTS && length + 1 + MAX_NAME <= MAX_PATH
    }

    /// True for the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path's parent directory, and its last component; `None` for the root itself.
    pub fn split(&self) -> Option<(RelPath, &OsStr)> {
        if self.is_root() {
            return None;
        }
        let (parent, name) = self.cut();
        Some((Self(parent.to_vec()), OsStr::from_bytes(name)))
    }

    /// The path's parent directory; `None` for the root itself.
    pub fn parent(&self) -> Option<RelPath> {
        (!self.is_root()).then(|| Self(self.cut().0.to_vec()))
    }

    /// The directories above the path: the nearest first, the root last.
    pub fn ancestors(&self) -> impl Iterator<Item = RelPath> + use<> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// The path's last component; `None` for the root itself.
    pub fn name(&self) -> Option<&OsStr> {
        (!self.is_root()).then(|| OsStr::from_bytes(self.cut().1))
    }

    /// True if the path is that of an entry directly in `directory`.
    pub fn is_in(&self, directory: &Self) -> bool {
        !self.is_root() && self.cut().0 == directory.0
    }

    fn cut(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|&b| b == b'/') {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (&self.0[..0], &self.0[..]),
        }
    }

    /// The path's components in order.
    pub fn components(&self) -> impl Iterator<Item = &OsStr> {
        self.0.split(|&b| b == b'/').filter(|c| !c.is_empty()).map(OsStr::from_bytes)
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path in the form that file system calls take.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl TryFrom<Vec<u8>> for RelPath {
    type Error = BadPath;

    fn try_from(bytes: Vec<u8>) -> Result<Self, BadPath> {
        Self::new(bytes)
    }
}

impl From<RelPath> for Vec<u8> {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

/// A path is serialized as a sequence of bytes.
impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(Checked)
    }
}

struct Checked;

impl<'de> Visitor<'de> for Checked {
    type Value = RelPath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a path below a root")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<RelPath, E> {
        RelPath::new(bytes).map_err(E::custom)
    }

    /// Decodes a path from a format that has no byte strings.
    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<RelPath, A::Error> {
        let mut path = Vec::new();
        while let Some(byte) = bytes.next_element()? {
            path.push(byte);
        }
        RelPath::new(path).map_err(A::Error::custom)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

fn check(bytes: &[u8]) -> Result<(), BadPath> {
    if bytes.is_empty() {
        return Ok(());
    }
    if bytes[0] == b'/' {
        return Err(BadPath::Absolute);
    }
    if bytes.contains(&0) {
        return Err(BadPath::Nul);
    }
    check_size(bytes)?;
    bytes.split(|&b| b == b'/').try_for_each(check_component)
}

fn check_size(bytes: &[u8]) -> Result<(), BadPath> {
    if bytes.len() > MAX_PATH {
        return Err(BadPath::TooLong);
    }
    // Nearly all paths are too short to have more than the permitted components, so counting is rarely necessary.
    let is_deep = bytes.len() > MAX_COMPONENTS && slashes(bytes) >= MAX_COMPONENTS;
    if is_deep { Err(BadPath::TooDeep) } else { Ok(()) }
}

fn slashes(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b == b'/').count()
}

fn check_component(name: &[u8]) -> Result<(), BadPath> {
    match name {
        b"" => Err(BadPath::EmptyComponent),
        b"." | b".." => Err(BadPath::Dots),
        name if name.len() > MAX_NAME => Err(BadPath::TooLong),
        _ => Ok(()),
    }
}

/// Converts foreign bytes to text that is safe to print on a terminal: control characters and invalid UTF-8
/// are escaped.
pub fn printable(bytes: &[u8]) -> String {
    escaped(bytes, |_| false)
}

/// Converts a path to text as [`printable`] does, and escapes backslashes too, so that two different paths
/// never have the same text.
pub fn printable_path(bytes: &[u8]) -> String {
    escaped(bytes, |c| c == '\\')
}

fn escaped(bytes: &[u8], also: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_unprintable(c) || also(c) { text.extend(c.escape_default()) } else { text.push(c) }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// True for characters that [`printable`] escapes.
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || is_format(c)
}

/// True for characters that reorder, hide or break text on a terminal although they aren't control characters.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ancestors_lead_to_the_root() {
        let path = RelPath::new("a/b/c").unwrap();
        let above: Vec<_> = path.ancestors().collect();
        assert_eq!(above, ["a/b", "a", ""].map(|path| RelPath::new(path).unwrap()));
        assert_eq!(path.parent().as_ref(), above.first());
        assert_eq!(RelPath::root().ancestors().count(), 0);
    }

    #[test]
    fn paths_that_leave_the_root_are_refused() {
        for (bytes, why) in [
            (&b"/etc"[..], BadPath::Absolute),
            (b"..", BadPath::Dots),
            (b"a/../b", BadPath::Dots),
            (b"a/./b", BadPath::Dots),
            (b"a//b", BadPath::EmptyComponent),
            (b"a/", BadPath::EmptyComponent),
            (b"a\0b", BadPath::Nul),
            (&[b'x'; 256], BadPath::TooLong),
        ] {
            assert_eq!(RelPath::new(bytes), Err(why), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_path_is_only_so_deep() {
        let deepest = RelPath::new(vec!["a"; MAX_COMPONENTS].join("/")).unwrap();
        assert_eq!(deepest.join(b"a"), Err(BadPath::TooDeep));
        let (above, _) = deepest.split().unwrap();
        assert!(above.fits_below_a_name() && !deepest.fits_below_a_name());
        let long = RelPath::new(vec!["a".repeat(MAX_NAME); MAX_PATH / (MAX_NAME + 1)].join("/")).unwrap();
        assert!(!long.fits_below_a_name() && long.split().unwrap().0.fits_below_a_name());
        assert_eq!(RelPath::new(vec!["a"; MAX_COMPONENTS + 1].join("/")), Err(BadPath::TooDeep));
    }

    #[test]
    fn a_name_with_a_slash_does_not_join() {
        assert!(RelPath::root().join(b"a/b").is_err());
        assert!(RelPath::root().join(b"").is_err());
        assert_eq!(RelPath::root().join(b"a").unwrap().join(b"b").unwrap().as_bytes(), b"a/b");
    }

    #[test]
    fn split_undoes_join() {
        let path = RelPath::new(&b"a/b/c"[..]).unwrap();
        let (parent, name) = path.split().unwrap();
        assert_eq!((parent.as_bytes(), name.as_bytes()), (&b"a/b"[..], &b"c"[..]));
        let (above, _) = parent.split().unwrap();
        assert!(RelPath::root().split().is_none() && RelPath::root().name().is_none());
        assert!(path.name() == Some(OsStr::new("c")) && path.is_in(&parent) && parent.is_in(&above));
        assert!(!path.is_in(&above) && !above.is_in(&path) && !RelPath::root().is_in(&RelPath::root()));
    }

    #[test]
    fn terminal_escapes_are_made_visible() {
        assert_eq!(printable(b"a\x1b[31mb\xff\n"), "a\\u{1b}[31mb\\xff\\n");
        assert_eq!(printable_path(b"\xff \\xff"), "\\xff \\\\xff");
        assert_eq!(printable("gr\u{fc}n \u{202e}x".as_bytes()), "gr\u{fc}n \\u{202e}x");
        assert_eq!(printable("\u{61c}\u{2028}\u{e0041}".as_bytes()), "\\u{61c}\\u{2028}\\u{e0041}");
    }

    proptest! {
        #[test]
        fn an_accepted_path_stays_below(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(path) = RelPath::new(bytes) {
                prop_assert!(!path.as_bytes().starts_with(b"/"));
                prop_assert!(path.components().all(|c| c != ".." && c != "." && c.len() <= MAX_NAME));
            }
        }

        #[test]
        fn decoding_checks_as_well(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let encoded = postcard::to_stdvec(&bytes).unwrap();
            let decoded: Result<RelPath, _> = postcard::from_bytes(&encoded);
            prop_assert_eq!(decoded.is_ok(), RelPath::new(bytes).is_ok());
        }
    }
}
