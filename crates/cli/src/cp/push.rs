//! From here to the far host; or only the list of what would go.

use linerate_transfer::ahead::scan_ahead;
use linerate_transfer::sender;
use linerate_wire::control::Job;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::Failure;
use super::copy::{Copy, Moved};
use crate::exit::Code;

impl Copy {
    /// Copies `sources` to `destination` on the host.
    pub fn push(&self, sources: Vec<OsString>, host: &OsStr, destination: Vec<u8>) -> Result<Code, Failure> {
        let written: Vec<Vec<u8>> = sources.into_iter().map(OsString::into_vec).collect();
        let reporter = self.reporter();
        let tell = |problem| reporter.problem(problem);
        // Before any login: a name that was mistyped needs none.
        let found = sender::find_sources(&written, self.task.options.recursive, false, &tell)?;
        if self.task.list {
            let show = |path: &Path, entry: &_| self.output.listed(path.as_os_str().as_bytes(), entry);
            sender::survey(&found, self.task.options.keep, &self.meters.local, &tell, show);
            return Ok(self.surveyed(self.meters.local.found.get()));
        }
        let job = Job::Receive { destination, options: self.task.options.clone() };
        let selection = &self.task.selection;
        scan_ahead(&found, &self.task.options, selection, &self.meters.local, &tell, |ahead| {
            self.transfer(self.connect(host, job)?, true, |session| {
                let sent = sender::run(session, &found, ahead, &self.task.options)?;
                Ok(Moved { landed: sent.landed, sent: self.meters.local.found.get(), streams: sent.streams })
            })
        })
    }
}
