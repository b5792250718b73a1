//! A task of a command that moves files, with the identity by which a later run resumes it.

use linerate_remote::patience::Patience;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::sender::Selection;
use linerate_wire::control::Options;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::common::login::LoginOptions;
use crate::common::signals::interrupted_exits_with;
use crate::common::spec::Spec;

/// A task of a command that moves files.
pub struct Task {
    /// The sources as the user wrote them.
    pub sources: Vec<OsString>,
    /// The destination as the user wrote it.
    pub destination: OsString,
    /// The options that both ends must know.
    pub options: Options,
    /// Which source entries are sent.
    pub selection: Selection,
    /// The file for the digests of delivered files, if a manifest is requested.
    pub manifest: Option<PathBuf>,
    /// True if entries are only listed, without starting a receiving far end.
    pub list: bool,
    /// How to reach the far end.
    pub login: LoginOptions,
    /// The interfaces by which data leaves this host.
    pub interfaces: Interfaces,
    /// How to reach the destination's host, if the sources are on another far host that is reached
    /// differently.
    pub destination_login: Option<LoginOptions>,
    /// The time limits for the login.
    pub patience: Patience,
    /// True if the remote shell is started with its quiet option.
    pub quiet: bool,
    /// How often the command is repeated after the far end was lost.
    pub retries: u32,
    /// When the run ends even if it isn't complete; `None` for no limit.
    pub stop: Option<Stop>,
    /// True if the two hosts continue without this process (`--detach`).
    pub detach: bool,
}

/// A time at which a run must end.
#[derive(Clone)]
pub struct Stop {
    /// The time at which the run ends.
    pub at: SystemTime,
    /// Set when that time is reached.
    pub reached: Arc<AtomicBool>,
    /// The exit code of the program in that case.
    pub code: u8,
}

impl Stop {
    /// Starts a thread that interrupts the run at its end time.
    pub fn watch(self, interrupted: Arc<AtomicBool>) {
        thread::spawn(move || {
            // The clock may be set during the run, so the remaining time is computed repeatedly.
            while let Ok(left) = self.at.duration_since(SystemTime::now()) {
                thread::sleep(left.min(Duration::from_secs(1)));
            }
            self.reached.store(true, Ordering::Relaxed);
            interrupted_exits_with(self.code);
            interrupted.store(true, Ordering::Relaxed);
        });
    }
}

impl Task {
    /// Makes this task resumable: another run of the same command continues where this one was cut off.
    pub fn resumable(mut self) -> Self {
        let changes = !self.list && self.options.sync.as_ref().is_none_or(|sync| !sync.dry_run);
        self.options.resume = changes.then(|| name_of(&self.sources));
        self
    }
}

/// A number that identifies the command, computed from its sources and their host. The destination isn't
/// included, because the journal is stored there. The options for logins aren't included either.
pub fn name_of(sources: &[OsString]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    let mut say = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    for source in sources {
        let (host, path) = match Spec::parse(source) {
            Spec::Local(path) => (rustix::system::uname().nodename().to_bytes().to_vec(), real(&path)),
            Spec::Remote(host, path) => (host.into_vec(), path),
        };
        say(&host);
        say(&path);
    }
    let mut name = [0; 16];
    name.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    name
}

/// The path as bytes that are the same from any current directory. A slash or a dot at the end is kept, because it
/// may have a meaning.
fn real(path: &OsStr) -> Vec<u8> {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| !b"/.".contains(byte)).map_or(0, |at| at + 1);
    let real = Path::new(path).canonicalize();
    let real = real.map_or_else(|_| bytes.to_vec(), |real| real.into_os_string().into_vec());
    [&real, &b"\0"[..], &bytes[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(sources: &[&str]) -> [u8; 16] {
        name_of(&sources.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_same_files_are_the_same_command() {
        assert_eq!(name(&["/tmp"]), name(&["/tmp/../tmp"]));
        assert_ne!(name(&["/tmp"]), name(&["/usr"]));
        assert_ne!(name(&["/tmp"]), name(&["/tmp/."]), "what lands elsewhere");
        assert_ne!(name(&["a:b"]), name(&["b:b"]));
        assert_ne!(name(&["a:b", "a:c"]), name(&["a:b"]));
    }
}
