//! `linerate load rr`, `crr` and `pairs`: loads between pairs of endpoints.

use clap::Args;
use linerate_load::error::LoadError;
use linerate_load::pair::{
    Amount, Bulk, ConnectionStyle, Datagrams, Direction, LARGEST_DATAGRAM, SMALLEST_DATAGRAM, Scheduled,
    Span, Transactions,
};
use linerate_load::report::LoadReport;
use linerate_load::window::{StopFlag, Window};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use crate::common::failure::Failure;
use crate::exit::Code;
use crate::units::parse_size;

use super::{Length, ReportForm, parse_address, parse_seconds, small_requests};

/// The servers and the number of pairs.
#[derive(Clone, Debug, Args)]
struct PairArgs {
    /// A server (`linerate serve rr`); if repeated, pairs are spread
    ///
    /// If you name several servers, the pairs are distributed over them in turn.
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = parse_address)]
    connect: Vec<SocketAddr>,
    /// Number of pairs; each is a connection and a thread
    #[arg(long, value_name = "N", default_value_t = 1)]
    pairs: usize,
}

/// Arguments of `linerate load rr` and `crr`.
#[derive(Debug, Args)]
pub struct TransactionArgs {
    #[command(flatten)]
    ends: PairArgs,
    /// Size of a request
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = parse_small)]
    request: u32,
    /// Size of a response
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = parse_small)]
    response: u32,
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    pub(super) form: ReportForm,
}

impl TransactionArgs {
    pub(super) fn run(&self, style: ConnectionStyle, stop: &StopFlag) -> Result<LoadReport, LoadError> {
        let load = self.load(style);
        let result = load.run(stop)?;
        Ok(load.report(&result))
    }

    fn load(&self, style: ConnectionStyle) -> Transactions {
        Transactions {
            to: self.ends.connect.clone(),
            pairs: self.ends.pairs,
            request: self.request,
            response: self.response,
            style,
            pace: None,
            window: self.length.window(),
        }
    }
}

/// Arguments of `linerate load rr`.
#[derive(Debug, Args)]
pub struct RoundTripArgs {
    #[command(flatten)]
    pub(super) common: TransactionArgs,
    /// Send N requests a second on each connection, at fixed times
    ///
    /// The time of a request then counts from its scheduled start, so that the time for which it waits behind a slow
    /// answer counts too. Without this option, a connection sends the next request as soon as the answer to the last
    /// one has come.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Measure while COMMAND runs
    ///
    /// If COMMAND sends data, the result shows how long requests take beside this data. COMMAND uses standard output,
    /// so the result is printed on standard error. The exit code is COMMAND's.
    #[arg(last = true, value_name = "COMMAND", requires = "rate", conflicts_with_all = ["seconds", "ramp"])]
    command: Vec<OsString>,
}

/// A duration that is longer than any command runs.
const ENDLESS: Duration = Duration::from_secs(366 * 86_400);

impl RoundTripArgs {
    /// Runs the load. Returns the load's result and, if a command ran at the same time, the command's exit code.
    pub(super) fn run(&self, stop: &StopFlag) -> Result<(LoadReport, Option<Code>), Failure> {
        let mut load = self.common.load(ConnectionStyle::Kept);
        let Some(rate) = self.rate else {
            return Ok((self.common.run(ConnectionStyle::Kept, stop)?, None));
        };
        if self.command.is_empty() {
            let load = Scheduled { load, rate };
            let result = load.run(&Span::default(), stop)?;
            return Ok((load.report(&result), None));
        }
        load.window = Window { ramp: Duration::ZERO, measured: ENDLESS };
        let load = Scheduled { load, rate };
        let (code, result) = small_requests::run(&load, &self.command, stop)?;
        Ok((load.report(&result), Some(code)))
    }
}

/// Arguments of `linerate load pairs`.
#[derive(Debug, Args)]
pub struct BulkArgs {
    #[command(flatten)]
    ends: PairArgs,
    /// Send for SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,
    /// Send SIZE bytes, over all pairs together
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["seconds", "ramp"])]
    bytes: Option<u64>,
    // The option keeps its documented name, because tool files use this name too.
    /// Send for SECONDS before the measurement begins
    #[arg(long = "warm-up", value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    ramp: Duration,
    /// Let the servers send
    #[arg(long, conflicts_with = "both")]
    reverse: bool,
    /// Send in both directions at once, over one connection for each direction
    #[arg(long)]
    both: bool,
    /// Send datagrams; report lost and reordered ones and the jitter
    #[arg(long, conflicts_with_all = ["reverse", "both", "bytes", "no_delay"])]
    udp: bool,
    /// With --udp: size of a datagram's payload
    #[arg(long, value_name = "SIZE", default_value = "1400", value_parser = parse_datagram, requires = "udp", conflicts_with_all = ["reverse", "both", "bytes", "no_delay"])]
    datagram: u32,
    /// Send no faster than RATE on each pair: 500mbit, 2.5gbit
    #[arg(long, value_name = "RATE", value_parser = parse_bits, conflicts_with_all = ["reverse", "both", "bytes"])]
    rate: Option<u64>,
    /// Size of the socket buffers at both ends [default: the kernel's]
    #[arg(long, value_name = "SIZE", value_parser = parse_small)]
    window: Option<u32>,
    /// Send small segments at once (TCP_NODELAY)
    #[arg(long, conflicts_with = "reverse")]
    no_delay: bool,
    #[command(flatten)]
    pub(super) form: ReportForm,
}

impl BulkArgs {
    pub(super) fn run(&self, stop: &StopFlag) -> Result<LoadReport, LoadError> {
        let window = Window { ramp: self.ramp, measured: self.seconds };
        let pace = self.rate.map(|bits| bits as f64 / 8.0);
        if self.udp {
            let (to, pairs) = (self.ends.connect.clone(), self.ends.pairs);
            let load = Datagrams { to, pairs, window, size: self.datagram, rate: pace, buffer: self.window };
            return load.run(stop);
        }
        let time = Amount::Time(window);
        let load = Bulk {
            to: self.ends.connect.clone(),
            pairs: self.ends.pairs,
            direction: match (self.reverse, self.both) {
                (true, _) => Direction::Back,
                (_, true) => Direction::Both,
                _ => Direction::Out,
            },
            amount: self.bytes.map_or(time, Amount::Bytes),
            window: self.window,
            no_delay: self.no_delay,
            pace,
        };
        let result = load.run(stop)?;
        Ok(load.report(&result))
    }
}

fn parse_datagram(text: &str) -> Result<u32, String> {
    let size = parse_small(text)?;
    if (SMALLEST_DATAGRAM..=LARGEST_DATAGRAM).contains(&size) {
        return Ok(size);
    }
    Err(format!("'{text}' is out of bounds; it must be {SMALLEST_DATAGRAM} B to {LARGEST_DATAGRAM} B"))
}

fn parse_bits(text: &str) -> Result<u64, String> {
    let bits =
        linerate_quantity::bit_rate(text).map_err(|reason| format!("'{text}': {reason}; write 500mbit"))?;
    if bits > 0 { Ok(bits) } else { Err(format!("'{text}' isn't a rate; write 500mbit")) }
}

/// Parses a size from one byte to 1 GiB.
fn parse_small(text: &str) -> Result<u32, String> {
    match parse_size(text)? {
        size @ 1..=0x4000_0000 => Ok(size as u32),
        _ => Err(format!("'{text}' is out of bounds; it must be 1 B to 1 GiB")),
    }
}
