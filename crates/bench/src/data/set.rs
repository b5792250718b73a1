//! The data sets of an invocation. Each data set is generated when it is first requested.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use linerate_lab::is_on_tmpfs;

use super::tree::Tree;
use super::{generate, import, sizes, slices};
use crate::record;
use crate::spec::study::{DatasetSpec, Sizes};

/// Files on this host that cases move.
#[derive(Clone, Debug)]
pub struct DataSet {
    /// The directory that contains the files. Its last component is the name of the set.
    pub root: PathBuf,
    /// The entries below this directory.
    pub tree: Tree,
    /// The description of the set for the record.
    pub described: record::Dataset,
}

/// Generates data sets in a directory, and remembers them.
#[derive(Debug)]
pub struct Library {
    work: PathBuf,
    seed: u64,
    sets: BTreeMap<String, DataSet>,
    slices: BTreeMap<(String, u32), Vec<PathBuf>>,
}

/// The reason why a data set couldn't be generated.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// There isn't enough free space.
    #[error(
        "data set {name:?} needs {needed} bytes in {place} (for the files and for their copies), but only {free} are free; choose less data by --size"
    )]
    Space {
        /// The name of the data set.
        name: String,
        /// The directory in which it was to be generated.
        place: PathBuf,
        /// The number of bytes that are needed.
        needed: u64,
        /// The number of bytes that are free.
        free: u64,
    },
    /// A file couldn't be made or read.
    #[error("making data set {name:?} in {place}: {cause}")]
    Io {
        /// The name of the data set.
        name: String,
        /// The directory in which it was to be generated.
        place: PathBuf,
        /// The reason why the file couldn't be made or read.
        cause: io::Error,
    },
    /// The user's tree contains no bytes.
    #[error("--tree {0} has no files to move, or only empty files")]
    Empty(PathBuf),
    /// The end at which the set was to be generated reported this error.
    #[error("{0}")]
    Reported(String),
    /// The user's tree can't be read.
    #[error("reading --tree: {0}")]
    Tree(io::Error),
}

/// Lists the entries of a user's own tree. The tree must contain a file that isn't empty.
///
/// # Errors
/// If the tree can't be read, or holds no bytes.
pub fn read_own_tree(root: &Path) -> Result<Tree, DataError> {
    let tree = Tree::read(root).map_err(DataError::Tree)?;
    if tree.bytes() == 0 { Err(DataError::Empty(root.to_owned())) } else { Ok(tree) }
}

impl Library {
    /// A library below the existing directory `work`.
    pub fn new(work: &Path, seed: u64) -> Library {
        Library { work: work.join("data"), seed, sets: BTreeMap::new(), slices: BTreeMap::new() }
    }

    /// Generates a data set, or copies `tree` in its place. There must be space for the data twice.
    ///
    /// # Errors
    /// If there is too little space, or reading or writing fails.
    pub fn make(&mut self, spec: &DatasetSpec, tree: Option<&Path>) -> Result<&DataSet, DataError> {
        let root = self.work.join(&spec.name);
        let failed = |cause| DataError::Io { name: spec.name.clone(), place: self.work.clone(), cause };
        std::fs::create_dir_all(&self.work).map_err(failed)?;
        let origin = match tree {
            Some(tree) => self.import(spec, tree, &root)?,
            None => self.generate(spec, &root)?,
        };
        let failed = |cause| DataError::Io { name: spec.name.clone(), place: self.work.clone(), cause };
        let tree = Tree::read(&root).map_err(failed)?;
        let described =
            record::Dataset { name: spec.name.clone(), files: tree.files(), bytes: tree.bytes(), origin };
        Ok(self.sets.entry(spec.name.clone()).insert_entry(DataSet { root, tree, described }).into_mut())
    }

    /// The data set with this name, if it has been generated.
    pub fn get(&self, name: &str) -> Option<&DataSet> {
        self.sets.get(name)
    }

    /// The directories of a set's `n` slices; if `n` is 1, the directory of the set itself.
    ///
    /// # Errors
    /// If the set hasn't been generated, or linking fails.
    pub fn slices(&mut self, name: &str, n: u32) -> io::Result<Vec<PathBuf>> {
        let set = self
            .sets
            .get(name)
            .ok_or_else(|| io::Error::other(format!("data set {name:?} doesn't exist")))?;
        if n == 1 {
            return Ok(vec![set.root.clone()]);
        }
        let key = (name.to_owned(), n);
        if let Some(made) = self.slices.get(&key) {
            return Ok(made.clone());
        }
        let parent = self.work.join(format!(".{name}-in-{n}"));
        let made = slices::make(&set.root, &set.tree, &parent, n as usize)?;
        self.slices.insert(key, made.clone());
        Ok(made)
    }

    fn generate(&self, spec: &DatasetSpec, root: &Path) -> Result<String, DataError> {
        let (files, bytes) = sizes::planned(&spec.sizes);
        self.check_room(spec, files, bytes)?;
        let sizes = sizes::draw(&spec.sizes, self.seed);
        generate::files(root, &sizes, spec.per_directory, self.seed).map_err(|cause| DataError::Io {
            name: spec.name.clone(),
            place: self.work.clone(),
            cause,
        })?;
        Ok(origin(&spec.sizes, self.seed))
    }

    fn import(&self, spec: &DatasetSpec, from: &Path, root: &Path) -> Result<String, DataError> {
        let failed = |cause| DataError::Io { name: spec.name.clone(), place: from.to_owned(), cause };
        let tree = read_own_tree(from)?;
        self.check_room(spec, tree.files(), tree.bytes())?;
        let left_out = import::copy(from, &tree, root).map_err(failed)?;
        let without =
            if left_out > 0 { format!(", without {left_out} special files") } else { String::new() };
        Ok(format!("{}, copied to {}{without}", from.display(), self.work.display()))
    }

    fn check_room(&self, spec: &DatasetSpec, files: u64, bytes: u64) -> Result<(), DataError> {
        let failed = |cause: rustix::io::Errno| DataError::Io {
            name: spec.name.clone(),
            place: self.work.clone(),
            cause: cause.into(),
        };
        let fs = rustix::fs::statvfs(&self.work).map_err(failed)?;
        let free = fs.f_bavail.saturating_mul(fs.f_frsize).min(memory_for(&self.work));
        // Each file is rounded up to whole pages, and its inode takes about one more page.
        let needed = bytes.saturating_add(files.saturating_mul(8192)).saturating_mul(2);
        if needed <= free {
            return Ok(());
        }
        Err(DataError::Space { name: spec.name.clone(), place: self.work.clone(), needed, free })
    }
}

/// The bytes of available memory if `place` is on a tmpfs; otherwise no limit. Files on a tmpfs take memory,
/// and a tmpfs may report more free space than there is memory.
fn memory_for(place: &Path) -> u64 {
    if !is_on_tmpfs(place) {
        return u64::MAX;
    }
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}

fn origin(sizes: &Sizes, seed: u64) -> String {
    match sizes {
        Sizes::LogNormal { mean, sigma, .. } => {
            format!("generated, log-normal, mean {:.1} MB, sigma {sigma}, seed {seed}", *mean as f64 * 1e-6)
        }
        Sizes::Fixed { size, .. } => format!("generated, {size} bytes each, seed {seed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(total: u64) -> DatasetSpec {
        let sizes = Sizes::LogNormal { total, mean: 10_000, sigma: 1.0 };
        DatasetSpec { name: "tree".into(), sizes, per_directory: 100 }
    }

    #[test]
    fn makes_a_set_and_its_slices_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut library = Library::new(dir.path(), 5);
        let set = library.make(&spec(1_000_000), None).unwrap();
        assert_eq!((set.described.files, set.described.bytes), (100, 1_000_000));
        assert!(set.described.origin.contains("seed 5"));
        assert_eq!(library.slices("tree", 1).unwrap(), [dir.path().join("data/tree")]);
        let slices = library.slices("tree", 8).unwrap();
        assert_eq!(slices.len(), 8);
        assert_eq!(library.slices("tree", 8).unwrap(), slices);
        assert!(library.slices("none", 8).is_err());
    }

    #[test]
    fn takes_a_tree_of_the_users_own() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        std::fs::create_dir_all(own.join("d")).unwrap();
        let mut library = Library::new(dir.path(), 5);
        let error = library.make(&spec(1), Some(&own)).unwrap_err();
        assert!(matches!(error, DataError::Empty(_)), "{error}");
        let error = library.make(&spec(1), Some(&own.join("none"))).unwrap_err();
        assert!(matches!(error, DataError::Tree(_)) && error.to_string().contains("own/none"), "{error}");
        std::fs::write(own.join("d/f"), b"abc").unwrap();
        let set = library.make(&spec(1), Some(&own)).unwrap();
        assert_eq!((set.described.files, set.described.bytes), (1, 3));
        assert!(set.described.origin.starts_with(&own.display().to_string()));
        assert_eq!(set.tree.difference(&own, &set.root).unwrap(), None);
    }

    #[test]
    fn says_when_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let error = Library::new(dir.path(), 5).make(&spec(u64::MAX / 8), None).unwrap_err().to_string();
        assert!(error.contains("--size"), "{error}");
    }
}
