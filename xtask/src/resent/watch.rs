//! Watches the destination during the test: a file under its final name must be a complete copy of the
//! source's file.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::tree::is_same;
use crate::chaos::tree::names;

/// A thread that watches the destination until it is stopped.
pub struct HalfWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl HalfWatch {
    pub fn start(tree: &Path, destination: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tree, destination, stopped) = (tree.to_owned(), destination.to_owned(), stop.clone());
        let thread = thread::spawn(move || {
            let (mut seen, mut wrong) = (HashSet::new(), Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                look(&tree, &destination, &mut seen, &mut wrong);
                thread::sleep(Duration::from_millis(20));
            }
            wrong
        });
        Self { stop, thread }
    }

    /// Stops the thread, and returns the errors that it found.
    pub fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| vec!["the one who looks has failed".into()])
    }
}

/// Reads each new file once. If another file replaces a file, the new file is read too.
fn look(tree: &Path, destination: &Path, seen: &mut HashSet<(PathBuf, u64)>, wrong: &mut Vec<String>) {
    for path in names(destination) {
        let is_temporary =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".linerate."));
        let Ok(meta) = destination.join(&path).symlink_metadata() else { continue };
        if is_temporary || !meta.is_file() || !seen.insert((path.clone(), meta.ino())) {
            continue;
        }
        match is_same(&tree.join(&path), &destination.join(&path)) {
            Ok(true) => {}
            Ok(false) => wrong.push(format!("{} was half a file under its real name", path.display())),
            // The file was removed meanwhile; the comparison at the end finds missing files.
            Err(_) => drop(seen.remove(&(path, meta.ino()))),
        }
    }
}
