//! The record of a detached job. docs/formats.md specifies it.

use linerate_sys::process::{boot_id, start_of};
use linerate_wire::control::JobId;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::kept_output::Sighting;

/// The version of the format of records. Changes that only add fields don't increase it.
pub const SCHEMA: u32 = 1;
/// The largest number of sources that a record names.
const MOST_SOURCES: usize = 16;
/// The largest number of characters of a text in a record; a longer text is cut off.
const LONGEST_TEXT: usize = 1000;

/// The record that the process of a job writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub schema: u32,
    /// The kind of JSON object, which is always `job`.
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
    pub role: JobRole,
    pub state: JobState,
    /// The name of the host on which the job's process runs. The name is needed because several hosts may share a
    /// home directory.
    pub host: String,
    /// The host of the sources, as the user wrote it.
    pub from: String,
    /// The host of the destination, as the user wrote it.
    pub to: String,
    /// The first sources of the job.
    pub sources: Vec<String>,
    /// The number of sources that `sources` doesn't contain.
    pub more_sources: u64,
    /// The destination's path, which is known only on the host that receives.
    pub destination: Option<String>,
    /// The time at which the job was detached, in seconds since 1970.
    pub since: u64,
    /// The time at which the record was written, in seconds since 1970.
    pub updated: u64,
    /// The time at which the job ended, in seconds since 1970; `None` if it hasn't ended.
    pub ended: Option<u64>,
    #[serde(flatten)]
    pub sighting: Sighting,
    pub gbit_per_second: f64,
    /// The exit code that the command would have had without `--detach`.
    pub exit: Option<u8>,
    /// The reason why the job failed as a whole.
    pub message: Option<String>,
    /// The last line of the job's output.
    pub last: Option<String>,
    pub process: ProcessMark,
}

/// The role of a host in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobRole {
    /// The host has the destination.
    Receives,
    /// The host has the sources.
    Sends,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// The job's process is running.
    Running,
    /// The job has finished, perhaps with problems of single entries.
    Finished,
    /// The job failed as a whole.
    Failed,
    /// The job's process has ended without recording a result.
    Died,
}

/// Identifies a process: no other process on its host has the same mark, not even after a restart of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    pub pid: u32,
    /// The clock ticks from the host's boot to the start of the process.
    pub start: u64,
    /// The ID of the host's boot.
    pub boot: String,
}

impl ProcessMark {
    /// The mark of this process.
    ///
    /// # Errors
    /// If procfs can't be read.
    pub fn own() -> std::io::Result<Self> {
        let pid = std::process::id();
        Ok(Self { pid, start: start_of(pid)?, boot: boot_id()? })
    }

    /// True if the process is still running.
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && start_of(self.pid).is_ok_and(|start| start == self.start)
    }
}

impl JobState {
    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Died => "died",
        }
    }
}

impl JobRole {
    /// The name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::Receives => "receives",
            Self::Sends => "sends",
        }
    }
}

impl JobRecord {
    /// The record of a job that begins now in this process.
    ///
    /// # Errors
    /// If procfs can't be read.
    pub fn begin(id: JobId, role: JobRole, (from, to): (String, String)) -> std::io::Result<Self> {
        let now = now();
        Ok(Self {
            schema: SCHEMA,
            kind: "job".into(),
            id: id.to_string(),
            role,
            state: JobState::Running,
            host: this_host(),
            from: shortened(&from),
            to: shortened(&to),
            sources: Vec::new(),
            more_sources: 0,
            destination: None,
            since: now,
            updated: now,
            ended: None,
            sighting: Sighting::default(),
            gbit_per_second: 0.0,
            exit: None,
            message: None,
            last: None,
            process: ProcessMark::own()?,
        })
    }

    /// Adds the sources and the destination to the record.
    pub fn with_places(self, sources: &[String], destination: Option<String>) -> Self {
        let named = sources.len().min(MOST_SOURCES);
        let more_sources = (sources.len() - named) as u64;
        let sources = sources[..named].iter().map(|source| shortened(source)).collect();
        Self { sources, more_sources, destination: destination.as_deref().map(shortened), ..self }
    }

    /// The name that the record's files have, without extension.
    pub fn name(&self) -> String {
        format!("{}-{}", self.id, self.role.name())
    }

    /// Parses the record in a file with this name; `None` if the file isn't a valid record.
    pub fn read(name: &str, bytes: &[u8]) -> Option<Self> {
        let mut record: Self = serde_json::from_slice(bytes).ok()?;
        let is_one = record.schema == SCHEMA && record.kind == "job" && JobId::parse(&record.id).is_some();
        if !is_one || record.name() != name {
            return None;
        }
        if record.state == JobState::Running && record.is_here() && !record.process.is_alive() {
            record.state = JobState::Died;
        }
        Some(record)
    }

    /// True if the job runs on this host.
    pub fn is_here(&self) -> bool {
        self.host == this_host()
    }

    /// The record as a line of JSON.
    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The current time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The name of this host.
pub fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> JobRecord {
        JobRecord::begin(JobId([1, 2, 3, 4]), JobRole::Receives, ("src".into(), "dst".into())).unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_from_no_other_file() {
        let record = record();
        assert_eq!(JobRecord::read("01020304-receives", &record.json()), Some(record.clone()));
        assert_eq!(JobRecord::read("01020304-sends", &record.json()), None);
        for garbage in [&b""[..], b"{}", b"null", b"[1]", b"\xff\xfe", &record.json()[..40]] {
            assert_eq!(JobRecord::read("01020304-receives", garbage), None);
        }
        let led_away = JobRecord { id: "../../xx".into(), ..record };
        assert_eq!(JobRecord::read(&led_away.name(), &led_away.json()), None);
    }

    #[test]
    fn long_names_leave_a_record_that_is_read() {
        let long = "\u{e9}".repeat(5000);
        let record = record().with_places(&vec![long.clone(); 100], Some(long));
        assert_eq!((record.sources.len(), record.more_sources), (MOST_SOURCES, 84));
        assert!(record.json().len() < 64 << 10, "{}", record.json().len());
    }

    #[test]
    fn a_job_whose_process_is_gone_has_died() {
        let alive = record();
        for process in [
            ProcessMark { start: alive.process.start + 1, ..alive.process.clone() },
            ProcessMark { boot: "another".into(), ..alive.process.clone() },
            ProcessMark { pid: 0, ..alive.process.clone() },
        ] {
            let gone = JobRecord { process, ..alive.clone() };
            assert_eq!(JobRecord::read(&gone.name(), &gone.json()).unwrap().state, JobState::Died);
        }
        let elsewhere =
            JobRecord { process: ProcessMark::default(), host: "elsewhere".into(), ..alive.clone() };
        assert_eq!(JobRecord::read(&alive.name(), &elsewhere.json()).unwrap().state, JobState::Running);
    }
}
