//! The data sets of a study at the sending end. Each data set is made once.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::data::{Answer, DataError, Shape, Task};
use crate::record::Dataset;
use crate::spec::study::DatasetSpec;

use super::bed::{Bed, End};

/// The data sets that have been made, and the directory that holds them.
#[derive(Debug)]
pub(crate) struct Stock {
    work: PathBuf,
    seed: u64,
    sets: BTreeMap<String, Dataset>,
    slices: BTreeMap<(String, u32), Vec<PathBuf>>,
}

impl Stock {
    /// An empty stock in the directory `work` of the sending end.
    pub fn new(work: &Path, seed: u64) -> Stock {
        Stock { work: work.to_owned(), seed, sets: BTreeMap::new(), slices: BTreeMap::new() }
    }

    /// Makes a set at the bed's sending end, or a copy of `tree` in its place.
    ///
    /// # Errors
    /// The error that this end reports.
    pub fn make(&mut self, bed: &dyn Bed, spec: &DatasetSpec, tree: Option<&Path>) -> Result<(), DataError> {
        let (work, tree) = (self.work.clone(), tree.map(Path::to_owned));
        let task = Task::Make { work, seed: self.seed, shape: Shape::of(spec), tree };
        match bed.files(End::A, &task) {
            Ok(Answer::Made(set)) => {
                self.sets.insert(spec.name.clone(), set);
                Ok(())
            }
            Ok(Answer::Failed(reason)) => Err(DataError::Reported(reason)),
            Ok(other) => Err(DataError::Reported(format!("making data gave {other:?}"))),
            Err(e) => Err(DataError::Reported(format!("making data at the sending end: {e}"))),
        }
    }

    /// The data set with this name, if it has been made.
    pub fn get(&self, name: &str) -> Option<&Dataset> {
        self.sets.get(name)
    }

    /// The directories that hold a set's `number` slices; if `number` is 1, the set itself.
    ///
    /// # Errors
    /// The error that the sending end reports.
    pub fn slices(&mut self, bed: &dyn Bed, name: &str, number: u32) -> io::Result<Vec<PathBuf>> {
        let key = (name.to_owned(), number);
        if let Some(made) = self.slices.get(&key) {
            return Ok(made.clone());
        }
        let task = Task::Slice { work: self.work.clone(), name: name.into(), number };
        match bed.files(End::A, &task)? {
            Answer::Sliced(made) => Ok(self.slices.entry(key).or_insert(made).clone()),
            Answer::Failed(reason) => Err(io::Error::other(reason)),
            other => Err(io::Error::other(format!("slicing gave {other:?}"))),
        }
    }
}
