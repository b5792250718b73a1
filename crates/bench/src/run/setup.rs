//! The arguments of a study, the events that it reports, and its errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::Stop;
use crate::data::DataError;
use crate::record::{Case, Outcome};
use crate::spec::study::Study;
use crate::spec::tool::Toolbox;
use crate::store::{Invocation, StoreError};

/// The arguments of a study's invocation.
pub struct Setup<'a> {
    /// The study.
    pub study: &'a Study,
    /// The tools that it names.
    pub tools: &'a Toolbox,
    /// Blocks, in place of the study's.
    pub blocks: u32,
    /// Seed of data and order.
    pub seed: u64,
    /// A tree in place of each log-normal data set.
    pub tree: Option<&'a Path>,
    /// A directory for data and destinations, on a tmpfs if there is one.
    pub work: &'a Path,
    /// The directory below which results are stored.
    pub out: &'a Path,
    /// The running program, as tools name it by `{linerate}`.
    pub linerate: &'a Path,
    /// The study's arguments, with which it can be continued later.
    pub invocation: Invocation,
    /// A flag that is set from outside: then the study ends after the current run.
    pub stop: Stop,
}

/// Events, for progress output.
#[derive(Debug)]
pub enum Event<'e> {
    /// Something long begins: making data.
    Preparing(&'e str),
    /// The limits of a link's bed are being measured.
    Testing(&'e str),
    /// A run begins.
    Starting {
        /// Its place, from 1.
        number: usize,
        /// Runs in all, warm-ups included.
        of: usize,
        /// Which part of the study it belongs to.
        phase: Phase,
        /// The case.
        case: &'e Case,
        /// The remaining time, if it is known.
        left: Option<Duration>,
    },
    /// A run ended.
    Ended(&'e Case, &'e Outcome),
    /// A setting is not as it was before the study, and why.
    NotPutBack(&'e str),
}

/// Part of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The untimed run of each case, after which contents are compared.
    WarmUp,
    /// A block, from 0.
    Block(u32),
}

/// Why a study can't be run. Runs that fail are rows, not errors.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A data set can't be made.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Results can't be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored runs aren't part of this study.
    #[error("{dir} can't be continued: {reason}")]
    Other {
        /// The directory of results.
        dir: PathBuf,
        /// The difference.
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
