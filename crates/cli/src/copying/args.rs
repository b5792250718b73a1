//! The options that cp and sync have in common.

use clap::Args;
use linerate_remote::patience::Patience;
use linerate_transfer::routes::Interfaces;
use linerate_wire::control::{Compression, CompressionLevel, Options};
use std::ffi::OsString;
use std::path::PathBuf;

use super::details::DetailArgs;
use crate::common::far::SILENCE;
use crate::common::log::{LogArgs, RunNames};
use crate::common::login::LoginOptions;
use crate::common::output::Style;
use crate::units::{named_file, parse_compression, parse_interfaces, parse_ports, parse_rate, parse_streams};

/// Options of every command that moves files.
#[derive(Debug, Args)]
pub struct CopyingArgs {
    /// Print only errors
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print each step
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Number of data streams: 1 to 64, or auto
    ///
    /// auto begins with two streams, with eight if the round trip takes 5 ms or more, and with one for little data or
    /// if --compress has a level. It adds streams as long as they make the copy faster.
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_streams)]
    streams: Streams,
    /// Use only these TCP ports for the data, at the end that listens
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    port_range: Option<(u16, u16)>,
    /// Send the data over these interfaces of this host: NAME,NAME, or all
    ///
    /// Each interface gets at least one stream, to an address of the far host that this interface reaches. all means
    /// every interface by which the kernel reaches one of the far host's addresses. Without this option, the data takes
    /// the same route as ssh.
    #[arg(long, value_name = "NAMES", value_parser = parse_interfaces)]
    pub interfaces: Option<Interfaces>,
    /// Send the data in clear, on a network that you trust
    ///
    /// Each frame then has a checksum. Names and keys still travel through ssh.
    #[arg(long)]
    no_encrypt: bool,
    /// Leave out symbolic links that lead out of their tree
    ///
    /// Use this option for sources that you don't trust.
    #[arg(long)]
    pub safe_links: bool,
    /// Compress the data: auto, off, or a level of 1 to 19
    ///
    /// The levels are zstd's. auto compresses as long as compression makes the transfer faster: when the path is slower
    /// than the compressor, and the data becomes smaller. A level compresses on any path, except data that doesn't
    /// become smaller and files whose names are those of compressed files.
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = parse_compression)]
    compress: CompressionLevel,
    /// Limit the rate on the wire: 20m (MiB/s), 500mbit; 100 is 100 KiB/s
    ///
    /// The units are those of rsync's --bwlimit. Units with bit are powers of ten: 500mbit is 500,000,000 bits a
    /// second.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bwlimit: Option<Limit>,
    /// Send as fast as possible instead of just below the path's rate
    ///
    /// Sending just below the path's rate prevents a queue before the path's slowest link, so that other connections
    /// over this link don't wait.
    #[arg(long)]
    no_pacing: bool,
    /// Reconnect up to N times if the connection is lost
    ///
    /// Each time, the transfer resumes where it was interrupted.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry: u32,
    /// End the transfer if the far end is silent for SECONDS; 0: no limit
    ///
    /// Without this option, the limit is 30 s, and the login may take 150 s in all. With this option, the limit also
    /// applies during the login, which may take 150 s or SECONDS in all, whichever is more.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Print events as JSON lines on standard output
    #[arg(long)]
    json: bool,
    /// Write the run's metrics to FILE, for Prometheus' node exporter
    ///
    /// Name FILE as DIRECTORY/TASK.prom, in the directory of the exporter's textfile collector. Every run writes FILE
    /// when it ends; the metrics include its exit code.
    #[arg(long, value_name = "FILE", value_parser = named_file(), conflicts_with = "dry_run")]
    pub metrics: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
    #[command(flatten)]
    pub details: DetailArgs,
    #[command(flatten)]
    pub login: LoginOptions,
}

/// Options that prove that the data has arrived intact.
#[derive(Debug, Args)]
pub struct Prove {
    /// Read each file back from storage before it gets its name
    ///
    /// The receiver reads each file back from its storage, and compares it with the source by BLAKE3 hashes.
    #[arg(long, conflicts_with = "dry_run")]
    verify: bool,
    /// Write the BLAKE3 hashes of the copied files to FILE
    ///
    /// To check the files later, run `b3sum --check FILE` in the directory DST.
    #[arg(long, value_name = "FILE", value_parser = named_file(), conflicts_with = "dry_run")]
    pub manifest: Option<PathBuf>,
}

/// The option by which a copy continues after its command has ended.
#[derive(Debug, Args)]
pub struct LeaveArgs {
    /// Return once both far hosts copy; they continue without this host
    ///
    /// This option is for a copy between two far hosts that can connect to each other; the copy becomes a job. linerate
    /// status HOST lists the jobs. linerate attach HOST shows a job until its end, and exits with the code that this
    /// command would have had without --detach. If the job doesn't finish, run this command again: it continues where
    /// the job stopped.
    #[arg(long, conflicts_with_all = ["dry_run", "manifest", "metrics", "log_file", "retry"])]
    pub detach: bool,
}

/// The number of streams; `None` means automatic. This type has its own name because clap would treat an
/// `Option` as an argument that may be missing.
type Streams = std::option::Option<u32>;
/// A rate limit; `None` means no limit.
type Limit = std::option::Option<u64>;

impl Prove {
    /// Returns `options` with the digests and the verification that the user asked for.
    pub fn options(&self, options: Options) -> Options {
        Options { digests: self.verify || self.manifest.is_some(), verify: self.verify, ..options }
    }
}

impl CopyingArgs {
    /// The style of the output.
    pub fn style(&self) -> Style {
        match (self.json, self.quiet, self.verbose) {
            (true, ..) => Style::Json,
            (_, true, _) => Style::Quiet,
            (_, _, true) => Style::Verbose,
            _ => Style::Plain,
        }
    }

    /// The files for the run's log and metrics.
    pub fn written(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        (self.log.log_file.clone(), self.metrics.clone())
    }

    /// The names of a run for its log: the command, and in the second argument the sources and the destinations.
    pub fn names(&self, command: &str, (sources, to): (Vec<OsString>, Vec<OsString>)) -> RunNames {
        RunNames::new(command, sources, to, self.style())
    }

    /// The time limits for the login.
    pub fn patience(&self) -> Patience {
        Patience::by_option(self.timeout)
    }

    /// The options that both ends must know.
    pub fn options(&self) -> Options {
        Options {
            clear: self.no_encrypt,
            compression: Compression { level: self.compress, skip: None },
            streams: self.streams,
            rate_limit: self.bwlimit.flatten(),
            unpaced: self.no_pacing,
            ports: self.port_range,
            safe_links: self.safe_links,
            timeout: Some(self.timeout.unwrap_or(SILENCE)).filter(|seconds| *seconds > 0),
            details: Box::new(self.details.details()),
            ..Options::default()
        }
    }
}
