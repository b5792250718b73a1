//! The processor time that the scheduler gave a thread, and the time that the thread waited for a processor.

use linerate_sys::process::parse_schedstat;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The calling thread's times, from /proc/thread-self/schedstat (the kernel's Documentation/scheduler/sched-stats.rst).
pub struct Spent {
    file: Option<File>,
    last: (u64, u64),
}

impl Spent {
    /// Starts to measure now.
    pub fn start() -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let last = file.as_ref().and_then(read).unwrap_or_default();
        Self { file, last }
    }

    /// Nanoseconds since the last call for which the thread was on a processor, and for which it was ready to
    /// run but had none. `None` if the kernel doesn't count these times.
    pub fn since_last(&mut self) -> Option<(u64, u64)> {
        let now = self.file.as_ref().and_then(read)?;
        let (cpu, waited) = std::mem::replace(&mut self.last, now);
        Some((now.0.saturating_sub(cpu), now.1.saturating_sub(waited)))
    }
}

fn read(file: &File) -> Option<(u64, u64)> {
    let mut bytes = [0; 80];
    let got = file.read_at(&mut bytes, 0).ok()?;
    parse_schedstat(std::str::from_utf8(&bytes[..got]).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn work_is_counted_and_sleep_is_not() {
        let mut spent = Spent::start();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(begun);
        }
        let Some((cpu, waited)) = spent.since_last() else {
            return linerate_testing::skip("schedstat", "the kernel has no /proc/thread-self/schedstat");
        };
        assert!(cpu + waited >= 40_000_000, "{cpu} {waited}");
        std::thread::sleep(Duration::from_millis(60));
        let (cpu, _) = spent.since_last().unwrap();
        assert!(cpu < 40_000_000, "{cpu}");
    }
}
