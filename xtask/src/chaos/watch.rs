//! Watches the destination during a round: a file under its final name must be a complete new or old version,
//! and no file may be accessible to more users than at the source or in the old version.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::tree::{is_same, names};

/// The trees that are watched, and the rules by which they are judged.
#[derive(Clone)]
pub struct Scene {
    pub tree: PathBuf,
    pub older: Option<PathBuf>,
    pub destination: PathBuf,
    /// Whether contents are checked; false for operations whose readers may see mixtures.
    pub reads: bool,
    /// Whether modes are checked; false for operations that follow links at the destination.
    pub judges_modes: bool,
}

/// A thread that watches the destination until it is stopped.
pub struct SceneWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// The observations of the watch.
#[derive(Default)]
pub struct Seen {
    pub read: u64,
    pub wrong: Vec<String>,
    known: HashSet<(PathBuf, u64, u64, i64)>,
}

impl SceneWatch {
    pub fn start(scene: Scene) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut seen = Seen::default();
            while !stopped.load(Ordering::Relaxed) {
                scene.look(&mut seen);
                thread::sleep(Duration::from_millis(20));
            }
            scene.look(&mut seen);
            seen
        });
        Self { stop, thread }
    }

    pub fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Seen { wrong: vec!["the watcher has failed".into()], ..Seen::default() })
    }
}

impl Scene {
    fn look(&self, seen: &mut Seen) {
        for path in names(&self.destination) {
            let Ok(meta) = self.destination.join(&path).symlink_metadata() else { continue };
            if self.judges_modes {
                self.judge_mode(&path, &meta, seen);
            }
            // Each file is read once. A file that has changed, or that replaced another file, is read again.
            let identity = (path.clone(), meta.ino(), meta.len(), meta.ctime_nsec());
            if self.reads && meta.is_file() && !is_temporary(&path) && seen.known.insert(identity) {
                self.read(&path, seen);
            }
        }
    }

    fn read(&self, path: &Path, seen: &mut Seen) {
        let here = self.destination.join(path);
        let is_one = |top: &Path| is_same(&top.join(path), &here).unwrap_or(false);
        if is_one(&self.tree) || self.older.as_deref().is_some_and(is_one) {
            seen.read += 1;
        } else if here.symlink_metadata().is_ok_and(|meta| meta.is_file()) && !is_one(&self.tree) {
            // The file is read twice, because it may have been replaced between two reads.
            seen.wrong.push(format!("{path:?} was half a file, or a wrong one, under its real name"));
        }
    }

    fn judge_mode(&self, path: &Path, meta: &Metadata, seen: &mut Seen) {
        if meta.is_symlink() {
            return;
        }
        let open = meta.mode() & 0o077;
        if open & !self.may_be_open(path) != 0 {
            let line = format!("{path:?} was open as {:o}", meta.mode() & 0o7777);
            if !seen.wrong.contains(&line) {
                seen.wrong.push(line);
            }
        }
    }

    /// The permissions that other users may have on this path: those that the path has in either version or, for a
    /// temporary name, those of any file in the same directory.
    fn may_be_open(&self, path: &Path) -> u32 {
        let tops = [Some(&self.tree), self.older.as_ref()];
        let mode = |path: PathBuf| path.symlink_metadata().map_or(0, |meta| meta.mode() & 0o077);
        tops.into_iter().flatten().fold(0, |open, top| {
            open | if is_temporary(path) {
                let beside: PathBuf = path.iter().take_while(|name| !is_unfinished(name)).collect();
                let beside = top.join(beside);
                let files = std::fs::read_dir(beside).into_iter().flatten().flatten();
                files.fold(0, |open, file| open | mode(file.path()))
            } else {
                mode(top.join(path))
            }
        })
    }
}

/// Whether a path is a temporary name of linerate, or below a directory of temporary files.
fn is_temporary(path: &Path) -> bool {
    path.iter().any(is_unfinished)
}

/// Whether a name is that of an unfinished file of linerate itself, or of the directory of `--delay-updates` or of this
/// test's `--partial-dir`.
pub fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".linerate.")
        || [".~tmp~", ".partial"].iter().any(|own| name == *own)
}
