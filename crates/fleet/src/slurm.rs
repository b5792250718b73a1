//! Formats of Slurm's programs: arrays of tasks, and the states of tasks.

use anyhow::Context;
use linerate_sys::replace::replace;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::attempt::now;
use crate::plan::{PlanDirectory, SCHEMA, round_path};
use crate::shards::MAX_SHARDS;

/// The format of `squeue` that [`queued`] reads, with `--noheader --array --states=all`.
pub const QUEUE_FORMAT: &str = "%F|%K|%T|%r|%N";
/// The format of `sacct` that [`accounted`] reads, with `--noheader --parsable2`.
pub const ACCOUNT_FORMAT: &str = "JobID,State,NodeList,ExitCode";

/// The job that was submitted last for a round: the contents of `submitted.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedJob {
    /// The version of the format, [`SCHEMA`].
    pub schema: u32,
    /// The number of the array job.
    pub job: String,
    /// The time of the submission, in seconds since 1970.
    pub submitted: u64,
    /// The submitted shards, in the notation of `sbatch --array`.
    pub array: String,
    /// The numbers of the jobs that were submitted earlier for the same round, the oldest first.
    #[serde(default)]
    pub earlier: Vec<String>,
}

/// A task of an array job, as Slurm reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduledTask {
    /// The number of the task's array job.
    pub job: String,
    /// Slurm's name of the state, for example `PENDING`, `RUNNING`, `FAILED` or `NODE_FAIL`.
    pub state: String,
    /// The reason why the task is waiting, or the exit code and signal with which it ended.
    pub reason: String,
    /// The node on which the task runs or ran.
    pub node: String,
}

/// The states of tasks that have ended. Slurm doesn't restart a task in such a state.
const FINAL: [&str; 11] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
];

impl ScheduledTask {
    /// Whether the task is waiting, running or about to end.
    pub fn is_active(&self) -> bool {
        !FINAL.contains(&self.state.as_str())
    }
}

/// The tasks of a job, by shard number.
pub type ScheduledTasks = BTreeMap<u32, ScheduledTask>;

/// The tasks of several jobs, by job number and shard number.
pub type TasksOfJobs = BTreeMap<(String, u32), ScheduledTask>;

/// Prevents other submissions of a plan until the returned file is dropped. On a file system without locks, it prevents
/// none.
///
/// # Errors
/// If another submission is being made, or the lock file can't be opened.
pub fn hold_submissions(directory: &PlanDirectory) -> anyhow::Result<File> {
    let path = directory.path.join("submission.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            anyhow::bail!("another 'linerate fleet submit' of this plan is running: wait for its end")
        }
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

impl SubmittedJob {
    /// The job that was submitted last for the plan's current round; `None` if no job was submitted for this round.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn of(directory: &PlanDirectory) -> anyhow::Result<Option<Self>> {
        Self::read(&directory.round())
    }

    /// The numbers of all jobs that were submitted for a plan, in all rounds, the newest first.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn all(directory: &PlanDirectory) -> anyhow::Result<Vec<String>> {
        let rounds = (1..=directory.plan.round).rev();
        let read = |round| Self::read(&round_path(&directory.path, round)).transpose();
        let of_rounds = rounds.filter_map(read).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(of_rounds.into_iter().flat_map(|last| last.numbers().into_iter().rev()).collect())
    }

    /// The numbers of this job and of the earlier jobs of the round, the oldest first.
    fn numbers(self) -> Vec<String> {
        self.earlier.into_iter().chain([self.job]).collect()
    }

    fn read(round: &Path) -> anyhow::Result<Option<Self>> {
        let file = round.join("submitted.json");
        match fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            text => {
                let reading = || format!("reading {}", file.display());
                Ok(Some(serde_json::from_slice(&text.with_context(reading)?).with_context(reading)?))
            }
        }
    }

    /// The numbers of the submitted shards.
    pub fn shards(&self) -> BTreeSet<u32> {
        let shards = self.array.split(',').filter_map(range);
        shards.flatten().collect()
    }

    /// Records a job; `said` is the output of `sbatch --parsable`.
    ///
    /// # Errors
    /// If the output doesn't begin with a job's number, or the record can't be written.
    pub fn note(directory: &PlanDirectory, said: &str, array: &str) -> anyhow::Result<Self> {
        // In the output, a semicolon and the cluster's name may follow the number.
        let job = said.trim().split(';').next().unwrap_or_default().to_owned();
        let is_number = !job.is_empty() && job.chars().all(|c| c.is_ascii_digit());
        anyhow::ensure!(is_number, "sbatch hasn't printed a job's number: '{}'", said.trim());
        let earlier = Self::of(directory)?.map_or_else(Vec::new, Self::numbers);
        let submitted = Self { schema: SCHEMA, job, submitted: now(), array: array.to_owned(), earlier };
        let file = directory.round().join("submitted.json");
        replace(&file, &serde_json::to_vec(&submitted)?)
            .with_context(|| format!("job {} is submitted; writing {}", submitted.job, file.display()))?;
        Ok(submitted)
    }
}

/// Ascending numbers in the notation of `sbatch --array`: `0-3,7,9-10`.
pub fn array_of(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

/// Parses a number or a range of an array.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (last < MAX_SHARDS).then_some(first..=last)
}

/// Reads `squeue`'s lines in [`QUEUE_FORMAT`].
pub fn queued(text: &str) -> TasksOfJobs {
    let task = |line: &str| {
        let mut fields = line.trim().split('|');
        let (job, shard) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        let mut field = || fields.next().map(str::to_owned);
        let task = ScheduledTask { job: job.clone(), state: field()?, reason: field()?, node: field()? };
        Some(((job, shard), task))
    };
    text.lines().filter_map(task).collect()
}

/// The task of each shard: the active task of the newest job that has one for this shard, otherwise the ended task of
/// the job `last`. An ended task of any other job is ignored, because it doesn't describe this round. `jobs` begins
/// with the newest job.
pub fn by_shard(tasks: &TasksOfJobs, jobs: &[String], last: Option<&SubmittedJob>) -> ScheduledTasks {
    let mut of_shards = ScheduledTasks::new();
    let mut newer = |is_one: &dyn Fn(&ScheduledTask) -> bool| {
        for job in jobs {
            for ((_, shard), task) in tasks.iter().filter(|((of, _), task)| of == job && is_one(task)) {
                of_shards.entry(*shard).or_insert_with(|| task.clone());
            }
        }
    };
    newer(&ScheduledTask::is_active);
    newer(&|task| last.is_some_and(|last| last.job == task.job));
    of_shards
}

/// Escapes a path for `sbatch --output`, which replaces each `%` with the letter after it.
///
/// # Errors
/// If the path has a control character or a backslash; a backslash turns off Slurm's replacement of `%a`.
pub fn output_path(path: &str) -> anyhow::Result<String> {
    let unfit = path.chars().find(|c| *c == '\\' || c.is_control());
    if let Some(unfit) = unfit {
        anyhow::bail!(
            "Slurm can't write the tasks' output into the plan's directory {path:?}, because its path has the character {unfit:?}: give the plan another path by a symbolic link"
        );
    }
    Ok(path.replace('%', "%%"))
}

/// Parses the output of `sacct` in [`ACCOUNT_FORMAT`]. Job steps are ignored.
pub fn accounted(text: &str) -> TasksOfJobs {
    let task = |line: &str| {
        let mut fields = line.trim().split('|');
        let (job, shard) = fields.next()?.split_once('_')?;
        let (job, shard) = (job.to_owned(), shard.parse().ok()?);
        // Further words may follow the state, as in `CANCELLED by 1000`.
        let state = fields.next()?.split(' ').next()?.to_owned();
        let node = fields.next()?.to_owned();
        let task = ScheduledTask { job: job.clone(), state, reason: fields.next()?.to_owned(), node };
        Some(((job, shard), task))
    };
    text.lines().filter_map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_active_until_slurm_names_a_final_state() {
        let is_active = |state: &str| {
            let (job, reason, node) = (String::new(), String::new(), String::new());
            ScheduledTask { job, state: state.into(), reason, node }.is_active()
        };
        // These are the states in the manual page of squeue.
        let active = "CONFIGURING COMPLETING PENDING RUNNING RESV_DEL_HOLD REQUEUE_FED REQUEUE_HOLD REQUEUED \
            RESIZING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED";
        assert!(active.split_whitespace().all(is_active));
        let ended = "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED \
            TIMEOUT";
        assert!(!ended.split_whitespace().any(is_active));
    }

    #[test]
    fn a_job_has_the_shards_of_its_array() {
        let of = |array: &str| {
            let (job, array) = ("7".into(), array.into());
            let job = SubmittedJob { schema: SCHEMA, job, submitted: 0, array, earlier: Vec::new() };
            job.shards().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of("0-3,7,9-10"), [0, 1, 2, 3, 7, 9, 10]);
        assert_eq!(of("5,x,3-,0-4294967295,,8-6"), [5]);
    }

    #[test]
    fn an_output_path_is_escaped_or_refused() {
        assert_eq!(output_path("/a b/50%a/%%/it's").unwrap(), "/a b/50%%a/%%%%/it's");
        for path in ["/a\\b", "/a\nb", "/a\rb"] {
            let why = output_path(path).unwrap_err().to_string();
            assert!(why.contains(&format!("{path:?}")), "{why}");
        }
    }

    #[test]
    fn an_array_has_ranges() {
        assert_eq!(array_of(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!((array_of(&[]), array_of(&[5])), (String::new(), "5".into()));
        assert_eq!(array_of(&[u32::MAX - 1, u32::MAX]), "4294967294-4294967295");
    }

    /// The test's text has the form that Slurm 22.05 prints.
    #[test]
    fn tasks_are_read_and_lines_of_another_form_passed_over() {
        let queue = "7|2|PENDING|JobArrayTaskLimit|\n7|0|RUNNING|None|n1\n8|N/A|RUNNING|None|n1\n\nslurm_load_jobs error: x\n7|3-9|PENDING|x|\n6|0|PENDING|x|\n";
        let tasks = queued(queue);
        let key = |job: &str, shard: u32| (job.to_owned(), shard);
        assert_eq!(tasks.keys().cloned().collect::<Vec<_>>(), [key("6", 0), key("7", 0), key("7", 2)]);
        let (first, second) = (&tasks[&key("7", 0)], &tasks[&key("7", 2)]);
        assert_eq!((first.node.as_str(), second.reason.as_str()), ("n1", "JobArrayTaskLimit"));
        let account = "7_0|COMPLETED|n1|0:0\n7_0.batch|COMPLETED|n1|0:0\n7_1|CANCELLED by 0|n2|0:15\n7_[4-5]|PENDING||0:0\n7|x|x|x\n";
        let tasks = accounted(account);
        assert_eq!(tasks.keys().cloned().collect::<Vec<_>>(), [key("7", 0), key("7", 1)]);
        let second = &tasks[&key("7", 1)];
        assert_eq!((second.state.as_str(), second.reason.as_str()), ("CANCELLED", "0:15"));
    }

    #[test]
    fn of_several_jobs_an_active_task_counts_and_otherwise_the_last_jobs() {
        let tasks = queued(
            "7|0|RUNNING|None|n1\n7|1|FAILED|x|n1\n7|2|PENDING|x|\n8|0|FAILED|x|n2\n8|2|RUNNING|None|n2\n8|3|FAILED|x|n2\n",
        );
        let last = |job: &str| {
            let (job, array) = (job.into(), "0-3".into());
            SubmittedJob { schema: SCHEMA, job, submitted: 0, array, earlier: Vec::new() }
        };
        let jobs = ["8", "7"].map(str::to_owned);
        let seen = |last: Option<&SubmittedJob>| {
            let tasks = by_shard(&tasks, &jobs, last);
            tasks
                .into_iter()
                .map(|(shard, task)| format!("{shard}:{} {}", task.job, task.state))
                .collect::<Vec<_>>()
        };
        assert_eq!(seen(Some(&last("8"))), ["0:7 RUNNING", "2:8 RUNNING", "3:8 FAILED"]);
        assert_eq!(seen(None), ["0:7 RUNNING", "2:8 RUNNING"], "the last round has no job");
    }

    #[test]
    fn all_jobs_of_a_plan_are_recorded_also_those_of_the_same_round() {
        let top = tempfile::tempdir().unwrap();
        let mut plan = PlanDirectory { path: top.path().to_owned(), plan: crate::plan::tests::plan(&[]) };
        for (round, jobs) in [(1, vec!["3"]), (2, vec![]), (3, vec!["5", "9;cluster", "12"])] {
            plan.plan.round = round;
            fs::create_dir(plan.round()).unwrap();
            jobs.iter().for_each(|job| drop(SubmittedJob::note(&plan, job, "0-1").unwrap()));
        }
        assert_eq!(SubmittedJob::all(&plan).unwrap(), ["12", "9", "5", "3"]);
        // Earlier versions wrote this form.
        let old = r#"{"schema":2,"job":"4","submitted":1,"array":"0"}"#;
        fs::write(plan.round().join("submitted.json"), old).unwrap();
        assert_eq!(SubmittedJob::all(&plan).unwrap(), ["4", "3"]);
    }
}
