//! A journal of changes to a host's settings, written before each change. If the process is killed before it
//! restores the settings, the next lab command of this user restores them.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use linerate_remote::place::Place;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::process::{Process, wait_until};
use crate::state::{StateRoot, write_private};

/// The longest time that a restoring command may take, including a login.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(20);

/// The prefix of the journals' file names.
const PREFIX: &str = "changed-";

/// The command that restores one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// A description of the setting and its value, for messages: "busy_poll on host b, to 0".
    pub what: String,
    /// The place (host or namespace) in which the command runs.
    pub place: Place,
    /// The words of the command.
    pub argv: Vec<OsString>,
    /// Environment variables for the command, in addition to this program's own.
    pub environment: Vec<(OsString, OsString)>,
}

/// The settings that this process must restore. Dropping this value restores them and reports failures.
#[derive(Debug)]
pub struct UndoJournal {
    path: PathBuf,
    undos: Vec<Undo>,
}

/// The contents of a journal's file. Words are bytes, because they need not be valid UTF-8.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenJournal {
    holder: Process,
    undos: Vec<WrittenUndo>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenUndo {
    what: String,
    place: WrittenPlace,
    argv: Vec<Vec<u8>>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenPlace {
    Here,
    Namespace { path: PathBuf, boot: String },
    Ssh { rsh: Vec<Vec<u8>>, host: Vec<u8> },
}

impl UndoJournal {
    /// Writes the restoring commands to disk. Change the settings only after this function has returned.
    ///
    /// # Errors
    /// If the journal can't be written. In that case, don't change any setting.
    pub fn open(undos: Vec<Undo>) -> Result<Self, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = StateRoot::open()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = root.file(&format!("{PREFIX}{}-{number}.json", std::process::id()));
        let holder = Process::current().map_err(LabError::file("reading", Path::new("/proc/self/stat")))?;
        let written = WrittenJournal {
            undos: undos.iter().map(|undo| WrittenUndo::of(undo, &holder)).collect(),
            holder,
        };
        let stored = serde_json::to_vec_pretty(&written).map_err(std::io::Error::other);
        // The file gets its final name only when it is complete, because an incomplete journal couldn't
        // restore the settings.
        let partial = path.with_extension("new");
        let stored = stored
            .and_then(|text| write_private(&partial, &text))
            .and_then(|()| File::open(&partial)?.sync_all())
            .and_then(|()| std::fs::rename(&partial, &path))
            .and_then(|()| File::open(root.file(""))?.sync_all());
        stored.map_err(LabError::file("writing", &path))?;
        Ok(Self { path, undos })
    }

    /// Restores all settings, the last change first, and returns messages about failures.
    pub fn close(mut self) -> Vec<String> {
        self.put_back()
    }

    fn put_back(&mut self) -> Vec<String> {
        let undos = std::mem::take(&mut self.undos);
        if undos.is_empty() {
            return Vec::new();
        }
        let failed: Vec<String> = undos.iter().rev().filter_map(|undo| undo.run().err()).collect();
        // The file is removed even after a failure: a second try would also fail, but the user gets a
        // message.
        let _ = std::fs::remove_file(&self.path);
        failed
    }
}

impl Drop for UndoJournal {
    fn drop(&mut self) {
        self.put_back().iter().for_each(|failed| eprintln!("linerate: {failed}"));
    }
}

impl Undo {
    fn run(&self) -> Result<(), String> {
        let failed = |reason: String| format!("restoring {}: {reason}", self.what);
        let mut command = self.place.command(&self.argv).map_err(|e| failed(e.to_string()))?;
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        run(&mut command).map_err(failed)
    }
}

/// Restores the settings that ended processes had changed. Returns a message for each setting.
pub(crate) fn sweep(root: &StateRoot) -> Vec<String> {
    let listed = std::fs::read_dir(root.file("")).into_iter().flatten().flatten();
    let journals = listed.map(|entry| entry.path()).filter(|path| is_journal(path));
    journals.filter_map(|path| sweep_one(&path)).flatten().collect()
}

fn is_journal(path: &Path) -> bool {
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(b".json")
}

fn sweep_one(path: &Path) -> Option<Vec<String>> {
    let written: WrittenJournal = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    if written.holder.is_alive() {
        return None;
    }
    let pid = written.holder.pid;
    let boot = Process::current().map(|own| own.boot).unwrap_or_default();
    let undos: Vec<Undo> = written.undos.into_iter().filter_map(|undo| undo.still(&boot)).collect();
    let reported = |undo: &Undo| match undo.run() {
        Ok(()) => format!("restored {}, which process {pid} had left changed", undo.what),
        Err(reason) => reason,
    };
    let lines = undos.iter().rev().map(reported).collect();
    // A second try would fail in the same way.
    let _ = std::fs::remove_file(path);
    Some(lines)
}

fn run(command: &mut Command) -> Result<(), String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child: Child = child.map_err(|e| e.to_string())?;
    if !wait_until(RESTORE_TIMEOUT, || !matches!(child.try_wait(), Ok(None))) {
        // This also closes the child's end of the pipe, so that the read below can't hang.
        let _ = child.kill();
    }
    let done = child.wait_with_output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if done.status.success() { Ok(()) } else { Err(format!("{}, {said}", done.status)) }
}

impl WrittenUndo {
    fn of(undo: &Undo, holder: &Process) -> Self {
        let bytes = |word: &OsString| word.as_bytes().to_vec();
        let place = match &undo.place {
            Place::Here => WrittenPlace::Here,
            Place::Namespace(path) => {
                WrittenPlace::Namespace { path: path.clone(), boot: holder.boot.clone() }
            }
            Place::Ssh { rsh, host } => {
                WrittenPlace::Ssh { rsh: rsh.iter().map(bytes).collect(), host: bytes(host) }
            }
        };
        Self {
            what: undo.what.clone(),
            place,
            argv: undo.argv.iter().map(bytes).collect(),
            environment: undo.environment.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        }
    }

    /// The restoring command; `None` if the setting's network namespace doesn't exist any more.
    fn still(self, boot: &str) -> Option<Undo> {
        let place = match self.place {
            WrittenPlace::Here => Place::Here,
            WrittenPlace::Namespace { path, boot: then } if then == boot && path.exists() => {
                Place::Namespace(path)
            }
            // In another namespace, the same command would change the setting of a different host.
            WrittenPlace::Namespace { .. } => return None,
            WrittenPlace::Ssh { rsh, host } => Place::Ssh {
                rsh: rsh.into_iter().map(OsString::from_vec).collect(),
                host: OsString::from_vec(host),
            },
        };
        let words = |words: Vec<Vec<u8>>| words.into_iter().map(OsString::from_vec).collect();
        let environment = self.environment.into_iter();
        let environment =
            environment.map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value))).collect();
        Some(Undo { what: self.what, place, argv: words(self.argv), environment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::root_in;

    fn undo(file: &Path, text: &str) -> Undo {
        let script = format!("echo ${{ADDED}}{text} >> {}", file.display());
        Undo {
            what: format!("{text} of {}", file.display()),
            place: Place::Here,
            argv: ["sh", "-c", &script].map(OsString::from).to_vec(),
            environment: vec![("ADDED".into(), "to-".into())],
        }
    }

    fn write(root: &StateRoot, holder: &Process, undos: &[Undo]) -> PathBuf {
        let path = root.file(&format!("{PREFIX}1-0.json"));
        let undos = undos.iter().map(|undo| WrittenUndo::of(undo, holder)).collect();
        let text = serde_json::to_vec(&WrittenJournal { holder: holder.clone(), undos }).expect("plain data");
        std::fs::write(&path, text).expect("writable");
        path
    }

    #[test]
    fn what_a_dead_process_changed_is_put_back_once_last_first() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (root, file) = (root_in(directory.path()), directory.path().join("value"));
        let living = Process::current().expect("procfs");
        let dead = Process { start: living.start + 1, ..living.clone() };
        let undos = [undo(&file, "one"), undo(&file, "two")];
        write(&root, &living, &undos);
        assert_eq!(sweep(&root), Vec::<String>::new());
        let path = write(&root, &dead, &undos);
        let reported = sweep(&root);
        assert!(reported.len() == 2 && reported[0].starts_with("restored two of"), "{reported:?}");
        assert_eq!(std::fs::read_to_string(&file).expect("just written"), "to-two\nto-one\n");
        assert!(!path.exists() && sweep(&root).is_empty());
    }

    #[test]
    fn a_namespace_that_is_gone_took_its_settings_along() {
        let living = Process::current().expect("procfs");
        let mut gone = undo(Path::new("/nowhere"), "x");
        gone.place = Place::Namespace("/run/netns/there-is-none".into());
        assert_eq!(WrittenUndo::of(&gone, &living).still(&living.boot), None);
        gone.place = Place::Namespace("/proc/self/ns/net".into());
        assert_eq!(WrittenUndo::of(&gone, &living).still(&living.boot), Some(gone.clone()));
        assert_eq!(WrittenUndo::of(&gone, &living).still("another"), None);
    }

    #[test]
    fn a_command_that_fails_is_reported() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = root_in(directory.path());
        let dead = Process { pid: 1, start: 1, boot: "another".into() };
        let mut broken = undo(Path::new("/nowhere"), "x");
        broken.argv = ["sh", "-c", "echo no entry >&2; exit 3"].map(OsString::from).to_vec();
        write(&root, &dead, &[broken]);
        let reported = sweep(&root).join("");
        assert!(reported.starts_with("restoring x of") && reported.contains("no entry"), "{reported}");
    }
}
