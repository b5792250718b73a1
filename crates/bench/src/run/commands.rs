//! The commands of a run: one for each copy of the tool, and its servers.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::spec::study::{CaseSpec, Streams};
use crate::spec::template::{expand, one};
use crate::spec::tool::{Parallel, Tool};
use crate::spec::{Value, Values, Word};

use super::attempt::{Attempt, Failure};
use super::bed::{self, Bed, End};
use super::process::Group;
use super::server;

/// The number of copies of a tool that run at the same time in a case: one for each stream, one for each
/// receiver, or one if the tool itself spreads its streams over all addresses.
pub(super) fn copies(tool: &Tool, case: &CaseSpec, bed: &dyn Bed) -> u32 {
    match tool.parallel {
        Parallel::Copies => case.streams.number().unwrap_or(1).max(1),
        Parallel::Streams | Parallel::None if tool.spreads_over_addresses() => 1,
        Parallel::Streams | Parallel::None => bed.receivers().len() as u32,
    }
}

impl Attempt<'_> {
    /// The commands, one for each copy.
    pub(super) fn commands(&self) -> Result<Vec<Command>, Failure> {
        let one = |copy| match copy {
            0 if self.case.beside => self.beside(self.argv(&self.tool.command, copy)?),
            _ => self.command(&self.tool.command, copy),
        };
        (0..self.copies()).map(one).collect()
    }

    /// Starts the tool's servers, and returns them: one on each guest to which a copy connects, or one at the receiving
    /// end; none if the tool has no server.
    pub(super) fn start_servers(&self) -> Result<Vec<Group>, Failure> {
        let Some(server) = &self.tool.server else { return Ok(Vec::new()) };
        let guests = match (self.bed.guests(), self.tool.parallel) {
            (guests, Parallel::Copies) => guests.min(self.copies()),
            (guests, Parallel::Streams | Parallel::None) => guests,
        };
        let start = |number: usize| {
            let values = self.values(End::B, number)?;
            let output = self.work.join(format!("server-{number}"));
            let guest = (guests > 0).then_some(number);
            Ok(server::start(server, self.bed, guest, &values, &output, self.stop)?)
        };
        (0..guests.max(1)).map(start).collect()
    }

    /// The path to which each receiver's files are written.
    pub(super) fn destination(&self) -> PathBuf {
        self.bed.arrivals().as_deref().unwrap_or(self.work).join("arrived")
    }

    fn copies(&self) -> usize {
        copies(self.tool, self.case, self.bed) as usize
    }

    /// The number of streams of each copy, as text.
    fn streams(&self) -> String {
        match (self.tool.parallel, self.case.streams) {
            (Parallel::Streams, Streams::Fixed(n)) => (n / self.copies() as u32).max(1).to_string(),
            (_, streams) => streams.to_string(),
        }
    }

    /// A command of the tool at the sending end, for the copy with this number.
    pub(super) fn command(&self, words: &[Word], copy: usize) -> Result<Command, Failure> {
        let argv = self.argv(words, copy)?;
        Ok(self.bed.command(End::A, &argv).map_err(|e| e.to_string())?)
    }

    fn argv(&self, words: &[Word], copy: usize) -> Result<Vec<OsString>, Failure> {
        let values = self.values(End::A, copy)?;
        let mut argv = expand(words, &values)?;
        // A remote shell doesn't pass on its environment.
        if !self.tool.environment.is_empty() {
            argv.splice(0..0, self.environment(&values)?);
        }
        Ok(argv)
    }

    /// The words that run a command with the tool's environment variables: `env` and the variables.
    fn environment(&self, values: &Values) -> Result<Vec<OsString>, Failure> {
        let mut words = vec![OsString::from("env")];
        for (name, word) in &self.tool.environment {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(word.expand(values)?.join(OsStr::new(" ")));
            words.push(variable);
        }
        Ok(words)
    }

    /// The values of placeholders at an end, for the copy with this number.
    fn values(&self, end: End, copy: usize) -> Result<Values, String> {
        let mut values = bed::values_at(self.bed, end, copy, self.linerate, self.port);
        let bytes = self.expected.1 / self.copies() as u64;
        values.insert("destination", one(self.destination()));
        values.insert("streams", one(self.streams()));
        values.insert("bytes", one(bytes.to_string()));
        self.insert_parameters(&mut values);
        if let Some(source) = self.sources.get(copy) {
            values.insert("source", one(source));
            values.insert("source_parent", one(source.parent().unwrap_or(Path::new("/"))));
            values.insert("source_name", one(source.file_name().unwrap_or_default()));
        }
        let options = self.options(&values)?;
        values.insert("options", Value::Many(options));
        Ok(values)
    }

    fn options(&self, values: &Values) -> Result<Vec<OsString>, String> {
        match self.case.variant.as_deref().and_then(|name| self.tool.variant(name)) {
            Some(variant) => expand(&variant.options, values),
            None => Ok(Vec::new()),
        }
    }

    /// Inserts the tool's parameters: the case's levels or else the tool's defaults; for a parameter that was
    /// searched, the level that was found.
    fn insert_parameters(&self, values: &mut Values) {
        for name in self.tool.parameters.keys() {
            values.insert(name.clone(), one(self.case.level(self.tool, name).unwrap_or_default()));
        }
        if let Some(found) = &self.found {
            values.insert(found.parameter.clone(), one(found.level.to_string()));
        }
    }
}
