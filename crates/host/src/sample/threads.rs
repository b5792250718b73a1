//! The times of the threads of followed processes, from /proc/PID/task/TID/schedstat (the kernel's
//! Documentation/scheduler/sched-stats.rst). These times show whether one of a process's threads is busy all the time,
//! and whether threads wait for a processor.
//!
//! The text of the processes contains the threads of a process as one line, `threads PID TID:CPU:WAIT ...`, with both
//! times in nanoseconds. Such lines are written at most twice a second.

use linerate_sys::process::parse_schedstat;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const WORD: &str = "threads";
/// The most threads of a process that are read. A process with more threads has no line, because reading its threads
/// would take too long.
const MOST_THREADS: usize = 64;

/// How the threads of a process used processors and waited for them, from the first to the last line with the process's
/// threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadUse {
    /// The share of the time for which the busiest thread was on a processor.
    pub fullest: f64,
    /// The largest share of the time for which any thread was on a processor or waited for one.
    pub most_ready: f64,
    /// The mean number of processors that all threads used.
    pub running: f64,
    /// The mean number of threads that could run and waited for a processor.
    pub waiting: f64,
}

/// The times, in nanoseconds since the thread's start, for which a thread was on a processor and waited for one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ThreadTimes {
    running: u64,
    waiting: u64,
}

/// Appends the line with a process's threads to `text`, if the kernel counts the times of threads.
pub(super) fn report(proc: &Path, pid: u32, text: &mut Vec<u8>) {
    let tasks = proc.join(format!("{pid}/task"));
    let entries = fs::read_dir(&tasks).into_iter().flatten().flatten().take(MOST_THREADS + 1);
    let threads: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if threads.len() > MOST_THREADS {
        return;
    }
    let times = threads.iter().filter_map(|thread| {
        let line = fs::read_to_string(tasks.join(format!("{thread}/schedstat"))).ok()?;
        let (running, waiting) = parse_schedstat(&line)?;
        Some(format!(" {thread}:{running}:{waiting}"))
    });
    let times: String = times.collect();
    if !times.is_empty() {
        text.extend_from_slice(format!("{WORD} {pid}{times}\n").as_bytes());
    }
}

/// The processes for which the text has a line with threads, each with the times of its threads.
fn parse(text: &str) -> impl Iterator<Item = (u32, BTreeMap<u32, ThreadTimes>)> {
    text.lines().filter_map(|line| {
        let mut words = line.strip_prefix(WORD)?.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        let thread = |word: &str| {
            let mut numbers = word.split(':').map(|number| number.parse::<u64>().ok());
            let (id, running, waiting) = (numbers.next()??, numbers.next()??, numbers.next()??);
            Some((u32::try_from(id).ok()?, ThreadTimes { running, waiting }))
        };
        Some((pid, words.filter_map(thread).collect()))
    })
}

/// The sums over the lines with one process's threads.
struct Tally {
    from: f64,
    to: f64,
    /// For each thread, the times at the beginning of the interval that counts, and the times in its last line.
    threads: BTreeMap<u32, (ThreadTimes, ThreadTimes)>,
}

impl Tally {
    fn new(seconds: f64, threads: BTreeMap<u32, ThreadTimes>) -> Self {
        let threads = threads.into_iter().map(|(id, times)| (id, (times, times))).collect();
        Self { from: seconds, to: seconds, threads }
    }

    fn add(&mut self, seconds: f64, threads: BTreeMap<u32, ThreadTimes>) {
        self.to = seconds;
        for (id, times) in threads {
            // If the earlier lines don't have this thread, the thread began after them, so its times count from 0.
            let (first, last) = self.threads.entry(id).or_default();
            // A later thread may have got the number of a thread that has ended.
            if times.running < last.running {
                *first = ThreadTimes::default();
            }
            *last = times;
        }
    }

    fn used(self) -> Option<ThreadUse> {
        let span = (self.to - self.from) * 1e9;
        let share = |last: u64, first: u64| last.saturating_sub(first) as f64 / span;
        (span > 0.0).then(|| {
            self.threads.values().fold(ThreadUse::default(), |all, (first, last)| {
                let running = share(last.running, first.running);
                let waiting = share(last.waiting, first.waiting);
                ThreadUse {
                    fullest: all.fullest.max(running),
                    most_ready: all.most_ready.max(running + waiting),
                    running: all.running + running,
                    waiting: all.waiting + waiting,
                }
            })
        })
    }
}

/// How the processes in the texts used processors, by the processes' IDs and start times. `started` finds the start
/// time of a process in a text.
pub(super) fn used<'a>(
    texts: impl Iterator<Item = (f64, &'a str)>,
    started: impl Fn(&str, u32) -> Option<u64>,
) -> BTreeMap<(u32, u64), ThreadUse> {
    let mut tallies: BTreeMap<(u32, u64), Tally> = BTreeMap::new();
    for (seconds, text) in texts {
        for (pid, threads) in parse(text) {
            let Some(started) = started(text, pid) else { continue };
            match tallies.get_mut(&(pid, started)) {
                Some(tally) => tally.add(seconds, threads),
                None => drop(tallies.insert((pid, started), Tally::new(seconds, threads))),
            }
        }
    }
    tallies.into_iter().filter_map(|(process, tally)| Some((process, tally.used()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn of(texts: &[&str]) -> Option<ThreadUse> {
        let texts = texts.iter().enumerate().map(|(at, text)| (at as f64, *text));
        used(texts, |_, _| Some(1)).remove(&(7, 1))
    }

    fn rounded(used: ThreadUse) -> [f64; 4] {
        [used.fullest, used.most_ready, used.running, used.waiting]
            .map(|share| (share * 1000.0).round() / 1000.0)
    }

    #[test]
    fn the_fullest_thread_is_not_the_sum_of_all() {
        let found = of(&[
            "threads 7 7:5000000000:0 8:1000000000:200000000\n",
            "1 (a) S 0\nsockets 3\n",
            "threads 7 7:5200000000:0 8:1400000000:1400000000 9:1600000000:300000000\nthreads 8 8:1:1\n",
        ]);
        assert_eq!(rounded(found.unwrap()), [0.8, 0.95, 1.1, 0.75]);
        assert_eq!(of(&["threads 7 7:5:0\n"]), None, "one line shows no use");
        assert_eq!(of(&["threads x\n", "threads 7 7:a:0 8\n"]), None);
    }

    #[test]
    fn a_number_that_a_later_thread_got_counts_from_its_start() {
        let found =
            of(&["threads 7 7:900000000:0\n", "threads 7 7:1900000000:0\n", "threads 7 7:400000000:0\n"]);
        assert_eq!(rounded(found.unwrap())[0], 0.2);
    }

    #[test]
    fn the_threads_of_this_process_are_read() {
        let mut text = Vec::new();
        report(Path::new("/proc"), std::process::id(), &mut text);
        if text.is_empty() {
            return linerate_testing::skip("schedstat", "the kernel has no /proc/PID/task/TID/schedstat");
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(begun);
        }
        let mut later = Vec::new();
        report(Path::new("/proc"), std::process::id(), &mut later);
        let texts = [text, later].map(|text| String::from_utf8(text).unwrap());
        let texts = [(0.0, texts[0].as_str()), (0.06, texts[1].as_str())];
        let found = used(texts.into_iter(), |_, _| Some(1));
        let own = found[&(std::process::id(), 1)];
        assert!(own.most_ready >= 0.6 && own.fullest <= own.most_ready, "{own:?}");
    }
}
