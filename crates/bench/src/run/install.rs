//! Installs packages of the distribution.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use super::bed::{Bed, End};
use super::programs::find;
use crate::spec::study::Study;
use crate::spec::tool::Toolbox;

/// The reason why packages can't be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// This process isn't root.
    #[error("installing packages needs root; as root: apt-get install {0}")]
    NotRoot(String),
    /// The host isn't Debian or a distribution based on it.
    #[error("this host has no apt-get; install the packages that Debian calls {0}")]
    NoApt(String),
    /// apt-get failed or couldn't be run.
    #[error("{command}: {reason}")]
    Apt {
        /// The command line that failed.
        command: String,
        /// The reason of the failure. apt-get has already printed its own output.
        reason: String,
    },
}

/// Installs Debian packages with apt-get. Its output goes to stderr.
///
/// # Errors
/// If this process isn't root, there is no apt-get, or apt-get fails.
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
        let reported = |reason| InstallError::Apt { command: format!("apt-get {}", words.join(" ")), reason };
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(reported(status.to_string())),
            Err(e) => Err(reported(e.to_string())),
        }
    };
    let words: Vec<&str> = ["install", "-y", "--no-install-recommends", "--"]
        .into_iter()
        .chain(packages.iter().map(String::as_str))
        .collect();
    // The first try uses the existing package lists. In a fresh image these are empty; so if the first try fails, the
    // lists are updated before the second try.
    run(&words).or_else(|_| run(&["update"]).and_then(|()| run(&words)))
}

/// Installs the packages that the study's tools need and that are missing at an end of a bed, as root or by
/// `sudo -n`. Reports each installation to `note` first.
///
/// # Errors
/// If the installation fails at an end. The message contains the command.
pub fn install_at(bed: &dyn Bed, study: &Study, tools: &Toolbox, note: &dyn Fn(&str)) -> Result<(), String> {
    for (name, end) in [("a", End::A), ("b", End::B)] {
        let packages = missing(bed, end, study, tools);
        if packages.is_empty() {
            continue;
        }
        let names = packages.join(" ");
        note(&format!("installing from the distribution on host {name}: {names}"));
        let wrong = |reason: String| {
            format!(
                "installing packages on host {name}: {reason}; as root on that host: apt-get install {names}, or run again without --install: the table then has no values of these packages' tools"
            )
        };
        let mut command = bed.command(end, &argv(&packages)).map_err(|e| wrong(e.to_string()))?;
        let status = command.stdin(Stdio::null()).stdout(io::stderr()).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(wrong(format!("apt-get: {status}"))),
            Err(e) => return Err(wrong(e.to_string())),
        }
    }
    Ok(())
}

fn missing(bed: &dyn Bed, end: End, study: &Study, tools: &Toolbox) -> Vec<String> {
    let used: BTreeSet<&str> = study.cases.iter().map(|case| case.tool.as_str()).collect();
    let lacking = used.into_iter().filter_map(|name| tools.get(name)).filter(|tool| {
        let programs = if end == End::A { &tool.needs.a } else { &tool.needs.b };
        programs.iter().any(|program| !bed.has(end, program))
    });
    let packages: BTreeSet<&String> = lacking.flat_map(|tool| &tool.needs.packages).collect();
    packages.into_iter().cloned().collect()
}

/// Shell commands that install packages. The package lists of a fresh image are empty, so if the first try
/// fails, the lists are updated before the second try.
const SCRIPT: &str = "s=; [ \"$(id -u)\" = 0 ] || s='sudo -n'
i() { $s env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -- \"$@\"; }
command -v apt-get >/dev/null || { echo this host has no apt-get >&2; exit 1; }
i \"$@\" || { $s apt-get update && i \"$@\"; }";

fn argv(packages: &[String]) -> Vec<OsString> {
    let words = ["sh", "-c", SCRIPT, "sh"].map(OsString::from).into_iter();
    words.chain(packages.iter().map(OsString::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// The programs that the shell commands call for the user with this id, if the first installation fails.
    fn called(uid: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let program = |name: &str, body: &str| {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{}\n", body.replace("LOG", log.to_str().unwrap()))).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("id", &format!("echo {uid}"));
        program("sudo", "echo sudo $1 >> LOG; shift; exec \"$@\"");
        program("apt-get", "echo apt-get \"$@\" >> LOG; [ $1 = update ] || grep -q update LOG");
        let argv = argv(&["iperf3".into(), "nuttcp".into()]);
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        let status = Command::new(&argv[0]).args(&argv[1..]).env("PATH", path).status().unwrap();
        assert!(status.success());
        fs::read_to_string(log).unwrap()
    }

    #[test]
    fn packages_are_installed_by_root_or_by_sudo_without_a_question() {
        let install = "apt-get install -y --no-install-recommends -- iperf3 nuttcp\n";
        assert_eq!(called("0"), format!("{install}apt-get update\n{install}"));
        let sudo = "sudo -n\n";
        assert_eq!(called("1000"), format!("{sudo}{install}{sudo}apt-get update\n{sudo}{install}"));
    }
}
