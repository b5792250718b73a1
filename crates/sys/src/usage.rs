//! The processor time and memory of this process, and the bytes that it transferred to and from devices
//! (getrusage(2)).

use std::fs;
use std::mem;

/// The processes whose usage is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageOf {
    /// This process with all its threads.
    Process,
    /// The children of this process that have ended and been waited for.
    Children,
}

/// Processor time, memory, and bytes that were transferred to and from devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// User and system time in seconds.
    pub cpu_seconds: f64,
    /// The peak resident memory in bytes. For [`UsageOf::Children`], the peak of the largest child.
    pub peak_rss_bytes: u64,
    /// Bytes that were read from devices and file servers, not from the page cache.
    pub device_read: u64,
    /// Bytes to be written to devices and file servers. These bytes count as soon as they are in the page cache.
    pub device_written: u64,
}

/// Reads the usage of the processes that `who` selects.
pub fn usage(who: UsageOf) -> ProcessUsage {
    let who = match who {
        UsageOf::Process => libc::RUSAGE_SELF,
        UsageOf::Children => libc::RUSAGE_CHILDREN,
    };
    let raw = read(who);
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    let largest = u64::try_from(raw.ru_maxrss).unwrap_or(0) * 1024;
    let own = if who == libc::RUSAGE_SELF { own_peak() } else { None };
    ProcessUsage {
        cpu_seconds: seconds(raw.ru_utime) + seconds(raw.ru_stime),
        peak_rss_bytes: own.unwrap_or(largest),
        device_read: blocks(raw.ru_inblock),
        device_written: blocks(raw.ru_oublock),
    }
}

/// Converts a number of the kernel's blocks of 512 bytes to bytes.
fn blocks(number: libc::c_long) -> u64 {
    u64::try_from(number).unwrap_or(0).saturating_mul(512)
}

/// The number of times that this thread has slept to wait for an event, such as an answer, a disk or a lock.
/// Preemption isn't counted.
pub fn sleeps_of_this_thread() -> u64 {
    u64::try_from(read(libc::RUSAGE_THREAD).ru_nvcsw).unwrap_or(0)
}

fn read(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage consists of integers, for which zero is a value.
    let mut raw: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `raw` is a valid rusage, to which the kernel writes. `who` is a constant that the kernel knows,
    // so the call can't fail.
    unsafe { libc::getrusage(who, &raw mut raw) };
    raw
}

/// The peak memory of this program in bytes. getrusage(2) can't be used for this value, because it also counts the
/// memory of the program that the process ran before execve(2).
fn own_peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let before = usage(UsageOf::Process);
        let mut sum = 0u64;
        while usage(UsageOf::Process).cpu_seconds <= before.cpu_seconds {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(usage(UsageOf::Process).peak_rss_bytes > 100_000);
    }

    #[test]
    fn a_sleep_is_counted_and_work_is_not() {
        let before = sleeps_of_this_thread();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = sleeps_of_this_thread();
        assert!(after > before);
        std::hint::black_box((0..10_000_000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
        assert_eq!(sleeps_of_this_thread(), after);
    }

    #[test]
    fn memory_counts_once_it_is_touched() {
        const MORE: u64 = 64 << 20;
        let before = own_peak().unwrap();
        std::hint::black_box(vec![1u8; (before + MORE) as usize]);
        let after = usage(UsageOf::Process).peak_rss_bytes;
        assert!(after >= before + MORE, "{before} {after}");
    }
}
