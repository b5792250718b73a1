//! Child processes: how long a child process lives, and the session to which it belongs.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

/// Makes `command`'s process receive `signal` as soon as the thread that spawned the process ends.
///
/// The kernel watches the *thread*, not the process (`PR_SET_PDEATHSIG`, prctl(2)). So the thread that spawns the child
/// must live as long as the child should live. The child's own children don't inherit this setting.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = rustix::process::getpid();
    let hook = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // If the parent ended before the line above was executed, no signal will be sent.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: the hook makes two system calls, prctl and getppid, on plain values, and builds an io::Error
    // from an error number, which does not allocate.
    unsafe { command.pre_exec(hook) };
}

/// Makes `command`'s process the leader of a new session, so that Ctrl-C in the terminal doesn't reach it.
pub fn new_session(command: &mut Command) {
    let hook = || Ok(rustix::process::setsid().map(drop)?);
    // SAFETY: the hook makes one system call, setsid, without arguments.
    unsafe { command.pre_exec(hook) };
}
