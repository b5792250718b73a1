//! Exports the whole recording, as CSV or JSON. docs/formats.md specifies both formats.

use linerate_host::sample::{Cost, Flow, InterruptCounts, TimeSeries, flows, interrupts, series, softirqs};
use linerate_wire::path::printable;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write, stdout};
use std::os::unix::ffi::OsStrExt;

use super::host::Recorded;
use super::limiter::limiter;
use crate::common::command::Ended;

/// The version of the JSON output.
const SCHEMA: u32 = 1;

/// All results of a measurement.
pub struct Measured<'a> {
    /// The words of the command; empty if only hosts were measured.
    pub command: &'a [OsString],
    /// How the command ended; `None` without a command.
    pub ended: Option<Ended>,
    /// The recordings of the hosts. The first one is that of this host.
    pub hosts: Vec<Recorded>,
}

/// Prints the recording as CSV, one value per line.
pub fn csv(measured: &Measured<'_>) -> io::Result<()> {
    let mut lines = csv::Writer::from_writer(BufWriter::new(stdout().lock()));
    lines.write_record(["host", "seconds", "kind", "name", "unit", "value"]).map_err(unwrapped)?;
    for host in &measured.hosts {
        for TimeSeries { kind, name, unit, points } in series(&host.recording) {
            for (seconds, value) in points {
                let (seconds, value) = (format!("{seconds:.3}"), value.to_string());
                lines.write_record([&host.name, &seconds, &kind, &name, &unit, &value]).map_err(unwrapped)?;
            }
        }
    }
    lines.flush()
}

/// The I/O error inside a CSV error, so that a closed pipe can be recognised.
fn unwrapped(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Prints the recording as one JSON object.
pub fn json(measured: &Measured<'_>) -> io::Result<()> {
    let ended = measured.ended.as_ref();
    let verdict = limiter(measured);
    let verdict = verdict.as_ref();
    let object = Object {
        schema: SCHEMA,
        r#type: "measure",
        command: ended.map(|_| measured.command.iter().map(|word| printable(word.as_bytes())).collect()),
        exit: ended.map(|ended| ended.code),
        seconds: ended.map(|ended| ended.time.as_secs_f64()),
        cpu_seconds: ended.map(|ended| ended.cpu_seconds),
        limiter: verdict.map(|verdict| verdict.limiter.name()),
        limiter_share: verdict.map(|verdict| verdict.share),
        limiter_evidence: verdict.map(ToString::to_string),
        hosts: measured.hosts.iter().map(OfHost::of).collect(),
    };
    let mut out = BufWriter::new(stdout().lock());
    serde_json::to_writer(&mut out, &object)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[derive(Serialize)]
struct Object<'a> {
    schema: u32,
    r#type: &'a str,
    command: Option<Vec<String>>,
    exit: Option<u8>,
    seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    limiter: Option<&'a str>,
    limiter_share: Option<f64>,
    limiter_evidence: Option<String>,
    hosts: Vec<OfHost<'a>>,
}

#[derive(Serialize)]
struct OfHost<'a> {
    host: &'a str,
    started: f64,
    interval: f64,
    missing: &'a [(String, String)],
    cost: Cost,
    interrupts: Vec<InterruptCounts>,
    softirqs: Vec<InterruptCounts>,
    flows: Vec<Flow>,
    series: Vec<TimeSeries>,
}

impl<'a> OfHost<'a> {
    fn of(host: &'a Recorded) -> Self {
        let Recorded { name, recording } = host;
        Self {
            host: name,
            started: recording.about.started,
            interval: recording.about.interval,
            missing: &recording.missing,
            cost: Cost::of(recording),
            interrupts: interrupts(recording),
            softirqs: softirqs(recording),
            flows: flows(recording),
            series: series(recording),
        }
    }
}
