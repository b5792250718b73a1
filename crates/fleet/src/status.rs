//! The state of a plan, computed from the files of its attempts.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::attempt::{Attempt, AttemptMaker, AttemptState};
use crate::claim::{Attempts, all_attempts, done};
use crate::plan::{FleetPart, PlanDirectory};

/// An attempt is shown as silent if its file hasn't been written for this number of seconds, by the clocks of the
/// attempt's host and of this host.
pub const SILENT: u64 = 60;

/// The state of each part of a plan.
#[derive(Debug)]
pub struct FleetStatus {
    parts: BTreeMap<FleetPart, Attempts>,
    /// The identity of this process, with which an ended process of the same host is recognised.
    here: AttemptMaker,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartState {
    /// No task has begun the part.
    Waiting,
    /// A task is moving the part.
    Running,
    /// According to its file, the last attempt is running, but the file hasn't been written for a minute.
    Silent,
    /// All entries of the part are in place.
    Done,
    /// The last attempt failed.
    Failed,
    /// The last attempt was ended by a signal or by another attempt, or its process is known to have ended.
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

    /// The status of a plan with these attempts.
    pub fn of(parts: BTreeMap<FleetPart, Attempts>) -> Self {
        Self { parts, here: AttemptMaker::of_this_process() }
    }

    /// Each part with its state, an attempt (the one that completed the part, otherwise the last one) and the number of
    /// attempts; the directories are last.
    pub fn parts(&self) -> impl Iterator<Item = (FleetPart, PartState, Option<&Attempt>, u32)> {
        self.parts.iter().map(|(part, attempts)| {
            let last = attempts.last_key_value();
            let number = last.map_or(0, |(number, _)| *number);
            let attempt = done(attempts).map(|(_, attempt)| attempt);
            let attempt = attempt.or_else(|| last.and_then(|(_, attempt)| attempt.as_ref()));
            (*part, state(attempt, number, &self.here), attempt, number)
        })
    }

    /// The completed parts, each with the attempt that completed it and that attempt's number.
    pub fn done(&self) -> impl Iterator<Item = (FleetPart, u32, &Attempt)> {
        self.parts.iter().filter_map(|(part, attempts)| {
            let (number, attempt) = done(attempts)?;
            Some((*part, number, attempt))
        })
    }

    /// Whether all parts are completed.
    pub fn is_done_all(&self) -> bool {
        self.parts().all(|(_, state, ..)| state == PartState::Done)
    }

    /// Whether any task is running.
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
