//! The progress display, in a thread of its own.

use linerate_transfer::session::Meters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::output::{Here, Output};

/// The time between two drawings.
const EVERY: Duration = Duration::from_millis(100);

/// The display; it ends when this is dropped.
pub struct Showing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Showing {
    /// Shows what `meters` count, until the result is dropped.
    pub fn start(output: Arc<Output>, meters: Meters, here: Here) -> Self {
        let begun = Instant::now();
        Self::draw(move || output.progress(&meters, begun, here))
    }

    /// Redraws until the result is dropped.
    pub fn draw(mut draw: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(EVERY);
                draw();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A display that failed is no reason to fail.
            let _ = thread.join();
        }
    }
}
