//! Makes one run of a case: waits for a quiet host, measures the run, and then checks the destination.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_host::{CpuSeconds, CpuTimes};

use crate::data::{Answer, Task};
use crate::record::{CountedWindow, Cpu, Found, Measures};
use crate::spec::study::CaseSpec;
use crate::spec::tool::{Moves, Tool};
use crate::stats::above_ceiling;

use super::bed::{Bed, End};
use super::disturbance;
use super::process::{self, Finished, Group, Output, ProcessError, Stop, tail};
use super::reading::{self, Stated};
use super::small_requests;
use super::windows;

/// Everything that is needed for one run of a case.
pub(crate) struct Attempt<'a> {
    pub bed: &'a mut dyn Bed,
    pub tool: &'a Tool,
    pub case: &'a CaseSpec,
    /// The source directories, one for each copy of the tool; empty if no files are moved.
    pub sources: Vec<PathBuf>,
    /// The numbers of files and bytes that must arrive. For data from memory, 0 and the requested bytes.
    pub expected: (u64, u64),
    /// True if contents are also compared byte by byte after the run.
    pub compare: bool,
    /// A directory for outputs and the destination.
    pub work: &'a Path,
    pub linerate: &'a Path,
    pub port: u16,
    pub settle: f64,
    pub timeout: f64,
    pub stop: &'a Stop,
    /// The result of the search before the run; `None` until the search is complete.
    pub found: Option<Found>,
}

/// The reason why a run gave no measures.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The run failed, for this reason.
    Failed(String),
    /// The run isn't possible here, for this reason.
    Unavailable(String),
    /// The user stops the study.
    Interrupted,
}

/// The output of the commands and the recordings of the samplers, which the store keeps.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub text: Vec<u8>,
    /// The samplers' recordings of both ends, with the hosts' names.
    pub recordings: Vec<(&'static str, Vec<u8>)>,
    /// The recordings of watched hosts, with the hosts' names.
    pub watched: Vec<(String, Vec<u8>)>,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Failure::Failed(reason)
    }
}

impl From<ProcessError> for Failure {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Interrupted => Failure::Interrupted,
            error => Failure::Failed(error.to_string()),
        }
    }
}

impl Attempt<'_> {
    /// Makes one run of the case. The commands' output is written to `log` even if the run fails.
    pub fn run(mut self, log: &mut Log) -> Result<Measures, Failure> {
        let foreign = self.wait_for_quiet()?;
        // The destination is cleared as late as possible, so that the freed memory is still available.
        self.clear_destination()?;
        let mut servers = self.start_servers()?;
        servers.extend(self.start_beside()?);
        self.found = self.search(log)?;
        let commands = self.commands()?;
        self.bed.start_watching().map_err(|e| format!("starting the samplers: {e}"))?;
        let begun = self.bed.start_samples().map_err(|e| format!("starting the samplers: {e}"))?;
        let before = self.clocks()?;
        let copies = commands.len();
        let run = process::run(commands, self.work, Duration::from_secs_f64(self.timeout), self.stop);
        let after = self.clocks();
        log.recordings = self.stop_samples()?;
        log.watched = self.bed.stop_watching().map_err(|e| format!("requesting samples: {e}"))?;
        let finished = run.inspect_err(|_| log.add_partial(self.work, copies))?;
        let after = after?;
        log.add(&finished.outputs, &servers);
        drop(servers);
        self.check_status(&finished)?;
        let mut stated = self.stated(&finished)?;
        if self.case.beside {
            stated.latency = Some(small_requests::times(&finished.outputs)?);
        }
        self.check_destination()?;
        let cpu = [after[0].since(&before[0]), after[1].since(&before[1])];
        let lag = begun[1].duration_since(begun[0]).as_secs_f64();
        let one = self.bed.shares_processors();
        let window =
            stated.window.map(|times| windows::counted(times, &log.recordings, one, lag)).transpose();
        let (window, unknown) = window.map_or_else(|reason| (None, Some(reason)), |window| (window, None));
        let mut measures = self.measures(&finished, stated, &cpu, foreign, window)?;
        measures.notes.extend(unknown);
        Ok(measures)
    }

    /// Waits, for at most four pauses, until other work takes hardly any processor time in one of them. Returns
    /// the mean number of processors that were busy on each host in the last pause.
    fn wait_for_quiet(&mut self) -> Result<[f64; 2], Failure> {
        rustix::fs::sync();
        let mut foreign = [0.0; 2];
        for _ in 0..4 {
            let before = self.clocks()?;
            std::thread::sleep(Duration::from_secs_f64(self.settle));
            let after = self.clocks()?;
            let of = |host: usize| disturbance::foreign(&after[host].since(&before[host]), self.settle);
            foreign = [of(0), of(1)];
            if foreign.into_iter().all(disturbance::is_quiet) {
                break;
            }
        }
        Ok(foreign)
    }

    fn clocks(&mut self) -> Result<[CpuTimes; 2], Failure> {
        let failed = |e: io::Error| format!("reading processor time: {e}");
        let a = self.bed.cpu(End::A).map_err(failed)?;
        if self.bed.shares_processors() {
            return Ok([a.clone(), a]);
        }
        let b = self.bed.cpu(End::B).map_err(failed)?;
        Ok([a, b])
    }

    /// Stops the samplers. They must also be stopped after a failed run, because the next run starts them again.
    fn stop_samples(&mut self) -> Result<Vec<(&'static str, Vec<u8>)>, Failure> {
        let mut recordings = Vec::new();
        for (name, end) in [("a", End::A), ("b", End::B)] {
            let recorded = self.bed.stop_samples(end);
            let recorded = recorded.map_err(|e| format!("asking host {name} for its samples: {e}"))?;
            recordings.extend(recorded.map(|bytes| (name, bytes)));
        }
        Ok(recordings)
    }

    fn clear_destination(&self) -> Result<(), Failure> {
        let (destination, receivers) = (self.destination(), self.bed.receivers().len());
        let bytes = if self.tool.moves == Moves::Files { self.expected.1 / receivers as u64 } else { 0 };
        let task = Task::Clear { destination: destination.clone(), bytes };
        let what = format!("clearing {}", destination.display());
        (0..receivers).try_for_each(|receiver| match self.at_receiver(receiver, &task, &what)? {
            Answer::Done => Ok(()),
            other => Err(format!("{what} gave {other:?}").into()),
        })
    }

    fn at_receiver(&self, receiver: usize, task: &Task, what: &str) -> Result<Answer, Failure> {
        match self.bed.receiver_files(receiver, task) {
            Ok(Answer::Failed(reason)) => Err(format!("{what}: {reason}").into()),
            Ok(answer) => Ok(answer),
            Err(e) => Err(format!("{what}: {e}").into()),
        }
    }

    pub(super) fn check_status(&self, finished: &Finished) -> Result<(), Failure> {
        for (copy, output) in finished.outputs.iter().enumerate() {
            if output.status.success() {
                continue;
            }
            let which =
                if finished.outputs.len() > 1 { format!("copy {copy} ended with ") } else { String::new() };
            let said = Some(tail(&output.stderr)).filter(|said| !said.is_empty());
            let said = said.unwrap_or_else(|| tail(&output.stdout));
            return Err(format!("{which}{}: {said}", output.status).into());
        }
        Ok(())
    }

    fn stated(&self, finished: &Finished) -> Result<Stated, Failure> {
        let Some(reading) = &self.tool.result else { return Ok(Stated::default()) };
        let all = finished.outputs.iter().map(|output| reading::read(reading, &output.stdout));
        let stated = reading::join(all.collect::<Result<Vec<_>, _>>()?, &finished.ends);
        let encrypted = self.cipher().is_some();
        match stated.encrypted {
            Some(said) if said != encrypted => Err(format!(
                "the tool reports encrypted: {said}, but the case is {}",
                if encrypted { "encrypted" } else { "clear" }
            )
            .into()),
            _ => Ok(stated),
        }
    }

    fn cipher(&self) -> Option<&String> {
        let variant = self.case.variant.as_deref().and_then(|name| self.tool.variant(name));
        variant.map_or(self.tool.cipher.as_ref(), |variant| variant.cipher.as_ref())
    }

    fn check_destination(&self) -> Result<(), Failure> {
        if self.tool.moves != Moves::Files {
            return Ok(());
        }
        let destination = self.destination();
        let (f, b) = self.arrived(&destination)?;
        let (files, bytes) = self.expected;
        if (f, b) != (files, bytes) {
            return Err(format!("{f} files and {b} bytes arrived, not {files} and {bytes}").into());
        }
        if self.compare { self.compare_contents(&destination) } else { Ok(()) }
    }

    /// The numbers of files and bytes that have arrived, summed over all receivers.
    fn arrived(&self, destination: &Path) -> Result<(u64, u64), Failure> {
        let (task, what) = (Task::Count(destination.to_owned()), "checking the destination");
        let mut all = (0, 0);
        for receiver in 0..self.bed.receivers().len() {
            match self.at_receiver(receiver, &task, what)? {
                Answer::Counted(files, bytes) => all = (all.0 + files, all.1 + bytes),
                other => return Err(format!("{what} gave {other:?}").into()),
            }
        }
        Ok(all)
    }

    fn compare_contents(&self, destination: &Path) -> Result<(), Failure> {
        for (copy, source) in self.sources.iter().enumerate() {
            let there = destination.join(source.file_name().unwrap_or_default());
            let difference = self.bed.difference(source, copy % self.bed.receivers().len(), &there);
            if let Some(difference) = difference.map_err(|e| format!("comparing contents: {e}"))? {
                return Err(format!("the destination is wrong: {difference}").into());
            }
        }
        Ok(())
    }

    fn measures(
        &self,
        finished: &Finished,
        stated: Stated,
        cpu: &[CpuSeconds; 2],
        foreign: [f64; 2],
        window: Option<CountedWindow>,
    ) -> Result<Measures, Failure> {
        let bytes = if self.tool.moves == Moves::Files { self.expected.1 } else { stated.bytes.unwrap_or(0) };
        let measures = Measures {
            bytes,
            bytes_back: stated.bytes_back,
            files: self.expected.0,
            seconds: finished.seconds,
            payload_seconds: stated.seconds.filter(|seconds| *seconds > 0.0),
            cpu_a: recorded(&cpu[0]),
            cpu_b: recorded(&cpu[1]),
            window,
            peak_rss_bytes: stated.peak_rss_bytes,
            limiter: stated.limiter,
            streams: stated.streams,
            disturbed: self.disturbed(cpu, foreign),
            foreign_processors: Some(foreign[0].max(foreign[1])),
            pressure_seconds: cpu[0].pressure,
            transactions: stated.transactions,
            latency: stated.latency,
            connections: stated.connections,
            score: stated.score,
            found: self.found.clone(),
            notes: stated.notes,
            ..Measures::default()
        };
        self.check_measures(&measures, stated.bytes)?;
        Ok(measures)
    }

    /// A message about what disturbed the run on each host; `None` if nothing did.
    fn disturbed(&self, cpu: &[CpuSeconds; 2], foreign: [f64; 2]) -> Option<String> {
        if self.bed.shares_processors() {
            return disturbance::disturbed(&cpu[0], foreign[0]);
        }
        disturbance::of_hosts(cpu, foreign)
    }

    /// Checks that the numbers that a tool reports are possible.
    fn check_measures(&self, measures: &Measures, stated: Option<u64>) -> Result<(), Failure> {
        if let (Moves::Files, Some(stated)) = (self.tool.moves, stated)
            && stated != measures.bytes
        {
            return Err(
                format!("the tool reports {stated} moved bytes, but {} arrived", measures.bytes).into()
            );
        }
        if self.tool.moves == Moves::Memory && measures.bytes == 0 {
            return Err("the tool moved nothing".to_owned().into());
        }
        if self.tool.moves == Moves::Requests && measures.transactions == Some(0) {
            return Err("no request was answered".to_owned().into());
        }
        if let Some(own) = measures.payload_seconds.filter(|own| *own > measures.seconds * 1.01) {
            return Err(format!(
                "the tool reports {own:.3} s for the payload, but the whole command took {:.3}",
                measures.seconds
            )
            .into());
        }
        match above_ceiling(measures, &self.bed.link()) {
            Some(reason) => Err(reason.into()),
            None => Ok(()),
        }
    }
}

impl Log {
    fn add(&mut self, outputs: &[Output], servers: &[Group]) {
        for (copy, output) in outputs.iter().enumerate() {
            self.add_output(&format!("copy {copy}"), output);
        }
        for server in servers {
            self.section("server", server.written().as_bytes());
        }
    }

    /// Adds the output and the exit status of a command to the log.
    pub fn add_output(&mut self, what: &str, output: &Output) {
        self.section(&format!("{what}: {}", output.status), b"");
        self.section("stdout", &output.stdout);
        self.section("stderr", &output.stderr);
    }

    /// Adds the output of commands that didn't finish to the log.
    pub fn add_partial(&mut self, work: &Path, copies: usize) {
        for name in (0..copies).flat_map(|copy| ["out", "err"].map(|kind| format!("output-{copy}.{kind}"))) {
            // If a command couldn't be started, it has no output.
            self.section(&name, &fs::read(work.join(&name)).unwrap_or_default());
        }
    }

    fn section(&mut self, title: &str, bytes: &[u8]) {
        self.text.extend_from_slice(format!("--- {title}\n").as_bytes());
        self.text.extend_from_slice(bytes);
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            self.text.push(b'\n');
        }
    }
}

pub(super) fn recorded(cpu: &CpuSeconds) -> Cpu {
    Cpu {
        processors: cpu.processors,
        // The processor time of guests counts as user time of this host.
        user: cpu.user + cpu.nice + cpu.guest,
        system: cpu.system,
        irq: cpu.irq,
        softirq: cpu.softirq,
        steal: cpu.steal,
        idle: cpu.idle,
        iowait: cpu.iowait,
    }
}
