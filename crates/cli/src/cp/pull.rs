//! From the far host to here; or only the list of what would come.

use linerate_transfer::lock::lock;
use linerate_transfer::problem::TransferError;
use linerate_transfer::{pattern, receiver};
use linerate_wire::control::{Job, Source};
use linerate_wire::path::{RelPath, printable};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::Failure;
use super::copy::{Copy, Moved};
use super::far::end;
use super::manifest::Landed;
use crate::exit::Code;

impl Copy {
    /// Copies `sources` of the host into `destination`.
    pub fn pull(&self, host: &OsStr, sources: Vec<Vec<u8>>, destination: &OsStr) -> Result<Code, Failure> {
        let job = Job::Send { sources: sources.clone(), options: self.task.options.clone() };
        let expected =
            |announced: &[Source]| only_what_was_asked_for(&sources, self.task.options.recursive, announced);
        self.transfer(self.connect(host, job)?, false, |session| {
            if let Some(listed) = &self.task.selection.listed {
                session.send_selection(listed)?;
            }
            let known = |source, path: &RelPath, what| self.delivered.known(source, path, what);
            let destination = destination.as_bytes();
            let received = receiver::run(session, destination, &self.task.options, expected, &known)?;
            let place = Landed { sources: received.sources, within: received.within, destination };
            Ok(Moved { landed: received.landed, sent: received.announced, streams: received.streams, place })
        })
    }

    /// Lists what [`Copy::pull`] would copy.
    pub fn list(&self, host: &OsStr, sources: Vec<Vec<u8>>) -> Result<Code, Failure> {
        let options = &self.task.options;
        let job = Job::List { sources, recursive: options.recursive, keep: options.keep };
        let (mut session, mut shell) = self.connect(host, job)?;
        let listed = session.receive_list(|path, entry| self.output.listed(path, entry));
        listed.map_err(|error| self.gave_up(&mut session, &mut shell, error))?;
        end(session, &mut shell);
        let found = lock(&self.meters.remote).found;
        Ok(self.surveyed(found))
    }
}

/// A far end that sends may only use the names that were asked for.
fn only_what_was_asked_for(
    asked: &[Vec<u8>],
    recursive: bool,
    announced: &[Source],
) -> Result<(), TransferError> {
    let matches = |source: &Source| {
        if source.directory && !recursive {
            return false;
        }
        let Some(asked) = asked.get(source.argument as usize) else { return false };
        let wanted = pattern::name_of(asked, true);
        source.name.as_bytes() == wanted || pattern::matches(&wanted, source.name.as_bytes())
    };
    match announced.iter().find(|source| source.name.components().count() > 1 || !matches(source)) {
        None => Ok(()),
        Some(source) => Err(TransferError::FarEnd(format!(
            "the far end wants to send '{}', which was not asked for: nothing was written",
            printable(source.name.as_bytes())
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(argument: u32, name: &str) -> Source {
        Source { argument, name: RelPath::new(name.as_bytes()).unwrap(), directory: false }
    }

    #[test]
    fn a_far_end_sends_only_what_was_asked_for() {
        let asked = [b"dir/file".to_vec(), b"logs/*.gz".to_vec(), b".".to_vec()];
        let refused =
            |name: &str, argument| only_what_was_asked_for(&asked, false, &[source(argument, name)]).is_err();
        assert!(!refused("file", 0) && !refused("a.gz", 1) && !refused("", 2));
        assert!(refused(".ssh", 0) && refused("a.txt", 1) && refused(".x.gz", 1) && refused(".bashrc", 2));
        assert!(refused("", 0) && refused("", 1) && refused("file", 9) && refused("a/b.gz", 1));
    }
}
