//! `linerate fleet`: many hosts make one copy together. The tree is divided into shards.

mod export;
mod figures;
mod manifest;
#[cfg(test)]
mod options_test;
mod page;
mod part;
mod plan;
mod report;
mod run;
mod scheduler;
mod show;
mod simulate;
mod status;
mod submit;
mod verify;

use clap::{Args, Subcommand};

use crate::common::failure::Failure;
use crate::copying::{SOME_CHANGED, SOME_FAILED, WHOLE};
use crate::exit::{Code, FAILED, FAR_END, INTERRUPTED, Meaning, USAGE, VERSION, table};
use crate::verify::meanings;

const EXAMPLES: &str = "\
Examples:
  linerate fleet plan /data dtn1:/data --hosts dtn2,dtn3 --shards 64 --into PLAN
  linerate fleet run PLAN --shard 3           one task, as a scheduler starts it
  linerate fleet run PLAN                     on any number of hosts: all unfinished shards
  linerate fleet export PLAN --for gnu-parallel | sh
  linerate fleet submit PLAN --partition dtn
  linerate fleet status PLAN
";

const MEANINGS: [Meaning; 8] =
    [WHOLE, FAILED, USAGE, SOME_FAILED, SOME_CHANGED, FAR_END, VERSION, INTERRUPTED];

const DONE: [Meaning; 3] = [(Code::Done, "the result was printed"), FAILED, USAGE];

const MANIFEST_MEANINGS: [Meaning; 4] = [
    (Code::Done, "all hashes were printed"),
    FAILED,
    USAGE,
    (Code::Partial, "hashes were printed, but some files have none"),
];

const SUBMIT_MEANINGS: [Meaning; 4] = [
    (Code::Done, "the job is submitted, or there is nothing to do"),
    FAILED,
    USAGE,
    (Code::Partial, "the job is submitted, but sbatch failed: with --sbatch=--wait, tasks failed"),
];

const STATUS_MEANINGS: [Meaning; 4] = [
    (Code::Done, "everything is done, is running, or hasn't been started"),
    FAILED,
    USAGE,
    (
        Code::Partial,
        "a part failed, was interrupted or is silent, or a job ended before its shards were done",
    ),
];

const PLAN_MEANINGS: [Meaning; 6] = [
    (Code::Done, "the plan is made, with everything in SRC"),
    FAILED,
    USAGE,
    (Code::Partial, "the plan is made, without entries that could not be read or aren't copied"),
    (Code::Changed, "the plan is made, without entries that vanished during the scan"),
    INTERRUPTED,
];

const PLAN_EXAMPLES: &str = "\
Examples:
  linerate fleet plan /lustre/data dtn1:/scratch/data --shards 64 --into PLAN
      plans 64 shards with about the same number of bytes and of files. When
      all shards are done, /scratch/data is like /lustre/data. PLAN is a new
      directory. All hosts must share PLAN and SRC
  linerate fleet plan /data d1:/data --hosts d2,d3 --shard-size 500GB --into PLAN
      plans shards of about 500 GB. d1, d2 and d3 all have the destination
      /data, and receive the shards in turn
  linerate fleet plan /data d1:/data --shards 16 --into PLAN
      after an earlier plan in PLAN: plans the changes since that plan
";

const RUN_EXAMPLES: &str = "\
Examples:
  linerate fleet run PLAN --shard 3
      moves the files of shard 3. The task that ends last also sets the modes
      and times of directories. If shard 3 is done, the command does nothing;
      if another task is moving shard 3, the command waits
  linerate fleet run PLAN
      moves unclaimed shards, one after the other, until none is left:
      start this command on every host
  linerate fleet run PLAN --shard 3 --bwlimit 1gbit -P 2222
      does the same with options of sync and of ssh
";

const SUBMIT_EXAMPLES: &str = "\
Examples:
  linerate fleet submit PLAN --partition dtn --tasks 8 --time 4:00:00
      submits an array job with a task for each shard that isn't done; at most
      8 tasks run at a time
  linerate fleet submit PLAN --sbatch=--exclusive --sbatch=--account=project
  linerate fleet submit PLAN --constraint fast -- --bwlimit 1gbit -i KEY
      words after -- are options of each 'linerate fleet run'
";

const STATUS_EXAMPLES: &str = "\
Examples:
  linerate fleet status PLAN
  linerate fleet status PLAN --json | jq '.parts[] | select(.state != \"done\")'
";

const VERIFY_EXAMPLES: &str = "\
Examples:
  linerate fleet verify PLAN --shard 3
  linerate fleet verify PLAN             all shards, one after the other
";

const MANIFEST_EXAMPLES: &str = "\
Examples:
  linerate fleet manifest PLAN > MANIFEST
  cd /scratch/data && b3sum --check MANIFEST      at the destination
";

const REPORT_EXAMPLES: &str = "\
Examples:
  linerate fleet report PLAN
  linerate fleet report PLAN --json | jq '.stragglers'
";

const SIMULATE_EXAMPLES: &str = "\
Examples:
  linerate fleet simulate --nodes 64 --link 100gbit --files 1e9 --bytes 1PB
  linerate fleet simulate --nodes 8 --link 25gbit --between 100gbit --plan PLAN
      takes the numbers of files, bytes and shards from a plan, and the
      processor time from the plan's tasks
";

const EXPORT_EXAMPLES: &str = "\
Examples:
  linerate fleet export PLAN --for gnu-parallel | sh
  linerate fleet export PLAN --for slurm > job.sh; sbatch job.sh
  linerate fleet export PLAN --for k8s-job --image IMAGE | kubectl apply -f -
  linerate fleet export PLAN --for slurm -- --bwlimit 1gbit -i /home/me/key
      words after -- are options of each 'linerate fleet run'
";

/// Arguments of `linerate fleet`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct FleetArgs {
    #[command(subcommand)]
    action: FleetAction,
}

#[derive(Debug, Subcommand)]
enum FleetAction {
    /// Scan a tree, and divide it into shards
    #[command(before_long_help = PLAN_EXAMPLES, after_long_help = table(&PLAN_MEANINGS))]
    Plan(Box<plan::PlanArgs>),
    /// Move the files of a shard, or of all unfinished shards
    #[command(before_long_help = RUN_EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Submit the unfinished shards to Slurm
    #[command(before_long_help = SUBMIT_EXAMPLES, after_long_help = table(&SUBMIT_MEANINGS))]
    Submit(submit::SubmitArgs),
    /// Show the state of a plan
    #[command(before_long_help = STATUS_EXAMPLES, after_long_help = table(&STATUS_MEANINGS))]
    Status(status::StatusArgs),
    /// Compare the files of shards at both ends, by hashes
    #[command(before_long_help = VERIFY_EXAMPLES, after_long_help = table(&meanings("every file that the last plan has to move is the same at both ends")))]
    Verify(Box<verify::VerifyShardArgs>),
    /// Print the hashes of the copied files, as b3sum reads them
    #[command(before_long_help = MANIFEST_EXAMPLES, after_long_help = table(&MANIFEST_MEANINGS))]
    Manifest(manifest::ManifestArgs),
    /// Report on a run: by host, by limiter, and the slow shards
    #[command(before_long_help = REPORT_EXAMPLES, after_long_help = table(&DONE))]
    Report(report::FleetReportArgs),
    /// Compute the time that a fleet would take, and its bottleneck
    #[command(before_long_help = SIMULATE_EXAMPLES, after_long_help = table(&DONE))]
    Simulate(simulate::SimulateArgs),
    /// Print a plan as a script or job for a scheduler
    #[command(before_long_help = EXPORT_EXAMPLES, after_long_help = table(&DONE))]
    Export(export::ExportArgs),
}

/// Carries out the command.
///
/// # Errors
/// If the command failed as a whole.
pub fn run(args: FleetArgs) -> Result<Code, Failure> {
    match args.action {
        FleetAction::Plan(args) => plan::run(&args),
        FleetAction::Run(args) => run::run(*args),
        FleetAction::Submit(args) => submit::run(&args),
        FleetAction::Status(args) => status::run(&args),
        FleetAction::Verify(args) => verify::run(&args),
        FleetAction::Manifest(args) => manifest::run(&args),
        FleetAction::Report(args) => report::run(&args),
        FleetAction::Simulate(args) => simulate::run(&args),
        FleetAction::Export(args) => export::run(&args),
    }
}
