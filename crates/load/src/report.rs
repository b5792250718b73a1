//! The result of a load, as it is printed in JSON. Values are in SI units. A field that doesn't apply to the
//! kind of load is absent.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::latency::LatencySummary;
use crate::window::CountedTime;

/// The result of a load: one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadReport {
    /// The format's version.
    pub schema: u32,
    /// The kind of JSON object; always `load`.
    #[serde(rename = "type")]
    pub form: &'static str,
    /// The kind of load: `rr`, `crr`, `pairs`, `udp`, `http` or `tile`.
    pub kind: &'static str,
    /// Payload bytes that were received in the measured window; for `pairs`, as the receivers counted them.
    pub bytes: u64,
    /// The part of `bytes` that the server sent; `None` if the load moves data in only one direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_back: Option<u64>,
    /// The length of the measured window, in seconds.
    pub seconds: f64,
    /// The start and end of the window; `None` if the load was limited by a number of bytes instead of a
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<CountedTime>,
    /// The number of transactions that ended in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u64>,
    /// The number of transactions per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions_per_second: Option<f64>,
    /// The durations of the transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySummary>,
    /// The number of transactions per second that were due, if `--rate` sets it. With `--rate`, `latency` counts from
    /// the times at which the transactions were due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// TCP connections over the whole run, including the ramp.
    pub connections: Vec<ConnectionCounts>,
    /// The number of new connections per second in the window, if each request has its own connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_connections_per_second: Option<f64>,
    /// The number of HTTP users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Bytes of requests sent in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Bytes of response heads and chunk framing in the window, in addition to the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_bytes: Option<u64>,
    /// Failures over the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// The result of each endpoint pair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairReport>,
    /// The slowest pair's rate divided by the fastest pair's rate, among pairs in the same direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// The counts of datagrams of all pairs together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramCounts>,
    /// The number of users or tiles that a search with `auto` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u32>,
    /// The steps of a search with `auto`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<SearchStep>,
    /// The rates of the loads, averaged over the tiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loads: Option<Loads>,
    /// The result of each tile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<Tile>,
    /// The sum of the scores of all tiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Reasons why the result may be wrong.
    pub warnings: Vec<String>,
}

impl LoadReport {
    /// A report in which all optional fields are empty.
    pub fn new(kind: &'static str, bytes: u64, seconds: f64) -> Self {
        Self {
            schema: 1,
            form: "load",
            kind,
            bytes,
            bytes_back: None,
            seconds,
            window: None,
            transactions: None,
            transactions_per_second: None,
            latency: None,
            rate: None,
            connections: Vec::new(),
            new_connections_per_second: None,
            users: None,
            bytes_out: None,
            header_bytes: None,
            errors: None,
            pairs: Vec::new(),
            fairness: None,
            datagrams: None,
            found: None,
            steps: Vec::new(),
            loads: None,
            tiles: Vec::new(),
            score: None,
            warnings: Vec::new(),
        }
    }

    /// Adds the counts of transactions to this report.
    pub fn with_transactions(mut self, count: u64, latency: LatencySummary) -> Self {
        self.transactions = Some(count);
        self.transactions_per_second = Some(per_second(count as f64, self.seconds));
        self.latency = Some(latency);
        self
    }
}

/// A rate; 0 if the duration is 0.
pub fn per_second(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// TCP connections to one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionCounts {
    /// The server's address and port.
    pub port: String,
    /// Connections that were attempted.
    pub attempted: u64,
    /// Connections that were established.
    pub made: u64,
    /// Attempts that were refused, timed out, or were impossible on this host.
    pub failed: u64,
}

impl ConnectionCounts {
    /// Adds these counts to the entry of the same port in `all`.
    pub(crate) fn add_to(self, all: &mut Vec<Self>) {
        match all.iter_mut().find(|other| other.port == self.port) {
            None => all.push(self),
            Some(same) => {
                same.attempted += self.attempted;
                same.made += self.made;
                same.failed += self.failed;
            }
        }
    }
}

/// Failures of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// The number of replies with a status other than 2xx, by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Transactions that got no complete reply in time.
    pub timeouts: u64,
    /// Replies that were cut short or malformed.
    pub broken: u64,
}

impl Errors {
    /// True if there are no failures.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// One endpoint pair of a bulk load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairReport {
    /// The receiver's address.
    pub to: String,
    /// Bytes that the receiver counted.
    pub bytes: u64,
    /// The time over which the receiver counted, in seconds.
    pub seconds: f64,
    /// The rate in bits a second.
    pub bits_per_second: f64,
    /// True if the server was the sender.
    pub back: bool,
    /// The pair's counts of datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramCounts>,
}

/// Datagrams as their receiver counted them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DatagramCounts {
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams that were sent and didn't arrive.
    pub lost: u64,
    /// Datagrams that arrived after a datagram that was sent later.
    pub reordered: u64,
    /// Datagrams that arrived, per second.
    pub per_second: f64,
    /// The jitter in microseconds (RFC 3550, 6.4.1); for several pairs, the largest jitter of any pair.
    pub jitter_us: f64,
}

impl DatagramCounts {
    /// These counts and the counts of `other` together.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            received: self.received + other.received,
            lost: self.lost + other.lost,
            reordered: self.reordered + other.reordered,
            per_second: self.per_second + other.per_second,
            jitter_us: self.jitter_us.max(other.jitter_us),
        }
    }
}

/// A step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SearchStep {
    /// The number of users or tiles.
    pub count: u32,
    /// The result of the step: payload bits a second, or the score.
    pub reached: f64,
}

/// A number for each load of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loads {
    /// HTTP requests a second.
    pub web: f64,
    /// Small transactions a second.
    pub rr: f64,
    /// Payload bits a second of the file transfer.
    pub bulk: f64,
    /// Heartbeats a second of the idle connection.
    pub idle: f64,
}

/// One tile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tile {
    /// The rates of the tile's loads.
    pub rates: Loads,
    /// The geometric mean of the ratios of the tile's rates to the reference rates.
    pub score: f64,
}
