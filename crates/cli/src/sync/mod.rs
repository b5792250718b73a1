//! `linerate sync`: a tree becomes like another, and only what differs travels.

use clap::Args;
use linerate_wire::control::{Keep, Options, Sync};
use std::ffi::OsString;
use std::process::ExitCode;

use crate::cp::{Common, Task, perform};
use crate::exit::CODES;

// No line has more than 79 characters, so that it stays as it is on a terminal of 80 columns.
const EXAMPLES: &str = "\
Examples:
  linerate sync tree host:/data/copy
      makes /data/copy like tree: what is in tree is then in /data/copy, which
      is made if it isn't there. Slashes at the ends change nothing (rsync's
      users: that is 'rsync -a tree/ host:/data/copy/')
  linerate sync host:/data/copy tree
      and back
";

/// What `linerate sync` takes.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = CODES)]
pub struct SyncArgs {
    /// Compare contents by BLAKE3, not size and modification time
    #[arg(short = 'c', long)]
    checksum: bool,
    /// Leave files alone that are newer at DST
    #[arg(short = 'u', long)]
    update: bool,
    /// Leave alone what exists at DST
    #[arg(long)]
    ignore_existing: bool,
    #[command(flatten)]
    common: Common,
    /// What is made like
    #[arg(help = "The original: PATH or [USER@]HOST:PATH", value_name = "SRC")]
    source: OsString,
    /// What becomes like it
    #[arg(help = "What becomes like it: [USER@]HOST:PATH or PATH", value_name = "DST")]
    destination: OsString,
}

/// Makes DST like SRC.
pub fn run(args: SyncArgs) -> ExitCode {
    perform(args.common.style(), args.into_task())
}

impl SyncArgs {
    fn into_task(self) -> Task {
        let sync = self.sync();
        Task {
            options: Options { recursive: true, keep: Keep::SCP, sync: Some(sync), ..self.common.options() },
            sources: vec![self.source],
            destination: self.destination,
            list: false,
            quiet: self.common.quiet,
            retries: self.common.retry,
            reach: self.common.reach,
        }
    }

    fn sync(&self) -> Sync {
        Sync {
            checksum: self.checksum,
            update: self.update,
            ignore_existing: self.ignore_existing,
            ..Sync::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EXAMPLES;

    #[test]
    fn the_first_example_tells_what_becomes_what_and_no_line_is_wrapped() {
        let first = EXAMPLES.split("\n  linerate").nth(1).unwrap();
        assert!(first.contains("rsync -a tree/ host:/data/copy/"));
        assert!(EXAMPLES.lines().all(|line| line.chars().count() <= 79), "{EXAMPLES}");
    }
}
