//! `linerate load` and `linerate serve`: generate loads, and answer them.

mod http;
mod output;
mod pairs;
mod serve;
mod small_requests;
mod tile;

pub use serve::{ServeArgs, run as serve};

use clap::{Args, Subcommand};
use linerate_load::error::LoadError;
use linerate_load::report::LoadReport;
use linerate_load::window::{StopFlag, Window};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::common::failure::Failure;
use crate::common::signals::interrupted;
use crate::exit::{Code, FAILED, INTERRUPTED, Meaning, NOT_FOUND, NOT_RUN, USAGE, table};

const EXAMPLES: &str = "\
Examples:
  linerate serve rr --listen 0.0.0.0:5300           on the far host; then on this host:
  linerate load rr --connect host:5300              measures the time of a byte there and back
  linerate load pairs --connect host:5300 --pairs 8
  linerate load pairs --connect host:5300 --udp --rate 1mbit --datagram 200
  linerate load rr --connect host:5300 --rate 100 -- scp big host:
  linerate load http --url http://host/file --users 240 --ramp 10 --seconds 240
";

const MEANINGS: [Meaning; 7] = [
    (Code::Done, "the load has run, and its result is printed"),
    FAILED,
    USAGE,
    (Code::FarEnd, "the server could not be reached"),
    NOT_RUN,
    NOT_FOUND,
    INTERRUPTED,
];

/// Arguments of `linerate load`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct LoadArgs {
    #[command(subcommand)]
    kind: LoadCommand,
}

#[derive(Debug, Subcommand)]
enum LoadCommand {
    /// Send requests and wait for responses, one at a time on each connection
    Rr(pairs::RoundTripArgs),
    /// Connect, send a request, wait for the response, close; repeatedly
    Crr(pairs::TransactionArgs),
    /// Send bulk data or datagrams, unencrypted, between pairs of endpoints
    Pairs(pairs::BulkArgs),
    /// Act as users who fetch objects by HTTP repeatedly
    Http(http::HttpArgs),
    /// Run tiles: mixes of web, small requests, file transfer and idle connections
    Tile(tile::TileArgs),
}

/// Makes a load and prints its result.
///
/// # Errors
/// If the load can't be made.
pub fn run(args: LoadArgs) -> Result<Code, Failure> {
    linerate_sys::limits::raise_open_files();
    let stop = StopFlag::from(interrupted()?);
    let (report, form): (LoadReport, ReportForm) = match args.kind {
        LoadCommand::Rr(args) => match args.run(&stop)? {
            (report, None) => (report, args.common.form),
            (report, Some(code)) => {
                output::report(&report, args.common.form.json);
                return Ok(code);
            }
        },
        LoadCommand::Crr(args) => (args.run(linerate_load::pair::ConnectionStyle::Each, &stop)?, args.form),
        LoadCommand::Pairs(args) => (args.run(&stop)?, args.form),
        LoadCommand::Http(args) => (args.run(&stop)?, args.form),
        LoadCommand::Tile(args) => (args.run(&stop)?, args.form),
    };
    output::print(&report, form.json);
    Ok(Code::Done)
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let code = match error {
            LoadError::Arguments(_) => Code::Usage,
            LoadError::Connect(..) => Code::FarEnd,
            LoadError::Interrupted => Code::Interrupted,
            LoadError::Peer(..) | LoadError::Listen(..) | LoadError::System(..) => Code::Failed,
        };
        Self(error.to_string(), code)
    }
}

/// The format of the result.
#[derive(Clone, Copy, Debug, Args)]
struct ReportForm {
    /// Print the result as a JSON line on standard output
    #[arg(long)]
    json: bool,
}

/// The time for which a load is measured, and the time before that.
#[derive(Clone, Copy, Debug, Args)]
struct Length {
    /// Measure for SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,
    // The option keeps its documented name, because tool files use this name too.
    /// Run for SECONDS before the measurement begins
    #[arg(long = "warm-up", value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    ramp: Duration,
}

impl Length {
    fn window(self) -> Window {
        Window { ramp: self.ramp, measured: self.seconds }
    }
}

/// Parses a number of seconds up to a day, which may have a fraction.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.trim_end_matches('s').trim_end().parse().ok();
    let time = seconds.filter(|seconds| (0.0..=86_400.0).contains(seconds)).map(Duration::from_secs_f64);
    time.ok_or_else(|| format!("'{text}' isn't a time; write seconds, 0 to 86400"))
}

/// Parses `HOST:PORT`, and returns the first address of the host.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("'{text}' isn't an address: {why}; write HOST:PORT");
    let mut addresses = text.to_socket_addrs().map_err(|error| wrong(&error))?;
    addresses.next().ok_or_else(|| wrong(&"the host has no address"))
}

/// Parses a number, which must be 1 or more; `None` for `auto`.
fn parse_count(text: &str) -> Result<Option<u32>, String> {
    match text.parse() {
        _ if text == "auto" => Ok(None),
        Ok(count @ 1u32..) => Ok(Some(count)),
        _ => Err(format!("'{text}' isn't a number; write 1 or more, or auto")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_addresses_and_counts_are_read() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds("10 s"), Ok(Duration::from_secs(10)));
        assert!(
            parse_seconds("-1").is_err() && parse_seconds("NaN").is_err() && parse_seconds("1e9").is_err()
        );
        assert_eq!(parse_address("127.0.0.1:80"), Ok("127.0.0.1:80".parse().unwrap()));
        assert!(parse_address("127.0.0.1").is_err());
        assert_eq!((parse_count("auto"), parse_count("5")), (Ok(None), Ok(Some(5))));
        assert!(parse_count("0").is_err());
    }
}
