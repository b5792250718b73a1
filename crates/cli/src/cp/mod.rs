//! `linerate cp`: scp's rules, at the line rate.

mod copy;
mod far;
mod manifest;
mod output;
mod pull;
mod push;
mod showing;
mod spec;
mod summary;

use clap::Args;
use linerate_transfer::problem::TransferError;
use linerate_wire::control::{Keep, Options};
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

pub use far::{end, start};
pub use output::{Output, SCHEMA, Style};
pub use spec::Spec;
pub use summary::{Kind, Summary};

use crate::exit::{CODES, Code};
use crate::reach::Reach;
use crate::say::is_lost;
use crate::units::{parse_ports, parse_rate, parse_streams};
use copy::Copy;

// No line has more than 79 characters, so that it stays as it is on a terminal of 80 columns.
const EXAMPLES: &str = "\
Examples:
  linerate cp -r tree host:/data/
      makes /data/tree. A slash at the end of DST says: into this directory,
      and make it if it isn't there. Without it, as with scp: into /data where
      that is a directory, else the tree itself becomes /data. A slash at the
      end of SRC changes nothing (rsync's users: that is 'tree/.' here)
  linerate cp a b user@host:
      two files into the login directory
  linerate cp -rp host:/data/tree .
      pull, with modes and times kept
  linerate cp 'host:logs/*.gz' .
      patterns are expanded at the far end
  linerate cp -e 'ssh -p 2222' x host:/tmp/
      any remote shell that is called as CMD HOST COMMAND and hands COMMAND,
      one argument, to a shell there
";

/// What `linerate cp` takes.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = CODES)]
pub struct CpArgs {
    /// Copy directories and everything in them; symbolic links as links
    #[arg(short = 'r', long)]
    recursive: bool,
    /// Keep modes, and times to the nanosecond; else files are new, with modes as the umask leaves them
    #[arg(short = 'p', long)]
    preserve: bool,
    /// Say nothing but what went wrong
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    quiet: bool,
    /// Say each step
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Data streams: 1 to 64, or auto, which adds streams while they help
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_streams)]
    streams: Streams,
    /// TCP ports for the data, at whichever end listens
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    port_range: Option<(u16, u16)>,
    /// Send the data in clear, with a checksum on each frame: for a network that you trust
    #[arg(long)]
    no_encrypt: bool,
    /// Limit of the payload rate: KiB a second, or 20m (MiB a second), or 500mbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bwlimit: Option<Limit>,
    /// Read each file back from the destination's storage before it gets its name, and compare BLAKE3 hashes
    #[arg(long)]
    verify: bool,
    /// Write the BLAKE3 hashes of what was copied to FILE, for `b3sum --check FILE` in DST
    #[arg(long, value_name = "FILE")]
    manifest: Option<OsString>,
    /// List what would be copied, copy nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print events as JSON lines on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
    /// What is copied
    #[arg(help = "Sources: PATH or [USER@]HOST:PATH", required = true, value_name = "SRC")]
    sources: Vec<OsString>,
    /// Where to
    #[arg(help = "Destination: [USER@]HOST:PATH or PATH", required = true, value_name = "DST")]
    destination: OsString,
}

/// `None` is auto. A type of its own, since clap would take an `Option` for an argument that may be missing.
type Streams = std::option::Option<u32>;
/// `None` is no limit.
type Limit = std::option::Option<u64>;

/// A failure with the exit code that tells it.
pub struct Failure(pub String, pub Code);

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let code = Code::from(&error);
        Self(error.to_string(), code)
    }
}

/// Copies.
pub fn run(args: CpArgs) -> ExitCode {
    linerate_sys::limits::raise_open_files();
    let output = Arc::new(Output::new(args.style()));
    match Copy::new(args, output.clone()).and_then(|copy| copy.run()) {
        Ok(Code::Done) if is_lost() => Code::Failed.into(),
        Ok(code) => code.into(),
        Err(Failure(message, code)) => {
            output.failure(&message, code);
            code.into()
        }
    }
}

impl CpArgs {
    fn style(&self) -> Style {
        match (self.json, self.quiet, self.verbose) {
            (true, ..) => Style::Json,
            (_, true, _) => Style::Quiet,
            (_, _, true) => Style::Verbose,
            _ => Style::Plain,
        }
    }

    fn options(&self) -> Options {
        Options {
            recursive: self.recursive,
            keep: if self.preserve { Keep::SCP } else { Keep::NOTHING },
            digests: self.verify || self.manifest.is_some(),
            verify: self.verify,
            clear: self.no_encrypt,
            streams: self.streams,
            rate_limit: self.bwlimit.flatten(),
            ports: self.port_range,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EXAMPLES;

    #[test]
    fn the_first_example_tells_the_rule_of_the_slash_and_no_line_is_wrapped() {
        let first = EXAMPLES.split("\n  linerate").nth(1).unwrap();
        let told = first.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("A slash at the end of DST") && told.contains("A slash at the end of SRC"));
        assert!(EXAMPLES.lines().all(|line| line.chars().count() <= 79), "{EXAMPLES}");
    }
}
