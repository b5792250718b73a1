//! `--relative`: sources keep their paths, from `/./` on where they have that.

use linerate_transfer::filter::{FilesFrom, FilesFromError};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::common::spec::Spec;

/// The one directory that all sources are below, and their paths there.
///
/// # Errors
/// A message where they are below several, or a path goes up.
pub fn read(sources: &[OsString]) -> Result<(OsString, FilesFrom), String> {
    let mut tops = Vec::new();
    let mut paths = Vec::new();
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
        let (top, below) = split(&path);
        tops.push([host.as_slice(), top].concat());
        paths.push(below.to_vec());
    }
    tops.dedup();
    let [top] = tops.as_slice() else {
        return Err("-R with sources of several directories ('/./', '/' and '.') is not supported by linerate rsync: use one command for \
                    each"
            .into());
    };
    let listed = FilesFrom::parse(&paths.join(&0), true).map_err(|error| match error {
        FilesFromError::Path { shown, error, .. } => {
            format!(
                "-R {shown}: {error}; name paths below the working directory, or put '/./' where they begin"
            )
        }
        error => error.to_string(),
    })?;
    Ok((OsString::from_vec(top.clone()), listed))
}

/// The directory, and the path below it that is kept.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    if let Some(at) = path.windows(3).position(|three| three == b"/./") {
        return (if at == 0 { b"/" } else { &path[..at] }, &path[at + 3..]);
    }
    match path {
        [b'/', ..] => (b"/", path),
        [b'~', b'/', below @ ..] => (b"~", below),
        path => (b".", path),
    }
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
    fn there_is_one_top() {
        let read = |sources: &[&str]| read(&sources.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(read(&["h:a/b", "h:c"]).unwrap().0, "h:.");
        assert!(read(&["a/./b", "c"]).is_err() && read(&["../x"]).is_err() && read(&["h:x/*"]).is_err());
    }
}
