//! Starts, lists and watches the detached jobs of this host.

use linerate_wire::control::{JobAttention, MAX_JOB_RECORD, Message};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::folder::{JobFolder, KEPT};
use super::record::{JobRecord, JobState};

/// The interval at which a watched job is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The longest time between two messages to a watcher, even if nothing has changed.
const AT_LEAST: Duration = Duration::from_secs(1);
/// The file of this program. This path stays valid even if another program gets the file's name.
const OWN: &str = "/proc/self/exe";

/// Starts the process in which a job runs, with pipes to it.
///
/// # Errors
/// The reason why the process can't be started.
pub fn start() -> Result<Child, String> {
    let mut command = Command::new(OWN);
    // Lists of processes show the process under the name linerate.
    command.arg0("linerate").args(["agent", "--background"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // The process must not use the user's ssh agent, however the login was made.
    command.env_remove("SSH_AUTH_SOCK");
    command.spawn().map_err(|error| error.to_string())
}

/// The account's records, the newest first. Records of jobs that ended long ago are removed.
///
/// # Errors
/// The reason why the records can't be read.
pub fn records() -> Result<Vec<JobRecord>, String> {
    let Some(folder) = JobFolder::open()? else { return Ok(Vec::new()) };
    folder.forget(KEPT);
    Ok(folder.records())
}

/// Removes the records of all jobs that have ended; returns the remaining records.
///
/// # Errors
/// The reason why the records can't be read.
pub fn forget() -> Result<Vec<JobRecord>, String> {
    let Some(folder) = JobFolder::open()? else { return Ok(Vec::new()) };
    folder.forget(Duration::ZERO);
    Ok(folder.records())
}

/// Calls `report` with the events and the changed records of a job until the job has ended, or `report` returns false.
///
/// # Errors
/// The reason why there is no such job.
pub fn attend(attention: &JobAttention, report: &mut dyn FnMut(Message) -> bool) -> Result<(), String> {
    let folder = JobFolder::open()?;
    let records = folder.as_ref().map(JobFolder::records).unwrap_or_default();
    let found = choose(&records, &attention.id)?;
    let (Some(folder), name) = (folder, found.name()) else { return Ok(()) };
    if attention.cancel {
        end(found);
    }
    let (mut shown, mut reported, mut last) = (0, None, Instant::now());
    loop {
        let record = folder.record(&name).ok_or("the job's record is gone")?;
        loop {
            let events = folder.events(&name, shown, MAX_JOB_RECORD as u64);
            if events.is_empty() {
                break;
            }
            shown += events.len() as u64;
            if !report(Message::JobEvents(events)) {
                return Ok(());
            }
        }
        let (is_over, is_new) = (record.state != JobState::Running, reported.as_ref() != Some(&record));
        if is_over || is_new || last.elapsed() >= AT_LEAST {
            last = Instant::now();
            if !report(Message::JobRecord(record.json())) || is_over {
                return Ok(());
            }
            reported = Some(record);
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

/// The job that the user means. If `id` isn't empty, it is the job whose name begins with `id`. If `id` is empty, it
/// is the only running job; if no job is running, the newest job.
fn choose<'a>(records: &'a [JobRecord], id: &str) -> Result<&'a JobRecord, String> {
    let named: Vec<_> = records.iter().filter(|record| record.id.starts_with(id)).collect();
    let running: Vec<_> =
        named.iter().copied().filter(|record| id.is_empty() && record.state == JobState::Running).collect();
    let meant = if running.is_empty() && id.is_empty() { &named[..named.len().min(1)] } else { &running[..] };
    let meant = if id.is_empty() { meant } else { &named[..] };
    // Both ends of a job may be on this host, so two records may have the same name.
    let mut meant = meant.to_vec();
    meant.sort_by_key(|record| record.role);
    match meant.first() {
        None if records.is_empty() => Err("this host has no detached jobs".into()),
        None => Err(format!("this host has no detached job '{id}': linerate status lists its jobs")),
        Some(first) if meant.iter().any(|other| other.id != first.id) => {
            let names: Vec<_> = meant.iter().map(|record| &*record.id).collect();
            Err(format!("several jobs match: name one of {} (HOST:JOB)", names.join(", ")))
        }
        Some(first) => Ok(first),
    }
}

/// Ends a job as Ctrl-C would end a copy: by SIGINT.
fn end(record: &JobRecord) {
    let process = &record.process;
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).filter(|_| process.is_alive());
    if let (Some(pid), JobState::Running) = (pid, record.state) {
        // This fails if the job has just ended by itself.
        let _ = kill_process(pid, Signal::INT);
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::JobRole;
    use super::*;
    use linerate_wire::control::JobId;

    fn record(number: u8, role: JobRole, state: JobState) -> JobRecord {
        let record = JobRecord::begin(JobId([number; 4]), role, ("src".into(), "dst".into())).unwrap();
        JobRecord { state, ..record }
    }

    #[test]
    fn the_job_that_is_meant_is_found() {
        let receives = JobRole::Receives;
        let all = [
            record(0x11, JobRole::Sends, JobState::Running),
            record(0x11, receives, JobState::Running),
            record(0x12, receives, JobState::Finished),
        ];
        let chosen = |records: &[JobRecord], id: &str| choose(records, id).map(JobRecord::name);
        assert_eq!(chosen(&all, ""), Ok("11111111-receives".into()), "the only one that runs");
        assert_eq!(chosen(&all[2..], ""), Ok("12121212-receives".into()), "the newest");
        assert_eq!(chosen(&all, "12"), Ok("12121212-receives".into()));
        assert!(chosen(&all, "1").unwrap_err().contains("name one of 11111111"));
        assert!(chosen(&all, "3").unwrap_err().contains("no detached job '3'"));
        assert!(chosen(&[], "").unwrap_err().contains("no detached jobs"));
    }
}
