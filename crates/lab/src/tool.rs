//! Programs of the distribution that a lab needs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_sys::child::die_with_parent;
use rustix::process::Signal;

use crate::error::LabError;

/// One program and its package.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemTool {
    program: &'static str,
    purpose: &'static str,
    package: &'static str,
}

pub(crate) const IP: SystemTool =
    SystemTool { program: "ip", purpose: "network namespaces", package: "iproute2" };
pub(crate) const TC: SystemTool =
    SystemTool { program: "tc", purpose: "the link's rate", package: "iproute2" };
pub(crate) const SSHD: SystemTool =
    SystemTool { program: "sshd", purpose: "the far host's ssh server", package: "openssh-server" };
pub(crate) const SSH: SystemTool =
    SystemTool { program: "ssh", purpose: "a login to the far host", package: "openssh-client" };
pub(crate) const SSH_KEYGEN: SystemTool =
    SystemTool { program: "ssh-keygen", purpose: "the keys of host and user", package: "openssh-client" };
pub(crate) const UNSHARE: SystemTool =
    SystemTool { program: "unshare", purpose: "namespaces of its own", package: "util-linux" };
pub(crate) const QEMU: SystemTool =
    SystemTool { program: "qemu-system-x86_64", purpose: "its guests", package: "qemu-system-x86" };
pub(crate) const LINUX_UML: SystemTool =
    SystemTool { program: "linux.uml", purpose: "guests of the kind uml", package: "user-mode-linux" };
pub(crate) const SLURMCTLD: SystemTool =
    SystemTool { program: "slurmctld", purpose: "Slurm's controller", package: "slurm-wlm" };
pub(crate) const SLURMD: SystemTool =
    SystemTool { program: "slurmd", purpose: "a node of Slurm", package: "slurm-wlm" };
pub(crate) const SBATCH: SystemTool =
    SystemTool { program: "sbatch", purpose: "jobs of Slurm", package: "slurm-wlm" };
pub(crate) const SINFO: SystemTool =
    SystemTool { program: "sinfo", purpose: "the states of Slurm's nodes", package: "slurm-wlm" };
pub(crate) const MUNGED: SystemTool =
    SystemTool { program: "munged", purpose: "Slurm's authentication", package: "munge" };

/// The directories of these programs. An ordinary user's PATH often lacks the first three.
const SYSTEM_DIRECTORIES: [&str; 5] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

impl SystemTool {
    /// The program's name.
    pub(crate) fn program(self) -> &'static str {
        self.program
    }

    /// The program's absolute path, from PATH or the system's directories. It must be absolute because sshd
    /// starts itself again by this path.
    pub(crate) fn find(self) -> Result<PathBuf, LabError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        self.find_among(std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)))
    }

    /// Runs the program, waits for its end, and returns its standard output.
    pub(crate) fn run<S: AsRef<OsStr>>(self, arguments: &[S]) -> Result<String, LabError> {
        let mut command = Command::new(self.find()?);
        command.args(arguments).stdin(Stdio::null());
        output(&mut command)
    }

    fn find_among(self, directories: impl Iterator<Item = PathBuf>) -> Result<PathBuf, LabError> {
        let Self { program, purpose, package } = self;
        let mut candidates = directories.filter(|directory| directory.is_absolute()).map(|d| d.join(program));
        candidates.find(|path| is_executable(path)).ok_or(LabError::Missing { program, purpose, package })
    }
}

/// Runs `command`, waits for its end, and returns its standard output as text. If the command fails, the
/// error contains its message.
pub(crate) fn output(command: &mut Command) -> Result<String, LabError> {
    output_bytes(command).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs `command`, waits for its end, and returns its standard output. If the command fails, the error
/// contains its message.
pub(crate) fn output_bytes(command: &mut Command) -> Result<Vec<u8>, LabError> {
    let shown = show(command);
    let error = |reason| LabError::Command { command: shown, reason };
    // After a kill -9 of this process, `command` must not create anything that the next lab command wouldn't
    // find.
    die_with_parent(command, Signal::KILL);
    match command.output() {
        Err(failed) => Err(error(failed.to_string())),
        Ok(done) if done.status.success() => Ok(done.stdout),
        Ok(done) => Err(error(format!("{}, {}", done.status, String::from_utf8_lossy(&done.stderr).trim()))),
    }
}

fn show(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = IP.find_among(std::iter::once("/nowhere".into())).expect_err("not there").to_string();
        assert!(error.contains("apt-get install iproute2"), "{error}");
    }

    #[test]
    fn a_relative_directory_in_the_path_is_not_searched() {
        assert!(SSH.find_among(std::iter::once(PathBuf::from("."))).is_err());
    }

    #[test]
    fn a_failure_says_the_command_and_its_words() {
        let error = output(Command::new("sh").args(["-c", "echo it broke >&2; exit 3"]))
            .expect_err("exit 3")
            .to_string();
        assert!(
            error.contains("it broke") && error.contains("exit status: 3") && error.contains("sh -c"),
            "{error}"
        );
    }
}
