//! Small requests that are sent at fixed times while a case's tool runs. Their response times show the delay
//! for other users of the path.

use std::ffi::OsString;
use std::process::Command;

use serde::Deserialize;

use crate::record::Latency;
use crate::spec::template::{self, expand};
use crate::spec::tool::Server;

use super::attempt::{Attempt, Failure};
use super::bed::{self, End};
use super::process::{Group, Output};
use super::server;

/// The number of requests per second. Ten seconds give 1,000 requests, enough for the 99th percentile.
const RATE: &str = "100";
/// The server of the requests uses the tool's first port minus this number. The tool's other ports are above
/// its first port.
const PORTS_BELOW: u16 = 1000;

impl Attempt<'_> {
    /// Starts the server that answers the requests, if the case has such requests.
    pub(super) fn start_beside(&self) -> Result<Option<Group>, Failure> {
        if !self.case.beside {
            return Ok(None);
        }
        let server = Server::of_requests()?;
        let values = bed::values_at(self.bed, End::B, 0, self.linerate, self.beside_port());
        let guest = (self.bed.guests() > 0).then_some(0);
        let output = self.work.join("server-beside");
        Ok(Some(server::start(&server, self.bed, guest, &values, &output, self.stop)?))
    }

    /// The command that runs the tool's first copy and, while the tool runs, sends requests and measures their response
    /// times.
    pub(super) fn beside(&self, tool: Vec<OsString>) -> Result<Command, Failure> {
        let words =
            ["{linerate}", "load", "rr", "--json", "--rate", RATE, "--connect", "{url_host}:{port}", "--"];
        let values = bed::values_at(self.bed, End::A, 0, self.linerate, self.beside_port());
        let mut argv = expand(&template::parse(&words)?, &values)?;
        argv.extend(tool);
        Ok(self.bed.command(End::A, &argv).map_err(|e| e.to_string())?)
    }

    fn beside_port(&self) -> u16 {
        self.port - PORTS_BELOW
    }
}

/// The response times that the first copy's command printed on standard error.
///
/// # Errors
/// If the command prints no times.
pub(super) fn times(outputs: &[Output]) -> Result<Latency, String> {
    #[derive(Deserialize)]
    struct Stated {
        kind: String,
        latency: Latency,
    }
    let stderr = outputs.first().map_or(&b""[..], |output| &output.stderr);
    let stated = stderr.split(|byte| *byte == b'\n').rev().find_map(|line| serde_json::from_slice(line).ok());
    match stated {
        Some(Stated { kind, latency }) if kind == "rr" => Ok(latency),
        _ => Err("the requests beside the tool gave no result".into()),
    }
}
