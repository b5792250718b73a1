//! Writes the files of a detached job: its record and its events.

use linerate_transfer::lock::lock;
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::folder::JobFolder;
use super::record::{JobRecord, JobState, now};
use crate::common::failure::Failure;
use crate::common::kept_output::{Keeper, Sighting};
use crate::exit::Code;

/// The interval at which the record is written.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// The largest number of bytes of events that are kept, apart from the last event.
const MOST_EVENTS: u64 = 64 << 20;
/// The additional space for the last event, in bytes.
const LAST_EVENTS: u64 = 1 << 20;

/// Records the progress of a job.
pub struct JobLog {
    folder: JobFolder,
    state: Mutex<LogState>,
}

struct LogState {
    record: JobRecord,
    events: File,
    /// The number of bytes of events that were written.
    written: u64,
    last: Instant,
}

impl JobLog {
    /// Writes the first version of the record.
    ///
    /// # Errors
    /// The reason why the record can't be written.
    pub fn begin(record: JobRecord) -> Result<Self, String> {
        let folder = JobFolder::make()?;
        folder.forget(super::folder::KEPT);
        if folder.record(&record.name()).is_some() {
            return Err(format!("there is a job {} already; run the command again", record.id));
        }
        let failed = |error: Errno| format!("keeping the record of the job failed: {error}");
        let events = folder.make_events(&record.name()).map_err(failed)?;
        folder.write(&record).map_err(failed)?;
        let state = LogState { record, events, written: 0, last: Instant::now() };
        Ok(Self { folder, state: Mutex::new(state) })
    }

    /// Records the job's current progress, at most once in each [`RECORD_INTERVAL`].
    pub fn see(&self, sighting: Sighting) {
        let mut state = lock(&self.state);
        if state.last.elapsed() < RECORD_INTERVAL {
            return;
        }
        state.last = Instant::now();
        state.record.see(sighting);
        // If the record can't be written now, perhaps a later version of it can.
        let _ = self.folder.write(&state.record);
    }

    /// Records the job's progress at its end.
    pub fn see_last(&self, sighting: Sighting) {
        lock(&self.state).record.see(sighting);
    }

    /// Records how the job ended.
    pub fn end(&self, ended: &Result<Code, Failure>) {
        let mut state = lock(&self.state);
        let record = &mut state.record;
        record.updated = now();
        record.ended = Some(record.updated);
        match ended {
            Ok(code) => (record.state, record.exit) = (JobState::Finished, Some(code.number())),
            Err(Failure(message, code)) => {
                record.state = JobState::Failed;
                (record.exit, record.message) = (Some(code.number()), Some(message.clone()));
            }
        }
        // If the record can't be written, readers will see that the job's process has died.
        let _ = self.folder.write(&state.record);
    }
}

impl JobRecord {
    fn see(&mut self, sighting: Sighting) {
        self.updated = now();
        self.gbit_per_second = sighting.bytes as f64 * 8e-9 / sighting.seconds.max(1e-9);
        self.sighting = sighting;
    }
}

impl Keeper for JobLog {
    fn event(&self, line: String) {
        let mut state = lock(&self.state);
        // The last event states the result, so it has space even if the other events have used up theirs.
        let most = if is_last(&line) { MOST_EVENTS + LAST_EVENTS } else { MOST_EVENTS };
        let bytes = [line.as_bytes(), b"\n"].concat();
        if state.written + bytes.len() as u64 <= most && state.events.write_all(&bytes).is_ok() {
            state.written += bytes.len() as u64;
        }
    }

    fn progress(&self, sighting: Sighting) {
        self.see(sighting);
    }

    fn last(&self, text: String, sighting: Sighting) {
        lock(&self.state).record.last = Some(text);
        self.see_last(sighting);
    }
}

fn is_last(line: &str) -> bool {
    ["\"type\":\"summary\"", "\"type\":\"failed\""].iter().any(|kind| line.contains(kind))
}
