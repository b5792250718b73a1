//! One run of a command that moves files, and the identity by which a later run continues it.

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

use crate::common::reach::{Reach, interrupted_exits_with};
use crate::common::spec::Spec;

/// One run of a command that moves files.
pub struct Task {
    /// As the user wrote them.
    pub sources: Vec<OsString>,
    /// As the user wrote it.
    pub destination: OsString,
    /// Options that both ends must know.
    pub options: Options,
    /// Which source entries are sent.
    pub selection: Selection,
    /// The file for the hashes of delivered files.
    pub manifest: Option<PathBuf>,
    /// Entries are only listed, and no far end that receives is started.
    pub list: bool,
    /// The way to reach the far end.
    pub reach: Reach,
    /// Where data leaves this host.
    pub interfaces: Interfaces,
    /// The way to reach the destination's host, if the sources are on another host with another way.
    pub destination_reach: Option<Reach>,
    /// The time that the login may take.
    pub login: Patience,
    /// The remote shell is quiet too.
    pub quiet: bool,
    /// The number of further tries after the far end was lost.
    pub retries: u32,
    /// The time at which the run ends, finished or not.
    pub stop: Option<Stop>,
    /// The two hosts continue without this process.
    pub detach: bool,
}

/// The end of a run by the clock.
#[derive(Clone)]
pub struct Stop {
    /// The time.
    pub at: SystemTime,
    /// Set when it is reached.
    pub reached: Arc<AtomicBool>,
    /// The program's exit code in that case.
    pub code: u8,
}

impl Stop {
    /// Interrupts the run at its time.
    pub fn watch(self, interrupted: Arc<AtomicBool>) {
        thread::spawn(move || {
            // The clock may be changed during the run.
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
    /// This task, made resumable: another run of it continues where this one was cut off.
    pub fn resumable(mut self) -> Self {
        let changes = !self.list && self.options.sync.as_ref().is_none_or(|sync| !sync.dry_run);
        self.options.resume = changes.then(|| name_of(&self.sources));
        self
    }
}

/// Identifies the command by its sources and their host. The destination is known from the journal's place, and
/// the way of the data doesn't matter.
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

/// The bytes of a path, the same from any current directory. A slash or a dot at its end is kept,
/// since it may mean something.
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
