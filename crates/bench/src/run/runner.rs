//! Runs every case of a study: a warm-up of each case, then blocks in shuffled order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::record::{Measures, Outcome, Record, Run};
use crate::spec::study::CaseSpec;
use crate::spec::tool::{Moves, Tool};
use crate::store::{Resumed, Store};

use super::attempt::{Attempt, Failure, Log};
use super::bed::Bed;
use super::capacity;
use super::disturbance;
use super::head;
use super::order;
use super::preparation::{barred, check_beds, make_data, read_settings, sources};
use super::samples::{self, Surroundings};
use super::settings::HostSettings;
use super::setup::{Event, Phase, RunnerError, Setup};
use super::stock::Stock;

/// A study that is running.
pub struct Runner<'a> {
    setup: Setup<'a>,
    /// The settings of each link's hosts. This field is declared before the beds, so it is dropped before them, and the
    /// settings can be restored while the beds still exist.
    settings: BTreeMap<String, HostSettings>,
    beds: BTreeMap<String, Box<dyn Bed + 'a>>,
    stock: Stock,
    store: Store,
    record: Record,
    /// For each case, the reason why it can't run, if there is one.
    barred: Vec<Option<Outcome>>,
    /// The duration of each case's warm-up in seconds, including the checks.
    took: Vec<f64>,
    runs_made: usize,
    /// The total number of runs, including warm-ups.
    runs_in_all: usize,
}

impl<'a> Runner<'a> {
    /// Makes the data, reads the facts of the hosts, and opens the store. `beds` has one bed for each link of
    /// the study.
    ///
    /// # Errors
    /// If the data or the store can't be made, or a bed is missing.
    pub fn new(
        setup: Setup<'a>,
        mut beds: BTreeMap<String, Box<dyn Bed + 'a>>,
        watch: &mut dyn FnMut(Event),
    ) -> Result<Runner<'a>, RunnerError> {
        check_beds(&setup, &beds)?;
        let stock = make_data(&setup, &beds, watch)?;
        let record = head::make(&setup, &mut beds, &stock)?;
        let store = Store::create(setup.out, &record, &setup.study.text, &setup.invocation)?;
        Runner::with(setup, beds, stock, Resumed { store, record, warmups: 0, disturbed: 0 })
    }

    /// Opens the results of an interrupted study in `dir`, to continue it. The study, the number of blocks
    /// and the seed must be the same.
    ///
    /// # Errors
    /// The errors of [`Runner::new`], and an error if the stored runs aren't part of this study.
    pub fn resume(
        setup: Setup<'a>,
        mut beds: BTreeMap<String, Box<dyn Bed + 'a>>,
        dir: &Path,
        watch: &mut dyn FnMut(Event),
    ) -> Result<Runner<'a>, RunnerError> {
        check_beds(&setup, &beds)?;
        let resumed = Store::resume(dir)?;
        let stock = make_data(&setup, &beds, watch)?;
        let now = head::make(&setup, &mut beds, &stock)?;
        if let Some(reason) = head::difference(&resumed.record, &now) {
            return Err(RunnerError::Other { dir: dir.to_owned(), reason });
        }
        Runner::with(setup, beds, stock, resumed)
    }

    fn with(
        setup: Setup<'a>,
        beds: BTreeMap<String, Box<dyn Bed + 'a>>,
        stock: Stock,
        opened: Resumed,
    ) -> Result<Runner<'a>, RunnerError> {
        let settings = read_settings(&setup, &beds)?;
        let barred = barred(&setup, &beds, &settings);
        let took = vec![0.0; setup.study.cases.len()];
        let Resumed { store, record, warmups, disturbed } = opened;
        let runs_made = warmups + disturbed + record.runs.len();
        Ok(Runner {
            setup,
            settings,
            beds,
            stock,
            store,
            record,
            barred,
            took,
            runs_made,
            runs_in_all: runs_made,
        })
    }

    /// The directory of the results.
    pub fn dir(&self) -> PathBuf {
        self.store.dir().to_owned()
    }

    /// Makes all runs, and returns the record. If the study is stopped, the record holds the runs made so
    /// far.
    ///
    /// # Errors
    /// If a run can't be stored.
    pub fn run(mut self, watch: &mut dyn FnMut(Event)) -> Result<Record, RunnerError> {
        let made = self.make_runs(watch);
        for (link, settings) in std::mem::take(&mut self.settings) {
            let Some(bed) = self.beds.get(&link) else { continue };
            let failed = settings.put_back(bed.as_ref(), self.setup.work);
            failed.iter().for_each(|reason| watch(Event::NotPutBack(reason)));
        }
        made.map(|()| self.record)
    }

    /// Makes the missing runs, until all are made or the study is stopped.
    fn make_runs(&mut self, watch: &mut dyn FnMut(Event)) -> Result<(), RunnerError> {
        let missing = self.missing();
        if !missing.is_empty() && !self.test_capacity(watch)? {
            return Ok(());
        }
        // After an interruption, caches and hosts are cold again, so the cases with missing runs are warmed
        // up again.
        let cases: BTreeSet<usize> = missing.iter().map(|(_, case)| *case).collect();
        self.runs_in_all = self.runs_made + cases.len() + missing.len();
        for case in cases {
            if !self.warm_up(case, watch)? {
                return Ok(());
            }
        }
        for (block, case) in missing {
            if !self.timed(case, block, watch)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Measures the limits of the test beds, if the study requests these measurements and no limits are stored yet.
    /// Returns false if the study was stopped.
    fn test_capacity(&mut self, watch: &mut dyn FnMut(Event)) -> Result<bool, RunnerError> {
        if !self.setup.study.capacity || !self.record.capacity.is_empty() {
            return Ok(true);
        }
        let mut found = Vec::new();
        for (link, bed) in &mut self.beds {
            watch(Event::Testing(link));
            match capacity::measure(&self.setup, link, bed.as_mut()) {
                Ok(capacities) => found.extend(capacities),
                Err(_) if self.setup.stop.load(Ordering::Relaxed) => return Ok(false),
                Err(Failure::Interrupted) => return Ok(false),
                Err(Failure::Failed(reason) | Failure::Unavailable(reason)) => {
                    return Err(RunnerError::Bed { link: link.clone(), reason });
                }
            }
        }
        self.record.capacity = found;
        self.store.write_head(&self.record)?;
        Ok(true)
    }

    /// The blocks and cases whose runs aren't stored yet, in the order in which they are made.
    fn missing(&self) -> Vec<(u32, usize)> {
        let cases = &self.record.cases;
        let stored: BTreeSet<(u32, &str)> =
            self.record.runs.iter().map(|run| (run.block, run.case.as_str())).collect();
        let orders = order::blocks(cases.len(), self.setup.blocks, self.setup.seed);
        let all =
            (0..).zip(orders).flat_map(|(block, order)| order.into_iter().map(move |case| (block, case)));
        all.filter(|(block, case)| !stored.contains(&(*block, cases[*case].id.as_str()))).collect()
    }

    /// Makes a warm-up run of a case. Returns false if the study was stopped.
    fn warm_up(&mut self, case: usize, watch: &mut dyn FnMut(Event)) -> Result<bool, RunnerError> {
        let clock = Instant::now();
        let Some(run) = self.make_run(case, Phase::WarmUp, watch)? else { return Ok(false) };
        self.store.append_warmup(&run)?;
        self.took[case] = clock.elapsed().as_secs_f64();
        match &run.outcome {
            // A case whose warm-up failed would probably fail again in each block, perhaps only after its
            // time limit.
            Outcome::Failed { reason } => {
                let reason = format!("the warm-up failed: {reason}");
                self.barred[case] = Some(Outcome::Failed { reason });
            }
            Outcome::Unavailable { .. } => self.barred[case] = Some(run.outcome.clone()),
            Outcome::Measured(_) => {}
        }
        Ok(true)
    }

    fn timed(&mut self, case: usize, block: u32, watch: &mut dyn FnMut(Event)) -> Result<bool, RunnerError> {
        let Some(mut best) = self.make_run(case, Phase::Block(block), watch)? else { return Ok(false) };
        for set_aside in 1..=self.setup.study.repeats {
            if degree(&best) == 0.0 {
                break;
            }
            self.runs_in_all += 1;
            let Some(run) = self.make_run(case, Phase::Block(block), watch)? else { break };
            let is_better = matches!(run.outcome, Outcome::Measured(_)) && degree(&run) < degree(&best);
            let worse = if is_better { std::mem::replace(&mut best, run) } else { run };
            self.store.append_disturbed(&worse)?;
            if let Outcome::Measured(measures) = &mut best.outcome {
                measures.set_aside = set_aside;
            }
        }
        self.store.append(&best)?;
        self.record.runs.push(best);
        Ok(!self.setup.stop.load(Ordering::Relaxed))
    }

    /// Makes a run of a case, or returns a run with the reason why it can't be made; `None` after a stop.
    fn make_run(
        &mut self,
        case: usize,
        phase: Phase,
        watch: &mut dyn FnMut(Event),
    ) -> Result<Option<Run>, RunnerError> {
        let number = self.runs_made;
        self.runs_made += 1;
        let of = self.runs_in_all;
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
        self.store.write_log(&name, &log.text)?;
        // Stopping the study also ends the child processes, so their failures don't count.
        if self.setup.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Ok(match result {
            Ok(mut measures) => {
                measures.limited_by_bed = self.limit(case, &measures);
                let surroundings = self.surroundings(case);
                let ends = log.recordings.iter().map(|(host, bytes)| (*host, bytes));
                let watched = log.watched.iter().map(|(host, bytes)| (host.as_str(), bytes));
                for (host, bytes) in ends.chain(watched) {
                    if let Err(reason) = samples::add(&mut measures, host, bytes, surroundings) {
                        measures.notes.push(reason);
                    }
                    measures.recordings.push(self.store.write_samples(&format!("{name}-{host}"), bytes)?);
                }
                Some(Outcome::Measured(measures))
            }
            Err(Failure::Failed(reason)) => Some(Outcome::Failed { reason }),
            Err(Failure::Unavailable(reason)) => Some(Outcome::Unavailable { reason }),
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
        let expected = self.expected(spec, tool);
        let bed =
            self.beds.get_mut(&spec.link).expect("every link has a bed: checked when the runner was made");
        let sources = sources(&mut self.stock, bed.as_ref(), tool, spec);
        let sources = sources.map_err(|e| format!("slicing the data: {e}"))?;
        if let Some(settings) = self.settings.get_mut(&spec.link) {
            let applied = settings.apply(spec, bed.as_ref(), setup.work, &setup.stop);
            // If the host refuses a value, it already does so in the warm-up.
            let is_first = phase == Phase::WarmUp && !setup.stop.load(Ordering::Relaxed);
            applied.map_err(|e| if is_first { Failure::Unavailable(e) } else { Failure::Failed(e) })?;
        }
        let attempt = Attempt {
            bed: bed.as_mut(),
            tool,
            case: spec,
            sources,
            expected,
            compare: phase == Phase::WarmUp,
            work: setup.work,
            linerate: setup.linerate,
            // Each run has its own port, because connections of the previous run may still exist.
            port: 5201 + (number % 1000) as u16,
            settle: setup.study.settle,
            timeout: setup.study.timeout,
            stop: &setup.stop,
            found: None,
        };
        attempt.run(log)
    }

    fn surroundings(&self, case: usize) -> Surroundings {
        let bed = self.beds.get(&self.setup.study.cases[case].link);
        let work = bed.and_then(|bed| bed.work()).unwrap_or_else(|| self.setup.work.to_owned());
        Surroundings {
            one_machine: bed.is_some_and(|bed| bed.shares_processors()),
            data_in_memory: linerate_lab::is_on_tmpfs(&work) || work.starts_with("/dev/shm"),
        }
    }

    fn limit(&self, case: usize, measures: &Measures) -> Option<String> {
        let spec = &self.setup.study.cases[case];
        let bed = self.beds.get(&spec.link)?;
        capacity::limit(&self.record.capacity, spec, measures, &bed.link())
    }

    fn expected(&self, spec: &CaseSpec, tool: &Tool) -> (u64, u64) {
        let described = |name: &str| self.stock.get(name).map(|set| (set.files, set.bytes));
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

    /// The estimated time for the remaining runs, based on the warm-ups; `None` before all warm-ups are done.
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

/// How much a run was disturbed; 0 for a run without values, which isn't repeated.
fn degree(run: &Run) -> f64 {
    match &run.outcome {
        Outcome::Measured(measures) => disturbance::degree(measures),
        Outcome::Failed { .. } | Outcome::Unavailable { .. } => 0.0,
    }
}

/// The current date and time in whole seconds (RFC 3339, UTC).
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}
