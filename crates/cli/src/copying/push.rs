//! From here to the far host; or only the list of what would go.

use linerate_transfer::ahead::scan_ahead;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::sender;
use linerate_wire::control::Job;
use linerate_wire::path::RelPath;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::copy::{Copy, Moved};
use super::manifest::Landed;
use crate::common::failure::Failure;
use crate::exit::Code;

impl Copy {
    /// Copies `sources` to `destination` on the host.
    pub fn push(&self, sources: Vec<OsString>, host: &OsStr, destination: Vec<u8>) -> Result<Code, Failure> {
        let written: Vec<Vec<u8>> = sources.into_iter().map(OsString::into_vec).collect();
        let reporter = self.reporter();
        let tell = |problem| reporter.problem(problem);
        // Before any login: a name that was mistyped needs none.
        let found = sender::find_sources(&Bounds::here(), &written, self.task.options.recursive, &tell)?;
        if self.task.list {
            let show = |path: &Path, entry: &_| self.output.listed(path.as_os_str().as_bytes(), entry);
            let (keep, selection) = (self.task.options.keep, &self.task.selection);
            sender::survey(&found, keep, selection, &self.meters.local, &tell, show);
            return Ok(self.surveyed(self.meters.local.found.get()));
        }
        let job = Job::Receive { destination: destination.clone(), options: self.task.options.clone() };
        let selection = &self.task.selection;
        let known = |source, path: &RelPath, what| self.delivered.known(source, path, what);
        scan_ahead(&found, &self.task.options, selection, &self.meters.local, &tell, |ahead| {
            self.transfer(self.connect(host, job)?, true, |session| {
                let sent = sender::run(session, &found, ahead, &self.task.options, &known)?;
                let sources = found.iter().map(|found| found.source.name.clone()).collect();
                let place = Landed { sources, within: sent.within, destination: &destination };
                let found = self.meters.local.found.get();
                Ok(Moved { landed: sent.landed, sent: found, streams: sent.streams, place })
            })
        })
    }
}
