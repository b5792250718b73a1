//! Identifies a process of a host uniquely, by the process's ID, its start time, and the ID of the host's boot. Also
//! parses the times of a thread, and reads this process's umask.

use std::fs;
use std::io;

use rustix::fs::{Mode, RawMode};

/// The ID of the host's current boot (random(4)).
///
/// # Errors
/// If procfs can't be read.
pub fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// When a process started, in clock ticks since the host's boot (field 22 of `/proc/PID/stat`, proc(5)).
///
/// # Errors
/// `NotFound` if there is no process with this ID, or if the process has ended and its parent hasn't waited for it yet.
pub fn start_of(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    running_since(&stat).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// This process's umask. It is read from procfs where the kernel shows it there (since Linux 4.7). Otherwise it is set to 0
/// for a moment, in which another thread's new files would have all permission bits that it asks for.
pub fn umask() -> Mode {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_umask(&status).unwrap_or_else(|| {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        umask
    })
}

/// The umask in the text of `/proc/PID/status`.
fn parse_umask(status: &str) -> Option<Mode> {
    let octal = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    RawMode::from_str_radix(octal.trim(), 8).ok().map(Mode::from_raw_mode)
}

/// The start time in a line of `/proc/PID/stat`, unless the process has ended (state Z or X).
fn running_since(stat: &str) -> Option<u64> {
    // The process's name is in parentheses and may itself contain spaces and parentheses, so the last
    // parenthesis on the line closes it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    // Field 22 of the line is the 19th after the state, which is field 3.
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(start)
}

/// Parses a thread's `schedstat` (the kernel's Documentation/scheduler/sched-stats.rst). Returns the nanoseconds for
/// which the thread was on a processor, and the nanoseconds for which it was ready to run and waited for a processor.
/// `None` if the text is malformed, or if the first value is 0: then the thread has never run, or the kernel doesn't
/// count these times.
pub fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    let (cpu, waited) = (words.next()??, words.next()??);
    (cpu > 0).then_some((cpu, waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a) R (b) S 1 42 42 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 98765 1000 10 0 0";

    #[test]
    fn the_umask_is_that_of_the_process() {
        let umask = rustix::process::umask(Mode::from_raw_mode(0o027));
        assert_eq!(super::umask(), Mode::from_raw_mode(0o027));
        rustix::process::umask(umask);
        assert_eq!(parse_umask("Name:\tx\nUmask:\t0077\n"), Some(Mode::from_raw_mode(0o077)));
        assert_eq!(parse_umask("Name:\tx\n"), None, "before Linux 4.7");
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        assert_eq!(running_since(STAT), Some(98765));
    }

    #[test]
    fn the_ended_and_the_malformed_have_no_start() {
        for bad in [
            &*STAT.replace(") S 1", ") Z 1"),
            "",
            "42",
            "42 (x) S 1 2",
            "42 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x",
        ] {
            assert_eq!(running_since(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_what_the_kernel_writes_to_schedstat_is_taken() {
        assert_eq!(parse_schedstat("12 34 5\n"), Some((12, 34)));
        for other in ["", "0 0 0", "12", "a b c"] {
            assert_eq!(parse_schedstat(other), None, "{other}");
        }
    }
}
