//! A task whose progress another part of the program watches, and which that part may interrupt.

use linerate_doctor::limiter::{Evidence, Verdict, transfer};
use linerate_transfer::lock::lock;
use linerate_transfer::session::Meters;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::copy::Copy;
use super::task::Task;
use crate::common::failure::Failure;
use crate::common::output::Output;
use crate::exit::Code;

/// A task that can be watched and interrupted.
pub struct WatchedTask {
    /// The flag that interrupts the task.
    pub interrupted: Arc<AtomicBool>,
    begun: Instant,
    /// The counters of the task's current or last try.
    meters: Mutex<Meters>,
}

/// The progress of a push, or of a copy within this host.
pub struct Sight {
    /// The seconds since the copy began.
    pub seconds: f64,
    /// The bytes that are in place or are being written to their files.
    pub bytes: u64,
    /// The number of bytes that were sent.
    pub sent: u64,
    /// The number of files that are in place.
    pub files: u64,
    /// The limiter of the copy.
    pub limiter: Verdict,
}

impl WatchedTask {
    /// A task that hasn't begun, and that ends when `interrupted` is set.
    pub fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted, begun: Instant::now(), meters: Mutex::default() }
    }

    /// Runs the task to its end.
    ///
    /// # Errors
    /// If the task failed as a whole.
    pub fn perform(&self, output: &Arc<Output>, task: Task) -> Result<Code, Failure> {
        linerate_sys::limits::raise_open_files();
        linerate_sys::limits::keep_freed_memory();
        let mut copy = Copy::interruptible(Arc::new(task), output.clone(), self.interrupted.clone())?;
        let ended = copy.run_as(&mut |copy| {
            *lock(&self.meters) = copy.meters.clone();
            copy.once()
        });
        ended.inspect_err(|_| output.losses())
    }

    /// The counters of the task's current or last try.
    pub fn meters(&self) -> Meters {
        lock(&self.meters).clone()
    }

    /// The progress of the task. `within` states that the copy is within this host.
    pub fn look(&self, within: bool) -> Sight {
        let meters = self.meters();
        let (sender, receiver) = (meters.local.progress(), *lock(&meters.remote));
        // Within this host, one end's counters contain both.
        let receiver = if within { sender } else { receiver };
        let seconds = self.begun.elapsed().as_secs_f64();
        let evidence = Evidence::under_way(sender.stages, receiver.stages, seconds, within);
        let limiter = transfer::name(&evidence);
        let there = meters.local.unchanged.get();
        let bytes = receiver.stages.bytes.saturating_add(there.bytes);
        Sight { seconds, bytes, sent: receiver.stages.bytes, files: receiver.landed.files, limiter }
    }
}
