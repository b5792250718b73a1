//! Starts commands at the same time, waits for all of them, and leaves no processes behind.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// A flag that the caller sets to stop the study.
pub type Stop = Arc<AtomicBool>;

/// The greatest number of bytes that are kept of a tool's output.
const MOST_OUTPUT: u64 = 64 << 20;

/// The interval at which a wait checks the stop flag.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// The results of several commands, and their total time.
#[derive(Debug)]
pub(crate) struct Finished {
    pub seconds: f64,
    /// The time at which each command ended, in seconds since the first command was started.
    pub ends: Vec<f64>,
    pub outputs: Vec<Output>,
}

/// The reason why commands didn't finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("the command was stopped, because it had not ended after {seconds} s{}", reported(.stderr))]
    TimedOut { seconds: f64, stderr: String },
    #[error("interrupted")]
    Interrupted,
    #[error("starting {program}: {cause}")]
    Start { program: String, cause: io::Error },
    #[error("waiting for a command: {0}")]
    Wait(#[from] io::Error),
}

/// Runs the commands at the same time until all have ended. The commands' outputs go to files in `dir`, so that a
/// process that is left behind can't hold a pipe open. Each command leads a process group. The remaining processes of
/// the groups are killed when all commands have ended, at the deadline, or when `stop` is set.
pub(crate) fn run(
    commands: Vec<Command>,
    dir: &Path,
    timeout: Duration,
    stop: &Stop,
) -> Result<Finished, ProcessError> {
    let begun = Instant::now();
    let mut groups = Vec::new();
    for (i, command) in commands.into_iter().enumerate() {
        groups.push(Group::start(command, &dir.join(format!("output-{i}")))?);
    }
    let mut ends = vec![None; groups.len()];
    while let Some(first) = ends.iter().position(Option::is_none) {
        let left = (begun + timeout).saturating_duration_since(Instant::now());
        if stop.load(Ordering::Relaxed) {
            return Err(ProcessError::Interrupted);
        }
        if left.is_zero() {
            return Err(ProcessError::TimedOut {
                seconds: timeout.as_secs_f64(),
                stderr: groups[first].said(),
            });
        }
        let pending = groups.iter().zip(&ends).filter(|(_, end)| end.is_none()).map(|(group, _)| group);
        ended(&pending.collect::<Vec<_>>(), left.min(CHECK_INTERVAL))?;
        for (group, end) in groups.iter().zip(&mut ends).filter(|(_, end)| end.is_none()) {
            *end = group.ended(Duration::ZERO)?.then(|| begun.elapsed().as_secs_f64());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let outputs = groups.into_iter().map(Group::finish).collect::<Result<_, _>>()?;
    Ok(Finished { seconds, ends: ends.into_iter().flatten().collect(), outputs })
}

/// A child process that leads a process group, and its outputs.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    handle: OwnedFd,
    output: PathBuf,
    reaped: bool,
}

impl Group {
    /// Starts a command. Its stdout and stderr are written to files whose names begin with `output`.
    pub fn start(mut command: Command, output: &Path) -> Result<Group, ProcessError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |cause| ProcessError::Start { program: program.clone(), cause };
        let file = |kind: &str| File::create(output.with_extension(kind)).map_err(failed);
        command.stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        match pidfd_open(pid(&child), PidfdFlags::empty()) {
            Ok(handle) => Ok(Group { child, handle, output: output.to_owned(), reaped: false }),
            Err(e) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(failed(e.into()))
            }
        }
    }

    /// Waits until the group's leader ends; returns false if the deadline passes first.
    pub fn wait(&self, deadline: Instant, stop: &Stop) -> Result<bool, ProcessError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(ProcessError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ended(left.min(CHECK_INTERVAL))? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// The contents of the process's stdout and stderr so far.
    pub fn written(&self) -> String {
        let both = [self.read("out"), self.read("err")].map(Result::unwrap_or_default);
        String::from_utf8_lossy(&both.concat()).into_owned()
    }

    /// The last lines that the command wrote to stderr.
    pub fn said(&self) -> String {
        tail(&self.read("err").unwrap_or_default())
    }

    fn finish(mut self) -> Result<Output, ProcessError> {
        let status = self.end()?;
        Ok(Output { status, stdout: self.read("out")?, stderr: self.read("err")? })
    }

    /// Kills the remaining processes of the group, then waits for the leader. Until this wait, the group's
    /// number can't be reused.
    fn end(&mut self) -> io::Result<ExitStatus> {
        // An error means that no process was left, which is fine.
        let _ = kill_process_group(pid(&self.child), Signal::KILL);
        self.reaped = true;
        self.child.wait()
    }

    fn ended(&self, patience: Duration) -> io::Result<bool> {
        ended(&[self], patience)
    }

    fn read(&self, kind: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.output.with_extension(kind))?.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // SIGTERM is sent before SIGKILL, so that tools can end their processes at the far end.
        let _ = kill_process_group(pid(&self.child), Signal::TERM);
        let patience = Instant::now() + Duration::from_secs(1);
        while Instant::now() < patience && !self.ended(Duration::from_millis(50)).unwrap_or(true) {}
        let _ = self.end();
    }
}

/// Waits until the leader of any of the groups has ended, for `patience` at most. Returns true if a leader has ended.
fn ended(groups: &[&Group], patience: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    let mut handles: Vec<PollFd> =
        groups.iter().map(|group| PollFd::new(&group.handle, PollFlags::IN)).collect();
    match poll(&mut handles, Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// The last lines of an output as a single line for a message, at most 400 characters.
pub(crate) fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let joined = lines[lines.len().saturating_sub(4)..].join(" | ");
    let skip = joined.chars().count().saturating_sub(400);
    joined.chars().filter(|c| !c.is_control()).skip(skip).collect()
}

fn reported(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

fn pid(child: &Child) -> Pid {
    let number = i32::try_from(child.id()).expect("Linux numbers processes up to 2^22");
    Pid::from_raw(number).expect("a child's number is not 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run_scripts(scripts: &[&str], seconds: f64) -> Result<Finished, ProcessError> {
        let dir = tempfile::tempdir().unwrap();
        let commands = scripts.iter().map(|script| sh(script)).collect();
        run(commands, dir.path(), Duration::from_secs_f64(seconds), &Stop::default())
    }

    #[test]
    fn runs_at_the_same_time_and_keeps_outputs_apart() {
        let finished =
            run_scripts(&["sleep 0.3; echo one", "sleep 0.3; echo two >&2; exit 3"], 10.0).unwrap();
        assert!((0.3..0.59).contains(&finished.seconds), "{}", finished.seconds);
        assert_eq!(finished.outputs[0].stdout, b"one\n");
        assert_eq!(finished.outputs[1].stderr, b"two\n");
        assert_eq!(finished.outputs[1].status.code(), Some(3));
    }

    #[test]
    fn a_deadline_kills_the_whole_group() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        let script = format!("(sleep 1.5; touch {}) & echo hanging >&2; sleep 60", mark.display());
        let begun = Instant::now();
        let error = run_scripts(&[&script], 0.3).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(error.to_string().contains("0.3 s") && error.to_string().contains("hanging"), "{error}");
        std::thread::sleep(Duration::from_secs(2));
        assert!(!mark.exists(), "a process of the group lived on");
    }

    #[test]
    fn a_process_left_behind_is_ended_with_its_leader() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        let script = format!("(sleep 0.5; touch {}) & exit 0", mark.display());
        assert!(run_scripts(&[&script], 10.0).unwrap().seconds < 0.4);
        std::thread::sleep(Duration::from_millis(900));
        assert!(!mark.exists());
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let flag = Arc::clone(&stop);
        let setter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            flag.store(true, Ordering::Relaxed);
        });
        let error = run(vec![sh("sleep 60")], dir.path(), Duration::from_secs(60), &stop).unwrap_err();
        assert!(matches!(error, ProcessError::Interrupted));
        setter.join().unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let commands = vec![Command::new("no-such-program-here")];
        let error = run(commands, dir.path(), Duration::from_secs(1), &Stop::default()).unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
    }

    #[test]
    fn a_tail_is_short_and_plain() {
        assert_eq!(tail(b"a\n\n b\r\nc\x1b[1m\nd\ne\n"), "b | c[1m | d | e");
        assert_eq!(tail(&[b'x'; 1000]).len(), 400);
        assert_eq!(tail(&[0xff, b'\n']), "\u{fffd}");
    }
}
