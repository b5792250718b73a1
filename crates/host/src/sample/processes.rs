//! Processor time of chosen processes and their descendants: lines of /proc/PID/stat (proc_pid_stat(5)), and
//! one of their sockets.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::sampler::thread_seconds;
use super::sockets::{Sockets, open_in};
use super::source::{TextSource, read_whole};
use super::{Recording, SampleKind, SamplerOptions, TimeSeries};

pub(super) const NAME: &str = "processes";
/// The shortest time between two searches for new descendants, and the largest share of a processor for them.
const SEARCH: Duration = Duration::from_secs(1);
const SEARCH_SHARE: f64 = 0.001;
/// The largest number of processes that are followed at a time.
const MOST: usize = 256;

pub(super) const KIND: SampleKind =
    SampleKind { name: NAME, open: |options| Box::new(Trees::new(options)), series };

/// The followed processes.
struct Trees {
    proc: PathBuf,
    roots: Vec<u32>,
    names: Vec<String>,
    held: BTreeMap<u32, File>,
    search: Option<Instant>,
}

impl Trees {
    fn new(options: &SamplerOptions) -> Self {
        let (roots, names) = (options.processes.clone(), options.names.clone());
        Self { proc: options.root.join("proc"), roots, names, held: BTreeMap::new(), search: None }
    }

    /// Finds the roots, and the descendants of followed processes.
    fn search(&mut self) -> io::Result<()> {
        let begun = thread_seconds();
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
        let pause = Duration::from_secs_f64((thread_seconds() - begun).max(0.0) / SEARCH_SHARE);
        self.search = Instant::now().checked_add(pause.max(SEARCH));
        Ok(())
    }

    /// Adds the children of followed processes, if the kernel lists them (CONFIG_PROC_CHILDREN). This is
    /// cheap enough for every sample. Children of other threads than the first are found by the search.
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
        if self.held.len() < MOST && !self.held.contains_key(&pid) {
            // A process that has ended meanwhile doesn't count.
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
        if self.search.is_none_or(|due| Instant::now() >= due) {
            self.search()?;
        } else {
            self.follow_children();
        }
        // A file of a process that has ended can't be read any more, even if its number is used again.
        let mut sockets = Sockets::default();
        let Self { proc, held, .. } = self;
        held.retain(|pid, file| {
            let open = open_in(&proc.join(format!("{pid}/fd")));
            let start = text.len();
            let is_there = read_whole(file, text).is_ok();
            // An ended process has no open files, but only root may see that.
            if is_there && !has_ended(&text[start..]) {
                sockets.add(open);
            }
            is_there
        });
        sockets.tell(text);
        Ok(())
    }
}

/// True if the process has ended: nobody has waited for it yet (state Z), or somebody just has (X).
fn has_ended(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// One line of /proc/PID/stat. Times are in ticks.
#[derive(Clone, Debug, PartialEq)]
struct ProcessStat {
    pid: u32,
    name: String,
    parent: u32,
    /// User and system.
    own: u64,
    /// User and system time of children that have ended and were waited for.
    children: u64,
    /// The part of both in user mode.
    user: u64,
    /// The process's start, since the host was booted.
    started: u64,
    /// True if the process waits for a device (state D) at the moment of the sample.
    waits: bool,
    threads: u64,
}

impl ProcessStat {
    fn parse(line: &str) -> Option<Self> {
        // The name may contain any characters, also brackets.
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

    /// Its own time and that of the children that it has waited for.
    fn all(&self) -> u64 {
        self.own.saturating_add(self.children)
    }
}

/// Processor time of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessSeconds {
    /// Its number.
    pub pid: u32,
    /// Its name, as in /proc/PID/comm, at the end.
    pub name: String,
    /// Processor seconds of the process and of short-lived children that no sample saw.
    pub seconds: f64,
}

/// The processor time of each followed process between the first and the last sample, the largest first. The
/// time of a process's last interval isn't lost if its parent is followed and waits for it.
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

/// The activity of one process while it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessTime {
    /// Its number.
    pub pid: u32,
    /// Its name, as in /proc/PID/comm, at the end.
    pub name: String,
    /// The mean number of processors in use, including short-lived children that no sample saw.
    pub processors: f64,
    /// The largest number of its threads.
    pub threads: u64,
    /// Share of the samples in which it waited for a device.
    pub waits: f64,
    /// First and last second in which it was seen.
    pub seen: (f64, f64),
}

/// The activity of each followed process that at least two samples saw.
pub fn process_times(recording: &Recording) -> Vec<ProcessTime> {
    let mut all: BTreeMap<(u32, u64), (ProcessTime, f64, f64)> = BTreeMap::new();
    for ProcessStep { from, to, used } in steps(recording) {
        for Used { process, seconds, seen } in used {
            let first = || {
                let ProcessStat { pid, name, .. } = process.clone();
                (
                    ProcessTime { pid, name, processors: 0.0, threads: 0, waits: 0.0, seen: (from, to) },
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

/// Seconds in user mode between the first and the last sample, of the followed processes and all their
/// descendants. Descendants that ended unseen are included, because their time goes to the process that waits
/// for them. None if no process was followed, or if the number of followed processes reached its limit.
pub fn user_seconds(recording: &Recording) -> Option<f64> {
    let moments = moments(recording);
    let ((from, first), (_, last)) = (moments.first()?, moments.last()?);
    if first.is_empty() || moments.iter().any(|(_, moment)| moment.len() >= MOST) {
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

/// Percent of one processor, for each process and for all together.
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

/// The processor time of a process in a step.
struct Used {
    process: ProcessStat,
    seconds: f64,
    /// True if the process was seen at the step's end, and not only later.
    seen: bool,
}

type Moment = BTreeMap<u32, ProcessStat>;

/// The processes of each sample, with its second.
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
                // Exact to a tick. A process that has run for longer, and was found late, counts from now on.
                let all = if started + 1.0 / hz > begun { now.all() } else { 0 };
                add(&mut steps, now, true, started.max(begun), all as f64 / hz);
            }
        }
    }
    steps
}

/// Adds what a process used from `from` to the end of the last step, evenly over the steps.
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

/// What one process adds to a step.
struct Ticks {
    /// Of the process itself, and of children that no sample saw.
    own: u64,
    /// Of its descendants that have ended since the earlier moment, after that moment.
    ended: Vec<(ProcessStat, u64)>,
}

/// The ticks since the earlier moment. A process gets all the time of a child that it has waited for; what was
/// counted for the child before is subtracted, and the rest is the child's last part, up to `most` ticks for
/// each of its threads.
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

/// The descendants of a process that ended between two moments, without those of a child that is still there.
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
mod tests {
    use super::*;
    use crate::sample::recording_of;

    fn line(pid: u32, parent: u32, own: u64, children: u64, started: u64) -> String {
        format!("{pid} (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {children} 0 20 0 1 0 {started} 0 0\n")
    }

    #[test]
    fn a_child_that_ends_is_counted_once() {
        // 30 ticks of the child were seen, and 20 passed before its end; 7 are of a child that no sample saw, and
        // can't be told from them.
        let first = line(10, 1, 100, 0, 5) + &line(11, 10, 0, 0, 5);
        let second = line(10, 1, 110, 0, 5) + &line(11, 10, 30, 0, 5);
        let third = line(10, 1, 120, 50 + 7, 5);
        let found = process_seconds(&recording_of(NAME, &[&first, &second, &third]));
        let ticks = found.iter().map(|of| (of.pid, (of.seconds * 100.0).round()));
        assert_eq!(ticks.collect::<Vec<_>>(), [(11, 57.0), (10, 20.0)]);
        assert_eq!(found[0].name, "a) b");
    }

    #[test]
    fn descendants_that_end_together_are_counted_once_and_have_their_last_part() {
        // A child that uses nothing, its child that has used 138 ticks when it is last seen and 247 in all; one
        // that it waited for before.
        let first = line(10, 1, 3, 0, 5) + &line(11, 10, 0, 4, 6) + &line(12, 11, 0, 0, 7);
        let second = line(10, 1, 3, 0, 5) + &line(11, 10, 0, 4, 6) + &line(12, 11, 138, 0, 7);
        let third = line(10, 1, 4, 4 + 247, 5);
        // In steps of two seconds, and in steps that are shorter than the last part.
        for (seconds, of_child, of_parent) in [(2.0, 2.43, 0.02), (1.0, 2.38, 0.07)] {
            let mut recording = recording_of(NAME, &[&first, &second, &third]);
            recording.samples.iter_mut().for_each(|sample| sample.seconds *= seconds);
            let found = process_seconds(&recording);
            let of = |pid| found.iter().find(|of| of.pid == pid).map_or(0.0, |of| of.seconds);
            assert!((of(12) - of_child).abs() < 1e-9 && (of(10) - of_parent).abs() < 1e-9, "{found:?}");
            assert!((found.iter().map(|of| of.seconds).sum::<f64>() - 2.48).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn one_that_was_found_late_has_its_time_since_it_began() {
        // Started at second 1 of the recording; first seen at second 4, when it has used 2.4 s.
        let child = line(11, 10, 240, 0, 150);
        let old = line(10, 1, 100, 0, 5);
        let mut recording = recording_of(
            NAME,
            &[&old, &old, &old, &old, &(old.clone() + &child), &old.replace(" 0 0 20", " 240 0 20")],
        );
        recording.about.boot = 0.5;
        let found = process_seconds(&recording);
        let of = |pid| found.iter().find(|of| of.pid == pid).unwrap().seconds;
        assert!((of(11) - 2.4).abs() < 1e-9 && of(10) == 0.0, "{found:?}");
        let time = process_times(&recording).into_iter().find(|of| of.pid == 11).unwrap();
        assert!((time.processors - 0.8).abs() < 1e-9 && time.seen == (1.0, 4.0), "{time:?}");
        let all = series(&recording).into_iter().find(|series| series.name == "11 a) b").unwrap();
        assert!(all.points.iter().all(|(_, percent)| (percent - 80.0).abs() < 1e-9), "{all:?}");
    }

    #[test]
    fn waiting_for_a_device_is_seen() {
        let run = line(10, 1, 100, 0, 5);
        let wait = run.replace(") S ", ") D ").replace(" 100 0 0 0 ", " 190 0 0 0 ");
        let found =
            process_times(&recording_of(NAME, &[&run, &wait, &wait, &run.replace(" 100 0", " 190 0")]));
        assert_eq!((found[0].pid, found[0].threads, found[0].seen), (10, 1, (0.0, 3.0)));
        assert!(
            (found[0].waits - 2.0 / 3.0).abs() < 1e-9 && (found[0].processors - 0.3).abs() < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn one_that_was_found_late_counts_from_then_on() {
        let second = line(10, 1, 5000, 0, 5) + &line(12, 1, 40, 0, 90);
        let mut recording = recording_of(NAME, &["", &second, &second.replace("5000", "5010")]);
        recording.about.boot = 0.5;
        let found = process_seconds(&recording);
        assert_eq!(found.iter().map(|of| (of.pid, of.seconds)).collect::<Vec<_>>(), [(12, 0.4), (10, 0.1)]);
        assert!(series(&recording).iter().any(|series| series.name == "all"));
    }

    #[test]
    fn time_in_user_mode_goes_to_those_who_wait() {
        // A process from before the recording, an earlier child that ends, and a child that is found late.
        let first = line(10, 1, 500, 0, 5) + &line(11, 10, 200, 0, 5);
        let last = line(10, 1, 510, 230 + 40, 5) + &line(12, 10, 25, 0, 150);
        let mut recording = recording_of(NAME, &[&first, &last]);
        recording.about.boot = 1.0;
        assert_eq!(user_seconds(&recording), Some(1.05));
        assert_eq!(user_seconds(&recording_of(NAME, &["", &last])), None);
        assert_eq!(user_seconds(&recording_of("cpu", &["x"])), None);
    }

    #[test]
    fn descendants_are_found_and_those_that_ended_forgotten() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let options = SamplerOptions { processes: vec![child.id()], ..SamplerOptions::default() };
        let mut trees = Trees::new(&options);
        let mut read = || {
            let mut text = Vec::new();
            trees.read(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            text.lines().filter_map(ProcessStat::parse).collect::<Vec<_>>()
        };
        let is_sleep = |process: &&ProcessStat| process.name == "sleep";
        let deadline = Instant::now() + Duration::from_secs(10);
        let sleep = loop {
            if let Some(found) = read().iter().find(is_sleep) {
                break found.pid;
            }
            assert!(Instant::now() < deadline, "the child's child was never found");
        };
        let sleep = rustix::process::Pid::from_raw(sleep as i32).unwrap();
        rustix::process::kill_process(sleep, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(read().is_empty());
    }
}
