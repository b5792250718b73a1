//! Limits of this process, and how it uses memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for which the kernel makes room at once.
const ROOM: u64 = 4096;

/// Raises the number of files that may be open to what the system allows this user. Where it can't be raised, the
/// old limit stays. To be called before there are threads: then the kernel makes room for many descriptors at once, and doesn't
/// let all of them wait for some 10 ms each time that their number doubles (`expand_fdtable`, fs/file.c).
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let last = getrlimit(Resource::Nofile).current.unwrap_or(ROOM).min(ROOM).saturating_sub(1);
    // What comes back is closed at once; the room stays.
    let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), i32::try_from(last).unwrap_or(0));
}

/// What is freed stays this process's, up to 64 MiB: to give it back and take it again costs a fault for each page, some
/// microseconds, and messages come and go all the time. Other C libraries than GNU's do as they like.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const LARGEST_IN_HEAP: libc::c_int = 4 << 20;
        const KEPT: libc::c_int = 64 << 20;
        // SAFETY: mallopt(3) takes plain numbers, and locks what it changes; one that it refuses changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_IN_HEAP);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }
}
