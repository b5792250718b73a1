//! The record of a detached job: docs/formats.md specifies it.

use linerate_sys::process::{boot_id, start_of};
use linerate_wire::control::JobId;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::keeper::Sighting;

/// The version of records; it grows with changes that are not additions.
pub const SCHEMA: u32 = 1;
/// The most sources that a record names, and the most characters of a text.
const MOST_SOURCES: usize = 16;
const LONGEST_TEXT: usize = 1000;

/// A job, as its process recorded it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub schema: u32,
    /// Always `job`.
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
    pub role: JobRole,
    pub state: JobState,
    /// The host's own name, since several hosts may share a home directory.
    pub host: String,
    /// The host of the sources, as the user wrote it.
    pub from: String,
    /// The host of the destination, as the user wrote it.
    pub to: String,
    /// The first sources.
    pub sources: Vec<String>,
    /// The number of sources that aren't named.
    pub more_sources: u64,
    /// The destination's path; only the host that receives knows it.
    pub destination: Option<String>,
    /// The times at which the job was detached, the record was written, and the job ended: seconds since 1970.
    pub since: u64,
    pub updated: u64,
    pub ended: Option<u64>,
    #[serde(flatten)]
    pub sighting: Sighting,
    pub gbit_per_second: f64,
    /// The exit code that the command would have had.
    pub exit: Option<u8>,
    /// The reason why the job failed as a whole.
    pub message: Option<String>,
    /// The last line for people.
    pub last: Option<String>,
    pub process: ProcessMark,
}

/// The part that a host has in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobRole {
    /// It has the destination.
    Receives,
    /// It has the sources.
    Sends,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Its process works.
    Running,
    /// It has finished, perhaps with problems of single entries.
    Finished,
    /// It failed as a whole.
    Failed,
    /// Its process is gone without a result.
    Died,
}

/// The identity of a process, which is unique as long as its host runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    pub pid: u32,
    /// Clock ticks from the host's start to the process's.
    pub start: u64,
    /// The host's start.
    pub boot: String,
}

impl ProcessMark {
    /// This process.
    ///
    /// # Errors
    /// If procfs can't be read.
    pub fn own() -> std::io::Result<Self> {
        let pid = std::process::id();
        Ok(Self { pid, start: start_of(pid)?, boot: boot_id()? })
    }

    /// True while that process runs.
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && start_of(self.pid).is_ok_and(|start| start == self.start)
    }
}

impl JobState {
    /// The state's name.
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
    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Receives => "receives",
            Self::Sends => "sends",
        }
    }
}

impl JobRecord {
    /// A job of this process that begins now.
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

    /// This record, with its sources and destination.
    pub fn with_places(self, sources: &[String], destination: Option<String>) -> Self {
        let named = sources.len().min(MOST_SOURCES);
        let more_sources = (sources.len() - named) as u64;
        let sources = sources[..named].iter().map(|source| shortened(source)).collect();
        Self { sources, more_sources, destination: destination.as_deref().map(shortened), ..self }
    }

    /// The name of the record's files.
    pub fn name(&self) -> String {
        format!("{}-{}", self.id, self.role.name())
    }

    /// Reads a record from a file with that name; `None` if it isn't such a record.
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

    /// True of a job of this host.
    pub fn is_here(&self) -> bool {
        self.host == this_host()
    }

    /// The line of JSON.
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

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// This host's own name.
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
