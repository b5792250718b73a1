//! The state of a plan, by the files of its tasks.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::attempt::{Attempt, AttemptMaker, AttemptState};
use crate::claim::{Attempts, all_attempts, done};
use crate::plan::{FleetPart, PlanDirectory};

/// Seconds of silence, by the clocks of two hosts, after which an attempt is shown as silent.
pub const SILENT: u64 = 60;

/// The state of each part.
#[derive(Debug)]
pub struct FleetStatus {
    parts: BTreeMap<FleetPart, Attempts>,
    /// By this process it is known whether one of this host is gone.
    here: AttemptMaker,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartState {
    /// No task has begun it.
    Waiting,
    /// A task is at work.
    Running,
    /// A task is at work by its file, but hasn't written for a minute.
    Silent,
    /// Everything is in place.
    Done,
    /// The last attempt failed.
    Failed,
    /// The last attempt was ended by a signal or by another attempt, or its process is known to be gone.
    Interrupted,
}

impl FleetStatus {
    /// Reads the states of a plan's parts.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn read(directory: &PlanDirectory) -> anyhow::Result<Self> {
        let mut parts = all_attempts(&directory.runs())?;
        parts.retain(|part, _| directory.plan.part(*part).is_some());
        for part in directory.plan.parts() {
            parts.entry(part).or_default();
        }
        Ok(Self::of(parts))
    }

    /// The state of parts with these attempts.
    pub fn of(parts: BTreeMap<FleetPart, Attempts>) -> Self {
        Self { parts, here: AttemptMaker::of_this_process() }
    }

    /// Each part, the directories last, with its state, the attempt that counts, and their number.
    pub fn parts(&self) -> impl Iterator<Item = (FleetPart, PartState, Option<&Attempt>, u32)> {
        self.parts.iter().map(|(part, attempts)| {
            let last = attempts.last_key_value();
            let number = last.map_or(0, |(number, _)| *number);
            let attempt = done(attempts).map(|(_, attempt)| attempt);
            let attempt = attempt.or_else(|| last.and_then(|(_, attempt)| attempt.as_ref()));
            (*part, state(attempt, number, &self.here), attempt, number)
        })
    }

    /// The parts that are done, with the attempt that has done each, and its number.
    pub fn done(&self) -> impl Iterator<Item = (FleetPart, u32, &Attempt)> {
        self.parts.iter().filter_map(|(part, attempts)| {
            let (number, attempt) = done(attempts)?;
            Some((*part, number, attempt))
        })
    }

    /// True if all parts are done.
    pub fn is_done_all(&self) -> bool {
        self.parts().all(|(_, state, ..)| state == PartState::Done)
    }

    /// True if a task is at work.
    pub fn is_at_work(&self) -> bool {
        self.parts().any(|(_, state, ..)| state == PartState::Running)
    }
}

fn state(attempt: Option<&Attempt>, number: u32, here: &AttemptMaker) -> PartState {
    let Some(attempt) = attempt else {
        return if number == 0 { PartState::Waiting } else { PartState::Running };
    };
    match attempt.state {
        AttemptState::Running if attempt.maker.is_gone(here) => PartState::Interrupted,
        AttemptState::Running if attempt.silence() > SILENT => PartState::Silent,
        AttemptState::Running => PartState::Running,
        AttemptState::Done => PartState::Done,
        AttemptState::Failed => PartState::Failed,
        AttemptState::Interrupted => PartState::Interrupted,
    }
}
