//! Compares times with the precision with which the destination's file system stores them.

use linerate_wire::entry::Timestamp;
use rustix::fs::Stat;

use crate::tree::stamp::mtime;

/// The resolutions of file systems in nanoseconds: seconds, milliseconds, microseconds, and the 100 ns of
/// NTFS.
const GRANULES: [u32; 4] = [1_000_000_000, 1_000_000, 1000, 100];

/// True if `stat` has `time` as its modification time, as precisely as its file system can store it.
pub fn same_time(time: Timestamp, stat: &Stat) -> bool {
    let there = mtime(stat);
    let granule = granule(stat);
    there.seconds == time.seconds && there.nanoseconds == time.nanoseconds / granule * granule
}

/// True if the existing entry is newer than `time`, in whole seconds as with rsync.
pub fn is_newer(stat: &Stat, time: Timestamp) -> bool {
    mtime(stat).seconds > time.seconds && !same_time(time, stat)
}

/// The precision of the file system's times, in nanoseconds. The kernel itself sets the change time, and rounds it down
/// to what the file system can store, so the last digits of the change time show the precision.
fn granule(stat: &Stat) -> u32 {
    let changed = stat.st_ctime_nsec as u32;
    let kept = stat.st_mtime_nsec as u32;
    GRANULES
        .into_iter()
        .find(|granule| changed.is_multiple_of(*granule) && kept.is_multiple_of(*granule))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(changed: u64, modified: u64) -> Stat {
        let mut stat = rustix::fs::stat("/").unwrap();
        (stat.st_ctime_nsec, stat.st_mtime, stat.st_mtime_nsec) = (changed as _, 7, modified as _);
        stat
    }

    fn time(nanoseconds: u32) -> Timestamp {
        Timestamp { seconds: 7, nanoseconds }
    }

    #[test]
    fn a_file_system_that_keeps_nanoseconds_is_taken_at_its_word() {
        assert!(same_time(time(123_456_789), &stat(987_654_321, 123_456_789)));
        assert!(!same_time(time(123_456_789), &stat(987_654_321, 0)));
        assert!(!same_time(time(123_456_789), &stat(987_654_321, 123_456_000)));
    }

    #[test]
    fn coarser_ones_are_equal_at_their_granularity() {
        assert!(same_time(time(123_456_789), &stat(0, 0)));
        assert!(same_time(time(123_456_789), &stat(5_000, 123_456_000)));
        assert!(!same_time(time(123_456_789), &stat(5_000, 123_457_000)));
        assert!(!same_time(Timestamp { seconds: 8, nanoseconds: 0 }, &stat(0, 0)));
    }

    #[test]
    fn newer_is_newer_by_whole_seconds() {
        let newer_than = |seconds, nanoseconds| is_newer(&stat(1, 5), Timestamp { seconds, nanoseconds });
        assert!(newer_than(6, 999_999_999) && newer_than(5, 0));
        assert!(!newer_than(7, 4) && !newer_than(7, 5) && !newer_than(8, 0));
    }
}
