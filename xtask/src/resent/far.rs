//! A remote shell that stays on this host and relays, as ssh does: killed, it takes both pipes with it.

use anyhow::Context;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;

/// Names the file that is told the far end's process.
pub const AGENT: &str = "LINERATE_RESENT_AGENT";

/// Runs `HOST LINE`.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [_, line] = arguments else { anyhow::bail!("HOST LINE is expected") };
    let mut command = Command::new("sh");
    // The line is one command, which takes the place of the shell that reads it: its process is the agent.
    let mut child =
        command.args(["-c", &format!("exec {line}")]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let told = std::env::var_os(AGENT).context("no file for the far end's process")?;
    std::fs::write(told, child.id().to_string())?;
    let (input, output) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
    // The far end ends when this process does: its pipe has no other end any more.
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
