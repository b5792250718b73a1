//! Installs packages of the distribution.

use std::io;
use std::process::{Command, Stdio};

use super::programs::find;

/// Why packages can't be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Not root.
    #[error("installing packages needs root; as root: apt-get install {0}")]
    NotRoot(String),
    /// Not Debian or one of its kin.
    #[error("there is no apt-get here; install what Debian calls {0}")]
    NoApt(String),
    /// apt-get failed or couldn't be run.
    #[error("{command}: {reason}")]
    Apt {
        /// The command line.
        command: String,
        /// The reason; apt-get's own output is above.
        reason: String,
    },
}

/// Installs Debian packages by apt-get, whose output goes to stderr.
///
/// # Errors
/// Not root, no apt-get, or apt-get's own failure.
pub fn install(packages: &[String]) -> Result<(), InstallError> {
    let names = packages.join(" ");
    if !rustix::process::geteuid().is_root() {
        return Err(InstallError::NotRoot(names));
    }
    let Some(apt) = find("apt-get") else { return Err(InstallError::NoApt(names)) };
    let run = |words: &[&str]| {
        let mut command = Command::new(&apt);
        command
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(io::stderr());
        let told = |reason| InstallError::Apt { command: format!("apt-get {}", words.join(" ")), reason };
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(told(status.to_string())),
            Err(e) => Err(told(e.to_string())),
        }
    };
    let words: Vec<&str> = ["install", "-y", "--no-install-recommends", "--"]
        .into_iter()
        .chain(packages.iter().map(String::as_str))
        .collect();
    // The package lists of a fresh image are empty; existing lists usually suffice.
    run(&words).or_else(|_| run(&["update"]).and_then(|()| run(&words)))
}
