//! Slurm's programs.

use linerate_fleet::slurm::{ACCOUNT_FORMAT, QUEUE_FORMAT, ScheduledTasks, SubmittedJob, accounted, queued};
use linerate_wire::path::printable;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use crate::common::failure::Failure;

/// The states of a job's tasks, from the queue, otherwise from the accounts. A site may have only one of the two.
///
/// # Errors
/// The reason why neither can be read.
pub fn tasks(job: &SubmittedJob) -> Result<ScheduledTasks, String> {
    let queue = queue(job);
    let account = ["--noheader", "--parsable2", "--jobs", &job.job, "--format", ACCOUNT_FORMAT];
    let account = call("sacct", &account).map(|text| accounted(&text));
    match (queue, account) {
        (Err(queue), Err(_)) => Err(queue),
        (queue, account) => {
            let mut tasks = account.unwrap_or_default();
            tasks.extend(queue.unwrap_or_default());
            Ok(tasks)
        }
    }
}

/// The tasks that are in the queue; none if Slurm doesn't know the job any more.
///
/// # Errors
/// The reason why the queue can't be read.
pub fn queue(job: &SubmittedJob) -> Result<ScheduledTasks, String> {
    let words = ["--noheader", "--array", "--jobs", &job.job, "--format", QUEUE_FORMAT];
    match call("squeue", &words) {
        Ok(text) => Ok(queued(&text)),
        Err(said) if said.contains("Invalid job id") => Ok(ScheduledTasks::new()),
        Err(said) => Err(said),
    }
}

/// Passes a script to sbatch, and returns sbatch's output.
///
/// # Errors
/// The reason why sbatch refused it.
pub fn submit(script: &str) -> Result<String, Failure> {
    let failed = |why: String| Failure::failed(format!("sbatch: {why}"));
    let mut child = Command::new("sbatch")
        .arg("--parsable")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(not_run(&error)))?;
    let mut stdin = child.stdin.take();
    let given = stdin.as_mut().map(|stdin| stdin.write_all(script.as_bytes()));
    drop(stdin);
    let ended = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    match (ended.status.success(), given) {
        (true, Some(Ok(()))) => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        _ => Err(failed(said(&ended.stderr))),
    }
}

fn call(program: &str, words: &[&str]) -> Result<String, String> {
    let ended = Command::new(program).args(words).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("{program}: {}", not_run(&error)))?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(format!("{program}: {}", said(&ended.stderr))),
    }
}

fn not_run(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "isn't installed on this host: run this where jobs are submitted".to_owned(),
        _ => error.to_string(),
    }
}

fn said(stderr: &[u8]) -> String {
    printable(stderr.trim_ascii())
}
