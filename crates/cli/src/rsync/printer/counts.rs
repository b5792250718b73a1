//! Counts of changes as rsync makes them, and rsync's statistics.

use linerate_transfer::lock::lock;
use linerate_wire::control::{Change, Totals};
use std::time::Instant;

use super::RsyncPrinter;
use crate::common::printer::Sums;

/// The changes counted so far, by kind, and which lines were printed about them.
#[derive(Default)]
pub(super) struct Reported {
    pub(super) created: Totals,
    pub(super) deleted: Totals,
    pub(super) transferred: u64,
    pub(super) progress: Option<Instant>,
}

impl RsyncPrinter {
    pub(super) fn count(&self, change: &Change) {
        let mut reported = lock(&self.reported);
        if change.item == Change::DELETED {
            // A report about a deleted entry contains only whether the entry was a directory.
            let deleted = &mut reported.deleted;
            *(if change.directory { &mut deleted.directories } else { &mut deleted.files }) += 1;
            return;
        }
        let is_new = change.item[2] == b'+';
        reported.transferred += u64::from(matches!(change.item[0], b'<' | b'>'));
        if is_new {
            match change.item[1] {
                b'd' => reported.created.directories += 1,
                b'L' => reported.created.symlinks += 1,
                b'f' => reported.created.files += 1,
                _ => reported.created.specials += 1,
            }
        }
    }

    /// The number of entries that were deleted so far.
    pub fn deleted(&self) -> u64 {
        lock(&self.reported).deleted.entries()
    }

    pub(super) fn statistics(&self, sums: &Sums) {
        let reported = lock(&self.reported);
        self.print("");
        self.print(format!("Number of files: {}", self.counts(&sums.there)));
        self.print(format!("Number of created files: {}", self.counts(&reported.created)));
        self.print(format!("Number of deleted files: {}", self.counts(&reported.deleted)));
        self.print(format!(
            "Number of regular files transferred: {}",
            self.human.number(reported.transferred)
        ));
        self.print(format!("Total file size: {} bytes", self.human.number(sums.size)));
        let size = sums.moved.bytes.saturating_add(sums.matched);
        // A dry run sends no file contents.
        let (moved, matched) = if self.dry_run { (0, 0) } else { (sums.moved.bytes, sums.matched) };
        self.print(format!("Total transferred file size: {} bytes", self.human.number(size)));
        self.print(format!("Literal data: {} bytes", self.human.number(moved)));
        self.print(format!("Matched data: {} bytes", self.human.number(matched)));
        let (sent, received) = ways(sums);
        self.print(format!("Total bytes sent: {}", self.human.number(sent)));
        self.print(format!("Total bytes received: {}", self.human.number(received)));
    }

    /// A count by kinds, for example `3 (reg: 1, dir: 1, link: 1)`.
    fn counts(&self, totals: &Totals) -> String {
        let kinds = [
            ("reg", totals.files),
            ("dir", totals.directories),
            ("link", totals.symlinks),
            ("special", totals.specials),
        ];
        let there = kinds.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<_> =
            there.map(|(kind, count)| format!("{kind}: {}", self.human.number(*count))).collect();
        let sum = self.human.number(totals.entries());
        if parts.is_empty() { sum } else { format!("{sum} ({})", parts.join(", ")) }
    }
}

/// The bytes sent and the bytes received by this end.
pub(super) fn ways(sums: &Sums) -> (u64, u64) {
    if sums.received { (0, sums.wire) } else { (sums.wire, 0) }
}
