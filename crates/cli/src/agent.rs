//! `linerate agent`: the far end, on its standard input and output.

use clap::Args;
use linerate_host::sample::{self, Recorder};
use linerate_host::{CpuTimes, Facts};
use linerate_transfer::agent::{HostObserver, Recording, serve};
use linerate_transfer::permit::{Permit, Restriction};
use linerate_transfer::problem::TransferError;
use linerate_wire::control::{AGENT_LINE, JobAttention, Message, Sampling};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::common::failure::Failure;
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};

const MEANINGS: [Meaning; 6] = [(Code::Done, "served"), FAILED, USAGE, FAR_END, VERSION, INTERRUPTED];

/// Arguments of `linerate agent`.
#[derive(Debug, Args)]
#[command(after_long_help = table(&MEANINGS))]
pub struct AgentArgs {
    /// Print the identification that both ends must share, and end
    #[arg(long)]
    id: bool,
    /// Serve a client that leaves this process behind; started by an agent
    #[arg(long, hide = true, conflicts_with_all = ["id", "below"])]
    background: bool,
    /// Serve only paths below DIR: for command="..." in authorized_keys
    #[arg(long, value_name = "DIR", conflicts_with = "id")]
    below: Option<PathBuf>,
    /// With --below: nothing can be written or removed
    #[arg(long, requires = "below", conflicts_with = "write_only")]
    read_only: bool,
    /// With --below: nothing can be read, listed or compared
    #[arg(long, requires = "below")]
    write_only: bool,
    /// With --below: nothing is deleted; existing files can still be overwritten
    #[arg(long, requires = "below")]
    no_delete: bool,
}

impl AgentArgs {
    fn permit(&self) -> Result<Permit, TransferError> {
        let Self { read_only, write_only, no_delete, .. } = *self;
        match &self.below {
            Some(directory) => Permit::below(directory, Restriction { read_only, write_only, no_delete }),
            None => Ok(Permit::all()),
        }
    }
}

/// Serves one client. Failures are reported to it over the control channel.
///
/// # Errors
/// None: this end's standard error is the client's terminal, and the client reports.
pub fn run(args: AgentArgs) -> Result<Code, Failure> {
    if args.id {
        say!("{}", linerate_remote::install::identity());
        return Ok(Code::Done);
    }
    if args.background {
        return crate::jobs::go_on();
    }
    // The line begins with a newline, because output of the shell's start-up files may lack one. The client
    // may be gone already; then nobody reads the report.
    let mut output = std::io::stdout();
    if output.write_all(format!("\n{AGENT_LINE}\n").as_bytes()).and_then(|()| output.flush()).is_err() {
        return Ok(Code::FarEnd);
    }
    linerate_sys::limits::raise_open_files();
    linerate_sys::limits::keep_freed_memory();
    let served = serve(std::io::stdin(), output, &Local, args.permit());
    Ok(served.map_or_else(|error| Code::from(&error), |()| Code::Done))
}

struct Local;

impl HostObserver for Local {
    fn facts(&self, paths: Vec<Vec<u8>>) -> Vec<u8> {
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| OsString::from_vec(path).into()).collect();
        let paths = if paths.is_empty() { crate::facts::usual_paths() } else { paths };
        Facts::here_with_snapshot(&paths).1.compressed().unwrap_or_default()
    }

    fn cpu(&self) -> Vec<u8> {
        let times = CpuTimes::read(Path::new("/"));
        times.ok().and_then(|times| serde_json::to_vec(&times).ok()).unwrap_or_default()
    }

    fn record(&self, sampling: &Sampling) -> Result<Box<dyn Recording>, String> {
        let Sampling { interval_ms, processes, names } = sampling.clone();
        let interval = Duration::from_millis(interval_ms.into());
        let options =
            sample::SamplerOptions { interval, processes, names, ..sample::SamplerOptions::default() };
        match Recorder::start(&options) {
            Ok(recorder) => Ok(Box::new(LocalRecording(recorder))),
            Err(error) => Err(format!("starting to sample the host failed: {error}")),
        }
    }

    fn background(&self) -> Result<Child, String> {
        crate::jobs::start()
    }

    fn jobs(&self, forget: bool) -> Result<Vec<Vec<u8>>, String> {
        let records = if forget { crate::jobs::forget() } else { crate::jobs::records() };
        records.map(told)
    }

    fn attend(&self, attention: &JobAttention, tell: &mut dyn FnMut(Message) -> bool) -> Result<(), String> {
        crate::jobs::attend(attention, tell)
    }
}

/// Every job of this account, as JSON.
fn told(records: Vec<crate::jobs::JobRecord>) -> Vec<Vec<u8>> {
    records.iter().map(crate::jobs::JobRecord::json).collect()
}

struct LocalRecording(Recorder);

impl Recording for LocalRecording {
    fn interval_ms(&self) -> u32 {
        u32::try_from(self.0.interval().as_millis()).unwrap_or(u32::MAX)
    }

    fn take(&mut self) -> Vec<u8> {
        self.0.take()
    }

    fn stop(self: Box<Self>) -> Vec<u8> {
        self.0.stop()
    }
}
