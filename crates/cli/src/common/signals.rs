//! The signals that ask the program to end, and how long it may clean up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use super::failure::Failure;
use super::recording::end_at_once;

/// The signals that ask a program to end, except those that the parent process has set to be ignored, as
/// nohup(1) does.
pub fn ending_signals() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// The set of ignored signals, from the text of proc_pid_status(5); the lowest bit is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The time that an interrupted program may take to clean up. This limit is necessary because a write to a
/// far end that has stopped reading never returns.
const LAST_MOMENTS: Duration = Duration::from_millis(2300);

/// The exit code that the program uses if it is interrupted.
static EXIT: AtomicU8 = AtomicU8::new(130);

/// Sets the exit code that the program uses if it is interrupted.
pub fn interrupted_exits_with(code: u8) {
    EXIT.store(code, Ordering::Relaxed);
}

/// Signals that come within this time after the first one belong to the same request: for example, timeout(1)
/// signals its child and then the child's process group.
pub const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Returns a flag that each of the signals sets. A signal that comes more than [`SAME_REQUEST`] after the
/// first one ends the program immediately, with this exit code.
///
/// # Errors
/// If the handlers can't be set.
pub fn set_by(signals: Vec<i32>, code: u8) -> std::io::Result<Arc<AtomicBool>> {
    caught(signals, code, || {})
}

/// Returns a flag as [`set_by`] does. `then` is called on another thread as soon as a further signal would
/// end the program.
fn caught(
    signals: Vec<i32>,
    code: u8,
    then: impl FnOnce() + Send + 'static,
) -> std::io::Result<Arc<AtomicBool>> {
    use signal_hook::flag;
    let (came, is_long_ago) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in signals {
        flag::register_conditional_shutdown(signal, code.into(), is_long_ago.clone())?;
        flag::register(signal, came.clone())?;
    }
    let watched = came.clone();
    thread::spawn(move || {
        while !watched.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(100));
        }
        thread::sleep(SAME_REQUEST);
        is_long_ago.store(true, Ordering::Relaxed);
        then();
    });
    Ok(came)
}

/// Returns a flag, as [`set_by`] does, which is set by Ctrl-C and by the other signals that ask a program to end. If no
/// further signal comes, the program ends [`LAST_MOMENTS`] after the first one.
///
/// # Errors
/// If the handlers can't be set.
pub fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let end_in_time = || {
        thread::sleep(LAST_MOMENTS.saturating_sub(SAME_REQUEST));
        end_interrupted();
    };
    caught(ending_signals(), EXIT.load(Ordering::Relaxed), end_in_time)
        .map_err(|error| Failure::failed(format!("signals can't be caught: {error}")))
}

fn end_interrupted() {
    message!("linerate: interrupted, without waiting for the far end");
    let code = EXIT.load(Ordering::Relaxed);
    end_at_once(code);
    std::process::exit(code.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_are_ignored_are_found() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tff\n"), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
        assert!(ending_signals().contains(&signal_hook::consts::SIGTERM));
    }
}
