//! What makes two runs the same command, and how often one is begun again by itself.

use linerate_transfer::problem::Observer;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::copy::Copy;
use super::spec::Spec;
use super::{Failure, Task};
use crate::exit::Code;

/// The first pause before another try, and the longest; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Stands for the command: which files of which host. Where they land is known by where a journal lies, and how they
/// travel doesn't matter.
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

/// The same from whichever directory it is named; a slash or a dot at the end is kept, since it may mean something.
fn real(path: &OsStr) -> Vec<u8> {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| !b"/.".contains(byte)).map_or(0, |at| at + 1);
    let real = Path::new(path).canonicalize();
    let real = real.map_or_else(|_| bytes.to_vec(), |real| real.into_os_string().into_vec());
    [&real, &b"\0"[..], &bytes[end..]].concat()
}

impl Task {
    /// The same, so that another run goes on where this one was cut off.
    pub fn resumable(mut self) -> Self {
        let changes = !self.list && self.options.sync.as_ref().is_none_or(|sync| !sync.dry_run);
        self.options.resume = changes.then(|| name_of(&self.sources));
        self
    }
}

impl Copy {
    /// Runs until it is done, or was tried once more as often as the user wants after the far end was lost.
    ///
    /// # Errors
    /// The last failure.
    pub fn run(mut self) -> Result<Code, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.once() {
                Err(failure) if self.can_try_again(&failure) => failure,
                other => return other,
            };
            let Failure(message, _) = failure;
            self.task.retries -= 1;
            self.output.note(&format!("{message}; trying again in {} s", pause.as_secs()));
            self.wait(pause)?;
            pause = (pause * 2).min(LONGEST_PAUSE);
            self.meters = linerate_transfer::session::Meters::default();
        }
    }

    /// Where the first login fails, so would the next.
    fn can_try_again(&self, failure: &Failure) -> bool {
        failure.1 == Code::FarEnd && self.task.retries > 0 && self.was_connected.load(Ordering::Relaxed)
    }

    fn wait(&self, pause: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < pause {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Failure("interrupted".into(), Code::Interrupted));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
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
