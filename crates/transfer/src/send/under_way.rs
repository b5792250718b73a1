//! The large files that the sender has begun and not finished. The receiver may request that no more bytes of
//! one of them are sent.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use crate::base::lock::lock;
use crate::base::problem::TransferError;
use crate::send::plan::LargeFile;

/// Files of which parts are queued or being sent. The list only holds weak references, and contains no
/// finished files.
#[derive(Default)]
pub struct UnderWay(Mutex<Begun>);

#[derive(Default)]
struct Begun {
    files: HashMap<u64, Weak<LargeFile>>,
    /// One more than the highest number that was ever begun.
    end: u64,
}

impl UnderWay {
    /// Records that a worker is about to send a part of `file`.
    pub fn begin(&self, file: &Arc<LargeFile>) {
        let mut begun = lock(&self.0);
        if begun.files.contains_key(&file.number) {
            return;
        }
        begun.files.retain(|_, file| file.strong_count() > 0);
        begun.files.insert(file.number, Arc::downgrade(file));
        begun.end = begun.end.max(file.number.saturating_add(1));
    }

    /// Records that the receiver needs no more bytes of this file. If the file is already finished, nothing
    /// happens.
    ///
    /// # Errors
    /// If no file with this number was begun, so that the receiver can't know it.
    pub fn skip(&self, number: u64) -> Result<(), TransferError> {
        let begun = lock(&self.0);
        if number >= begun.end {
            return Err(TransferError::Breach(format!(
                "the far end breaks the protocol: it cancels file {number}, which was never sent"
            )));
        }
        if let Some(file) = begun.files.get(&number).and_then(Weak::upgrade) {
            file.given_up.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::plan::HeldChunks;
    use linerate_wire::entry::{Entry, Kind, Origin, Timestamp};
    use linerate_wire::path::RelPath;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU32};

    fn file(number: u64) -> Arc<LargeFile> {
        let time = Timestamp { seconds: 0, nanoseconds: 0 };
        let kind = Kind::File { size: 1 << 20 };
        let entry = Entry {
            source: 0,
            path: RelPath::root(),
            kind,
            mode: 0o644,
            mtime: time,
            atime: time,
            extra: None,
        };
        let (left, given_up) = (AtomicU32::new(1), AtomicBool::new(false));
        Arc::new(LargeFile {
            entry,
            number,
            parts: AtomicU32::new(1),
            left,
            given_up,
            descriptor: OnceLock::new(),
            cut: 1 << 20,
            there: HeldChunks::Nothing,
            origin: Origin::default(),
            sparse: false,
        })
    }

    #[test]
    fn only_the_file_that_is_not_wanted_is_given_up() {
        let (under_way, wanted, unwanted) = (UnderWay::default(), file(0), file(1));
        under_way.begin(&wanted);
        under_way.begin(&unwanted);
        under_way.skip(1).unwrap();
        assert!(unwanted.given_up.load(Ordering::Relaxed) && !wanted.given_up.load(Ordering::Relaxed));
    }

    #[test]
    fn a_file_that_is_done_may_be_skipped_late_and_one_that_never_was_may_not() {
        let under_way = UnderWay::default();
        assert!(under_way.skip(0).is_err());
        under_way.begin(&file(0));
        under_way.skip(0).unwrap();
        assert!(under_way.skip(1).is_err() && under_way.skip(u64::MAX).is_err());
    }

    #[test]
    fn files_that_are_done_are_forgotten() {
        let under_way = UnderWay::default();
        (0..10_000).for_each(|number| under_way.begin(&file(number)));
        let last = file(10_000);
        under_way.begin(&last);
        assert_eq!(lock(&under_way.0).files.len(), 1);
    }
}
