//! Errors of the destination's file system: determines whether an error concerns the whole destination or
//! only one mount below it, and holds the messages for both cases.

use linerate_wire::path::RelPath;
use rustix::fs::{OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::iter;
use std::path::Path;

use super::ReceiveWorker;
use super::room::RoomUser;
use crate::net::stream::StreamError;
use crate::receive::reception::Reception;
use crate::tree::root::Directory;

/// The advice for an error of a file system that is mounted below the destination.
pub const OF_A_MOUNT: &str = "the entry is on another file system that is mounted below the destination: free space there or make that file system writable, or leave the entry out";

impl ReceiveWorker<'_> {
    /// Keeps what has arrived on a stream that ends early: complete files get their names.
    pub fn keep_whole(&mut self) {
        self.keep_partial();
        self.hand_over();
    }

    /// Passes on the result of a frame. If the destination's storage has failed, the unfinished file of this
    /// worker is given up, and the files that the other workers have begun are completed before the stream
    /// ends.
    pub(super) fn or_full<T>(&mut self, result: Result<T, StreamError>) -> Result<T, StreamError> {
        if let Err(StreamError::Destination(why)) = &result {
            self.keep_whole();
            (self.part, self.under_way) = (None, None);
            self.shared.notes.room.fail(why);
        }
        result
    }

    /// Called before this worker begins a file or batch.
    ///
    /// # Errors
    /// If the destination's storage has failed, so that no further file is begun.
    pub(super) fn begins(&self) -> Result<RoomUser, StreamError> {
        match self.shared.notes.room.failure() {
            Some(why) => Err(StreamError::Destination(why.to_owned())),
            None => Ok(self.shared.notes.room.begin()),
        }
    }
}

/// Repeats `write` as long as there is no space for its data and other files give way.
pub(super) fn in_room(
    file: Option<&RoomUser>,
    mut write: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    loop {
        match write() {
            Err(Errno::NOSPC | Errno::DQUOT) if file.is_some_and(RoomUser::finds_room) => {}
            result => return result,
        }
    }
}

impl Reception<'_> {
    /// True if `error` at `place` means that nothing more can be written anywhere, because the destination's own file
    /// system is full or read-only. An error of a file system that is mounted below the destination concerns only the
    /// entries in that file system.
    pub(super) fn ends_everything(&self, place: &RelPath, error: Errno) -> bool {
        let top = self.ground.landing.root.top();
        match error {
            // The same file system may have both read-only and writable mounts.
            Errno::ROFS => is_read_only(top),
            error if is_of_storage(error) => self.device_of(place).is_none_or(|device| device == top.device),
            _ => false,
        }
    }

    /// The device on which the entry at `place` is written: if files are changed in place, the device of the existing
    /// entry; otherwise the device of the parent directory or, if the parent is missing, of the nearest existing
    /// directory above it.
    fn device_of(&self, place: &RelPath) -> Option<u64> {
        let root = &self.ground.landing.root;
        if self.settings.inplace
            && let Ok(stat) = root.open_at(place, OFlags::PATH).and_then(rustix::fs::fstat)
        {
            return Some(stat.st_dev);
        }
        let above = iter::successors(place.parent(), RelPath::parent);
        above.flat_map(|directory| root.directory(&directory)).map(|held| held.device).next()
    }
}

/// True for errors of a whole file system: no space, over quota, read-only.
pub(super) fn is_of_storage(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::ROFS)
}

/// The error that ends the transfer, because the destination's own file system is full or read-only. `shown` is the
/// path of the entry that couldn't be written.
pub(super) fn destination_failed(shown: &Path, error: Errno) -> StreamError {
    StreamError::Destination(format!("writing {} failed: {error}", shown.display()))
}

fn is_read_only(directory: &Directory) -> bool {
    rustix::fs::fstatvfs(directory).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}
