//! `linerate sync`: makes a tree equal to another one, and sends only differences.

mod backups;
pub mod selecting;

use clap::Args;
use linerate_transfer::pattern::name_of;
use linerate_transfer::sender::Selection;
use linerate_wire::control::{BlockSearch, Keep, Options, Sync};
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::slice;

use crate::common::failure::Failure;
use crate::common::output::{Output, Style};
use crate::common::recording::logging;
use crate::common::spec::{Spec, check_paths};
use crate::copying::args::{CopyingArgs, LeaveArgs, Prove};
use crate::copying::fan::args::{FanArgs, FanPlaces};
use crate::copying::task::Task;
use crate::copying::{SOME_CHANGED, SOME_FAILED, WHOLE, perform_all};
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::keep::{ARCHIVE, KeepArgs};
use crate::units::parse_size;
use backups::Keeping;
use selecting::Selecting;

// Lines have at most 79 characters, so that a terminal of 80 columns doesn't wrap them.
const EXAMPLES: &str = "\
Examples:
  linerate sync tree host:/data/copy
      makes /data/copy like tree: /data/copy gets the contents of tree, and is
      created if it is missing. Slashes at the ends of SRC and DST change
      nothing. The command does the same as
      'rsync -a tree/ host:/data/copy/'
  linerate sync --delete --dry-run tree host:/data/copy
      prints the changes and deletions; without --dry-run, makes them
  linerate sync --exclude '*.o' --exclude /build/ host:/src .
      copies from the far host, without the entries that match these patterns
      (rsync's)
  linerate sync --delete tree /mnt/copy
      syncs within this host, without a login
  linerate sync mail photos host:/backup
      syncs several trees, each under its own name: makes /backup/mail like
      mail, and /backup/photos like photos. --delete would delete only inside
      these two directories
";

/// The synopsis, for the two ways to name the destination. It is written by hand, because clap has only one list of
/// arguments for all paths.
const LINES: &str =
    "linerate sync [OPTIONS] SRC... DST\n       linerate sync [OPTIONS] SRC... --to HOST:PATH...";

const MEANINGS: [Meaning; 9] = [
    WHOLE,
    FAILED,
    USAGE,
    SOME_FAILED,
    SOME_CHANGED,
    FAR_END,
    VERSION,
    (Code::NotDeleted, "--delete: some entries that SRC lacks were not deleted"),
    INTERRUPTED,
];

/// Arguments of `linerate sync`.
#[derive(Debug, Args)]
#[command(override_usage = LINES, before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct SyncArgs {
    /// Compare contents by BLAKE3 instead of size and time
    #[arg(short = 'c', long)]
    checksum: bool,
    /// Compare only sizes
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,
    /// Send every file, even if its size and time are equal at DST
    #[arg(short = 'I', long, conflicts_with_all = ["checksum", "size_only"])]
    ignore_times: bool,
    /// Skip files that are newer at DST
    #[arg(short = 'u', long)]
    update: bool,
    /// Skip entries that exist at DST
    #[arg(long)]
    ignore_existing: bool,
    /// Create no new entries at DST
    #[arg(long)]
    existing: bool,
    /// Skip files larger than SIZE
    ///
    /// --delete doesn't delete skipped files.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Skip files smaller than SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    min_size: Option<u64>,
    /// Write into the existing files instead of into copies
    ///
    /// Until a file is complete, its readers see a mixture of old and new data. An interrupted run leaves such a
    /// mixture, with a later modification time than the source's.
    #[arg(long, conflicts_with = "update")]
    inplace: bool,
    /// Send changed files whole, without comparing their chunks
    ///
    /// In a copy within one host, this is the default.
    #[arg(short = 'W', long)]
    whole_file: bool,
    /// Look for moved data in changed files, however fast the path is
    ///
    /// With this option, linerate searches files of 32 KiB or more. Without it, linerate searches files of 4 MiB or
    /// more, and only as long as the path isn't much faster than the search. It doesn't search then in a copy within
    /// one host, or with --inplace.
    #[arg(long, conflicts_with_all = ["whole_file", "inplace"])]
    no_whole_file: bool,
    /// Compare changed files only at the same offsets
    ///
    /// If this host receives, this option reveals less about its files to the far end.
    #[arg(long, conflicts_with_all = ["whole_file", "no_whole_file"])]
    same_places: bool,
    /// Delete entries at DST that aren't in SRC
    ///
    /// Entries are deleted after everything else is in place. If SRC could not be read completely, nothing is deleted.
    /// The files of this command's options --log-file, --metrics and --manifest are never deleted.
    #[arg(long)]
    delete: bool,
    /// Delete at most N entries
    #[arg(long, value_name = "N", requires = "delete", conflicts_with = "files_from")]
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
    keeping: Keeping,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    prove: Prove,
    #[command(flatten)]
    leave: LeaveArgs,
    #[command(flatten)]
    fan: FanArgs,
    #[command(flatten)]
    common: CopyingArgs,
    /// The originals, and the copy to update
    #[arg(
        help = "The originals, and last the copy to update: PATH or [USER@]HOST:PATH",
        required = true,
        value_name = "PATH"
    )]
    places: Vec<OsString>,
}

/// Makes DST like SRC.
///
/// # Errors
/// If the command failed as a whole.
pub fn run(args: SyncArgs) -> Result<Code, Failure> {
    let (log, figures) = args.common.written();
    let names = args.common.names("sync", args.fan.named(&args.places)).dry(args.dry_run);
    logging(log.as_deref(), names, figures.as_deref(), |metrics| {
        let output = Output::new(args.common.style()).itemizing(args.is_itemized()).measured(metrics);
        perform_all(output, args.into_task())
    })
}

/// Refuses several sources of the same name, which would be mixed at the destination.
fn check_names(sources: &[OsString]) -> Result<(), String> {
    let named = |source: &OsString| match Spec::parse(source) {
        Spec::Local(path) => name_of(path.as_bytes(), false),
        Spec::Remote(_, path) => name_of(&path, true),
    };
    let mut names: Vec<_> = sources.iter().map(named).filter(|name| !name.is_empty()).collect();
    names.sort();
    let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) else { return Ok(()) };
    let name = printable(&twice[0]);
    Err(format!(
        "two sources are both named '{name}' and would be mixed at the destination: sync them one by one"
    ))
}

impl SyncArgs {
    fn is_itemized(&self) -> bool {
        (self.itemize_changes || self.dry_run) && self.common.style() != Style::Quiet
    }

    fn into_task(mut self) -> Result<(Task, Option<FanPlaces>), Failure> {
        let (sources, destinations) = self.fan.divide(std::mem::take(&mut self.places))?;
        let (destination, several) = destinations.split();
        self.check_paths(&sources, &destination, several.as_ref()).map_err(Failure::usage)?;
        check_names(&sources).map_err(Failure::usage)?;
        let spares = self.keeping.spares();
        let filter = self.selecting.rules(spares).map_err(|error| Failure::usage(error.to_string()))?;
        let others = self.keeping.others().map_err(Failure::usage)?;
        let keep = self.common.details.keeping(self.keep.keep(ARCHIVE));
        // Creating a backup in a directory changes the directory's times.
        let omit_dir_times = keep.omit_dir_times || self.keeping.spares().is_some();
        let listed = self.selecting.listed(&sources).map_err(Failure::usage)?;
        let options = Options {
            recursive: true,
            keep: Keep { omit_dir_times, ..keep },
            sync: Some(Sync { others, backup: self.keeping.backup(), ..self.sync(sources.len() > 1) }),
            modes: self.keeping.modes().map_err(Failure::usage)?,
            remove_sources: self.keeping.remove_source_files,
            filter,
            listed: listed.is_some(),
            ..self.common.options()
        };
        let named = if sources.len() == 1 { |source| source } else { without_slash };
        let task = Task {
            selection: Selection::new(&options, listed),
            options: self.prove.options(options),
            manifest: self.prove.manifest,
            sources: sources.into_iter().map(named).collect(),
            destination,
            list: false,
            patience: self.common.patience(),
            quiet: self.common.quiet,
            retries: self.common.retry,
            stop: None,
            detach: self.leave.detach,
            interfaces: self.common.interfaces.unwrap_or_default(),
            login: self.common.login,
            destination_login: None,
        };
        Ok((task, several))
    }

    /// Refuses far places without a path, if the command would delete entries there.
    fn check_paths(
        &self,
        sources: &[OsString],
        destination: &OsString,
        several: Option<&FanPlaces>,
    ) -> Result<(), String> {
        if self.delete {
            let destinations = several.map_or(slice::from_ref(destination), |to| &to.places);
            check_paths("--delete", sources.iter().chain(destinations))?;
        }
        match self.keeping.remove_source_files {
            true => check_paths("--remove-source-files", sources),
            false => Ok(()),
        }
    }

    fn sync(&self, into: bool) -> Sync {
        Sync {
            into,
            checksum: self.checksum,
            size_only: self.size_only,
            ignore_times: self.ignore_times,
            update: self.update,
            ignore_existing: self.ignore_existing,
            existing: self.existing,
            least: self.min_size,
            most: self.max_size,
            whole: self.whole_file,
            search: match (self.whole_file || self.same_places, self.no_whole_file) {
                (false, false) => BlockSearch::Measured,
                (false, true) => BlockSearch::Everywhere,
                (true, _) => BlockSearch::SamePlaces,
            },
            inplace: self.inplace,
            delete: self.delete,
            max_delete: self.max_delete,
            dry_run: self.dry_run,
            itemize: self.is_itemized(),
            ..Sync::default()
        }
    }
}

/// Removes slashes at the end of a source, so that the source is copied under its own name. The root directory
/// stays as it is, because it has no name.
fn without_slash(source: OsString) -> OsString {
    let bytes = source.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let is_root = end == 0 || bytes[end - 1] == b':';
    if is_root { source } else { OsStr::from_bytes(&bytes[..end]).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_of_one_of_several_sources_change_nothing() {
        let cases = [
            ("a/", "a"),
            ("b:c//", "b:c"),
            ("/", "/"),
            ("b:/", "b:/"),
            ("a/.", "a/."),
            ("", ""),
            ("b:", "b:"),
        ];
        for (given, named) in cases {
            assert_eq!(without_slash(given.into()), OsString::from(named));
        }
    }

    #[test]
    fn the_first_example_says_what_becomes_what_and_no_line_is_wrapped() {
        let first = EXAMPLES.split("\n  linerate").nth(1).unwrap();
        assert!(first.contains("rsync -a tree/ host:/data/copy/"));
        assert!(EXAMPLES.lines().all(|line| line.chars().count() <= 79), "{EXAMPLES}");
    }
}
