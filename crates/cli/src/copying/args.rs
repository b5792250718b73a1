//! The options that cp and sync have in common.

use clap::Args;
use linerate_remote::patience::Patience;
use linerate_wire::control::Options;
use std::ffi::OsString;

use crate::common::far::SILENCE;
use crate::common::output::Style;
use crate::common::reach::Reach;
use crate::units::{parse_ports, parse_rate, parse_streams};

/// Options of every command that moves files.
#[derive(Debug, Args)]
pub struct Common {
    /// Say nothing but what went wrong
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say each step
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Data streams: 1 to 64, or auto, which adds streams while they help
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_streams)]
    streams: Streams,
    /// TCP ports for the data, at whichever end listens
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    port_range: Option<(u16, u16)>,
    /// Send the data in clear, with a checksum on each frame: for a network that you trust
    #[arg(long)]
    no_encrypt: bool,
    /// Leave out symbolic links that lead out of the tree they are in; for sources that you don't trust
    #[arg(long)]
    pub safe_links: bool,
    /// Limit of the payload rate: KiB a second, or 20m (MiB a second), or 500mbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bwlimit: Option<Limit>,
    /// Fill the path, and keep a queue before its slowest link; otherwise the rate is held a little below what the path takes
    #[arg(long)]
    no_pacing: bool,
    /// Reconnect so often after the connection is lost, and go on from there
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry: u32,
    /// Give a far end up that says nothing for so long, from the login on; 0 waits for ever. Without it: 30 s, and 150 s for the login
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Print events as JSON lines on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub reach: Reach,
}

/// How what was delivered is proven.
#[derive(Debug, Args)]
pub struct Prove {
    /// Read each file back from the destination's storage before it gets its name, and compare BLAKE3 hashes
    #[arg(long, conflicts_with = "dry_run")]
    verify: bool,
    /// Write the BLAKE3 hashes of what was copied to FILE, for `b3sum --check FILE` in DST
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub manifest: Option<OsString>,
}

/// `None` is auto. A type of its own, since clap would take an `Option` for an argument that may be missing.
type Streams = std::option::Option<u32>;
/// `None` is no limit.
type Limit = std::option::Option<u64>;

impl Prove {
    /// The same options, with what these ask for.
    pub fn options(&self, options: Options) -> Options {
        Options { digests: self.verify || self.manifest.is_some(), verify: self.verify, ..options }
    }
}

impl Common {
    /// How much is said.
    pub fn style(&self) -> Style {
        match (self.json, self.quiet, self.verbose) {
            (true, ..) => Style::Json,
            (_, true, _) => Style::Quiet,
            (_, _, true) => Style::Verbose,
            _ => Style::Plain,
        }
    }

    /// How long the login may take.
    pub fn login(&self) -> Patience {
        Patience::by_option(self.timeout)
    }

    /// What both ends must know of these.
    pub fn options(&self) -> Options {
        Options {
            clear: self.no_encrypt,
            streams: self.streams,
            rate_limit: self.bwlimit.flatten(),
            unpaced: self.no_pacing,
            ports: self.port_range,
            safe_links: self.safe_links,
            timeout: Some(self.timeout.unwrap_or(SILENCE)).filter(|seconds| *seconds > 0),
            ..Options::default()
        }
    }
}
