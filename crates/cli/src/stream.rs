//! `linerate stream`: measures a transfer from memory to memory, over the same streams as `cp`.

use clap::Args;
use linerate_load::window::CountedTime;
use linerate_remote::far_end::FarEnd;
use linerate_transfer::clock::process_usage;
use linerate_transfer::feed::Files;
use linerate_transfer::memory::{self, Until};
use linerate_transfer::routes::Interfaces;
use linerate_transfer::session::Meters;
use linerate_wire::control::{Job, Options, Totals};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::common::failure::Failure;
use crate::common::far::{FarSession, NearEnd, SILENCE};
use crate::common::login::LoginOptions;
use crate::common::output::{Output, Style};
use crate::common::signals::interrupted;
use crate::common::summary::{Ends, Payload, Summary};
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::units::{parse_ports, parse_size, parse_streams, parse_time};

const EXAMPLES: &str = "\
Examples:
  linerate stream host      measures the path and the cipher for three seconds
  linerate stream --no-encrypt --streams 8 host
  linerate stream --bytes 10GB --json host
  linerate stream --read /srv/www host      also measures the cost of reading files
";

/// The duration of the measurement that [`probe`] makes for `linerate doctor`.
const PROBE: Duration = Duration::from_secs(2);

const MEANINGS: [Meaning; 6] = [(Code::Done, "measured"), FAILED, USAGE, FAR_END, VERSION, INTERRUPTED];

/// Arguments of `linerate stream`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct StreamArgs {
    /// Number of data streams: 1 to 64, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_streams)]
    streams: std::option::Option<u32>,
    /// Send this amount of data: 10GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "seconds")]
    bytes: Option<u64>,
    /// Send for SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_time)]
    seconds: Duration,
    /// Send the files below PATH instead of bytes from memory
    ///
    /// The files are read again and again until the end of the measurement. The far end discards the data.
    #[arg(long, value_name = "PATH")]
    read: Option<PathBuf>,
    /// Send in clear, with a checksum on each frame
    #[arg(long)]
    no_encrypt: bool,
    /// Use only these TCP ports for the data, at the end that listens
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    port_range: Option<(u16, u16)>,
    /// Print the result as a JSON line on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    login: LoginOptions,
    /// The far host
    #[arg(help = "The far host: [USER@]HOST", value_name = "HOST")]
    host: OsString,
}

/// Carries out `linerate stream`.
///
/// # Errors
/// If the path can't be measured.
pub fn run(args: StreamArgs) -> Result<Code, Failure> {
    let output = Arc::new(Output::new(if args.json { Style::Json } else { Style::Plain }));
    measure(&args, &output).inspect_err(|failure| output.failed(failure))
}

fn measure(args: &StreamArgs, output: &Arc<Output>) -> Result<Code, Failure> {
    let (begun, until) = (Instant::now(), args.until());
    let files = args.read.as_deref().map(Files::below).transpose()?;
    let meters = Meters::default();
    let far_end = args.login.far_end(&args.host, false)?;
    let sending =
        Sending { options: &args.options(), until, files: files.as_ref(), interrupted: interrupted()? };
    let summary = sending.to(&far_end, output, &meters)?;
    let elapsed_seconds = begun.elapsed().as_secs_f64();
    output.summary(&Summary { elapsed_seconds, ..summary }, Code::Done, &meters);
    Ok(Code::Done)
}

/// Makes the measurement for `linerate doctor`: a transfer of two seconds from memory to memory, with the
/// default options. The second result is the sum over all streams of the largest TCP window that the far end
/// announced to each stream, in bytes; 0 if the windows are unknown.
///
/// # Errors
/// If the far end can't be started or is lost.
pub fn probe(host: &OsStr, login: &LoginOptions) -> Result<(Summary, u64), Failure> {
    let (output, meters) = (Arc::new(Output::new(Style::Quiet)), Meters::default());
    let far_end = login.far_end(host, true)?;
    let (options, until) = (&Options::default(), Until::Time(PROBE));
    let sending = Sending { options, until, files: None, interrupted: interrupted()? };
    let summary = sending.to(&far_end, &output, &meters)?;
    Ok((summary, meters.local.windows()))
}

/// One measurement: what is sent, and until when.
struct Sending<'a> {
    options: &'a Options,
    until: Until,
    files: Option<&'a Files>,
    interrupted: Arc<AtomicBool>,
}

impl Sending<'_> {
    fn to(self, far_end: &FarEnd, output: &Arc<Output>, meters: &Meters) -> Result<Summary, Failure> {
        let begun = Instant::now();
        let job = Job::Discard { options: self.options.clone() };
        let near = NearEnd {
            interrupted: self.interrupted,
            observer: output.clone(),
            meters: meters.clone(),
            interfaces: Interfaces::One,
        };
        let mut far = FarSession::open(far_end, job, Some(SILENCE), near)?;
        let ((bytes, streams), payload_seconds, window, receiver) = far.work(|session| {
            let sent = memory::send(session, self.options, self.until, self.files)?;
            let seconds = session.payload_seconds();
            Ok((sent, seconds, CountedTime::ending_now(seconds), session.wait_for_report()?))
        })?;
        let (turned_away, cipher) = (far.session.strangers(), far.session.cipher());
        // The processor time of the remote shell can be read only after the shell has ended.
        drop(far);
        Ok(Summary {
            landed: Totals { bytes, ..Totals::default() },
            found: Totals { bytes, ..Totals::default() },
            there: Totals::default(),
            payload_seconds,
            window: Some(window),
            elapsed_seconds: begun.elapsed().as_secs_f64(),
            streams,
            encrypted: cipher.is_some(),
            cipher: cipher.map(str::to_owned),
            sender: (meters.local.stages(), process_usage()),
            receiver,
            ends: Ends::Push,
            turned_away,
            kind: if self.files.is_some() { Payload::Discarded } else { Payload::Memory },
            synced: None,
        })
    }
}

impl StreamArgs {
    fn until(&self) -> Until {
        self.bytes.map_or(Until::Time(self.seconds), Until::Bytes)
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
