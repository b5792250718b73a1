//! Shares the space of a full destination among the files that are being received.
//!
//! If all workers gave up their files when the destination is full, each run of the command could end without one more
//! complete file. Therefore the files give way to each other: a file for which there is no space is given up as long as
//! other files are being received. The last file tries again when the space of the other files is free.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::base::lock::lock;

/// The longest time that a worker waits for files of other workers.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of files and batches that are being received, and that share the space of the destination.
#[derive(Default)]
pub struct SharedRoom {
    counts: Mutex<RoomCounts>,
    changed: Condvar,
    /// Set once the destination's storage has failed: the reason why the transfer ends.
    failed: OnceLock<String>,
}

#[derive(Default)]
struct RoomCounts {
    /// The number of files and batches that are being received.
    going_on: usize,
    /// The number of files that were given up, but whose space may not be free yet.
    given_up: usize,
    /// The number of files that were given up and whose space has become free.
    freed: u64,
}

/// A file or batch that is being received. It is dropped when it is complete or when its space is free again.
pub struct RoomUser {
    room: Arc<SharedRoom>,
    is_given_up: AtomicBool,
    /// The value of `RoomCounts::freed` when this file was begun or last looked for space.
    seen: AtomicU64,
}

impl SharedRoom {
    /// Adds a file.
    pub fn begin(self: &Arc<Self>) -> RoomUser {
        let mut counts = lock(&self.counts);
        counts.going_on += 1;
        let (is_given_up, seen) = (AtomicBool::new(false), AtomicU64::new(counts.freed));
        RoomUser { room: self.clone(), is_given_up, seen }
    }

    /// Records why the storage failed, so that no further file is begun. Then waits until no file is under way, at most
    /// for `PATIENCE`.
    pub fn fail(&self, why: &str) {
        self.failed.get_or_init(|| why.to_owned());
        self.wait(|counts| counts.going_on + counts.given_up > 0);
    }

    /// The reason why the storage failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    fn wait(&self, while_so: impl Fn(&mut RoomCounts) -> bool) {
        let waited = self.changed.wait_timeout_while(lock(&self.counts), PATIENCE, while_so);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl RoomUser {
    /// Called if there is no space for this file; true if there may be space now. If other files are being received,
    /// this file gives way to them.
    pub fn finds_room(&self) -> bool {
        let mut counts = lock(&self.room.counts);
        if self.is_given_up.load(Ordering::Relaxed) {
            return false;
        }
        if self.seen.swap(counts.freed, Ordering::Relaxed) < counts.freed {
            return true;
        }
        if counts.going_on > 1 {
            counts.going_on -= 1;
            counts.given_up += 1;
            self.is_given_up.store(true, Ordering::Relaxed);
            return false;
        }
        drop(counts);
        self.room.wait(|counts| counts.given_up > 0);
        let freed = lock(&self.room.counts).freed;
        self.seen.swap(freed, Ordering::Relaxed) < freed
    }
}

impl Drop for RoomUser {
    fn drop(&mut self) {
        let mut counts = lock(&self.room.counts);
        match self.is_given_up.load(Ordering::Relaxed) {
            true => {
                counts.given_up -= 1;
                counts.freed += 1;
            }
            false => counts.going_on -= 1,
        }
        self.room.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_last_file_gets_the_room_of_the_others() {
        let room = Arc::<SharedRoom>::default();
        let [one, other, last] = [(); 3].map(|()| room.begin());
        assert!(!one.finds_room() && !other.finds_room());
        thread::scope(|scope| {
            let tries = scope.spawn(|| last.finds_room());
            drop(one);
            drop(other);
            assert!(tries.join().unwrap());
        });
        assert!(!last.finds_room(), "all the room is its own");
    }

    #[test]
    fn the_end_waits_for_files_under_way() {
        let room = Arc::<SharedRoom>::default();
        let last = room.begin();
        thread::scope(|scope| {
            let ended = scope.spawn(|| room.fail("full"));
            while room.failure().is_none() {
                thread::yield_now();
            }
            assert!(!ended.is_finished());
            drop(last);
        });
        room.fail("again");
        assert_eq!(room.failure(), Some("full"));
    }
}
