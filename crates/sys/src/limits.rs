//! Limits of this process, and whether it keeps freed memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of descriptors for which this program makes the kernel allocate memory in advance.
const ROOM: u64 = 4096;

/// Raises the limit of open files to this user's maximum; if that fails, the old limit stays. Also makes the kernel
/// allocate memory for many descriptors at once. This function must be called before threads start. Otherwise the
/// kernel would stop all threads for about 10 ms each time the number of descriptors doubles (`expand_fdtable`,
/// fs/file.c).
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let last = getrlimit(Resource::Nofile).current.unwrap_or(ROOM).min(ROOM).saturating_sub(1);
    // The duplicate is closed immediately, but the kernel keeps the memory.
    let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), i32::try_from(last).unwrap_or(0));
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`, systemd's `LimitFSIZE=`) fail with an error that can be
/// reported. Without this call, the signal SIGXFSZ would end this process. Programs that this process starts have the
/// default behavior again, because exec resets handlers.
pub fn outlive_largest_file() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: sigaction(2) reads a structure that is valid when it is zeroed, and the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut());
    }
}

/// Keeps up to 64 MiB of freed memory in this process. Without this call, the memory would be returned to the kernel
/// and allocated again for each message, and each page would cost a page fault of a few microseconds. Only GNU's C
/// library has this setting.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const LARGEST_IN_HEAP: libc::c_int = 4 << 20;
        const KEPT: libc::c_int = 64 << 20;
        // SAFETY: mallopt(3) takes plain numbers and locks its state; a refused number changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_IN_HEAP);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }
}
