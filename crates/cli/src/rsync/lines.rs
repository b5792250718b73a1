//! Lines on standard output, and the progress line that is shown below them.

use linerate_transfer::lock::lock;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The greatest number of lines that are held back.
const MOST_HELD: usize = 1000;

/// Prints lines on standard output, and the progress line below them.
#[derive(Default)]
pub struct StandardLines {
    /// Whether the progress line was printed without a newline so far.
    is_open: AtomicBool,
    held: Mutex<Vec<Vec<u8>>>,
    /// Whether other lines wait until the number of found files is printed.
    waits_for_count: AtomicBool,
}

impl StandardLines {
    /// Holds back all lines until the number of found files is printed.
    pub fn wait_for_count(&self) {
        self.waits_for_count.store(true, Ordering::Relaxed);
    }

    /// Prints the number of entries found so far or, once `scanned`, the total.
    pub fn count(&self, scanned: bool, found: u64) {
        if scanned && self.waits_for_count.swap(false, Ordering::Relaxed) {
            let files = if found == 1 { "file" } else { "files" };
            self.say(format!("{found} {files} to consider").as_bytes());
        }
        if !self.waits_for_count.load(Ordering::Relaxed) {
            self.release();
        }
    }

    /// Prints a line. A progress line that is shown stays above this line.
    pub fn say(&self, line: &[u8]) {
        match self.waits_for_count.load(Ordering::Relaxed) {
            true => self.hold(line.to_vec()),
            false => self.write(line),
        }
    }

    fn write(&self, line: &[u8]) {
        let end: &[u8] = if self.is_open.swap(false, Ordering::Relaxed) { b"\n" } else { b"" };
        crate::print::bytes(&[end, line].concat());
    }

    /// Prints a progress line, which replaces the previous progress line.
    pub fn progress(&self, line: &str, is_last: bool) {
        if self.waits_for_count.load(Ordering::Relaxed) {
            return;
        }
        self.is_open.store(!is_last, Ordering::Relaxed);
        let end = if is_last { "\n" } else { "" };
        let mut out = std::io::stdout().lock();
        // If this write fails, the next line reports the error.
        let _ = write!(out, "\r{line}{end}").and_then(|()| out.flush());
    }

    /// Holds back a line: rsync prints lines about unchanged entries at once, but lines about sent entries
    /// only when the entries are sent.
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
