//! `linerate cp`: copies by scp's rules.

use clap::Args;
use linerate_transfer::sender::Selection;
use linerate_wire::control::{Keep, Options};
use std::ffi::OsString;

use crate::common::failure::Failure;
use crate::common::output::Output;
use crate::common::recording::logging;
use crate::copying::args::{CopyingArgs, LeaveArgs, Prove};
use crate::copying::fan::args::{FanArgs, FanPlaces};
use crate::copying::task::Task;
use crate::copying::{SOME_CHANGED, SOME_FAILED, WHOLE, perform_all};
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::keep::KeepArgs;
use crate::sync::selecting::Filtering;

// No line is longer than 79 characters, so that the text isn't wrapped on a terminal with 80 columns.
const EXAMPLES: &str = "\
Examples:
  linerate cp -r tree host:/data/
      makes /data/tree. A slash at the end of DST means 'into this directory',
      which is created if it is missing. Without the slash, cp does as scp
      does: if /data is a directory, it makes /data/tree; otherwise it copies
      the tree as /data. A slash at the end of SRC changes nothing (write
      'tree/.' for rsync's 'tree/')
  linerate cp a b user@host:
      copies two files into the login directory
  linerate cp -rp host:/data/tree .
      copies from the far host, and keeps modes and times
  linerate cp -a tree host:/data/
      keeps all metadata of each entry, as rsync -aHAXS does
  linerate cp -a tree /mnt/copy/
      copies within this host, without a login
  linerate cp -a tree --to h1:/data/ --to h2:/data/
      copies to several hosts at once, and reads the tree once
  linerate cp 'host:logs/*.gz' .
      copies the files that match the pattern, which the far end expands
  linerate cp -e 'ssh -p 2222' x host:/tmp/
      logs in by this command. It can be any remote shell that linerate can
      call as CMD HOST COMMAND and that passes COMMAND, one argument, to a
      shell on HOST
";

/// The synopsis. It is written by hand, because clap has only one list of arguments for the sources and the
/// destination.
const LINES: &str = "linerate cp [OPTIONS] SRC... DST\n       linerate cp [OPTIONS] SRC... --to HOST:PATH...";

const MEANINGS: [Meaning; 8] =
    [WHOLE, FAILED, USAGE, SOME_FAILED, SOME_CHANGED, FAR_END, VERSION, INTERRUPTED];

/// Arguments of `linerate cp`.
#[derive(Debug, Args)]
#[command(override_usage = LINES, before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct CpArgs {
    /// Copy directories with their contents; symbolic links stay links
    #[arg(short = 'r', long)]
    recursive: bool,
    /// Keep modes, and times to the nanosecond
    ///
    /// Without this option, files get the time of the copy, and lose the permission bits that the receiver's umask
    /// removes.
    #[arg(short = 'p', long)]
    preserve: bool,
    #[command(flatten)]
    filtering: Filtering,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    prove: Prove,
    #[command(flatten)]
    leave: LeaveArgs,
    #[command(flatten)]
    fan: FanArgs,
    /// List the entries that would be copied; copy nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    common: CopyingArgs,
    /// The sources, and the destination
    #[arg(
        help = "Sources, and the destination as the last one: PATH or [USER@]HOST:PATH",
        required = true,
        value_name = "PATH"
    )]
    places: Vec<OsString>,
}

/// Carries out `linerate cp`.
///
/// # Errors
/// If the command failed as a whole.
pub fn run(args: CpArgs) -> Result<Code, Failure> {
    let (log, figures) = args.common.written();
    let names = args.common.names("cp", args.fan.named(&args.places)).dry(args.dry_run);
    logging(log.as_deref(), names, figures.as_deref(), |metrics| {
        let output = Output::new(args.common.style()).measured(metrics);
        perform_all(output, args.into_task())
    })
}

impl CpArgs {
    fn into_task(mut self) -> Result<(Task, Option<FanPlaces>), Failure> {
        let (sources, destinations) = self.fan.divide(std::mem::take(&mut self.places))?;
        let (destination, several) = destinations.split();
        let keep = self.keep.keep(if self.preserve { Keep::SCP } else { Keep::NOTHING });
        let keep = self.common.details.keeping(keep);
        let recursive = self.recursive || self.keep.archive;
        let filter = self.filtering.rules(None, false);
        let filter = filter.map_err(|error| Failure::usage(error.to_string()))?;
        let options = Options { recursive, keep, filter, ..self.common.options() };
        let task = Task {
            selection: Selection::new(&options, None),
            options: self.prove.options(options),
            sources,
            destination,
            list: self.dry_run,
            manifest: self.prove.manifest,
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
}

#[cfg(test)]
mod tests {
    use super::EXAMPLES;

    #[test]
    fn the_first_example_says_the_rule_of_the_slash_and_no_line_is_wrapped() {
        let first = EXAMPLES.split("\n  linerate").nth(1).unwrap();
        let reported = first.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            reported.contains("A slash at the end of DST") && reported.contains("A slash at the end of SRC")
        );
        assert!(EXAMPLES.lines().all(|line| line.chars().count() <= 79), "{EXAMPLES}");
    }
}
