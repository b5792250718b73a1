//! `--manifest`: writes the digests of delivered files to a file that b3sum can read.

use linerate_sys::replace::{directory_of, may_replace, replace};
use linerate_transfer::CHANGED;
use linerate_transfer::digest::ledger::Reported;
use linerate_transfer::digest::manifest::{Manifest, begins_manifest};
use linerate_transfer::lock::lock;
use linerate_transfer::problem::Observer;
use linerate_wire::control::{Change, Digest, Options, Problem, ProblemKind};
use linerate_wire::path::{RelPath, printable};
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::awaited::{Awaited, Released};
use super::task::Task;
use crate::common::output::Output;
use crate::common::spared::{ReplacedKind, taken};

/// Manifests, as a kind of files that runs may replace.
const MANIFESTS: ReplacedKind = ReplacedKind { name: "a manifest", begins: begins_manifest };

/// Collects the digests of a run, and its problems with single entries.
pub struct Delivered {
    file: Option<PathBuf>,
    output: Arc<Output>,
    files: Mutex<BTreeMap<(u32, RelPath), Reported>>,
    /// The paths of entries that failed, as the receiver reports them.
    failed: Mutex<HashSet<Vec<u8>>>,
    /// The reports that wait for their files; `None` if no reports are held back.
    awaited: Mutex<Option<Awaited>>,
}

/// The paths at the destination at which a run's sources were placed.
pub struct Landed<'a> {
    /// The names of the sources.
    pub sources: Vec<RelPath>,
    /// True if the sources keep their names below the destination; false if the only source got the
    /// destination's name.
    pub within: bool,
    /// The destination as the user wrote it.
    pub destination: &'a [u8],
}

impl Delivered {
    /// Collects the data for the manifest of a task, if the task requests one.
    ///
    /// # Errors
    /// A message if the manifest could not be written.
    pub fn new(task: &Task, output: Arc<Output>) -> Result<Self, String> {
        let file = task.manifest.clone();
        let fault = file.as_deref().and_then(|file| Some((file, fault(file, task)?)));
        if let Some((file, why)) = fault {
            let shown = printable(file.as_os_str().as_bytes());
            return Err(format!("the manifest can't be written to {shown}: {why}"));
        }
        let (files, failed, awaited) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self { file, output, files, failed, awaited })
    }

    /// True if a manifest is requested.
    pub fn is_wanted(&self) -> bool {
        self.file.is_some()
    }

    /// Reports a problem on one of two far hosts.
    pub fn problem_at(&self, host: &str, problem: Problem) {
        self.note_failed(&problem);
        let path = if self.output.looks_like_another() || problem.path.is_empty() {
            problem.path
        } else {
            [host.as_bytes(), b":", &problem.path].concat()
        };
        self.output.problem(Problem { path, ..problem });
    }

    /// Holds back the reports of files until the files were sent. A dry run sends no files.
    pub fn await_files(&self, options: &Options) {
        let reports = options.sync.as_ref().is_some_and(|sync| sync.itemize && !sync.dry_run);
        *lock(&self.awaited) = reports.then(Awaited::default);
    }

    /// Makes the reports that still wait. If the transfer isn't `complete`, the reports of files that it may not have
    /// sent aren't made.
    pub fn end(&self, complete: bool) {
        let mut awaited = lock(&self.awaited);
        let released = awaited.as_mut().map(|awaited| awaited.end(complete));
        self.release(released.unwrap_or_default());
    }

    fn release(&self, released: Vec<Released>) {
        released.into_iter().for_each(|released| match released {
            Released::Made(change) => self.output.changes(vec![change]),
            Released::Dropped(change) => self.output.not_sent(&change),
        });
    }

    fn note_failed(&self, problem: &Problem) {
        let is_sent = match problem.kind {
            ProblemKind::Failed => false,
            ProblemKind::Changed => problem.message == CHANGED,
            _ => true,
        };
        if !is_sent && let Some(awaited) = &mut *lock(&self.awaited) {
            self.release(awaited.failed(&problem.path));
        }
        if self.file.is_some() && problem.kind == ProblemKind::Failed {
            lock(&self.failed).insert(problem.path.clone());
        }
    }

    /// Discards the collected digests, because another try begins, which reports everything again.
    pub fn begin(&self) {
        lock(&self.files).clear();
        lock(&self.failed).clear();
    }

    /// Records a file's digest, or another report about the file.
    pub fn known(&self, source: u32, path: &RelPath, reported: Reported) {
        if self.file.is_none() {
            return;
        }
        let key = (source, path.clone());
        match reported {
            Reported::Withdrawn => lock(&self.files).remove(&key),
            reported => lock(&self.files).insert(key, reported),
        };
    }

    /// Writes the manifest, if one is requested. `report` gets a problem for each name that the format can't
    /// express.
    ///
    /// # Errors
    /// A message if the manifest can't be written.
    pub fn write(&self, landed: &Landed<'_>, report: &dyn Fn(Problem)) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut manifest = Manifest::default();
        let (files, failed) = (lock(&self.files), lock(&self.failed));
        for ((source, path), reported) in files.iter() {
            let Some(source) = landed.sources.get(*source as usize) else { continue };
            let Some(digest) = digest(&files, reported) else { continue };
            if !failed.iter().any(|shown| landed.is_shown_as(source, path, shown)) {
                manifest.add(landed.name(source, path), digest);
            }
        }
        drop((files, failed));
        let (text, unfit) = manifest.text();
        unfit.into_iter().for_each(|name| report(unnamed(name)));
        replace(file, text.as_bytes()).map_err(|error| {
            format!("the files are in place, but writing {} failed: {error}", file.display())
        })
    }
}

impl Landed<'_> {
    /// A file's name in the manifest: its path below the destination, or the destination itself if that is a
    /// file.
    fn name(&self, source: &RelPath, path: &RelPath) -> Vec<u8> {
        let top = match (self.within, path.is_root()) {
            (true, _) => source.as_bytes(),
            (false, true) => last_name(self.destination),
            (false, false) => b"",
        };
        let slash = if top.is_empty() || path.is_root() { "" } else { "/" };
        [top, slash.as_bytes(), path.as_bytes()].concat()
    }

    /// True if the receiver shows this path as `shown`. The receiver may have replaced `~` by a home
    /// directory, or written a dot before a name. A single file under a new name may be shown with any name,
    /// because it may be behind a link.
    fn is_shown_as(&self, source: &RelPath, path: &RelPath, shown: &[u8]) -> bool {
        if !self.within && path.is_root() {
            return true;
        }
        let destination = if self.destination.is_empty() { b"." } else { self.destination };
        let mut whole = PathBuf::from(OsString::from_vec(destination.to_vec()));
        if self.within {
            whole.push(source.as_os_str());
        }
        if !path.is_root() {
            whole.push(path.as_os_str());
        }
        let whole = without_dot(whole.as_os_str().as_bytes());
        let shown = without_dot(shown);
        shown == whole || whole.strip_prefix(b"~").is_some_and(|rest| shown.ends_with(rest))
    }
}

impl Observer for Delivered {
    fn problem(&self, problem: Problem) {
        self.note_failed(&problem);
        self.output.problem(problem);
    }

    fn changes(&self, changes: Vec<Change>) {
        match &mut *lock(&self.awaited) {
            Some(awaited) => changes.into_iter().for_each(|change| self.release(awaited.add(change))),
            None => self.output.changes(changes),
        }
    }

    fn moved(&self, path: &RelPath) {
        if let Some(awaited) = &mut *lock(&self.awaited) {
            self.release(awaited.moved(path));
        }
    }

    fn note(&self, note: &str) {
        self.output.note(note);
    }
}

/// The reason why a manifest can't be written to `file`, if that can be known before the copy.
fn fault(file: &Path, task: &Task) -> Option<String> {
    match (directory_of(file).is_dir(), file.is_dir()) {
        (_, true) => return Some("it is a directory; name a file".into()),
        (false, _) => return Some("no such directory".into()),
        (true, false) => {}
    }
    if let Err(error) = may_replace(file) {
        return Some(error.to_string());
    }
    let destination = std::slice::from_ref(&task.destination);
    taken(file, "--manifest")
        .or_else(|| MANIFESTS.refusal_among(file, &task.sources, destination))
        .or_else(|| MANIFESTS.refusal(file))
}

/// The digest of a file. If the report refers to another name of the same file, that name's digest is used.
fn digest(files: &BTreeMap<(u32, RelPath), Reported>, reported: &Reported) -> Option<Digest> {
    let first = match reported {
        Reported::SameAs(source, path) => files.get(&(*source, path.clone()))?,
        reported => reported,
    };
    if let Reported::Digest(digest) = first { Some(*digest) } else { None }
}

fn unnamed(name: &[u8]) -> Problem {
    let message = "is in place, but isn't in the manifest: b3sum's format can't hold its name".to_owned();
    Problem { path: name.to_vec(), message, kind: ProblemKind::NotKept }
}

fn without_dot(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"./").unwrap_or(path)
}

fn last_name(path: &[u8]) -> &[u8] {
    Path::new(OsStr::from_bytes(path)).file_name().map_or(b"", OsStr::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text.as_bytes()).unwrap()
    }

    fn names(within: bool, destination: &str, source: &str, below: &str) -> (String, bool) {
        let landed = Landed { sources: Vec::new(), within, destination: destination.as_bytes() };
        let (source, below) = (path(source), path(below));
        let name = String::from_utf8(landed.name(&source, &below)).unwrap();
        let shown = format!("{}{}", destination.replace('~', "/home/u"), if within { "tree/x" } else { "x" });
        (name, landed.is_shown_as(&source, &below, shown.as_bytes()))
    }

    #[test]
    fn names_are_relative_to_the_destination() {
        assert_eq!(names(true, "/data/", "tree", "x"), ("tree/x".into(), true));
        assert_eq!(names(true, "~/data/", "tree", "x"), ("tree/x".into(), true));
        assert_eq!(names(false, "/data/new/", "tree", "x"), ("x".into(), true));
        assert_eq!(names(true, "/data/", "", "x").0, "x", "what is in a directory without a name");
        assert_eq!(names(true, "/data/", "file", "").0, "file");
        assert_eq!(names(false, "/data/new", "file", "").0, "new", "a file under a new name");
    }

    #[test]
    fn a_file_of_the_same_name_elsewhere_is_not_the_one_that_failed() {
        let landed = Landed { sources: Vec::new(), within: true, destination: b"/data" };
        assert!(landed.is_shown_as(&path("t"), &path("x"), b"/data/t/x"));
        assert!(!landed.is_shown_as(&path("t"), &path("x"), b"/data/t/y/t/x"));
        assert!(!landed.is_shown_as(&path("t"), &path("x"), b"x"));
        let new = |destination| Landed { sources: Vec::new(), within: false, destination };
        assert!(new(b"new").is_shown_as(&path("t"), &path("x"), b"./new/x"));
        assert!(new(b"./new").is_shown_as(&path("t"), &path("x"), b"./new/x"));
        assert!(!new(b"new").is_shown_as(&path("t"), &path("x"), b"./new/y"));
        assert!(new(b"link").is_shown_as(&path("f"), &RelPath::root(), b"/the/real/file"));
    }
}
