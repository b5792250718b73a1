//! A process that runs as long as its lab, such as the ssh server or the emulator.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child as Started, ChildStdout, Command};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_sys::child::{die_with_parent, new_session};
use linerate_sys::netns;
use rustix::process::Signal;

use crate::process::Process;

/// A running process. Dropping this value doesn't end the process; [`Child::stop`] does.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    /// The thread that started the process and waits for it. It lives as long as the process, because the kernel
    /// signals the process when this thread ends.
    keeper: JoinHandle<()>,
}

impl Child {
    /// Starts `command`, and returns its standard output if that is a pipe. `name` is the name of the waiting thread.
    pub(crate) fn spawn(name: &str, mut command: Command) -> Result<(Self, Option<ChildStdout>), String> {
        let (sender, receiver) = mpsc::channel();
        let keep = move || {
            let mut child: io::Result<Started> = command.spawn();
            let started = child.as_mut().map(|child| (child.id(), child.stdout.take()));
            // The thread waits for the child even if the receiver has given up on the lab.
            let _ = sender.send(started.map_err(|error| error.to_string()));
            let _ = child.and_then(|mut child| child.wait());
        };
        let keeper = std::thread::Builder::new().name(name.into()).spawn(keep);
        let keeper = keeper.map_err(|error| error.to_string())?;
        let (pid, output) = receiver.recv().map_err(|error| error.to_string())??;
        let process = Process::of(pid).map_err(|error| format!("the process ended at once ({error})"))?;
        Ok((Self { process, keeper }, output))
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Ends the process and waits for it.
    pub(crate) fn stop(self) {
        self.process.signal(Signal::TERM);
        self.end();
    }

    /// Ends several processes at the same time and waits for all of them.
    pub(crate) fn stop_all(children: Vec<Self>) {
        children.iter().for_each(|child| child.process.signal(Signal::TERM));
        children.into_iter().for_each(Self::end);
    }

    /// Waits for a process that got a signal to end.
    fn end(self) {
        if !self.process.gone_within(Duration::from_secs(2)) {
            self.process.signal(Signal::KILL);
        }
        // The thread only waited for the process, and has no result.
        let _ = self.keeper.join();
    }
}

/// Makes `command` run in a namespace, and not receive a terminal's Ctrl-C: Ctrl-C is for the lab's own command, which
/// may need this process for its cleanup. When the process that called this function ends, the kernel sends `command`
/// the signal `at_the_end`, if there is one.
pub(crate) fn settle(command: &mut Command, namespace: File, at_the_end: Option<Signal>) {
    netns::enter(command, namespace.into());
    new_session(command);
    if let Some(signal) = at_the_end {
        die_with_parent(command, signal);
    }
}

/// The last lines of a process's log, for an error, without a kernel's call trace; "nothing" if there are none.
pub(crate) fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("[<"))
        .rev()
        .take(5)
        .collect();
    lines.reverse();
    if lines.is_empty() { "nothing".into() } else { lines.join("; ") }
}
