//! Installs the distribution's packages that the tests use.

use anyhow::bail;
use std::path::Path;
use std::process::Command;

use crate::call;

/// The programs that the tests run, with the Debian packages that contain them.
const PROGRAMS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("scp", "openssh-client"),
    ("sshd", "openssh-server"),
    ("rsync", "rsync"),
    ("iperf3", "iperf3"),
    ("nginx", "nginx-light"),
    ("setpriv", "util-linux"),
    ("losetup", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("pgrep", "procps"),
    ("sar", "sysstat"),
    ("ethtool", "ethtool"),
    ("strace", "strace"),
    ("python3", "python3"),
    ("man", "man-db"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("rpm", "rpm"),
    ("lintian", "lintian"),
    ("systemd-analyze", "systemd"),
    ("ansible-playbook", "ansible-core"),
    ("nft", "nftables"),
    ("parallel", "parallel"),
    ("sbatch", "slurm-wlm"),
    ("munged", "munge"),
];

/// Directories of programs that are often missing from an ordinary user's PATH.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Installs the missing packages, if run as root on Debian or a distribution based on it; otherwise prints
/// their names.
///
/// # Errors
/// If apt-get fails.
pub fn run() -> anyhow::Result<()> {
    let missing = missing(is_there);
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !is_root() || !is_there("apt-get") {
        // A test whose program is missing prints that it is skipped, and passes, so that the other tests can still be
        // run.
        eprintln!("xtask: some tests will be skipped; for all of them, as root: apt-get install {names}");
        return Ok(());
    }
    eprintln!("xtask: installing for the tests: {names}");
    install(&missing)
}

fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let absent = PROGRAMS.iter().filter(|(program, _)| !is_there(program));
    let mut packages: Vec<&str> = absent.map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    let apt =
        |words: &[&str]| call(Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive"));
    let words = [&["install", "-y", "--no-install-recommends"], packages].concat();
    // The first try uses the existing package lists, which usually suffice. In a fresh image they are empty.
    if apt(&words).is_ok() {
        return Ok(());
    }
    if apt(&["update"]).is_err() {
        bail!("the package lists can't be fetched; install by hand: {}", packages.join(" "));
    }
    apt(&words)
}

/// Whether a program is installed.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(Into::into));
    directories.into_iter().any(|directory| directory.join(program).is_file())
}

fn is_root() -> bool {
    // The owner of a process's directory in /proc is the process's effective user.
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_once_and_only_where_it_is_missing() {
        assert_eq!(missing(|program| !["ip", "tc", "rsync"].contains(&program)), ["iproute2", "rsync"]);
        assert!(missing(|_| true).is_empty());
    }

    #[test]
    fn programs_are_found_where_they_are() {
        assert!(is_there("sh") && !is_there("no-such-program-here"));
    }
}
