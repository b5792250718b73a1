//! A copy from a far host to this one; or a list of the entries that would be copied.

use linerate_transfer::admission::Request;
use linerate_transfer::bounds::Bounds;
use linerate_transfer::lock::lock;
use linerate_transfer::receiver;
use linerate_wire::control::Job;
use linerate_wire::path::RelPath;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::copy::{Copy, Moved};
use super::manifest::Landed;
use crate::common::failure::Failure;
use crate::exit::Code;

impl Copy {
    /// Copies `sources` from the host to `destination`.
    pub fn pull(&self, host: &OsStr, sources: Vec<Vec<u8>>, destination: &OsStr) -> Result<Code, Failure> {
        let job = Job::Send { sources: sources.clone(), options: self.task.options.clone() };
        self.transfer(self.connect(host, job)?, false, |session| {
            if let Some(listed) = &self.task.selection.listed {
                session.send_selection(listed.listed())?;
            }
            let known = |source, path: &RelPath, what| self.delivered.known(source, path, what);
            let destination = destination.as_bytes();
            let named = Bounds::here().name(destination)?;
            let (options, listed) = (&self.task.options, self.task.selection.listed.as_ref());
            let request = Request { sources: &sources, options, listed };
            let received = receiver::run(session, &named, options, Some(&request), &known)?;
            let place = Landed { sources: received.sources, within: received.within, destination };
            Ok(Moved { landed: received.landed, sent: received.announced, streams: received.streams, place })
        })
    }

    /// Lists the entries that [`Copy::pull`] would copy.
    pub fn list(&self, host: &OsStr, sources: Vec<Vec<u8>>) -> Result<Code, Failure> {
        let job = Job::List { sources, options: self.task.options.clone() };
        let listed = self.connect(host, job)?.work(|session| {
            if let Some(listed) = &self.task.selection.listed {
                session.send_selection(listed.listed())?;
            }
            session.receive_list(|path, entry, size| {
                self.meters.local.found.further(&entry.kind, size);
                self.output.listed(path, entry, size);
            })
        });
        listed.map_err(|error| self.gave_up(error))?;
        let found = lock(&self.meters.remote).found;
        Ok(self.surveyed(found))
    }
}
