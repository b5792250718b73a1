//! A copy from this host to a far one; or a list of the entries that would be sent.

use linerate_transfer::ahead::{Ahead, scan_ahead};
use linerate_transfer::bounds::Bounds;
use linerate_transfer::fan::FanMember;
use linerate_transfer::sender;
use linerate_transfer::sender::{Finding, FoundSources, SourceRoot};
use linerate_transfer::survey::survey;
use linerate_wire::control::{Job, Options, Problem};
use linerate_wire::path::RelPath;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::copy::{Copy, Moved};
use super::manifest::Landed;
use crate::common::failure::Failure;
use crate::common::far::FarSession;
use crate::exit::Code;

impl Copy {
    /// Copies `sources` to `destination` on the host.
    pub fn push(&self, sources: Vec<OsString>, host: &OsStr, destination: Vec<u8>) -> Result<Code, Failure> {
        let reporter = self.reporter();
        let report = |problem| reporter.problem(problem);
        // This comes before any login, so that a wrong name is reported immediately.
        let found = self.find(sources, &report)?;
        if self.task.list {
            return Ok(self.survey(&found, &report));
        }
        self.push_found(&found, host, &destination, None)
    }

    /// Copies sources that have been found. If this is one of several copies, it shares the data that it
    /// reads with the others.
    pub fn push_found(
        &self,
        found: &FoundSources,
        host: &OsStr,
        destination: &[u8],
        member: Option<&FanMember>,
    ) -> Result<Code, Failure> {
        let reporter = self.reporter();
        let report = |problem| reporter.problem(problem);
        let options = &self.task.options;
        let job = Job::Receive { destination: destination.to_vec(), options: options.clone() };
        let work = |ahead: Ahead<'_>| {
            let far = self.connect(host, job)?;
            member.into_iter().for_each(|member| member.meet(&self.meters.local));
            self.give(far, (found, member), ahead, options, destination)
        };
        let (selection, counters) = (&self.task.selection, &self.meters.local);
        let work = match member {
            Some(member) => match member.scan_ahead(found, selection, counters, &report, work) {
                Ok(done) => return done,
                Err(work) => work,
            },
            None => work,
        };
        scan_ahead(found, options, selection, counters, &report, work)
    }

    /// Finds the sources on this host.
    pub fn find(&self, sources: Vec<OsString>, report: &dyn Fn(Problem)) -> Result<FoundSources, Failure> {
        let written: Vec<Vec<u8>> = sources.into_iter().map(OsString::into_vec).collect();
        let options = &self.task.options;
        let found = sender::find_sources(&Bounds::here(), &written, Finding::of(options), report)?;
        Ok(sender::not_left_out(found, options)?)
    }

    /// Lists the entries of the sources.
    pub fn survey(&self, found: &[SourceRoot], report: &(dyn Fn(Problem) + Sync)) -> Code {
        let show = |path: &Path, entry: &_, size| {
            self.output.listed(path.as_os_str().as_bytes(), entry, size);
        };
        let (keep, selection) = (self.task.options.keep, &self.task.selection);
        survey(found, keep, selection, &self.meters.local, report, show);
        self.surveyed(self.meters.local.found.get())
    }

    /// Sends the entries that `ahead` finds in the sources to the receiving far end.
    pub fn give(
        &self,
        far: FarSession,
        (found, member): (&[SourceRoot], Option<&FanMember>),
        ahead: Ahead<'_>,
        options: &Options,
        destination: &[u8],
    ) -> Result<Code, Failure> {
        let known = |source, path: &RelPath, what| self.delivered.known(source, path, what);
        self.transfer(far, true, |session| {
            let sent = sender::run(session, found, ahead, options, &known, member)?;
            let sources = found.iter().map(|found| found.source.name.clone()).collect();
            let place = Landed { sources, within: sent.within, destination };
            let found = self.meters.local.found.get();
            Ok(Moved { landed: sent.landed, sent: found, streams: sent.streams, place })
        })
    }
}
