//! `linerate sync`: a tree becomes like another, and only what differs travels.

pub mod selecting;

use clap::Args;
use linerate_transfer::sender::Selection;
use linerate_wire::control::{Options, Sync};
use std::ffi::OsString;

use crate::common::failure::Failure;
use crate::common::output::Output;
use crate::copying::args::{CopyingArgs, Prove};
use crate::copying::task::Task;
use crate::copying::{SOME_CHANGED, SOME_FAILED, WHOLE, perform};
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::keep::{ARCHIVE, KeepArgs};
use crate::units::parse_size;
use selecting::Selecting;

// No line has more than 79 characters, so that it stays as it is on a terminal of 80 columns.
const EXAMPLES: &str = "\
Examples:
  linerate sync tree host:/data/copy
      makes /data/copy like tree: what is in tree is then in /data/copy, which
      is made if it isn't there. Slashes at the ends change nothing (rsync's
      users: that is 'rsync -a tree/ host:/data/copy/')
  linerate sync --delete --dry-run tree host:/data/copy
      what would change and what would be deleted; without --dry-run it is
  linerate sync --exclude '*.o' --exclude /build/ host:/src .
      pull, but for what matches rsync's patterns
  linerate sync --delete tree /mnt/copy
      within this host, without any login
";

const MEANINGS: [Meaning; 9] = [
    WHOLE,
    FAILED,
    USAGE,
    SOME_FAILED,
    SOME_CHANGED,
    FAR_END,
    VERSION,
    (Code::NotDeleted, "--delete: not everything was deleted that SRC doesn't have"),
    INTERRUPTED,
];

/// Arguments of `linerate sync`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct SyncArgs {
    /// Compare contents by BLAKE3 instead of size and time
    #[arg(short = 'c', long)]
    checksum: bool,
    /// Compare sizes alone
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,
    /// Send every file, even with an equal size and time
    #[arg(short = 'I', long, conflicts_with_all = ["checksum", "size_only"])]
    ignore_times: bool,
    /// Skip files that are newer at DST
    #[arg(short = 'u', long)]
    update: bool,
    /// Skip entries that exist at DST
    #[arg(long)]
    ignore_existing: bool,
    /// Make nothing new at DST
    #[arg(long)]
    existing: bool,
    /// Skip files larger than SIZE
    ///
    /// --delete spares what is skipped.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Skip files smaller than SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    min_size: Option<u64>,
    /// Write into the existing files instead of into copies
    ///
    /// Readers see mixtures of old and new, and an interruption leaves them, newer than their originals.
    #[arg(long, conflicts_with = "update")]
    inplace: bool,
    /// Send changed files whole, without comparing their chunks
    ///
    /// Within one host they always are.
    #[arg(short = 'W', long)]
    whole_file: bool,
    /// Delete entries at DST that aren't in SRC
    ///
    /// After everything else is there; nothing is deleted where SRC could not be read whole.
    #[arg(long)]
    delete: bool,
    /// Delete at most N entries
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
    /// Print the changes; change nothing
    ///
    /// The format is that of --itemize-changes.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print each change in rsync's format: YXcstpoguax
    #[arg(long)]
    itemize_changes: bool,
    #[command(flatten)]
    selecting: Selecting,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    prove: Prove,
    #[command(flatten)]
    common: CopyingArgs,
    /// The original
    #[arg(help = "The original: PATH or [USER@]HOST:PATH", value_name = "SRC")]
    source: OsString,
    /// The copy to update
    #[arg(help = "The copy to update: [USER@]HOST:PATH or PATH", value_name = "DST")]
    destination: OsString,
}

/// Makes DST like SRC.
///
/// # Errors
/// If the command failed as a whole.
pub fn run(args: SyncArgs) -> Result<Code, Failure> {
    let output = Output::new(args.common.style()).itemizing(args.is_itemized());
    perform(output, args.into_task())
}

impl SyncArgs {
    fn is_itemized(&self) -> bool {
        self.itemize_changes || self.dry_run
    }

    fn into_task(self) -> Result<Task, Failure> {
        let filter = self.selecting.rules().map_err(|error| Failure::usage(error.to_string()))?;
        let listed = self.selecting.listed().map_err(Failure::usage)?;
        let options = Options {
            recursive: true,
            keep: self.keep.keep(ARCHIVE),
            sync: Some(self.sync()),
            filter,
            listed: listed.is_some(),
            ..self.common.options()
        };
        Ok(Task {
            selection: Selection::new(&options, listed),
            options: self.prove.options(options),
            manifest: self.prove.manifest,
            sources: vec![self.source],
            destination: self.destination,
            list: false,
            login: self.common.login(),
            quiet: self.common.quiet,
            retries: self.common.retry,
            reach: self.common.reach,
        })
    }

    fn sync(&self) -> Sync {
        Sync {
            into: false,
            checksum: self.checksum,
            size_only: self.size_only,
            ignore_times: self.ignore_times,
            update: self.update,
            ignore_existing: self.ignore_existing,
            existing: self.existing,
            least: self.min_size,
            most: self.max_size,
            whole: self.whole_file,
            inplace: self.inplace,
            delete: self.delete,
            max_delete: self.max_delete,
            dry_run: self.dry_run,
            itemize: self.is_itemized(),
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
