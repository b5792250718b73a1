//! Files whose stated size isn't the number of their bytes: files in /proc, in /sys and in some file systems
//! in user space.

use linerate_wire::entry::{Entry, Kind};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::net::stream::StreamError;
use crate::send::plan::{HeldChunks, LargeFile, SMALL};
use crate::send::reading::{OpenedSource, file_size};
use crate::send::worker::{SendWorker, read_problem};
use crate::tree::reading::append_from;

/// This number is added to the numbers of large files whose stated size is 0. All other files have smaller numbers, or
/// numbers from twice this value on.
const UNSTATED: u64 = 1 << 61;

impl SendWorker<'_> {
    /// Sends a file whose stated size is 0 and whose contents are too long for a batch. The file is read once to count
    /// its bytes, because a chunk's length is sent before its bytes.
    pub(super) fn unstated(&mut self, entry: Entry, opened: OpenedSource) -> Result<(), StreamError> {
        self.send_batch()?;
        let go_on = || !self.shared.stop.load(Ordering::Relaxed);
        let length = opened.length(&mut self.payload, go_on);
        let (size, origin) = match length.and_then(|length| Ok((length, opened.origin()?))) {
            Ok(found) => found,
            Err(error) => {
                let (kind, message) = read_problem(error);
                self.report(&entry, kind, &message);
                return Ok(());
            }
        };
        self.shared.counters.found.corrected(file_size(&entry), size);
        let file = LargeFile {
            entry: Entry { kind: Kind::File { size }, ..entry },
            number: UNSTATED + self.shared.unstated.fetch_add(1, Ordering::Relaxed),
            parts: AtomicU32::new(1),
            sparse: false,
            left: AtomicU32::new(1),
            given_up: AtomicBool::new(false),
            descriptor: OnceLock::from(Ok(opened)),
            cut: size.max(1),
            there: HeldChunks::Nothing,
            origin,
        };
        self.chunk(&Arc::new(file), 0, size)
    }

    /// True if a small file that seems to have holes has fewer bytes than its stated size. Files in /sys are
    /// such files. The bytes that can be read are then sent.
    pub(super) fn ends_early(&self, file: &LargeFile) -> bool {
        let size = file_size(&file.entry);
        if !file.sparse || size == 0 || size > SMALL || !matches!(file.there, HeldChunks::Nothing) {
            return false;
        }
        let mut last = Vec::new();
        let read = self.opened(file).map(|opened| append_from(opened.as_fd(), size - 1, 1, &mut last));
        matches!(read, Ok(Ok(()))) && last.is_empty()
    }
}
