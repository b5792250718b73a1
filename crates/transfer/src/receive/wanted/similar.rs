//! `--fuzzy`: finds a file of a similar name in the same directory, which may be an older version of a new
//! file.

use linerate_wire::entry::{Entry, Kind};
use linerate_wire::path::RelPath;
use rustix::fs::{Dir, FileType};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use crate::tree::root::{Directory, Root};
use crate::tree::stamp::mtime;

/// Two names with a greater distance than this aren't similar.
const FAR: usize = 25;
/// The weight of an edit in a name's suffix; other edits have the weight 1.
const SUFFIX: usize = 10;
/// The most names in a directory that are examined. There is a limit because each of them is compared with the name of
/// each new file in the directory.
const MOST_NAMES: usize = 10_000;

/// The files in the directory that was searched last.
#[derive(Default)]
pub struct Similar {
    above: Option<RelPath>,
    files: Vec<SimilarFile>,
}

struct SimilarFile {
    parent: Arc<Directory>,
    name: OsString,
    size: u64,
    seconds: i64,
}

impl Similar {
    /// The file in the directory of `place`, below one of `roots`, that is most probably an older version of `entry`.
    /// Returns the directory's path, the directory, and the file's name in it.
    pub fn find(
        &mut self,
        roots: &[&Root],
        entry: &Entry,
        place: &RelPath,
    ) -> Option<(PathBuf, Arc<Directory>, OsString)> {
        let (above, name) = place.split()?;
        let Kind::File { size } = entry.kind else { return None };
        if self.above.as_ref() != Some(&above) {
            self.files = roots.iter().filter_map(|root| files(root, &above)).flatten().collect();
            self.above = Some(above.clone());
        }
        let same = |file: &&SimilarFile| file.size == size && file.seconds == entry.mtime.seconds;
        let nearest = || {
            let far = self.files.iter().map(|file| (apart(name, &file.name), file));
            far.filter(|(far, _)| *far <= FAR).min_by_key(|(far, _)| *far).map(|(_, file)| file)
        };
        let found = self.files.iter().find(same).or_else(nearest)?;
        let path = PathBuf::from(OsString::from_vec(above.as_bytes().to_vec()));
        Some((path, found.parent.clone(), found.name.clone()))
    }
}

/// The regular files in the directory `above`, except empty files and files with temporary names.
fn files(root: &Root, above: &RelPath) -> Option<Vec<SimilarFile>> {
    let parent = root.directory(above).ok()?;
    let listed = Dir::new(parent.for_sync().ok()?).ok()?.flatten().take(MOST_NAMES);
    let file = |name: OsString| {
        let stat = parent.stat(&name).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0;
        let (size, seconds) = (u64::try_from(stat.st_size).ok()?, mtime(&stat).seconds);
        is_file.then(|| SimilarFile { parent: parent.clone(), name, size, seconds })
    };
    let mut files: Vec<_> = listed
        .map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
        .filter(|name| !crate::tree::temporary::is_reserved(name))
        .filter_map(file)
        .collect();
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Some(files)
}

/// The distance of two names: the number of edits that turn one name into the other. Edits in the suffix
/// count more.
fn apart(one: &OsStr, other: &OsStr) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().abs_diff(other.len()) > FAR {
        return FAR + 1;
    }
    edits(one, other) + SUFFIX * edits(suffix(one), suffix(other))
}

fn edits(one: &[u8], other: &[u8]) -> usize {
    strsim::generic_levenshtein(&NameBytes(one), &NameBytes(other))
}

/// The suffix of a name: the part after its last dot. A dot at the beginning of the name doesn't count.
fn suffix(name: &[u8]) -> &[u8] {
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|at| *at > 0);
    dot.map_or(&[], |at| &name[at + 1..])
}

struct NameBytes<'a>(&'a [u8]);

impl<'b> IntoIterator for &'b NameBytes<'_> {
    type Item = &'b u8;
    type IntoIter = std::slice::Iter<'b, u8>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_another_version_of_it() {
        let apart = |one: &str, other: &str| apart(OsStr::new(one), OsStr::new(other));
        assert_eq!(apart("archive-v2.tar", "archive-v1.tar"), 1);
        assert!(apart("archive-v2.tar", "archive-old.tar") > 1);
        assert!(apart("archive-v2.tar", "archive-v2.txt") > apart("archive-v2.tar", "archive-old.tar"));
        assert!(apart("archive-v2.tar", "unrelated.dat") > FAR);
        assert_eq!(apart("a", &"a".repeat(100)), FAR + 1);
        assert_eq!(suffix(b".hidden"), b"");
    }
}
