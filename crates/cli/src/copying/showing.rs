//! Displays the progress, in a separate thread.

use linerate_transfer::session::Meters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::output::{Here, Output};

/// The interval at which the progress is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// A running progress display, which ends when this value is dropped.
pub struct Showing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Showing {
    /// Displays the progress that `meters` contain, until the result is dropped.
    pub fn start(output: Arc<Output>, meters: Meters, here: Here) -> Self {
        let begun = Instant::now();
        Self::draw(move || output.progress(&meters, begun, here))
    }

    /// Calls `draw` repeatedly, until the result is dropped.
    pub fn draw(mut draw: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(DRAW_INTERVAL);
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
            // If the display has failed, the copy continues.
            let _ = thread.join();
        }
    }
}
