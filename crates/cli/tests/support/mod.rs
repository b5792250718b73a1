//! Shared code of the test programs: runs a command with a time limit, and keeps its output.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_testing::skip;
use rustix::fs::XattrFlags;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// The time limit of a command, which is long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The result of a command that has ended.
pub struct Run {
    /// The exit code; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// The number of the signal that ended the command, if one did.
    pub signal: Option<i32>,
    /// The standard output of the command.
    pub out: String,
    /// The standard error of the command.
    pub err: String,
    /// The duration of the command.
    pub time: Duration,
}

impl Run {
    /// Returns the result unchanged if its exit code is `code`; otherwise panics with the output.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code; {self}");
        assert!(!self.err.contains("panicked"), "{self}");
        self
    }

    /// Returns the result unchanged if standard error contains all of `words`; otherwise panics.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing from: {self}");
        }
        self
    }
}

/// Prints the result and the last lines of the output, for messages of failed tests.
impl Display for Run {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { code, signal, time, .. } = self;
        write!(
            f,
            "exit {code:?}, signal {signal:?} after {time:?}; it said:\n{}{}",
            tail(&self.out),
            tail(&self.err)
        )
    }
}

/// A running command; it is killed on drop.
pub struct Running {
    child: Child,
    out: File,
    err: File,
    begun: Instant,
}

/// Starts linerate in a directory.
pub fn start(here: &Path, words: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(words).current_dir(here);
    Running::start(command)
}

/// Runs linerate in a directory to its end.
#[track_caller]
pub fn run(here: &Path, words: &[&str]) -> Run {
    start(here, words).end()
}

impl Running {
    /// Starts a command without input, in a separate process group.
    pub fn start(command: Command) -> Self {
        Self::start_onto(command, tempfile::tempfile().expect("a temporary file"))
    }

    /// Starts a command with `out` as its standard output.
    pub fn start_onto(mut command: Command, out: File) -> Self {
        let err = tempfile::tempfile().expect("a temporary file");
        let copy = |file: &File| Stdio::from(file.try_clone().expect("a descriptor is free"));
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(copy(&out)).stderr(copy(&err));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, out, err, begun: Instant::now() }
    }

    /// The process ID of the command.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids are below 2^22")
    }

    /// Sends a signal to the command's process.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Sends a signal to the command's process group, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        // A group that is gone already is as good.
        let group = Pid::from_raw(self.pid()).expect("process ids are positive");
        let _ = rustix::process::kill_process_group(group, signal);
    }

    /// Whether the command has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether the command has printed `words` so far.
    pub fn has_said(&self, words: &str) -> bool {
        let Ok(length) = self.err.metadata().map(|metadata| metadata.len()) else { return false };
        let mut said = vec![0; length as usize];
        // The command writes where the offset is, so that must not move.
        self.err.read_exact_at(&mut said, 0).is_ok() && String::from_utf8_lossy(&said).contains(words)
    }

    /// The command's standard output and standard error so far.
    pub fn said(&self) -> String {
        let read = |file: &File| {
            let mut said = vec![0; file.metadata().map_or(0, |metadata| metadata.len() as usize)];
            // The command writes where the offset is, so that must not move.
            file.read_exact_at(&mut said, 0)
                .map_or_else(|error| error.to_string(), |()| String::from_utf8_lossy(&said).into())
        };
        read(&self.out) + &read(&self.err)
    }

    /// Waits for the command's end; panics with its output if the time limit passes.
    #[track_caller]
    pub fn end(self) -> Run {
        self.end_within(PATIENCE)
    }

    /// Waits for the command's end, with the time limit `patience`.
    #[track_caller]
    pub fn end_within(mut self, patience: Duration) -> Run {
        let ended = within(patience, || self.has_ended());
        if !ended {
            let _ = self.child.kill();
        }
        let status = self.child.wait().expect("our own child");
        let run = Run {
            code: status.code(),
            signal: status.signal(),
            out: text(&mut self.out),
            err: text(&mut self.err),
            time: self.begun.elapsed(),
        };
        assert!(ended, "still there after {patience:?}: {run}");
        run
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is this object's own child; one that was waited for is not touched.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process; a process that has already ended is ignored.
pub fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The processes whose environment contains this text.
pub fn processes_with(mark: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").expect("proc is mounted").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // A zombie has no environment any more.
    let marked = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    pids.filter(marked).collect()
}

/// Calls `done` repeatedly until it returns true or `patience` has passed; returns whether it became true. Before
/// the next call it waits as long as the last one took, so that a `done` that starts programs leaves processor
/// time to what it waits for.
pub fn within(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let begun = Instant::now();
        if done() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(begun.elapsed().max(Duration::from_millis(5)));
    }
}

/// Makes a directory that every user may enter, on a tmpfs if there is one.
pub fn directory(prefix: &str) -> TempDir {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(prefix).permissions(PermissionsExt::from_mode(0o755));
    let fast = Path::new("/dev/shm");
    let made = if fast.is_dir() { builder.tempdir_in(fast) } else { builder.tempdir() };
    made.expect("a temporary directory")
}

/// Like [`directory`], on a file system that supports extended attributes of users. If there is none, prints
/// a line and returns `None`.
pub fn directory_with_attributes(prefix: &str) -> Option<TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(prefix).permissions(PermissionsExt::from_mode(0o755));
    let takes_them = |made: &TempDir| {
        rustix::fs::setxattr(made.path(), "user.linerate", b"x", XattrFlags::empty()).is_ok()
            && rustix::fs::removexattr(made.path(), "user.linerate").is_ok()
    };
    let places = ["/dev/shm", "/var/tmp", "/tmp"].map(Path::new);
    let found = places.into_iter().filter_map(|place| builder.tempdir_in(place).ok()).find(takes_them);
    if found.is_none() {
        skip("xattrs", "no file system here takes extended attributes of users");
    }
    found
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(2000);
    text.get(text.ceil_char_boundary(start)..).unwrap_or_default()
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // A device that is only written holds nothing.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
