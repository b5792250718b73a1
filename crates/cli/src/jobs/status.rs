//! `linerate status`: lists the account's detached jobs on a host.

use clap::Args;
use linerate_sys::local_time::LocalTime;
use linerate_transfer::problem::TransferError;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::{JobNews, Meters};
use linerate_wire::control::Job;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::here;
use super::record::{JobRecord, JobState};
use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd, SILENCE};
use crate::common::login::LoginOptions;
use crate::common::output::{Output, Style};
use crate::common::signals::interrupted;
use crate::common::spec::Spec;
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::print;
use crate::units::{show_bytes, show_count, show_rate};

const EXAMPLES: &str = "\
Examples:
  linerate cp -r --detach hostA:tree hostB:/data/
      begins a copy that continues without this host
  linerate status hostB
      lists the jobs on hostB that run, or that ended within the last 14 days
";

const MEANINGS: [Meaning; 6] =
    [(Code::Done, "the jobs were listed, if there are any"), FAILED, USAGE, FAR_END, VERSION, INTERRUPTED];

/// The largest number of records that are accepted from a far end.
const MOST_RECORDS: usize = 20_000;

/// Arguments of `linerate status`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct JobStatusArgs {
    /// Print each job as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    login: LoginOptions,
    /// The host whose jobs are listed; without it, this host
    #[arg(help = "[USER@]HOST; without it, this host", value_name = "HOST")]
    host: Option<OsString>,
}

/// Carries out `linerate status`.
///
/// # Errors
/// If the jobs can't be read, or the far end can't be reached.
pub fn run(args: JobStatusArgs) -> Result<Code, Failure> {
    let records = match &args.host {
        None => here::records().map_err(Failure::failed)?,
        Some(host) => far_records(&args.login, &bare(host)?, false)?,
    };
    match args.json {
        true => records.iter().for_each(print::json),
        false => show(&records),
    }
    Ok(Code::Done)
}

/// Removes the records of the jobs that have ended on a host, or on this one.
///
/// # Errors
/// If the host can't be reached.
pub fn clean(login: &LoginOptions, host: Option<&OsStr>) -> Result<Code, Failure> {
    let left = match host {
        None => here::forget().map_err(Failure::failed)?,
        Some(host) => far_records(login, &bare(host)?, true)?,
    };
    match left.iter().find(|record| record.state != JobState::Running) {
        None => Ok(Code::Done),
        Some(record) => {
            Err(Failure::failed(format!("the record of job {} can't be removed", text(&record.id))))
        }
    }
}

/// The host's name. The user may write a colon after it, as before a path.
///
/// # Errors
/// If a path follows the host.
fn bare(host: &OsStr) -> Result<OsString, Failure> {
    match Spec::parse(host) {
        Spec::Remote(host, path) if path.is_empty() => Ok(host),
        Spec::Remote(..) => Err(Failure::usage(format!(
            "{}: name the host alone, without a path",
            printable(host.as_bytes())
        ))),
        Spec::Local(_) => Ok(host.to_owned()),
    }
}

/// The records on a far host. With `forget`, the records that remain there.
fn far_records(login: &LoginOptions, host: &OsStr, forget: bool) -> Result<Vec<JobRecord>, Failure> {
    let near = NearEnd {
        interrupted: interrupted()?,
        observer: Arc::new(Output::new(Style::Plain)),
        meters: Meters::default(),
        interfaces: Interfaces::One,
    };
    let far_end = login.far_end(host, false)?.with_program();
    let mut far = FarSession::open(&far_end, Job::Jobs { forget }, Some(SILENCE), near)?;
    let mut records = Vec::new();
    far.work(|session| {
        session.receive_jobs(|message| match message {
            JobNews::Record(record) if records.len() < MOST_RECORDS => {
                records.push(read(&record)?);
                Ok(())
            }
            _ => Err(TransferError::Breach("the far end's answer isn't a list of jobs".into())),
        })
    })?;
    Ok(records)
}

/// Parses a record that a far end has sent. The record may contain any bytes.
pub fn read(record: &[u8]) -> Result<JobRecord, TransferError> {
    serde_json::from_slice(record).map_err(|error| {
        TransferError::BadData(format!("the far end's record of a job can't be read: {error}"))
    })
}

fn show(records: &[JobRecord]) {
    if records.is_empty() {
        output!("no detached jobs");
    }
    records.iter().for_each(|record| output!("{}", lines(record)));
}

fn lines(record: &JobRecord) -> String {
    let places = format!("{} -> {}", source(record), destination(record));
    let end = match (record.state, record.exit) {
        (JobState::Running, _) | (_, None) => record.state.name().to_owned(),
        (state, Some(exit)) => format!("{}, exit {exit}", state.name()),
    };
    let sighting = &record.sighting;
    let limiter = match sighting.limiter.as_str() {
        "" | "too-short" => String::new(),
        limiter => format!(", limited by: {}", text(limiter)),
    };
    let so_far = format!(
        "{} of {}, {} of {} files, {}{limiter}",
        show_bytes(sighting.bytes),
        show_bytes(sighting.found_bytes),
        show_count(sighting.files),
        show_count(sighting.found_files),
        show_rate(sighting.bytes, sighting.seconds),
    );
    let (id, role, since) = (text(&record.id), record.role.name(), time(record.since));
    let words = record.message.as_deref().or(record.last.as_deref());
    let words = words.map_or_else(String::new, |words| format!("\n          {}", text(words)));
    format!("{id}  {end}, {role}, since {since}  {places}\n          {so_far}{words}")
}

fn source(record: &JobRecord) -> String {
    let first = record.sources.first().map_or("", String::as_str);
    let others = record.sources.len().saturating_sub(1) as u64;
    match others.saturating_add(record.more_sources) {
        0 => format!("{}:{}", text(&record.from), text(first)),
        others => format!("{}:{} and {} more", text(&record.from), text(first), show_count(others)),
    }
}

fn destination(record: &JobRecord) -> String {
    let path = record.destination.as_ref().map_or_else(String::new, |path| format!(":{}", text(path)));
    text(&record.to) + &path
}

/// A far end's text, escaped so that it is safe to print and takes one line.
fn text(text: &str) -> String {
    printable(text.as_bytes())
}

fn time(seconds: u64) -> String {
    i64::try_from(seconds)
        .ok()
        .and_then(LocalTime::of)
        .map_or_else(|| seconds.to_string(), |time| time.to_string())
}
