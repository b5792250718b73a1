//! `linerate stream`: memory to memory, over the same streams as `cp`.

use clap::Args;
use linerate_transfer::clock::process_usage;
use linerate_transfer::feed::Files;
use linerate_transfer::memory::{self, Until};
use linerate_transfer::session::{Client, Meters, Session};
use linerate_wire::control::{Job, Options, Totals};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cp::{Failure, Kind, Output, Style, Summary, end, start};
use crate::exit::{CODES, Code};
use crate::reach::{Reach, interrupted};
use crate::units::{parse_ports, parse_size, parse_streams};

const EXAMPLES: &str = "\
Examples:
  linerate stream host      what the path and the cipher can do in three seconds
  linerate stream --no-encrypt --streams 8 host
  linerate stream --bytes 10GB --json host
  linerate stream --read /srv/www host      the same, and reading the files costs too
";

/// What `linerate stream` takes.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = CODES)]
pub struct StreamArgs {
    /// Data streams: 1 to 64, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_streams)]
    streams: std::option::Option<u32>,
    /// Send so many bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "seconds")]
    bytes: Option<u64>,
    /// Send for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    /// Send what the files below PATH hold, again and again, in place of bytes from memory; the far end drops it
    #[arg(long, value_name = "PATH")]
    read: Option<PathBuf>,
    /// Send in clear, with a checksum on each frame
    #[arg(long)]
    no_encrypt: bool,
    /// TCP ports for the data
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    port_range: Option<(u16, u16)>,
    /// Print the result as a JSON line on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
    /// The far host, perhaps with a user
    #[arg(value_name = "HOST")]
    host: OsString,
}

/// Measures.
pub fn run(args: StreamArgs) -> ExitCode {
    let output = Arc::new(Output::new(if args.json { Style::Json } else { Style::Plain }));
    match measure(&args, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(message, code)) => {
            output.failure(&message, code);
            code.into()
        }
    }
}

fn measure(args: &StreamArgs, output: &Arc<Output>) -> Result<(), Failure> {
    let (begun, until) = (Instant::now(), args.until()?);
    let files = args.read.as_deref().map(Files::below).transpose()?;
    let interrupted = interrupted().map_err(|error| Failure(error.to_string(), Code::Failed))?;
    let far_end = args.reach.far_end(&args.host, false).map_err(|message| Failure(message, Code::Usage))?;
    let ((reader, writer), mut shell) = start(&far_end, output, &interrupted)?;
    let options = args.options();
    let (meters, job) = (Meters::default(), Job::Discard { options: options.clone() });
    let client = Client { job, interrupted, observer: output.clone() };
    let mut session = Session::client(reader, writer, client, meters.clone())?;
    let sent = memory::send(&mut session, &options, until, files.as_ref());
    let payload_seconds = session.payload_seconds();
    let (bytes, streams) = sent.map_err(|error| session.give_up(error))?;
    let receiver = session.wait_for_report()?;
    let (turned_away, cipher) = (session.strangers(), session.cipher());
    end(session, &mut shell);
    let summary = Summary {
        landed: Totals { bytes, ..Totals::default() },
        payload_seconds,
        elapsed_seconds: begun.elapsed().as_secs_f64(),
        streams,
        cipher,
        sender: (meters.local.stages(), process_usage()),
        receiver,
        pushed: true,
        turned_away,
        kind: if files.is_some() { Kind::Discarded } else { Kind::Memory },
        synced: None,
    };
    output.summary(&summary, Code::Done, &meters);
    Ok(())
}

impl StreamArgs {
    fn until(&self) -> Result<Until, Failure> {
        if let Some(bytes) = self.bytes {
            return Ok(Until::Bytes(bytes));
        }
        let time = Duration::try_from_secs_f64(self.seconds);
        time.map(Until::Time)
            .map_err(|error| Failure(format!("--seconds {}: {error}", self.seconds), Code::Usage))
    }

    fn options(&self) -> Options {
        Options {
            clear: self.no_encrypt,
            streams: self.streams,
            ports: self.port_range,
            ..Options::default()
        }
    }
}
