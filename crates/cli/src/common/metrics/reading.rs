//! Computes the metrics of a transfer.

use linerate_doctor::limiter::Verdict;
use linerate_transfer::session::Meters;
use linerate_wire::control::{ProblemKind, Totals};
use linerate_wire::stages::Usage;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Gauge, RunMetrics};
use crate::common::event::problem_name;
use crate::common::summary::Summary;

impl RunMetrics {
    /// Sets the metrics of a transfer that succeeded.
    pub fn transfer(&self, summary: &Summary, limiter: &Verdict) {
        let (moved, landed) = (summary.moved(), summary.landed);
        self.set(Gauge::TransferBytes, &[], moved.bytes as f64);
        self.set(Gauge::TransferFiles, &[], moved.files as f64);
        self.set(Gauge::TransferWireBytes, &[], summary.wire().unwrap_or_default() as f64);
        self.set(Gauge::TransferPlaceBytes, &[], landed.bytes as f64);
        self.entries(landed);
        if let Some(synced) = &summary.synced {
            self.set(Gauge::TransferDeleted, &[], synced.deleted as f64);
        }
        self.set(Gauge::TransferPayload, &[], summary.payload_seconds);
        self.set(Gauge::TransferStreams, &[], summary.streams.into());
        self.set(Gauge::TransferEncrypted, &[], summary.cipher.is_some().into());
        self.end("sender", summary.sender.1);
        self.end("receiver", summary.receiver.1);
        self.set(Gauge::TransferLimiter, &[("limiter", limiter.limiter.name())], limiter.share);
    }

    fn entries(&self, Totals { files, directories, symlinks, specials, bytes: _ }: Totals) {
        let kinds =
            [("file", files), ("directory", directories), ("symlink", symlinks), ("special", specials)];
        for (kind, count) in kinds {
            self.set(Gauge::TransferPlaceEntries, &[("kind", kind)], count as f64);
        }
    }

    fn end(&self, end: &str, usage: Usage) {
        self.set(Gauge::TransferCpu, &[("end", end)], usage.cpu_seconds);
        self.set(Gauge::TransferPeakMemory, &[("end", end)], usage.peak_rss_bytes as f64);
    }

    /// Sets the metrics about problems of a transfer, even if it failed.
    pub fn problems(&self, meters: &Meters) {
        let of = &meters.local;
        let kinds = [
            (ProblemKind::Failed, &of.failed),
            (ProblemKind::Changed, &of.changed),
            (ProblemKind::NotKept, &of.not_kept),
            (ProblemKind::NotDeleted, &of.not_deleted),
        ];
        self.by_kind(Gauge::TransferProblems, kinds.map(|(kind, count)| (problem_name(kind), load(count))));
    }

    /// Sets a gauge for each kind of entry.
    pub fn by_kind<'a>(&self, gauge: Gauge, kinds: impl IntoIterator<Item = (&'a str, u64)>) {
        kinds.into_iter().for_each(|(kind, count)| self.set(gauge, &[("kind", kind)], count as f64));
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
