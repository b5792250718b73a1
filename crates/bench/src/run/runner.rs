//! Runs every case of a study: a warm-up of each, then blocks in shuffled order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::data::{DataError, Library};
use crate::record::{Case, Measures, Outcome, Record, Run};
use crate::spec::study::{CaseSpec, Study};
use crate::spec::tool::{Moves, Parallel, Tool, Toolbox};
use crate::store::{Store, StoreError};

use super::attempt::{Attempt, Failure, Log};
use super::bed::Bed;
use super::head;
use super::order;
use super::process::Stop;
use super::programs;

/// What an invocation of a study is given.
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
    /// A directory for data and destinations, on a tmpfs where there is one.
    pub work: &'a Path,
    /// The directory below which results are stored.
    pub out: &'a Path,
    /// The running program, as tools name it by `{linerate}`.
    pub linerate: &'a Path,
    /// Set from outside to end after the current run.
    pub stop: Stop,
}

/// What happens, for those who watch.
#[derive(Debug)]
pub enum Event<'e> {
    /// Something long begins: making data.
    Preparing(&'e str),
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
        /// How long everything that is left will take, where that is known.
        left: Option<Duration>,
    },
    /// It ended.
    Ended(&'e Case, &'e Outcome),
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
    /// A bed is missing or its agent doesn't answer.
    #[error("link {link:?}: {reason}")]
    Bed {
        /// The link's name.
        link: String,
        /// What is wrong.
        reason: String,
    },
}

/// A study under way.
pub struct Runner<'a> {
    setup: Setup<'a>,
    beds: BTreeMap<String, Box<dyn Bed + 'a>>,
    library: Library,
    store: Store,
    record: Record,
    /// What keeps a case from being run at all.
    barred: Vec<Option<Outcome>>,
    /// Seconds of each case's warm-up, checks included.
    took: Vec<f64>,
    runs_made: usize,
}

impl<'a> Runner<'a> {
    /// Makes the data, asks the hosts for their facts, and opens the store. `beds` has one for each link of the study.
    ///
    /// # Errors
    /// Data or store can't be made, or a bed is missing.
    pub fn new(
        setup: Setup<'a>,
        mut beds: BTreeMap<String, Box<dyn Bed + 'a>>,
        watch: &mut dyn FnMut(Event),
    ) -> Result<Runner<'a>, RunnerError> {
        for case in &setup.study.cases {
            if !beds.contains_key(&case.link) {
                return Err(RunnerError::Bed {
                    link: case.link.clone(),
                    reason: "there is no bed for it".into(),
                });
            }
        }
        let library = make_data(&setup, watch)?;
        let record = head::make(&setup, &mut beds, &library)?;
        let store = Store::create(setup.out, &record, &setup.study.text)?;
        let barred = barred(&setup, &beds);
        let took = vec![0.0; setup.study.cases.len()];
        Ok(Runner { setup, beds, library, store, record, barred, took, runs_made: 0 })
    }

    /// Where the results are stored.
    pub fn dir(&self) -> PathBuf {
        self.store.dir().to_owned()
    }

    /// Runs everything. After a stop the record holds what was made until then.
    ///
    /// # Errors
    /// A run can't be stored.
    pub fn run(mut self, watch: &mut dyn FnMut(Event)) -> Result<Record, RunnerError> {
        let cases = self.setup.study.cases.len();
        for case in 0..cases {
            if !self.warm_up(case, watch)? {
                return Ok(self.record);
            }
        }
        let blocks = order::blocks(cases, self.setup.blocks, self.setup.seed);
        for (block, order) in (0..).zip(blocks) {
            for case in order {
                if !self.timed(case, block, watch)? {
                    return Ok(self.record);
                }
            }
        }
        Ok(self.record)
    }

    /// False after a stop.
    fn warm_up(&mut self, case: usize, watch: &mut dyn FnMut(Event)) -> Result<bool, RunnerError> {
        let clock = Instant::now();
        let Some(run) = self.make_run(case, Phase::WarmUp, watch)? else { return Ok(false) };
        self.store.append_warmup(&run)?;
        self.took[case] = clock.elapsed().as_secs_f64();
        if let Outcome::Failed { reason } = &run.outcome {
            // It would fail again in each block, perhaps only after its time is up.
            self.barred[case] = Some(Outcome::Failed { reason: format!("its warm-up failed: {reason}") });
        }
        Ok(true)
    }

    fn timed(&mut self, case: usize, block: u32, watch: &mut dyn FnMut(Event)) -> Result<bool, RunnerError> {
        let Some(run) = self.make_run(case, Phase::Block(block), watch)? else { return Ok(false) };
        self.store.append(&run)?;
        self.record.runs.push(run);
        Ok(true)
    }

    /// A run of a case, or the reason why it isn't run; `None` after a stop.
    fn make_run(
        &mut self,
        case: usize,
        phase: Phase,
        watch: &mut dyn FnMut(Event),
    ) -> Result<Option<Run>, RunnerError> {
        let number = self.runs_made;
        self.runs_made += 1;
        let of = self.setup.study.cases.len() * (1 + self.setup.blocks as usize);
        let left = self.left(phase);
        watch(Event::Starting { number: number + 1, of, phase, case: &self.record.cases[case], left });
        let started = now();
        let outcome = match &self.barred[case] {
            Some(outcome) => outcome.clone(),
            None => match self.attempt(case, phase, number)? {
                Some(outcome) => outcome,
                None => return Ok(None),
            },
        };
        watch(Event::Ended(&self.record.cases[case], &outcome));
        let block = if let Phase::Block(block) = phase { block } else { 0 };
        let order = u32::try_from(self.record.runs.len()).unwrap_or(u32::MAX);
        Ok(Some(Run { case: self.record.cases[case].id.clone(), block, order, started, outcome }))
    }

    fn attempt(&mut self, case: usize, phase: Phase, number: usize) -> Result<Option<Outcome>, RunnerError> {
        let mut log = Log::default();
        let result = self.measure(case, phase, number, &mut log);
        let name = match phase {
            Phase::WarmUp => format!("{number:05}-warm-up-{}", self.record.cases[case].id),
            Phase::Block(block) => format!("{number:05}-block-{block}-{}", self.record.cases[case].id),
        };
        self.store.write_log(&name, &log.0)?;
        // A stop ends children too, which then look as if they had failed.
        if self.setup.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Ok(match result {
            Ok(measures) => Some(Outcome::Measured(measures)),
            Err(Failure::Failed(reason)) => Some(Outcome::Failed { reason }),
            Err(Failure::Interrupted) => None,
        })
    }

    fn measure(
        &mut self,
        case: usize,
        phase: Phase,
        number: usize,
        log: &mut Log,
    ) -> Result<Measures, Failure> {
        let setup = &self.setup;
        let spec = &setup.study.cases[case];
        let tool = setup.tools.get(&spec.tool).expect("a study names only tools that are there");
        let sources = sources(&mut self.library, tool, spec).map_err(|e| format!("slicing the data: {e}"))?;
        let expected = self.library_expects(spec, tool);
        let bed =
            self.beds.get_mut(&spec.link).expect("every link has a bed: checked when the runner was made");
        let attempt = Attempt {
            bed: bed.as_mut(),
            tool,
            case: spec,
            sources,
            expected,
            compare: phase == Phase::WarmUp,
            work: setup.work,
            linerate: setup.linerate,
            // Another port each time: the last one's connections may still linger.
            port: 5201 + (number % 1000) as u16,
            settle: setup.study.settle,
            timeout: setup.study.timeout,
            stop: &setup.stop,
        };
        attempt.run(log)
    }

    fn library_expects(&self, spec: &CaseSpec, tool: &Tool) -> (u64, u64) {
        let described =
            |name: &str| self.library.get(name).map(|set| (set.described.files, set.described.bytes));
        let own = spec.dataset.as_deref().and_then(described);
        let first = || self.setup.study.datasets.first().and_then(|set| described(&set.name));
        match tool.moves {
            Moves::Files => own.unwrap_or_default(),
            Moves::Memory => {
                (0, spec.bytes.or_else(|| first().map(|(_, bytes)| bytes)).unwrap_or(1_000_000_000))
            }
            Moves::Requests | Moves::Nothing => (0, 0),
        }
    }

    /// Seconds for what is left, from what the warm-ups took; unknown before they are done.
    fn left(&self, phase: Phase) -> Option<Duration> {
        if phase == Phase::WarmUp {
            return None;
        }
        let all = self.took.iter().sum::<f64>() * f64::from(self.setup.blocks);
        let share =
            self.record.runs.len() as f64 / (self.took.len() * self.setup.blocks as usize).max(1) as f64;
        Some(Duration::from_secs_f64(all * (1.0 - share).max(0.0)))
    }
}

fn make_data(setup: &Setup, watch: &mut dyn FnMut(Event)) -> Result<Library, RunnerError> {
    let mut library = Library::new(setup.work, setup.seed);
    for spec in &setup.study.datasets {
        watch(Event::Preparing(&spec.name));
        let tree = setup.tree.filter(|_| spec.is_replaceable());
        library.make(spec, tree)?;
    }
    Ok(library)
}

fn sources(library: &mut Library, tool: &Tool, spec: &CaseSpec) -> std::io::Result<Vec<PathBuf>> {
    let Some(dataset) = &spec.dataset else { return Ok(Vec::new()) };
    let slices = if tool.parallel == Parallel::Copies { spec.streams.number().unwrap_or(1) } else { 1 };
    library.slices(dataset, slices)
}

/// Cases whose tool isn't there.
fn barred(setup: &Setup, beds: &BTreeMap<String, Box<dyn Bed + '_>>) -> Vec<Option<Outcome>> {
    let one = |case: &CaseSpec| {
        let tool = setup.tools.get(&case.tool)?;
        let bed = beds.get(&case.link)?;
        programs::unavailable(tool, bed.as_ref()).map(|reason| Outcome::Unavailable { reason })
    };
    setup.study.cases.iter().map(one).collect()
}

/// The time of day, RFC 3339, UTC, whole seconds.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}
