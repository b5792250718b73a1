//! `linerate serve`: runs the servers that answer loads.

use clap::{Args, Subcommand};
use linerate_load::error::LoadError;
use linerate_load::http::{HttpService, LARGEST_OBJECT};
use linerate_load::pair::{PairService, WORKERS};
use linerate_load::serve::{LoadServer, Service};
use linerate_load::tile::TileService;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::common::failure::Failure;
use crate::common::signals::set_by;
use crate::exit::{Code, FAILED, Meaning, USAGE, table};
use crate::units::{parse_size, show_bytes, show_count};

use super::{parse_address, parse_seconds};

const EXAMPLES: &str = "\
Examples:
  linerate serve rr --listen 0.0.0.0:5300           answers load rr, crr and pairs
  linerate serve http --listen 0.0.0.0:8080 --object 512kB
";

/// With `--once`, the server ends after this time without a connection.
const ONCE: Duration = Duration::from_millis(500);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

const MEANINGS: [Meaning; 3] =
    [(Code::Done, "served until it was stopped, or until --once or --idle-timeout ended it"), FAILED, USAGE];

/// Arguments of `linerate serve`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct ServeArgs {
    #[command(subcommand)]
    kind: ServeCommand,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// Answer load rr, crr and pairs
    Rr(RrArgs),
    /// Serve one object from memory, by HTTP/1.1
    Http(ObjectArgs),
    /// Do the same as serve rr and serve http at one port, for load tile
    Tile(ObjectArgs),
}

#[derive(Debug, Args)]
struct RrArgs {
    #[command(flatten)]
    common: ListenArgs,
}

#[derive(Debug, Args)]
struct ObjectArgs {
    #[command(flatten)]
    common: ListenArgs,
    /// Size of the object, which is at / and /object
    #[arg(long, value_name = "SIZE", default_value = "512kB", value_parser = parse_size)]
    object: u64,
}

#[derive(Clone, Copy, Debug, Args)]
struct ListenArgs {
    /// Address to listen on; port 0: any free port
    ///
    /// The server answers everybody who can reach this address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", value_parser = parse_address)]
    listen: SocketAddr,
    /// Largest number of connections at once
    ///
    /// Further connections wait. One thread serves each connection.
    #[arg(long, value_name = "N", default_value_t = WORKERS)]
    workers: usize,
    /// Exit when all connections have closed
    ///
    /// The server exits as soon as it has had a connection and then none for 0.5 s.
    #[arg(long)]
    once: bool,
    /// Exit after SECONDS without a connection
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    idle_timeout: Option<Duration>,
}

/// Runs a server until it is stopped.
///
/// # Errors
/// If the server can't listen, or the arguments are invalid.
pub fn run(args: ServeArgs) -> Result<Code, Failure> {
    match args.kind {
        ServeCommand::Rr(args) => args.common.serve(PairService, ""),
        ServeCommand::Http(args) => args.run(HttpService::new),
        ServeCommand::Tile(args) => args.run(TileService::new),
    }?;
    Ok(Code::Done)
}

impl ObjectArgs {
    fn run<S: Service>(&self, service: impl FnOnce(usize) -> S) -> Result<(), LoadError> {
        let size = usize::try_from(self.object).ok().filter(|_| (1..=LARGEST_OBJECT).contains(&self.object));
        let size =
            size.ok_or_else(|| LoadError::Arguments("--object: the size must be 1 B to 1 GiB".to_owned()))?;
        self.common.serve(service(size), &format!(", an object of {}", show_bytes(self.object)))
    }
}

impl ListenArgs {
    fn serve(&self, service: impl Service, what: &str) -> Result<(), LoadError> {
        if !(1..=16_384).contains(&self.workers) {
            return Err(LoadError::Arguments(format!("--workers {}: it must be 1 to 16384", self.workers)));
        }
        linerate_sys::limits::raise_open_files();
        let stopped = set_by(vec![SIGINT, SIGTERM], 0)
            .map_err(|error| LoadError::System("watching for signals", error))?;
        let server = LoadServer::start(self.listen, self.workers, service)?;
        output!("listening on {}{what}", server.address());
        while !stopped.load(Ordering::Relaxed) && !self.is_done(&server) {
            thread::sleep(CHECK_INTERVAL);
        }
        output!("served {} connections", show_count(server.accepted()));
        Ok(())
    }

    fn is_done(&self, server: &LoadServer) -> bool {
        let quiet = server.quiet();
        (self.once && server.accepted() > 0 && quiet >= ONCE)
            || self.idle_timeout.is_some_and(|most| quiet >= most)
    }
}
