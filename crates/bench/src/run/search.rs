//! Searches for the best level of a tool's parameter, with the run's own server, before the measurement of
//! the run begins.

use std::time::Duration;

use crate::record::Found;
use crate::spec::tool::Search;

use super::attempt::{Attempt, Failure, Log};
use super::process::{self, Output};
use super::reading;

impl Attempt<'_> {
    /// The result of the tool's search; `None` if the case has no search.
    pub(super) fn search(&self, log: &mut Log) -> Result<Option<Found>, Failure> {
        let Some(search) = self.case.search(self.tool) else { return Ok(None) };
        self.found_by(search, log).map(Some).map_err(|failure| match failure {
            Failure::Failed(reason) => {
                Failure::Failed(format!("searching for the best {}: {reason}", search.parameter))
            }
            other => other,
        })
    }

    fn found_by(&self, search: &Search, log: &mut Log) -> Result<Found, Failure> {
        let command = self.command(&search.command, 0)?;
        let timeout = Duration::from_secs_f64(self.timeout);
        let run = process::run(vec![command], self.work, timeout, self.stop);
        let finished = run.inspect_err(|_| log.add_partial(self.work, 1))?;
        finished.outputs.iter().for_each(|output| log.add_output("search", output));
        self.check_status(&finished)?;
        let stdout = finished.outputs.first().map_or(&[][..], |Output { stdout, .. }| stdout);
        Ok(reading::found(search, stdout)?)
    }
}
