//! Lines on standard output, and the progress line below them.

use linerate_transfer::lock::lock;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most lines that are held back.
const MOST_HELD: usize = 1000;

/// The lines on standard output, and the progress line below them.
#[derive(Default)]
pub struct StandardLines {
    /// The progress line has no newline yet.
    is_open: AtomicBool,
    held: Mutex<Vec<Vec<u8>>>,
    /// The line with the number of found files comes before all others.
    waits_for_count: AtomicBool,
}

impl StandardLines {
    /// The next line is the number of files that were found: until that is known, lines are held back.
    pub fn wait_for_count(&self) {
        self.waits_for_count.store(true, Ordering::Relaxed);
    }

    /// Shows the number of entries found so far, or in total.
    pub fn count(&self, scanned: bool, found: u64) {
        if scanned && self.waits_for_count.swap(false, Ordering::Relaxed) {
            let files = if found == 1 { "file" } else { "files" };
            self.say(format!("{found} {files} to consider").as_bytes());
        }
        if !self.waits_for_count.load(Ordering::Relaxed) {
            self.release();
        }
    }

    /// Prints a line, below the progress that is shown.
    pub fn say(&self, line: &[u8]) {
        match self.waits_for_count.load(Ordering::Relaxed) {
            true => self.hold(line.to_vec()),
            false => self.write(line),
        }
    }

    fn write(&self, line: &[u8]) {
        let end: &[u8] = if self.is_open.swap(false, Ordering::Relaxed) { b"\n" } else { b"" };
        crate::say::bytes(&[end, line].concat());
    }

    /// Prints the progress, in the place of the line before.
    pub fn progress(&self, line: &str, is_last: bool) {
        if self.waits_for_count.load(Ordering::Relaxed) {
            return;
        }
        self.is_open.store(!is_last, Ordering::Relaxed);
        let end = if is_last { "\n" } else { "" };
        let mut out = std::io::stdout().lock();
        // Lost output is noticed by the next line.
        let _ = write!(out, "\r{line}{end}").and_then(|()| out.flush());
    }

    /// A line that is held back: rsync writes lines about unchanged entries at once, and lines about entries that come when they are sent.
    pub fn hold(&self, line: Vec<u8>) {
        let mut held = lock(&self.held);
        held.push(line);
        if held.len() > MOST_HELD {
            drop(held);
            self.release();
        }
    }

    /// Writes the lines that were held back.
    pub fn release(&self) {
        let held = std::mem::take(&mut *lock(&self.held));
        held.iter().for_each(|line| self.write(line));
    }
}

impl Drop for StandardLines {
    fn drop(&mut self) {
        self.release();
    }
}
