//! The processes of one transfer, found by a variable in their environment.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The processes whose environment contains this `NAME=VALUE`.
pub fn marked(mark: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        // A zombie's environment can't be read.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    })
    .collect()
}

/// The processes of `pids` whose program's name satisfies `is_it`.
pub fn running(pids: Vec<i32>, is_it: impl Fn(&str) -> bool) -> Vec<i32> {
    pids.into_iter().filter(|pid| name_of(*pid).is_some_and(|name| is_it(&name))).collect()
}

fn name_of(pid: i32) -> Option<String> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(Path::new(&program).file_name()?.to_str()?.to_owned())
}

pub fn signal(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // A process that has just ended causes an error, which is ignored.
        let _ = kill_process(pid, signal);
    }
}

/// Calls `done` repeatedly until it returns true or `patience` has passed. Returns the last result of `done`.
pub fn within(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
