//! An argument that names a file or a directory, perhaps on another host: `HOST:PATH` as scp reads it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A source or destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// On this host.
    Local(OsString),
    /// On another: the host, perhaps with a user, and the path there as raw bytes.
    Remote(OsString, Vec<u8>),
}

impl Spec {
    /// Reads one argument. A colon before any slash separates the host, unless brackets hold it together.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(host: &str, path: &str) -> Spec {
        Spec::Remote(host.into(), path.into())
    }

    #[test]
    fn hosts_and_paths_are_told_apart_as_scp_does() {
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
}
