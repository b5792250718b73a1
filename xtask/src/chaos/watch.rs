//! Looks at the destination all the time: a file under a real name must be the source's or the older one, whole, and nothing may
//! be open to more users than at either end.

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

/// The files that the watch looks at, and what it judges.
#[derive(Clone)]
pub struct Scene {
    pub tree: PathBuf,
    pub older: Option<PathBuf>,
    pub destination: PathBuf,
    /// False where readers may see mixtures.
    pub reads: bool,
    /// False where rights come through links.
    pub judges_modes: bool,
}

/// A thread that looks until it is ended.
pub struct SceneWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// The things that the watch has seen.
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
            // Each file is read once; one that takes its place is another, as is one that has changed.
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
            // Read twice, since it may have given way to another in between.
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

    /// Rights that others have on this path in either version; for a temporary name, on any file beside it.
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

/// True for the names that linerate gives what isn't whole, and for what lies in a directory of such files.
fn is_temporary(path: &Path) -> bool {
    path.iter().any(is_unfinished)
}

/// True for a name of something unfinished: linerate's own, that of `--delay-updates`, and that of `--partial-dir` here.
pub fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".linerate.")
        || [".~tmp~", ".partial"].iter().any(|own| name == *own)
}
