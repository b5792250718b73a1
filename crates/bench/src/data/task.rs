//! Tasks on the files of one end. They are performed in this process or, on a host that doesn't share its
//! files with this one, by `linerate data`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use linerate_remote::binary::sha256;
use serde::{Deserialize, Serialize};

use super::set::Library;
use super::tree::{Kind, Tree};
use super::{Destination, slices};
use crate::record::Dataset;
use crate::spec::study::{DatasetSpec, Sizes};

/// A task on the files of one end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Generate a data set below `work`, or copy `tree` in its place.
    Make {
        /// The directory below which the set is generated.
        work: PathBuf,
        /// The seed for the sizes and contents.
        seed: u64,
        /// The data set to generate.
        shape: Shape,
        /// The user's own tree, if it replaces generated data.
        tree: Option<PathBuf>,
    },
    /// Divide a data set into slices.
    Slice {
        /// The directory below which the set was generated.
        work: PathBuf,
        /// The name of the set.
        name: String,
        /// The number of slices.
        number: u32,
    },
    /// Empty a directory, and make sure that memory for a number of bytes is available at once.
    Clear {
        /// The directory to empty.
        destination: PathBuf,
        /// The number of bytes for which memory is needed.
        bytes: u64,
    },
    /// Count the files and bytes below this directory.
    Count(PathBuf),
    /// Hash every file below this directory.
    Digest(PathBuf),
}

/// The result of a [`Task`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The data set that was generated.
    Made(Dataset),
    /// The directories of a data set's slices.
    Sliced(Vec<PathBuf>),
    /// The task succeeded and has no other result.
    Done,
    /// The numbers of files and bytes.
    Counted(u64, u64),
    /// For every entry, its path, and a description of its kind with the digest of its contents; sorted by path.
    Digest(Vec<(PathBuf, String)>),
    /// The task failed, for this reason.
    Failed(String),
}

/// The properties of a data set, in the form in which one end sends them to the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    name: String,
    per_directory: u64,
    sizes: ShapeSizes,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ShapeSizes {
    LogNormal { total: u64, mean: u64, sigma: f64 },
    Fixed { files: u64, size: u64 },
}

impl Task {
    /// Performs the task on this host.
    pub fn perform(&self) -> Answer {
        self.try_perform().unwrap_or_else(Answer::Failed)
    }

    fn try_perform(&self) -> Result<Answer, String> {
        let failed = |e: io::Error| e.to_string();
        match self {
            Task::Make { work, seed, shape, tree } => {
                let mut library = Library::new(work, *seed);
                let set = library.make(&shape.spec(), tree.as_deref()).map_err(|e| e.to_string())?;
                Ok(Answer::Made(set.described.clone()))
            }
            Task::Slice { work, name, number } => slice(work, name, *number).map_err(failed),
            Task::Clear { destination, bytes } => {
                Destination(destination.clone()).clear(*bytes).map_err(failed).map(|()| Answer::Done)
            }
            Task::Count(root) => {
                let tree = Tree::read(root).map_err(failed)?;
                Ok(Answer::Counted(tree.files(), tree.bytes()))
            }
            Task::Digest(root) => digest(root).map(Answer::Digest).map_err(failed),
        }
    }
}

impl Answer {
    /// A message about the first difference between the digests of a source and of its copy.
    ///
    /// # Errors
    /// If one of the answers isn't a digest.
    pub fn difference(&self, there: &Answer) -> io::Result<Option<String>> {
        let (Answer::Digest(sent), Answer::Digest(arrived)) = (self, there) else {
            let reported = [self, there].into_iter().find_map(|answer| match answer {
                Answer::Failed(reason) => Some(reason.clone()),
                _ => None,
            });
            return Err(io::Error::other(reported.unwrap_or_else(|| "an unexpected answer".into())));
        };
        let arrived_has = |entry: &(PathBuf, String)| arrived.binary_search(entry).is_ok();
        if let Some((path, what)) = sent.iter().find(|entry| !arrived_has(entry)) {
            let there = arrived.iter().find(|(other, _)| other == path);
            let there = there.map_or("missing".into(), |(_, other)| format!("{other}, not {what}"));
            return Ok(Some(format!("{} is {there}", path.display())));
        }
        let extra = arrived.iter().find(|entry| sent.binary_search(entry).is_err());
        Ok(extra.map(|(path, _)| format!("{} is unexpected", path.display())))
    }
}

impl Shape {
    /// The properties of the data set that the study specifies.
    pub fn of(spec: &DatasetSpec) -> Shape {
        let sizes = match spec.sizes {
            Sizes::LogNormal { total, mean, sigma } => ShapeSizes::LogNormal { total, mean, sigma },
            Sizes::Fixed { files, size } => ShapeSizes::Fixed { files, size },
        };
        Shape { name: spec.name.clone(), per_directory: spec.per_directory, sizes }
    }

    fn spec(&self) -> DatasetSpec {
        let sizes = match self.sizes {
            ShapeSizes::LogNormal { total, mean, sigma } => Sizes::LogNormal { total, mean, sigma },
            ShapeSizes::Fixed { files, size } => Sizes::Fixed { files, size },
        };
        DatasetSpec { name: self.name.clone(), per_directory: self.per_directory, sizes }
    }
}

/// Reads a task as JSON, performs it, and returns the answer as JSON.
pub fn answer(input: impl io::Read) -> Vec<u8> {
    let answer = match serde_json::from_reader::<_, Task>(input) {
        Ok(task) => task.perform(),
        Err(e) => Answer::Failed(format!("reading the task failed: {e}")),
    };
    serde_json::to_vec(&answer).unwrap_or_else(|e| format!("{{\"failed\":\"{e}\"}}").into_bytes())
}

fn slice(work: &Path, name: &str, number: u32) -> io::Result<Answer> {
    let data = work.join("data");
    let root = data.join(name);
    if number == 1 {
        return Ok(Answer::Sliced(vec![root]));
    }
    let tree = Tree::read(&root)?;
    slices::make(&root, &tree, &data.join(format!(".{name}-in-{number}")), number as usize)
        .map(Answer::Sliced)
}

fn digest(root: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let tree = Tree::read(root)?;
    let one = |(path, kind): &(PathBuf, Kind)| {
        let what = match kind {
            Kind::Directory => "a directory".into(),
            Kind::File(size) => format!("a file of {size} bytes with hash {}", hash(&root.join(path))?),
            Kind::Link(to) => format!("a link to {}", to.display()),
            Kind::Other => "something else".into(),
        };
        Ok((path.clone(), what))
    };
    tree.entries().iter().map(one).collect()
}

/// The SHA-256 of a file in hexadecimal.
fn hash(path: &Path) -> io::Result<String> {
    let failed = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    File::open(path).and_then(sha256).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(task: &Task) -> Answer {
        let text = serde_json::to_vec(task).unwrap();
        serde_json::from_slice(&answer(&text[..])).unwrap()
    }

    #[test]
    fn a_set_is_made_sliced_counted_and_compared_by_messages_alone() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().to_owned();
        let sizes = Sizes::Fixed { files: 6, size: 1000 };
        let shape = Shape::of(&DatasetSpec { name: "tree".into(), sizes, per_directory: 3 });
        let Answer::Made(set) = ask(&Task::Make { work: work.clone(), seed: 1, shape, tree: None }) else {
            panic!()
        };
        assert_eq!((set.files, set.bytes), (6, 6000));
        let Answer::Sliced(slices) = ask(&Task::Slice { work: work.clone(), name: "tree".into(), number: 2 })
        else {
            panic!()
        };
        for slice in slices {
            assert!(matches!(ask(&Task::Count(slice)), Answer::Counted(3, 3000)));
        }
        let root = work.join("data/tree");
        let sent = ask(&Task::Digest(root.clone()));
        assert_eq!(sent.difference(&ask(&Task::Digest(root.clone()))).unwrap(), None);
        let file = root.join("d0001/f0002");
        std::fs::write(&file, vec![7; 1000]).unwrap();
        let reported = sent.difference(&ask(&Task::Digest(root.clone()))).unwrap().unwrap();
        assert!(reported.starts_with("d0001/f0002 is a file of 1000 bytes"), "{reported}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            sent.difference(&ask(&Task::Digest(root.clone()))).unwrap().unwrap(),
            "d0001/f0002 is missing"
        );
        assert!(matches!(ask(&Task::Clear { destination: root.clone(), bytes: 5 }), Answer::Done));
        assert!(matches!(ask(&Task::Count(root)), Answer::Counted(0, 0)));
    }

    #[test]
    fn what_fails_is_reported() {
        let Answer::Failed(reason) = ask(&Task::Count("/nowhere/at/all".into())) else { panic!() };
        assert!(reason.contains("/nowhere/at/all"), "{reason}");
        assert!(matches!(serde_json::from_slice(&answer(&b"{"[..])).unwrap(), Answer::Failed(_)));
        let failed = Answer::Failed("no room".into());
        assert!(failed.difference(&Answer::Done).unwrap_err().to_string().contains("no room"));
    }
}
