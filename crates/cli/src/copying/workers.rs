//! Chooses the number of workers for a copy within a host, by the file systems.

use linerate_host::facts::{Fact, FileSystem, Machine, Storage};
use std::path::{Path, PathBuf};

/// The number of workers if each call waits for a server: while some workers wait, others send calls.
const WAITING: u32 = 16;
/// The smallest number of workers if no disk rotates: one worker reads while another writes.
const LEAST_WORKERS: u32 = 2;
/// The largest number of workers if no call waits for a server: more workers would wait for locks of the file system.
const MOST_WORKERS: u32 = 8;

/// The number of workers for a copy between these paths. For a path that doesn't exist, the directory above
/// it is examined.
pub fn between<'a>(paths: impl Iterator<Item = &'a Path>) -> u32 {
    let existing: Vec<PathBuf> =
        paths.filter_map(|path| path.ancestors().find(|above| above.exists())).map(real).collect();
    let storage = Storage::here(&existing);
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    number(storage.file_systems.known().map_or(&[], Vec::as_slice), &Machine::is_guest_here(), processors)
}

/// The path to examine. The parent of a relative path may be the empty path, which means the current
/// directory.
fn real(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() }
}

fn number(file_systems: &[FileSystem], guest: &Fact<bool>, processors: u32) -> u32 {
    match file_systems {
        all if all.iter().any(FileSystem::waits) => WAITING,
        // The head of a rotating disk can be at only one place at a time.
        all if all.iter().any(|one| one.rotates(guest)) => 1,
        _ => processors.clamp(LEAST_WORKERS, MOST_WORKERS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_host::facts::BlockDevice;

    fn of(kind: &str, rotational: bool) -> FileSystem {
        let device = BlockDevice { rotational: Fact::Known(rotational), ..BlockDevice::default() };
        FileSystem { kind: Fact::Known(kind.into()), device: Fact::Known(device), ..FileSystem::default() }
    }

    #[test]
    fn many_wait_for_servers_and_one_for_a_disk_that_turns() {
        let (real, guest) = (Fact::Known(false), Fact::Known(true));
        let fast = of("xfs", false);
        assert_eq!(number(&[fast.clone(), of("nfs4", false)], &real, 4), WAITING);
        assert_eq!(number(&[of("fuse.sshfs", false), of("ext4", true)], &real, 4), WAITING);
        assert_eq!(number(&[fast.clone(), of("ext4", true)], &real, 4), 1);
        assert_eq!(
            number(&[fast.clone(), of("ext4", true)], &guest, 4),
            4,
            "hypervisors say it of all disks"
        );
        let of_fast = |processors| number(std::slice::from_ref(&fast), &real, processors);
        assert_eq!((of_fast(1), of_fast(64)), (LEAST_WORKERS, MOST_WORKERS));
        assert_eq!(number(&[], &Fact::default(), 4), 4);
    }

    #[test]
    fn a_path_that_is_not_there_yet_is_where_it_will_be() {
        let there = between([Path::new("/proc/self/x/y")].into_iter());
        assert_eq!(there, between([Path::new("new")].into_iter()), "neither waits nor turns");
    }
}
