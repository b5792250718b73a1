//! `linerate bench`: runs studies.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use clap::{Args, Subcommand};
use linerate_bench::out::{Line, Progress, checked, plan};
use linerate_bench::record::Record;
use linerate_bench::run::{Event, HostBed, Runner, Setup, Stop};
use linerate_bench::spec::MOST_BLOCKS;
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::Toolbox;

mod beds;
mod input;
mod listing;
mod show;
mod surroundings;

use beds::{host_beds, make_beds};
use input::{hosts, invocation, load_tools, read_input, resumed, size};
use show::{check_results, report_again, show};
use surroundings::{provide_packages, provide_path, stop_on_signals};

use crate::common::failure::Failure;
use crate::exit::{Code, INTERRUPTED, Meaning, USAGE, table};
use crate::print::fit;
use crate::units::named_file;

/// Arguments of `linerate bench`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = explanation(), args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    action: Option<BenchAction>,
    #[command(flatten)]
    run: StudyArgs,
}

const EXAMPLES: &str = "\
Examples:
  linerate bench                          compares linerate, scp and rsync (the study quick)
  linerate bench --quick --tree /srv/www  runs one block, with a tree of your own
  linerate bench gate                     checks the bounds that linerate must meet
  linerate bench mine.toml --tools ./tools
  linerate bench --check mine.toml        prints the errors in a study file
  linerate bench list                     prints the built-in studies, by paper and figure
  linerate bench report results/quick-2026-05-01T10-00-00Z
  linerate bench --resume results/quick-2026-05-01T10-00-00Z
";

const EXPLANATION: &str = "\
A study runs on two hosts made of network namespaces, joined by a link with a rate.
Each result is stored below --out at once, so Ctrl-C loses no result. docs/formats.md
describes study files, tool files and results.";

const MEANINGS: [Meaning; 4] = [
    (Code::Done, "done; if the study has bounds, all that can be judged hold (judging needs five blocks)"),
    (
        Code::Failed,
        "the study failed, a bound was not shown to hold, no run succeeded, or the output was lost",
    ),
    USAGE,
    INTERRUPTED,
];

fn explanation() -> String {
    format!("{EXPLANATION}\n\n{}", table(&MEANINGS))
}

#[derive(Debug, Subcommand)]
enum BenchAction {
    /// List the built-in studies, by paper and figure, and the tools
    List(ListArgs),
    /// Show stored results, and write their report.html again
    Report(ReportArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON object on standard output
    ///
    /// For each study, the object names the rows of docs/papers.md (experiments) that the study repeats.
    #[arg(long)]
    json: bool,
    /// Also read the tool files in DIR; may be repeated
    #[arg(long, value_name = "DIR")]
    tools: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// A directory of stored results
    dir: PathBuf,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
struct StudyArgs {
    /// A built-in study, or a study file
    #[arg(default_value = "quick")]
    study: String,
    /// Number of blocks; each runs every case once [default: the study's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BLOCKS)))]
    blocks: Option<u32>,
    /// Use the study's quick settings, for a first look
    ///
    /// The study runs one block, unless you give --blocks.
    #[arg(long)]
    quick: bool,
    /// Number of bytes of generated data [default: the study's]
    #[arg(long, value_parser = size)]
    size: Option<u64>,
    /// Copy the tree at PATH instead of generated data
    ///
    /// The tree is never changed.
    #[arg(long, value_name = "PATH", conflicts_with = "size")]
    tree: Option<PathBuf>,
    /// Also read the tool files in DIR; may be repeated
    #[arg(long, value_name = "DIR")]
    tools: Vec<PathBuf>,
    /// Directory for results
    #[arg(long, value_name = "DIR", value_parser = named_file(), default_value = "results")]
    out: PathBuf,
    /// Seed of the data and of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the figures as JSON on standard output
    #[arg(long)]
    json: bool,
    /// Install missing tools from the distribution first, as root
    ///
    /// With --hosts, the tools are installed on those hosts, as root or by sudo without a password.
    #[arg(long)]
    install: bool,
    /// The same as `linerate bench list`
    #[arg(long, conflicts_with_all = ["study", "blocks", "quick", "size", "tree", "out", "seed", "install", "check", "dry_run", "hosts", "rsh", "address_b", "resume"])]
    list: bool,
    /// Check the study; run nothing
    ///
    /// The exit code is 2 if the study has an error.
    #[arg(long, conflicts_with_all = ["dry_run", "install", "json"])]
    check: bool,
    /// Print the runs that would be made, and about how long they take
    #[arg(long, conflicts_with = "json")]
    dry_run: bool,
    /// Use two hosts instead of a lab
    ///
    /// Host a sends, and host b receives. PLACE is ssh:HOST, local, or netns:FILE. Further hosts, such as
    /// switch=ssh:HOST, are only sampled.
    #[arg(long, value_name = "a=PLACE,b=PLACE")]
    hosts: Option<String>,
    /// Remote shell for these hosts instead of ssh
    ///
    /// linerate splits CMD into words as a shell does.
    #[arg(long, value_name = "CMD", requires = "hosts", conflicts_with = "resume")]
    rsh: Option<String>,
    /// b's address on the measured path, or one per port [default: ssh's]
    #[arg(long, value_name = "ADDRESS,...", requires = "hosts", conflicts_with = "resume")]
    address_b: Option<String>,
    /// Make the runs that are missing in DIR
    ///
    /// DIR must hold the results of an interrupted study.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["study", "blocks", "quick", "size", "tree", "tools", "seed", "hosts", "out"])]
    resume: Option<PathBuf>,
}

/// Carries out `linerate bench`.
///
/// # Errors
/// If the study can't be run. A run that fails isn't an error, but a row of the table.
pub fn run(args: BenchArgs) -> Result<Code, Failure> {
    match args.action {
        Some(BenchAction::Report(report)) => report_again(&report),
        Some(BenchAction::List(list)) => Ok(listing::list(&load_tools(&list.tools)?, list.json)?),
        None => match &args.run.resume {
            Some(dir) => {
                check_results(dir)?;
                run_study(&resumed(&args.run, dir)?)
            }
            None => run_study(&args.run),
        },
    }
}

fn run_study(args: &StudyArgs) -> Result<Code, Failure> {
    if args.list {
        return Ok(listing::list(&load_tools(&args.tools)?, args.json)?);
    }
    let (tools, study) = read_input(args).map_err(|error| Failure(format!("{error:#}"), Code::Usage))?;
    let blocks = args.blocks.unwrap_or(if args.quick { 1 } else { study.blocks });
    if args.check {
        output!("{}", checked(&study, &tools, blocks));
        return Ok(Code::Done);
    }
    if args.dry_run {
        output!("{}", plan(&study, &tools, blocks));
        return Ok(Code::Done);
    }
    if args.hosts.is_none() {
        provide_packages(args, &study, &tools)?;
        linerate_lab::ensure_privileges().map_err(anyhow::Error::from)?;
    }
    // If a killed study has left changed settings, these are restored now, before this study reads the settings.
    linerate_lab::sweep_and_report().map_err(anyhow::Error::from)?;
    let stop = stop_on_signals()?;
    let (record, dir) = measure(args, &study, &tools, blocks, &stop)?;
    if stop.load(Ordering::Relaxed) {
        let (runs, dir) = (record.runs.len(), dir.display());
        message!("linerate: interrupted; {runs} runs are stored: linerate bench report {dir}");
        message!("linerate: to make the missing runs: linerate bench --resume {dir}");
        return Ok(Code::Interrupted);
    }
    Ok(show(&record, &dir, args.json)?)
}

fn measure(
    args: &StudyArgs,
    study: &Study,
    tools: &Toolbox,
    blocks: u32,
    stop: &Stop,
) -> anyhow::Result<(Record, PathBuf)> {
    let linerate = std::env::current_exe().context("finding the running program")?;
    let (beds, work) = match hosts(args)? {
        Some(hosts) => {
            let prepare = |bed: &HostBed, work: &Path| provide_path(args, study, tools, bed, work, stop);
            host_beds(study, &hosts, &linerate, stop, prepare)?
        }
        None => make_beds(study, &linerate)?,
    };
    let setup = Setup {
        study,
        tools,
        blocks,
        seed: args.seed,
        tree: args.tree.as_deref(),
        work: work.path(),
        out: &args.out,
        linerate: &linerate,
        invocation: invocation(args)?,
        stop: Arc::clone(stop),
    };
    let mut progress = Progress::default();
    let mut watch = |event: Event| report(&progress.line(&event));
    let runner = match &args.resume {
        Some(dir) => Runner::resume(setup, beds, dir, &mut watch)?,
        None => Runner::new(setup, beds, &mut watch)?,
    };
    let dir = runner.dir();
    Ok((runner.run(&mut watch)?, dir))
}

/// Prints a progress line on standard error. On a terminal, a line replaces the temporary line before it. Elsewhere,
/// temporary lines aren't printed.
fn report(line: &Line) {
    let mut err = std::io::stderr().lock();
    // If progress can't be written, the study continues.
    let _ = match (line, err.is_terminal()) {
        (Line::Passing(text), true) => write!(err, "\r\x1b[K{}", fit(text)).and_then(|()| err.flush()),
        (Line::Passing(_), false) => Ok(()),
        (Line::Lasting(text), true) => writeln!(err, "\r\x1b[K{}", fit(text)),
        (Line::Lasting(text), false) => writeln!(err, "{}", fit(text)),
    };
}
