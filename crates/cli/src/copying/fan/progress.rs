//! The progress of all copies together, on a terminal.

use linerate_transfer::lock::lock;
use linerate_transfer::session::Meters;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::FanTarget;
use crate::common::output::Output;
use crate::units::{show_bytes, show_rate};

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);

/// The display; it ends when this is dropped.
pub struct FanProgress {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How far one copy is.
struct FanShare {
    name: String,
    done: u64,
    found: u64,
}

impl FanProgress {
    /// Shows the sum of the copies, and the one that has least.
    pub fn start(output: &Arc<Output>, targets: &[FanTarget], begun: Instant) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, output) = (stop.clone(), output.clone());
        let watched: Vec<(String, Arc<Mutex<Meters>>)> =
            targets.iter().map(|target| (target.written.clone(), target.meters.clone())).collect();
        let thread = thread::spawn(move || {
            while !output.bar().is_hidden() && !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(EVERY);
                draw(&output, &watched, begun);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for FanProgress {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A display that failed is no reason to fail.
            let _ = thread.join();
        }
    }
}

fn draw(output: &Output, watched: &[(String, Arc<Mutex<Meters>>)], begun: Instant) {
    let shares: Vec<FanShare> = watched.iter().map(|(name, meters)| share(name, &lock(meters))).collect();
    let sum = |of: fn(&FanShare) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
    let (done, found) = (sum(|share| share.done), sum(|share| share.found));
    let bar = output.bar();
    bar.set_length(found.max(1));
    bar.set_position(done);
    let least = shares.iter().filter(|share| share.done < share.found).min_by_key(|share| share.done);
    let least = least.map_or_else(String::new, |share| {
        format!(", least at {}: {} of {}", share.name, show_bytes(share.done), show_bytes(share.found))
    });
    let rate = show_rate(done, begun.elapsed().as_secs_f64());
    bar.set_message(format!(
        "{} of {} for {} destinations, {rate} in all{least}",
        show_bytes(done),
        show_bytes(found),
        shares.len(),
    ));
}

fn share(name: &str, meters: &Meters) -> FanShare {
    let found = meters.local.found.get().bytes;
    let came = lock(&meters.remote).stages.bytes.saturating_add(meters.local.unchanged.get().bytes);
    FanShare { name: name.to_owned(), done: came.min(found), found }
}
