//! Applies an operation to many items: one after the other, or several at a time if each has to wait for a server or a
//! disk.

use linerate_sys::usage::sleeps_of_this_thread;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::lock::lock;

/// If a call sleeps and takes at least this long, it is worth a thread of its own: starting a thread takes a
/// fifth of this time.
const WAITS: Duration = Duration::from_micros(300);
/// The largest number of items that are processed at the same time.
const THREADS: usize = 16;

/// Processes items one by one at first, and several at a time after it has seen that the operation waits.
#[derive(Debug, Default)]
pub struct Several {
    /// True if the operations on the last items had to wait.
    wait: bool,
}

impl Several {
    /// True if the operations on the last items had to wait, so that the next items are processed several at a time.
    pub fn wait(&self) -> bool {
        self.wait
    }

    /// Applies `each` to the items; returns the results in the items' order.
    pub fn map<I: Send, O: Send>(&mut self, items: Vec<I>, each: impl Fn(I) -> O + Sync) -> Vec<O> {
        let (begun, count) = (Instant::now(), items.len());
        let threads = if self.wait { count.clamp(1, THREADS) } else { 1 };
        // On a busy machine, calls that only need a processor take long too, so sleeps are counted.
        let sleeps = AtomicU64::new(0);
        let done = match threads {
            1 => counting(&sleeps, || items.into_iter().map(each).collect()),
            // The threads also sleep to wait for each other, which isn't counted.
            _ => at_once(items, threads, &|item| counting(&sleeps, || each(item))),
        };
        if count > 0 {
            self.wait = sleeps.into_inner() * 2 >= count as u64
                && begun.elapsed() * threads as u32 >= WAITS * count as u32;
        }
        done
    }
}

/// Calls `work`, and counts how often the thread sleeps during the call.
fn counting<O>(sleeps: &AtomicU64, work: impl FnOnce() -> O) -> O {
    let before = sleeps_of_this_thread();
    let done = work();
    sleeps.fetch_add(sleeps_of_this_thread() - before, Ordering::Relaxed);
    done
}

fn at_once<I: Send, O: Send>(items: Vec<I>, threads: usize, each: &(impl Fn(I) -> O + Sync)) -> Vec<O> {
    let mut done: Vec<Option<O>> = items.iter().map(|_| None).collect();
    let queue = Mutex::new(items.into_iter().zip(&mut done));
    let work = || {
        loop {
            let next = lock(&queue).next();
            let Some((item, place)) = next else { return };
            *place = Some(each(item));
        }
    };
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    drop(queue);
    done.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn what_waits_is_done_several_at_a_time_in_its_order() {
        let (mut several, now, most) = (Several::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let mut run = |pause: Duration| {
            most.store(0, Ordering::SeqCst);
            let done = several.map((0..64).collect(), |number: usize| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(pause);
                now.fetch_sub(1, Ordering::SeqCst);
                number
            });
            assert_eq!(done, (0..64).collect::<Vec<_>>());
            most.load(Ordering::SeqCst)
        };
        let (slow, quick) = (Duration::from_millis(1), Duration::ZERO);
        assert_eq!(run(slow), 1, "nothing is known yet");
        assert!(run(slow) > THREADS / 2);
        run(quick);
        assert_eq!(run(quick), 1, "they don't wait any more");
        let begun = Instant::now();
        let works = |_| while begun.elapsed() < WAITS * 32 {};
        let mut several = Several::default();
        several.map((0..16).collect(), works);
        assert!(!several.wait(), "they need a processor for their time");
        assert_eq!(Several::default().map(Vec::<u8>::new(), |byte| byte), []);
    }
}
