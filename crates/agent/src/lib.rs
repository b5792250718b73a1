//! The agent: the far end of all commands. It communicates on its standard input and output. The program
//! `linerate-agent` contains only the agent, so that few bytes have to be copied to a host; `linerate agent` also runs
//! the agent.

use linerate_host::facts::usual_paths;
use linerate_host::sample::{Recorder, SamplerOptions};
use linerate_host::{CpuTimes, Facts};
use linerate_transfer::agent::{HostObserver, Recording, serve};
use linerate_transfer::permit::Permit;
use linerate_transfer::problem::TransferError;
use linerate_wire::control::{AGENT_LINE, Sampling};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The program's version. In a released binary, the version includes the commit from which `cargo xtask dist` built the
/// binary.
pub const VERSION: &str = match option_env!("LINERATE_BUILD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Serves one client within the limits of `permit`; `host` answers questions about this host. The client gets failures
/// over the control channel.
///
/// # Errors
/// The reason why the client's job ended early; `None` if the client was gone before the agent was ready.
pub fn serve_client(
    host: &dyn HostObserver,
    permit: Result<Permit, TransferError>,
) -> Result<(), Option<TransferError>> {
    // A newline comes before the line, because output of the shell's start-up files may end without a newline.
    let mut output = io::stdout();
    output
        .write_all(format!("\n{AGENT_LINE}\n").as_bytes())
        .and_then(|()| output.flush())
        .map_err(|_| None)?;
    linerate_sys::limits::outlive_largest_file();
    linerate_sys::limits::raise_open_files();
    linerate_sys::limits::keep_freed_memory();
    serve(io::stdin(), output, host, permit).map_err(|error| {
        if let TransferError::Version(why) = &error {
            // The client reports the reason too, unless it only notices that the agent is gone.
            let _ = writeln!(io::stderr(), "linerate agent: {why}");
        }
        Some(error)
    })
}

/// Answers questions about this host: with facts, processor times and samples, but not about detached jobs.
pub struct LocalHost;

impl HostObserver for LocalHost {
    fn facts(&self, paths: Vec<Vec<u8>>) -> Vec<u8> {
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| OsString::from_vec(path).into()).collect();
        let paths = if paths.is_empty() { usual_paths() } else { paths };
        Facts::here_with_snapshot(&paths).1.compressed().unwrap_or_default()
    }

    fn cpu(&self) -> Vec<u8> {
        let times = CpuTimes::read(Path::new("/"));
        times.ok().and_then(|times| serde_json::to_vec(&times).ok()).unwrap_or_default()
    }

    fn record(&self, sampling: &Sampling) -> Result<Box<dyn Recording>, String> {
        let Sampling { interval_ms, processes, names } = sampling.clone();
        let interval = Duration::from_millis(interval_ms.into());
        let options = SamplerOptions { interval, processes, names, ..SamplerOptions::default() };
        match Recorder::start(&options) {
            Ok(recorder) => Ok(Box::new(LocalRecording(recorder))),
            Err(error) => Err(format!("starting to sample the host failed: {error}")),
        }
    }
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
