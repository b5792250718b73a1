//! Calls the programs of Slurm.

use linerate_fleet::slurm::{ACCOUNT_FORMAT, QUEUE_FORMAT, TasksOfJobs, accounted, queued};
use linerate_wire::path::printable;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use crate::common::failure::Failure;
use crate::exit::Code;

/// The text by which sbatch refuses an array with too large task numbers.
const ARRAY_REFUSED: &str = "Invalid job array specification";

/// The states of the tasks of these jobs, from Slurm's queue (squeue) and Slurm's accounting (sacct). At some sites,
/// only one of the two can be read.
///
/// # Errors
/// The reason why the queue can't be read, if the accounting can't be read either.
pub fn tasks(jobs: &[String]) -> Result<TasksOfJobs, String> {
    let (queue, jobs) = (queue(jobs), jobs.join(","));
    let account = ["--noheader", "--parsable2", "--jobs", &jobs, "--format", ACCOUNT_FORMAT];
    let account = call("sacct", &account).map(|text| accounted(&text));
    match (queue, account) {
        (Err(queue), Err(_)) => Err(queue),
        (queue, account) => {
            let mut tasks = account.unwrap_or_default();
            if let Ok(queue) = queue {
                // The queue contains all tasks that haven't ended. If the accounting has an active task that isn't in
                // the queue, the accounting has missed the end of this task.
                tasks.retain(|_, task| !task.is_active());
                tasks.extend(queue);
            }
            Ok(tasks)
        }
    }
}

/// The tasks that Slurm's controller knows: those in the queue, and those that ended within the last minutes
/// (`MinJobAge`). Empty if the controller no longer knows the jobs.
///
/// # Errors
/// The reason why the queue can't be read.
pub fn queue(jobs: &[String]) -> Result<TasksOfJobs, String> {
    let jobs = jobs.join(",");
    let words = ["--noheader", "--array", "--states=all", "--jobs", &jobs, "--format", QUEUE_FORMAT];
    match call("squeue", &words) {
        Ok(text) => Ok(queued(&text)),
        Err(said) if said.contains("Invalid job id") => Ok(TasksOfJobs::new()),
        Err(said) => Err(said),
    }
}

/// Submits a script with sbatch. The first line of sbatch's output contains the job's number. This line is passed to
/// `note` immediately, because sbatch with `--wait` ends only when the job has ended. `note` returns the job's number.
///
/// # Errors
/// The reason why sbatch refused the script, or `note` failed; [`Code::Partial`] if sbatch failed after it had
/// printed the number.
pub fn submit(script: &str, note: impl FnOnce(&str) -> Result<String, Failure>) -> Result<(), Failure> {
    let failed = |why: String| Failure::failed(format!("sbatch: {why}"));
    let mut child = Command::new("sbatch")
        .arg("--parsable")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(not_run(&error)))?;
    let stderr = child.stderr.take();
    let errors = thread::spawn(move || read_all(stderr));
    let line = first_line(&mut child, script).map_err(|error| failed(error.to_string()))?;
    let job = if line.trim().is_empty() { None } else { Some(note(&line)?) };
    let ended = child.wait().map_err(|error| failed(error.to_string()))?;
    let errors = errors.join().unwrap_or_default();
    match job {
        Some(_) if ended.success() => Ok(()),
        Some(job) => Err(Failure(
            format!(
                "job {job}: sbatch: {}; 'linerate fleet status' shows which tasks have failed",
                said(&errors, ended)
            ),
            Code::Partial,
        )),
        None => Err(failed(with_advice(said(&errors, ended)))),
    }
}

/// Writes the script to sbatch's input, and reads the first line of its output. The rest of the output is
/// read in the background.
fn first_line(child: &mut Child, script: &str) -> std::io::Result<String> {
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(script.as_bytes()) {
            // sbatch has refused its options, and prints the reason on standard error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            given => given?,
        }
    }
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line)?;
        thread::spawn(move || read_all(Some(stdout)));
    }
    Ok(line)
}

fn read_all(from: Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    // If the output can't be read, it counts as empty.
    let _ = from.map(|mut from| from.read_to_end(&mut all));
    all
}

fn with_advice(said: String) -> String {
    if !said.contains(ARRAY_REFUSED) {
        return said;
    }
    format!(
        "{said}: Slurm accepts only task numbers below its MaxArraySize ('scontrol show config' prints it; 1001 unless slurm.conf sets it): \
         plan again with fewer shards (--shards, or a larger --shard-size), or ask the cluster's administrator for a larger MaxArraySize"
    )
}

fn call(program: &str, words: &[&str]) -> Result<String, String> {
    let ended = Command::new(program).args(words).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("{program}: {}", not_run(&error)))?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(format!("{program}: {}", said(&ended.stderr, ended.status))),
    }
}

fn not_run(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            "isn't installed on this host: run the command on a host where jobs are submitted".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The reason of a failure that a program has printed; if it has printed nothing, the way in which it ended.
fn said(stderr: &[u8], status: ExitStatus) -> String {
    match stderr.trim_ascii() {
        [] => format!("it ended with {status}, and printed no reason"),
        text => printable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_reason_is_never_empty() {
        let status = |code| ExitStatus::from_raw(code << 8);
        assert_eq!(said(b"sbatch: error: x\n", status(1)), "sbatch: error: x");
        assert_eq!(said(b" \n", status(3)), "it ended with exit status: 3, and printed no reason");
        assert!(said(b"", ExitStatus::from_raw(9)).contains("signal: 9"));
    }

    #[test]
    fn an_array_that_slurm_refuses_comes_with_advice() {
        let refused = "sbatch: error: Batch job submission failed: Invalid job array specification";
        let advice = with_advice(refused.into());
        assert!(advice.starts_with(refused) && advice.contains("MaxArraySize"), "{advice}");
        assert_eq!(with_advice("invalid partition".into()), "invalid partition");
    }
}
