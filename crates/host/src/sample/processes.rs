//! Records the processor time of chosen processes and their descendants. The text of a sample has a line of
//! /proc/PID/stat (proc_pid_stat(5)) for each process, and one line with the sockets of all these processes. Some
//! samples also have a line with the times of each process's threads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::sampler::thread_seconds;
use super::sockets::{Sockets, open_in};
use super::source::{TextSource, read_whole};
use super::threads::{self, ThreadUse};
use super::{Recording, SampleKind, SamplerOptions, TimeSeries};

pub(super) const NAME: &str = "processes";
/// The shortest time between two searches for new descendants, and the shortest time between two readings of the
/// threads' times: a command of two seconds has several such readings. `SHARE` is the largest share of a processor's
/// time that the searches may take, and also the largest share that the readings may take.
const SEARCH: Duration = Duration::from_secs(1);
const THREADS: Duration = Duration::from_millis(500);
const SHARE: f64 = 0.001;
/// The largest number of processes that are followed at the same time.
const MOST_PROCESSES: usize = 256;

pub(super) const KIND: SampleKind =
    SampleKind { name: NAME, open: |options| Box::new(Trees::new(options)), series };

/// The processes that are followed, with their descendants.
struct Trees {
    proc: PathBuf,
    roots: Vec<u32>,
    names: Vec<String>,
    held: BTreeMap<u32, File>,
    /// The times at which the next search, and the next reading of the threads' times, are due.
    search: Option<Instant>,
    threads: Option<Instant>,
}

impl Trees {
    fn new(options: &SamplerOptions) -> Self {
        let (roots, names) = (options.processes.clone(), options.names.clone());
        let proc = options.root.join("proc");
        Self { proc, roots, names, held: BTreeMap::new(), search: None, threads: None }
    }

    /// Searches all processes for the roots, and for descendants of followed processes.
    fn search(&mut self) -> io::Result<()> {
        let running = self.running()?;
        let mut followed: Vec<u32> = self.held.keys().copied().collect();
        followed.extend(running.values().filter(|of| self.is_root(of)).map(|of| of.pid));
        let mut place = 0;
        while let Some(&parent) = followed.get(place) {
            let children = running.values().filter(|of| of.parent == parent && !followed.contains(&of.pid));
            let children: Vec<u32> = children.map(|of| of.pid).collect();
            followed.extend(children);
            place += 1;
        }
        followed.iter().for_each(|pid| self.hold(*pid));
        Ok(())
    }

    /// Adds the children of followed processes, if the kernel lists children (CONFIG_PROC_CHILDREN). This is cheap
    /// enough for every sample. Only the search finds the children that were started by other threads than a process's
    /// first thread.
    fn follow_children(&mut self) {
        let mut parents: Vec<u32> = self.held.keys().copied().collect();
        while let Some(parent) = parents.pop() {
            let listed = fs::read_to_string(self.proc.join(format!("{parent}/task/{parent}/children")));
            let listed = listed.unwrap_or_default();
            let children = listed.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
            let new: Vec<u32> = children.filter(|pid| !self.held.contains_key(pid)).collect();
            new.iter().for_each(|pid| self.hold(*pid));
            parents.extend(new);
        }
    }

    fn running(&self) -> io::Result<BTreeMap<u32, ProcessStat>> {
        let names = fs::read_dir(&self.proc)?.flatten().map(|entry| entry.file_name());
        let pids = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
        let process = |pid| ProcessStat::parse(&fs::read_to_string(self.stat(pid)).ok()?);
        Ok(pids.filter_map(process).map(|process| (process.pid, process)).collect())
    }

    fn is_root(&self, process: &ProcessStat) -> bool {
        self.roots.contains(&process.pid) || self.names.contains(&process.name)
    }

    fn hold(&mut self, pid: u32) {
        if self.held.len() < MOST_PROCESSES && !self.held.contains_key(&pid) {
            // A process that has ended since it was found is omitted.
            self.held.extend(File::open(self.stat(pid)).ok().map(|file| (pid, file)));
        }
    }

    fn stat(&self, pid: u32) -> PathBuf {
        self.proc.join(format!("{pid}/stat"))
    }
}

impl TextSource for Trees {
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        if self.roots.is_empty() && self.names.is_empty() {
            return Err(io::Error::other("no processes were named"));
        }
        let is_due = |due: Option<Instant>| due.is_none_or(|due| Instant::now() >= due);
        if is_due(self.search) {
            let begun = thread_seconds();
            self.search()?;
            self.search = next(begun, SEARCH);
        } else {
            self.follow_children();
        }
        self.report(text);
        if is_due(self.threads) {
            let begun = thread_seconds();
            self.held.keys().for_each(|pid| threads::report(&self.proc, *pid, text));
            self.threads = next(begun, THREADS);
        }
        Ok(())
    }
}

/// The time at which a piece of work is due again. The work began at `begun`, counted as by [`thread_seconds`], and has
/// just ended. It is due after the time `least`, or later if it took long.
fn next(begun: f64, least: Duration) -> Option<Instant> {
    let pause = Duration::from_secs_f64((thread_seconds() - begun).max(0.0) / SHARE);
    Instant::now().checked_add(pause.max(least))
}

impl Trees {
    /// Appends the lines of the followed processes, and forgets those that have ended.
    fn report(&mut self, text: &mut Vec<u8>) {
        // After a process has ended, its open file can't be read any more, even if another process now has the number
        // of the ended process.
        let mut sockets = Sockets::default();
        let Self { proc, held, .. } = self;
        held.retain(|pid, file| {
            let open = open_in(&proc.join(format!("{pid}/fd")));
            let start = text.len();
            let is_there = read_whole(file, text).is_ok();
            // A process that has ended has no open files. But only root could list them, so the process is skipped
            // here.
            if is_there && !has_ended(&text[start..]) {
                sockets.add(open);
            }
            is_there
        });
        sockets.report(text);
    }
}

/// True if the process has ended: its parent hasn't waited for it yet (state Z), or is just waiting for it (state X).
fn has_ended(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The values of a line of /proc/PID/stat. Times are in ticks.
#[derive(Clone, Debug, PartialEq)]
struct ProcessStat {
    pid: u32,
    name: String,
    parent: u32,
    /// The user and system time of the process itself.
    own: u64,
    /// The user and system time of the children that have ended and for which the process has waited.
    children: u64,
    /// The part of `own` and `children` in user mode.
    user: u64,
    /// The time at which the process was started, in ticks since boot.
    started: u64,
    /// True if the process was waiting for a device (state D) when the sample was taken.
    waits: bool,
    threads: u64,
}

impl ProcessStat {
    fn parse(line: &str) -> Option<Self> {
        // The name may contain any characters, including parentheses.
        let (pid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            own: number(11)?.saturating_add(number(12)?),
            children: number(13)?.saturating_add(number(14)?),
            user: number(11)?.saturating_add(number(13)?),
            started: number(19)?,
            waits: fields.first() == Some(&"D"),
            threads: number(17).unwrap_or(1),
        })
    }

    /// The ticks of the process and of the children for which it has waited.
    fn all(&self) -> u64 {
        self.own.saturating_add(self.children)
    }
}

/// The processor time of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessSeconds {
    /// The process ID.
    pub pid: u32,
    /// The process's name, as in /proc/PID/comm, in the last sample that contains it.
    pub name: String,
    /// The processor seconds of the process, including its short-lived children that no sample contains.
    pub seconds: f64,
}

/// The processor time of each followed process between the first and the last sample, in descending order.
/// The time between the last sample of a process and its end is included if its parent is followed and waits
/// for it.
pub fn process_seconds(recording: &Recording) -> Vec<ProcessSeconds> {
    let mut sums: BTreeMap<(u32, u64), ProcessSeconds> = BTreeMap::new();
    for step in steps(recording) {
        for Used { process, seconds, .. } in step.used {
            let sum = sums.entry((process.pid, process.started)).or_insert_with(|| ProcessSeconds {
                pid: process.pid,
                name: String::new(),
                seconds: 0.0,
            });
            process.name.clone_into(&mut sum.name);
            sum.seconds += seconds;
        }
    }
    let mut all: Vec<_> = sums.into_values().collect();
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    all
}

/// The activity of one process between the first and the last sample that contain it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessTime {
    /// The process ID.
    pub pid: u32,
    /// The process's name, as in /proc/PID/comm, in the last sample that contains it.
    pub name: String,
    /// The mean number of processors that the process used, including its short-lived children that no sample
    /// contains.
    pub processors: f64,
    /// The largest number of threads.
    pub threads: u64,
    /// The use of processors by its threads; `None` if fewer than two samples have it.
    pub thread_use: Option<ThreadUse>,
    /// The share of the samples in which the process was waiting for a device.
    pub waits: f64,
    /// The seconds of the recording at which the first and the last sample with the process were taken.
    pub seen: (f64, f64),
}

/// The activity of each followed process that at least two samples contain.
pub fn process_times(recording: &Recording) -> Vec<ProcessTime> {
    let mut thread_uses = thread_uses(recording);
    let mut all: BTreeMap<(u32, u64), (ProcessTime, f64, f64)> = BTreeMap::new();
    for ProcessStep { from, to, used } in steps(recording) {
        for Used { process, seconds, seen } in used {
            let first = || {
                let ProcessStat { pid, name, .. } = process.clone();
                let thread_use = thread_uses.remove(&(pid, process.started));
                let seen = (from, to);
                (
                    ProcessTime { pid, name, processors: 0.0, threads: 0, thread_use, waits: 0.0, seen },
                    0.0,
                    0.0,
                )
            };
            let (time, samples, waits) = all.entry((process.pid, process.started)).or_insert_with(first);
            time.name.clone_from(&process.name);
            time.threads = time.threads.max(process.threads);
            time.processors += seconds;
            time.seen.1 = to;
            *samples += f64::from(seen);
            *waits += f64::from(seen && process.waits);
        }
    }
    let mean = |(mut time, samples, waits): (ProcessTime, f64, f64)| {
        time.processors /= (time.seen.1 - time.seen.0).max(1e-3);
        time.waits = waits / samples.max(1.0);
        time
    };
    all.into_values().map(mean).collect()
}

fn thread_uses(recording: &Recording) -> BTreeMap<(u32, u64), ThreadUse> {
    let started = |text: &str, pid: u32| {
        text.lines().filter_map(ProcessStat::parse).find(|process| process.pid == pid).map(|of| of.started)
    };
    threads::used(recording.texts(NAME), started)
}

/// The seconds in user mode between the first and the last sample, of the followed processes and all their descendants.
/// Descendants that no sample contains are included, because their time is added to the process that waits for them.
/// `None` if no process was followed, or if the number of followed processes reached its limit.
pub fn user_seconds(recording: &Recording) -> Option<f64> {
    let moments = moments(recording);
    let ((from, first), (_, last)) = (moments.first()?, moments.last()?);
    if first.is_empty() || moments.iter().any(|(_, moment)| moment.len() >= MOST_PROCESSES) {
        return None;
    }
    let hz = recording.about.ticks_per_second.max(1) as f64;
    let since = ((recording.about.boot + from) * hz) as u64;
    let mut before: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for process in moments.iter().flat_map(|(_, moment)| moment.values()).filter(|of| of.started < since) {
        before.entry((process.pid, process.started)).or_insert(process.user);
    }
    let all = |ticks: &mut dyn Iterator<Item = u64>| ticks.fold(0, u64::saturating_add);
    let used = all(&mut last.values().map(|process| process.user));
    Some(used.saturating_sub(all(&mut before.into_values())) as f64 / hz)
}

/// The percentage of one processor that is used, for each process and for all processes together.
fn series(recording: &Recording) -> Vec<TimeSeries> {
    let mut points: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for step in steps(recording).into_iter().filter(|step| step.to > step.from) {
        let percent = |seconds: f64| 100.0 * seconds / (step.to - step.from);
        let all = step.used.iter().map(|used| used.seconds).sum();
        points.entry("all".into()).or_default().push((step.to, percent(all)));
        for Used { process, seconds, .. } in &step.used {
            let name = format!("{} {}", process.pid, process.name);
            points.entry(name).or_default().push((step.to, percent(*seconds)));
        }
    }
    points.into_iter().map(|(name, points)| TimeSeries::new(NAME, &name, "%", points)).collect()
}

/// The changes from one sample to the next.
struct ProcessStep {
    from: f64,
    to: f64,
    used: Vec<Used>,
}

/// The processor time that a process used in a step.
struct Used {
    process: ProcessStat,
    seconds: f64,
    /// True if the sample at the end of the step contains the process; false if only a later sample does.
    seen: bool,
}

type Moment = BTreeMap<u32, ProcessStat>;

/// The time of each sample in seconds, and the processes in it.
fn moments(recording: &Recording) -> Vec<(f64, Moment)> {
    let moment = |text: &str| -> Moment {
        text.lines().filter_map(ProcessStat::parse).map(|process| (process.pid, process)).collect()
    };
    recording.texts(NAME).map(|(seconds, text)| (seconds, moment(text))).collect()
}

fn steps(recording: &Recording) -> Vec<ProcessStep> {
    let moments = moments(recording);
    let hz = recording.about.ticks_per_second.max(1) as f64;
    let boot = recording.about.boot;
    let mut steps: Vec<ProcessStep> = Vec::new();
    for pair in moments.windows(2) {
        let ((from, earlier), (to, later)) = (&pair[0], &pair[1]);
        steps.push(ProcessStep { from: *from, to: *to, used: Vec::new() });
        let most = ((to - from) * hz).ceil() as u64;
        for now in later.values() {
            if let Some(before) = earlier.get(&now.pid).filter(|before| before.started == now.started) {
                let Ticks { own, ended } = used(before, now, most, earlier, later);
                add(&mut steps, now, true, *from, own as f64 / hz);
                ended.iter().for_each(|(of, ticks)| add(&mut steps, of, false, *from, *ticks as f64 / hz));
            } else {
                let started = now.started as f64 / hz - boot;
                let begun = moments.first().map_or(0.0, |first| first.0);
                // Start times are exact to a tick. If a process started before the recording but was found later, only
                // the time that it uses after it was found counts.
                let all = if started + 1.0 / hz > begun { now.all() } else { 0 };
                add(&mut steps, now, true, started.max(begun), all as f64 / hz);
            }
        }
    }
    steps
}

/// Distributes the time that a process used, from `from` to the end of the last step, evenly over the steps.
fn add(steps: &mut [ProcessStep], process: &ProcessStat, seen: bool, from: f64, seconds: f64) {
    let Some((last, before)) = steps.split_last_mut() else { return };
    let span = last.to - from;
    let mut left = seconds;
    for step in before.iter_mut().filter(|step| step.to > from) {
        let share = seconds * (step.to - step.from.max(from)) / span;
        left -= share;
        step.used.push(Used { process: process.clone(), seconds: share, seen: false });
    }
    last.used.push(Used { process: process.clone(), seconds: left.max(0.0), seen });
}

/// The ticks of processor time that one process adds to a step.
struct Ticks {
    /// The ticks of the process itself, and of its children that no sample contains.
    own: u64,
    /// The descendants that ended after the earlier moment, each with the ticks that it used between that moment and
    /// its end.
    ended: Vec<(ProcessStat, u64)>,
}

/// The ticks that a process used since the earlier moment. The kernel adds all ticks of a child to the process that
/// waits for the child. The ticks that were already counted for the child are subtracted. The child used the remaining
/// ticks after its last sample; each of its threads can have used at most `most` ticks in this time.
fn used(before: &ProcessStat, now: &ProcessStat, most: u64, earlier: &Moment, later: &Moment) -> Ticks {
    let ended = ended_below(now.pid, earlier, later);
    let counted = ended.iter().map(|process| process.all()).fold(0, u64::saturating_add);
    let mut rest = now.children.saturating_sub(before.children).saturating_sub(counted);
    let all = rest;
    let share = |process: &&ProcessStat| {
        let part = (u128::from(all) * u128::from(process.all()) / u128::from(counted.max(1))) as u64;
        let part = part.min(most.saturating_mul(process.threads.max(1)));
        rest = rest.saturating_sub(part);
        ((*process).clone(), part)
    };
    let ended = ended.iter().map(share).filter(|(_, part)| *part > 0).collect();
    Ticks { own: now.own.saturating_sub(before.own).saturating_add(rest), ended }
}

/// The descendants of a process that ended between two moments, except for descendants of a child that still exists.
fn ended_below<'a>(parent: u32, earlier: &'a Moment, later: &Moment) -> Vec<&'a ProcessStat> {
    let mut found = Vec::new();
    let mut parents = vec![parent];
    while let Some(parent) = parents.pop() {
        let children = earlier.values().filter(|of| of.parent == parent && !is_there(of, later));
        let children: Vec<_> = children.collect();
        parents.extend(children.iter().map(|child| child.pid));
        found.extend(children);
    }
    found
}

fn is_there(process: &ProcessStat, moment: &Moment) -> bool {
    moment.get(&process.pid).is_some_and(|other| other.started == process.started)
}

#[cfg(test)]
mod tests;
