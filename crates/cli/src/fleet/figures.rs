//! The metrics of `fleet run` and `fleet verify`, for `--metrics`: totals over the parts that a task has copied or
//! compared.

use linerate_fleet::attempt::AttemptProgress;
use linerate_fleet::plan::FleetPart;
use linerate_wire::control::ProblemKind;

use crate::common::compared::ComparedFigures;
use crate::common::event::problem_name;
use crate::common::log::{self, RunFigures};
use crate::common::member::{ChangeCounts, MemberDone};
use crate::common::metrics::{Gauge, RunMetrics};
use crate::units::show_counted;

/// The totals over the attempts of a task that have ended.
#[derive(Debug, Default)]
pub struct ShardSums {
    failed: u64,
    changed: u64,
    not_kept: u64,
    bytes: u64,
    files: u64,
    wire_bytes: u64,
    place_bytes: u64,
    seconds: f64,
    sender_cpu: f64,
    receiver_cpu: f64,
}

impl ShardSums {
    /// Adds an attempt. If the attempt failed as a whole, only the number of its problems is added.
    pub fn add(&mut self, progress: &AttemptProgress, done: Option<&MemberDone>) {
        self.failed += progress.failed;
        self.changed += progress.changed;
        self.not_kept += progress.not_kept;
        let Some(MemberDone { landed, summary, .. }) = done else { return };
        let there = summary.synced.as_ref().map_or(0, |synced| synced.unchanged_files);
        self.bytes += progress.sent_bytes;
        self.files += landed.files.saturating_sub(there);
        self.wire_bytes += summary.wire_bytes;
        self.place_bytes += progress.bytes;
        self.seconds += summary.payload_seconds;
        self.sender_cpu += summary.sender.cpu_seconds;
        self.receiver_cpu += summary.receiver.cpu_seconds;
    }

    /// Adds the totals to the run's metrics and log.
    pub fn record(&self, metrics: &RunMetrics) {
        let counted = [
            (Gauge::TransferBytes, self.bytes),
            (Gauge::TransferFiles, self.files),
            (Gauge::TransferWireBytes, self.wire_bytes),
            (Gauge::TransferPlaceBytes, self.place_bytes),
        ];
        counted.into_iter().for_each(|(gauge, count)| metrics.set(gauge, &[], count as f64));
        metrics.set(Gauge::TransferPayload, &[], self.seconds);
        metrics.set(Gauge::TransferCpu, &[("end", "sender")], self.sender_cpu);
        metrics.set(Gauge::TransferCpu, &[("end", "receiver")], self.receiver_cpu);
        let problems = [
            (ProblemKind::Failed, self.failed),
            (ProblemKind::Changed, self.changed),
            (ProblemKind::NotKept, self.not_kept),
        ];
        metrics.by_kind(Gauge::TransferProblems, problems.map(|(kind, count)| (problem_name(kind), count)));
        log::sum_up(RunFigures {
            text: String::new(),
            numbers: vec![
                ("files", self.files),
                ("bytes", self.bytes),
                ("failed", self.failed),
                ("changed", self.changed),
                ("not_kept", self.not_kept),
            ],
        });
    }
}

/// The totals over the parts that were compared.
#[derive(Debug, Default)]
pub struct VerifySums {
    /// The number of files that are equal, with all metadata that the plan keeps.
    same_files: u64,
    compared: ComparedFigures,
}

impl VerifySums {
    /// Adds a part. The task of a shard also compares the directories above the shard's files, but directories are
    /// counted only in the part that contains all of them.
    pub fn add(&mut self, part: FleetPart, done: &MemberDone, changes: ChangeCounts) {
        let MemberDone { landed, summary, .. } = done;
        let (entries, differ, missing) = match part {
            FleetPart::Directories => {
                (landed.directories, changes.differing_directories, changes.missing_directories)
            }
            FleetPart::Shard(_) => {
                (landed.entries().saturating_sub(landed.directories), changes.differ, changes.missing)
            }
        };
        let compared = &mut self.compared;
        compared.entries = compared.entries.saturating_add(entries.saturating_sub(missing));
        compared.differ += differ;
        compared.missing += missing;
        if let Some(synced) = &summary.synced {
            let same = synced.unchanged_files.saturating_sub(changes.same_contents);
            self.same_files = self.same_files.saturating_add(same);
            compared.bytes = compared.bytes.saturating_add(synced.unchanged_bytes);
        }
        compared.failed += summary.failed;
        compared.changed += summary.changed;
    }

    /// True if no difference was found.
    pub fn is_same(&self) -> bool {
        self.compared.differ == 0 && self.compared.missing == 0
    }

    /// The last line of the output.
    pub fn text(&self) -> String {
        let same = show_counted(self.same_files, "file is", "files are");
        format!("{same} the same, {} differ, {} missing", self.compared.differ, self.compared.missing)
    }

    /// Adds the totals to the run's metrics and log.
    pub fn record(&self, metrics: &RunMetrics) {
        self.compared.record(metrics, &self.text());
    }
}
