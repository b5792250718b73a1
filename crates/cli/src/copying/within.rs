//! A copy within this host: both ends are threads, and the kernel copies large files.

use linerate_transfer::ahead::scan_ahead;
use linerate_wire::control::{BlockSearch, Job, Options, Sync};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::copy::Copy;
use super::{overlap, workers};
use crate::common::failure::Failure;
use crate::common::far::FarSession;
use crate::exit::Code;

/// Changes the options so that files are copied whole, unless the user requests a comparison of pieces: comparing
/// reads as much data as copying.
fn whole(sync: Sync) -> Sync {
    Sync { whole: sync.search != BlockSearch::Everywhere, ..sync }
}

impl Copy {
    /// Copies `sources` to `destination`, both on this host.
    pub fn within(&self, sources: Vec<OsString>, destination: &OsStr) -> Result<Code, Failure> {
        let reporter = self.reporter();
        let report = |problem| reporter.problem(problem);
        let options = &self.task.options;
        let found = self.find(sources, &report)?;
        if self.task.list {
            return Ok(self.survey(&found, &report));
        }
        overlap::check(&found, Path::new(destination), options, &self.task.selection)
            .map_err(Failure::usage)?;
        let destination = destination.as_bytes().to_vec();
        let options = Options {
            streams: options.streams.or_else(|| Some(self.workers())),
            sync: options.sync.clone().map(whole),
            ..options.clone()
        };
        let job = Job::Receive { destination: destination.clone(), options: options.clone() };
        scan_ahead(&found, &options, &self.task.selection, &self.meters.local, &report, |ahead| {
            let far = FarSession::within(job, self.near_end())?;
            self.was_connected.store(true, Ordering::Relaxed);
            self.give(far, (&found, None), ahead, &options, &destination)
        })
    }

    fn workers(&self) -> u32 {
        workers::between(self.task.sources.iter().chain([&self.task.destination]).map(Path::new))
    }
}
