//! Lists the entries below a directory, and compares two directories.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The entries below a directory, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(Vec<(PathBuf, Kind)>);

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file of this number of bytes.
    File(u64),
    /// A symbolic link with its target.
    Link(PathBuf),
    /// Any other kind: a device, a socket, a pipe.
    Other,
}

impl Tree {
    /// Lists the entries below `root`. Links aren't followed.
    ///
    /// # Errors
    /// The first error of listing, with the path.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut entries = Vec::new();
        let mut waiting = vec![PathBuf::new()];
        while let Some(dir) = waiting.pop() {
            // Joining an empty path would append a slash to the directory's name.
            let place = if dir.as_os_str().is_empty() { root.to_owned() } else { root.join(&dir) };
            let listed = fs::read_dir(&place).map_err(|e| at(&place, &e))?;
            for entry in listed {
                let entry = entry?;
                let path = dir.join(entry.file_name());
                let kind = kind(&entry).map_err(|e| at(&entry.path(), &e))?;
                if kind == Kind::Directory {
                    waiting.push(path.clone());
                }
                entries.push((path, kind));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Tree(entries))
    }

    /// The entries, sorted by path.
    pub fn entries(&self) -> &[(PathBuf, Kind)] {
        &self.0
    }

    /// The number of regular files.
    pub fn files(&self) -> u64 {
        self.sizes().count() as u64
    }

    /// The number of bytes in regular files.
    pub fn bytes(&self) -> u64 {
        self.sizes().sum()
    }

    /// Compares the entries of this tree, which are below `here`, with the entries below `there`. Returns a
    /// message about the first difference in names, kinds, sizes or contents; `None` if there is no
    /// difference.
    ///
    /// # Errors
    /// If a file in either directory can't be read.
    pub fn difference(&self, here: &Path, there: &Path) -> io::Result<Option<String>> {
        let other = match Tree::read(there) {
            Ok(other) => other,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(format!("{} is missing", there.display())));
            }
            Err(e) => return Err(e),
        };
        if let Some(listed) = self.listed_difference(&other) {
            return Ok(Some(listed));
        }
        let (mut a, mut b) = (vec![0; 1 << 18], vec![0; 1 << 18]);
        for (path, kind) in &self.0 {
            let same = !matches!(kind, Kind::File(_))
                || same_bytes(&here.join(path), &there.join(path), &mut a, &mut b)?;
            if !same {
                return Ok(Some(format!("{} differs in its contents", path.display())));
            }
        }
        Ok(None)
    }

    fn listed_difference(&self, other: &Tree) -> Option<String> {
        let (mine, theirs) = (&self.0, &other.0);
        let first = mine.iter().zip(theirs).find(|(a, b)| a != b);
        match first {
            Some((a, b)) if a.0 == b.0 => Some(format!("{} is {:?}, not {:?}", a.0.display(), b.1, a.1)),
            Some((a, b)) if a.0 < b.0 => Some(format!("{} is missing", a.0.display())),
            Some((_, b)) => Some(format!("{} is unexpected", b.0.display())),
            None if mine.len() > theirs.len() => {
                Some(format!("{} is missing", mine[theirs.len()].0.display()))
            }
            None if mine.len() < theirs.len() => {
                Some(format!("{} is unexpected", theirs[mine.len()].0.display()))
            }
            None => None,
        }
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().filter_map(|(_, kind)| match kind {
            Kind::File(size) => Some(*size),
            _ => None,
        })
    }
}

fn kind(entry: &fs::DirEntry) -> io::Result<Kind> {
    let file_type = entry.file_type()?;
    Ok(match () {
        () if file_type.is_dir() => Kind::Directory,
        () if file_type.is_file() => Kind::File(entry.metadata()?.len()),
        () if file_type.is_symlink() => Kind::Link(fs::read_link(entry.path())?),
        () => Kind::Other,
    })
}

fn same_bytes(a: &Path, b: &Path, one: &mut [u8], two: &mut [u8]) -> io::Result<bool> {
    let open = |path: &Path| File::open(path).map_err(|e| at(path, &e));
    let (mut left, mut right) = (open(a)?, open(b)?);
    loop {
        let n = read_full(&mut left, one).map_err(|e| at(a, &e))?;
        let m = read_full(&mut right, two).map_err(|e| at(b, &e))?;
        if one[..n] != two[..m] {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the file ends. A single read may return fewer bytes.
fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

fn at(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn sample(dir: &Path) {
        fs::create_dir_all(dir.join("d/empty")).unwrap();
        fs::write(dir.join("a"), b"hello").unwrap();
        fs::write(dir.join("d/b"), vec![7; 600_000]).unwrap();
        symlink("a", dir.join("l")).unwrap();
    }

    #[test]
    fn finds_every_kind_of_difference() {
        let dir = tempfile::tempdir().unwrap();
        let (x, y) = (dir.path().join("x"), dir.path().join("y"));
        sample(&x);
        let tree = Tree::read(&x).unwrap();
        assert_eq!((tree.files(), tree.bytes(), tree.entries().len()), (2, 600_005, 5));
        type Change = fn(&Path);
        let changes: [(Change, &str); 8] = [
            (|_| {}, ""),
            (|y| fs::write(y.join("a"), b"hellO").unwrap(), "a differs in its contents"),
            (|y| fs::write(y.join("a"), b"hell").unwrap(), "a is File(4), not File(5)"),
            (|y| fs::remove_file(y.join("a")).unwrap(), "a is missing"),
            (|y| fs::remove_file(y.join("l")).unwrap(), "l is missing"),
            (|y| fs::write(y.join("z"), b"").unwrap(), "z is unexpected"),
            (|y| fs::write(y.join("0"), b"").unwrap(), "0 is unexpected"),
            (|y| fs::remove_dir_all(y).unwrap(), "is missing"),
        ];
        for (change, expected) in changes {
            let _ = fs::remove_dir_all(&y);
            sample(&y);
            change(&y);
            let difference = tree.difference(&x, &y).unwrap().unwrap_or_default();
            assert!(
                difference.contains(expected) && difference.is_empty() == expected.is_empty(),
                "{difference}"
            );
        }
    }

    #[test]
    fn a_change_beyond_the_first_buffer_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (x, y) = (dir.path().join("x"), dir.path().join("y"));
        sample(&x);
        sample(&y);
        let mut bytes = vec![7; 600_000];
        bytes[599_999] = 8;
        fs::write(y.join("d/b"), bytes).unwrap();
        let difference = Tree::read(&x).unwrap().difference(&x, &y).unwrap();
        assert_eq!(difference.as_deref(), Some("d/b differs in its contents"));
    }
}
