//! Tiles, as in VMmark: units of mixed loads with target rates. A host's capacity is the number of tiles that
//! reach their targets.

mod full;
mod score;
mod server;

pub use full::fullest;
pub use score::{score, worst};
pub use server::TileService;

use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use crate::error::{LoadError, joined};
use crate::http::{self, Crowd, Url};
use crate::pace::interval;
use crate::pair::{Amount, Bulk, ConnectionStyle, Direction, Transactions, TransactionsResult};
use crate::report::{ConnectionCounts, LoadReport, Loads, Tile};
use crate::window::{Phases, StopFlag, Window};

/// The targets of one tile: 20 objects a second, 500 small transactions a second, a file transfer of 50 Mbit/s,
/// and ten heartbeats a second on an otherwise idle connection. With objects of 512 kB, the users receive 82
/// Mbit/s, so a link of 1 Gbit/s can carry 11 tiles, and a link of 10 Gbit/s 116 tiles.
pub const TARGETS: Loads = Loads { web: 20.0, rr: 500.0, bulk: 50e6, idle: 10.0 };
/// The number of users that share a tile's web requests.
const WEB_USERS: u32 = 5;
/// A tile has failed if a load reaches less than this share of its target.
pub const QUALITY: f64 = 0.9;
/// The size of a small request and of its response, in bytes.
const SMALL: u32 = 128;
/// The greatest number of tiles of one client. Each tile has four threads.
pub const MOST_TILES: u32 = 500;

/// A load of tiles.
#[derive(Clone, Debug)]
pub struct Tiles {
    /// The addresses of the servers of endpoint pairs; tiles are distributed over them.
    pub to: Vec<SocketAddr>,
    /// The URLs of the objects; tiles are distributed over them.
    pub urls: Vec<Url>,
    /// The target of each load.
    pub targets: Loads,
    /// The rates that count as 1 in the score.
    pub reference: Loads,
    /// The timing of the load.
    pub window: Window,
}

/// The result of running a number of tiles.
#[derive(Clone, Debug)]
pub struct TilesResult {
    tiles: Vec<Tile>,
    bytes: u64,
    phases: Option<Phases>,
    web: http::UserTally,
    small: TransactionsResult,
    connections: Vec<ConnectionCounts>,
}

struct One {
    rates: Loads,
    bytes: u64,
    web: http::UserTally,
    small: TransactionsResult,
    connections: Vec<ConnectionCounts>,
}

impl Tiles {
    /// Runs this number of tiles until the end of the window.
    ///
    /// # Errors
    /// If a load of a tile can't start, or completes nothing.
    pub fn run(&self, tiles: u32, stop: &StopFlag) -> Result<TilesResult, LoadError> {
        self.check(tiles)?;
        let phases = self.window.after(Instant::now());
        let ones: Vec<_> = thread::scope(|scope| {
            let start = |place| scope.spawn(move || self.tile(place as usize, stop));
            let threads: Vec<_> = (0..tiles).map(start).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        });
        let mut result = TilesResult {
            tiles: Vec::new(),
            bytes: 0,
            phases: Some(phases),
            web: http::UserTally::default(),
            small: TransactionsResult::default(),
            connections: Vec::new(),
        };
        for one in ones {
            result.add(one?, &self.reference);
        }
        Ok(result)
    }

    fn check(&self, tiles: u32) -> Result<(), LoadError> {
        let wrong = |text: String| Err(LoadError::Arguments(text));
        if self.to.is_empty() || self.urls.is_empty() {
            return wrong(
                "a tile needs a pair server (--connect ADDRESS:PORT) and an object (--url URL)".into(),
            );
        }
        if !(1..=MOST_TILES).contains(&tiles) {
            return wrong(format!("--tiles {tiles}: it must be 1 to {MOST_TILES}"));
        }
        match score::is_usable(&self.targets) && score::is_usable(&self.reference) {
            true => Ok(()),
            false => wrong("the rates of a tile's loads must be numbers above 0".into()),
        }
    }

    fn tile(&self, place: usize, stop: &StopFlag) -> Result<One, LoadError> {
        let (crowd, bulk) = (self.web(place), self.bulk(place));
        let (rr, idle) = (self.small(place, self.targets.rr), self.small(place, self.targets.idle));
        let (web, bulk, rr, idle) = thread::scope(|scope| {
            let web = scope.spawn(|| crowd.run(stop));
            let bulk = scope.spawn(|| bulk.run(stop));
            let rr = scope.spawn(|| rr.run(stop));
            let idle = idle.run(stop);
            (joined(web.join()), joined(bulk.join()), joined(rr.join()), idle)
        });
        let (web, bulk, mut rr, idle) = (web?, bulk?, rr?, idle?);
        let per_second = |count: u64| count as f64 / self.window.measured.as_secs_f64();
        let bulk_bytes: u64 = bulk.pairs.iter().map(|pair| pair.bytes).sum();
        let rates = Loads {
            web: per_second(web.latency.count()),
            rr: per_second(rr.latency.count()),
            bulk: per_second(bulk_bytes * 8),
            idle: per_second(idle.latency.count()),
        };
        rr.add(idle);
        let to = self.to[place % self.to.len()].to_string();
        let connections = vec![ConnectionCounts { port: to, attempted: 1, made: 1, failed: 0 }];
        Ok(One { rates, bytes: web.counts.payload + bulk_bytes, web, small: rr, connections })
    }

    fn web(&self, place: usize) -> Crowd {
        Crowd {
            urls: vec![self.urls[place % self.urls.len()].clone()],
            users: WEB_USERS,
            window: self.window,
            new_connections: false,
            threads: 1,
            timeout: std::time::Duration::from_secs(10),
            pace: Some(interval(self.targets.web / f64::from(WEB_USERS))),
            think: std::time::Duration::ZERO,
        }
    }

    fn small(&self, place: usize, pace: f64) -> Transactions {
        Transactions {
            to: vec![self.to[place % self.to.len()]],
            pairs: 1,
            request: SMALL,
            response: SMALL,
            style: ConnectionStyle::Kept,
            pace: Some(pace),
            window: self.window,
        }
    }

    fn bulk(&self, place: usize) -> Bulk {
        Bulk {
            to: vec![self.to[place % self.to.len()]],
            pairs: 1,
            direction: Direction::Out,
            amount: Amount::Time(self.window),
            window: None,
            no_delay: false,
            pace: Some(self.targets.bulk / 8.0),
        }
    }

    /// The report of a result. Its latency is that of the web requests.
    pub fn report(&self, result: &TilesResult) -> LoadReport {
        let count = result.web.latency.count() + result.small.latency.count();
        let mut report = LoadReport::new("tile", result.bytes, self.window.measured.as_secs_f64())
            .with_transactions(count, result.web.latency.summary());
        report.bytes_back = Some(result.web.counts.payload);
        report.window = result.phases.as_ref().map(Phases::counted);
        report.connections.clone_from(&result.connections);
        report.errors = Some(result.web.errors.clone());
        report
            .warnings
            .extend(result.web.reason.as_ref().map(|reason| format!("web requests failed: {reason}")));
        report.loads = score::mean(&result.tiles);
        report.score = Some(result.score());
        report.tiles.clone_from(&result.tiles);
        report
    }
}

impl TilesResult {
    /// The sum of the tiles' scores.
    pub fn score(&self) -> f64 {
        self.tiles.iter().map(|tile| tile.score).sum()
    }

    /// True if every load of every tile reached [`QUALITY`] of its target.
    pub fn is_good(&self, targets: &Loads) -> bool {
        self.tiles.iter().all(|tile| worst(&tile.rates, targets) >= QUALITY)
    }

    fn add(&mut self, one: One, reference: &Loads) {
        self.tiles.push(Tile { rates: one.rates, score: score(&one.rates, reference) });
        self.bytes += one.bytes;
        for connections in [&one.web.connections, &one.small.connections, &one.connections] {
            connections.iter().cloned().for_each(|one| one.add_to(&mut self.connections));
        }
        self.web.add(one.web);
        self.small.add(one.small);
    }
}
