//! Endpoint pairs: `linerate load rr`, `crr` and `pairs`.

use clap::Args;
use linerate_load::error::LoadError;
use linerate_load::pair::{Amount, Bulk, ConnectionStyle, Transactions};
use linerate_load::report::LoadReport;
use linerate_load::window::{StopFlag, Window};
use std::net::SocketAddr;
use std::time::Duration;

use crate::units::parse_size;

use super::{Length, ReportForm, parse_address, parse_seconds};

/// The servers and the number of pairs.
#[derive(Clone, Debug, Args)]
struct PairArgs {
    /// A server (`linerate serve rr`); pairs are spread over several
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = parse_address)]
    connect: Vec<SocketAddr>,
    /// Endpoint pairs at once, each a connection and a thread
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
        let load = Transactions {
            to: self.ends.connect.clone(),
            pairs: self.ends.pairs,
            request: self.request,
            response: self.response,
            style,
            pace: None,
            window: self.length.window(),
        };
        let result = load.run(stop)?;
        Ok(load.report(&result))
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
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["seconds", "warm_up"])]
    bytes: Option<u64>,
    /// Send for SECONDS before counting
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    warm_up: Duration,
    /// Size of the socket buffers at both ends [default: the kernel's]
    #[arg(long, value_name = "SIZE", value_parser = parse_small)]
    window: Option<u32>,
    /// Send small segments at once (TCP_NODELAY)
    #[arg(long)]
    no_delay: bool,
    #[command(flatten)]
    pub(super) form: ReportForm,
}

impl BulkArgs {
    pub(super) fn run(&self, stop: &StopFlag) -> Result<LoadReport, LoadError> {
        let time = Amount::Time(Window { warm_up: self.warm_up, measured: self.seconds });
        let load = Bulk {
            to: self.ends.connect.clone(),
            pairs: self.ends.pairs,
            amount: self.bytes.map_or(time, Amount::Bytes),
            window: self.window,
            no_delay: self.no_delay,
            pace: None,
        };
        let result = load.run(stop)?;
        Ok(load.report(&result))
    }
}

/// A size from a byte to a gibibyte.
fn parse_small(text: &str) -> Result<u32, String> {
    match parse_size(text)? {
        size @ 1..=0x4000_0000 => Ok(size as u32),
        _ => Err(format!("'{text}' is out of bounds; it must be 1 B to 1 GiB")),
    }
}
