//! A remote shell that runs commands on this host and relays their data, as ssh does. If the shell is killed, the pipes
//! to and from the command close.

use anyhow::Context;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;

/// The environment variable with the path of a file to which the process number of the far end is written.
pub const AGENT: &str = "LINERATE_RESENT_AGENT";

/// Runs the command line in the arguments `HOST LINE`.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [_, line] = arguments else { anyhow::bail!("HOST LINE is expected") };
    let mut command = Command::new("sh");
    // The line is a single command, which replaces the shell that reads it, so the child process is the
    // agent.
    let mut child =
        command.args(["-c", &format!("exec {line}")]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let reported = std::env::var_os(AGENT).context("no file for the far end's process")?;
    std::fs::write(reported, child.id().to_string())?;
    let (input, output) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
    // When this process ends, the pipe to the far end closes, and the far end ends too.
    thread::spawn(move || relay(std::io::stdin(), input));
    relay(output, std::io::stdout());
    std::process::exit(child.wait()?.code().unwrap_or(255));
}

fn relay(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(got @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..got]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}
