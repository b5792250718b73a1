//! The parameters of a study's execution, the events that it reports, and its errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::Stop;
use crate::data::DataError;
use crate::record::{Case, Outcome};
use crate::spec::study::Study;
use crate::spec::tool::Toolbox;
use crate::store::{Invocation, StoreError};

/// The parameters with which a study is run.
pub struct Setup<'a> {
    /// The study.
    pub study: &'a Study,
    /// The tools that the study names.
    pub tools: &'a Toolbox,
    /// The number of blocks, which overrides the number in the study file.
    pub blocks: u32,
    /// The seed of the data and of the order of runs.
    pub seed: u64,
    /// A tree of files that replaces each log-normal data set.
    pub tree: Option<&'a Path>,
    /// A directory for data and destinations, on a tmpfs if there is one.
    pub work: &'a Path,
    /// The directory below which results are stored.
    pub out: &'a Path,
    /// The path of the running program, which replaces `{linerate}` in tool files.
    pub linerate: &'a Path,
    /// The study's arguments, with which it can be continued later.
    pub invocation: Invocation,
    /// A flag that the caller sets to stop the study. The current run is then stopped too, and isn't stored.
    pub stop: Stop,
}

/// Events, for progress output.
#[derive(Debug)]
pub enum Event<'e> {
    /// A long preparation begins, such as making data; the text describes the preparation.
    Preparing(&'e str),
    /// The limits of a link's bed are being measured.
    Testing(&'e str),
    /// A run begins.
    Starting {
        /// The number of the run, from 1.
        number: usize,
        /// The total number of runs, including warm-ups.
        of: usize,
        /// The part of the study to which the run belongs.
        phase: Phase,
        /// The case that is run.
        case: &'e Case,
        /// The remaining time, if it is known.
        left: Option<Duration>,
    },
    /// A run ended.
    Ended(&'e Case, &'e Outcome),
    /// A message about a setting that couldn't be restored.
    NotPutBack(&'e str),
}

/// A part of a study's execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The untimed run of each case, after which contents are compared.
    WarmUp,
    /// A block with this number, from 0.
    Block(u32),
}

/// The reason why a study can't be run. Failed runs are part of the result, not errors.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A data set can't be made.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Results can't be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored runs belong to a different study.
    #[error("the study in {dir} can't be continued: {reason}")]
    Other {
        /// The directory of results.
        dir: PathBuf,
        /// The difference between the stored study and this one.
        reason: String,
    },
    /// A bed is missing or its agent doesn't answer.
    #[error("link {link:?}: {reason}")]
    Bed {
        /// The link's name.
        link: String,
        /// The error message.
        reason: String,
    },
}
