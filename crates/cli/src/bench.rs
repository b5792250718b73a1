//! `linerate bench`: studies from the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use linerate_bench::data::read_own_tree;
use linerate_bench::out::{Line, Progress, checked, gate_table, headline, plan, table};
use linerate_bench::record::{Outcome, Record};
use linerate_bench::run::{
    Bed, Event, HostBed, Hosts, LabBed, Runner, Setup, Stop, install, missing_packages,
};
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::Toolbox;
use linerate_bench::spec::{bytes, nearest};
use linerate_bench::stats::{drift_statement, drifts, gate, summaries};
use linerate_bench::store::{self, Invocation};

use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

mod listing;

use crate::exit::Code;
use crate::reach::ending_signals;

/// What `linerate bench` takes.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXPLANATION, args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: Run,
}

const EXAMPLES: &str = "\
Examples:
  linerate bench                          the built-in study: linerate beside scp and rsync
  linerate bench --quick --tree /srv/www  one block, over a tree of your own
  linerate bench gate                     what linerate must reach, row by row
  linerate bench mine.toml --tools ./tools
  linerate bench --check mine.toml        what is wrong in a study file
  linerate bench list                     the built-in studies, by paper and figure
  linerate bench report results/quick-2026-05-01T10-00-00Z
  linerate bench --resume results/quick-2026-05-01T10-00-00Z
";

const EXPLANATION: &str = "\
A study runs on two hosts that are made of network namespaces, joined by a link with a rate. Results are stored \
below --out as they are made; Ctrl-C keeps them. docs/formats.md describes study files, tool files and results.

Exit codes: 0 done (for gate: every row holds), 1 failed, a row missed or nothing measured, 2 usage, 130 interrupted.";

/// Signals this near to the first ask for the same thing: timeout(1) signals its child, and then the child's group.
const SAME_REQUEST: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
enum Action {
    /// The built-in studies by paper and figure, and the tools
    List(List),
    /// Show stored results again, and write their report.html anew
    Report(Report),
}

#[derive(Debug, Args)]
struct List {
    /// As JSON: the rows of docs/papers.md that each study runs
    #[arg(long)]
    json: bool,
    /// A directory of tool files, beside the built-in ones; may be given again
    #[arg(long, value_name = "DIR")]
    tools: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct Report {
    /// A directory of stored results
    dir: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
struct Run {
    /// A built-in study, or a study file
    #[arg(default_value = "quick")]
    study: String,
    /// Blocks; each runs every case once [default: the study's, 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
    /// What the study says is other in a quick run, and one block unless --blocks says more: a first look
    #[arg(long)]
    quick: bool,
    /// Bytes of generated data [default: the study's]
    #[arg(long, value_parser = size)]
    size: Option<u64>,
    /// A tree of your own in place of generated data; it is copied, never changed
    #[arg(long, value_name = "PATH", conflicts_with = "size")]
    tree: Option<PathBuf>,
    /// A directory of tool files, beside the built-in ones; may be given again
    #[arg(long, value_name = "DIR")]
    tools: Vec<PathBuf>,
    /// Where results are stored
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Seed of the data and of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Figures as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Install missing tools from the distribution first, as root
    #[arg(long)]
    install: bool,
    /// The same as `linerate bench list`
    #[arg(long)]
    list: bool,
    /// Read the study and say what is wrong in it, or that nothing is; exit code 2 where something is
    #[arg(long, conflicts_with = "dry_run")]
    check: bool,
    /// Show what would be run, and about how long it would take
    #[arg(long)]
    dry_run: bool,
    /// Two hosts in place of a lab: a sends, b receives; each is ssh:HOST, local, or netns:FILE
    #[arg(long, value_name = "a=PLACE,b=PLACE")]
    hosts: Option<String>,
    /// Remote shell for these hosts instead of ssh, with its options; quotes and backslashes as in a shell
    #[arg(long, value_name = "CMD", requires = "hosts")]
    rsh: Option<String>,
    /// b's address on the path to be measured [default: the one that ssh connects to]
    #[arg(long, value_name = "ADDRESS", requires = "hosts")]
    address_b: Option<String>,
    /// Go on with an interrupted study: make the runs that are missing in its directory of results
    #[arg(long, value_name = "DIR", conflicts_with_all = ["study", "blocks", "quick", "size", "tree", "tools", "seed", "hosts"])]
    resume: Option<PathBuf>,
}

/// Carries out `linerate bench`.
///
/// # Errors
/// Whatever keeps a study from being run. Runs that fail are rows of the table.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        Some(Action::Report(report)) => report_again(&report),
        Some(Action::List(list)) => listing::list(&load_tools(&list.tools)?, list.json),
        None => match &args.run.resume {
            Some(dir) if !has_results(dir) => Ok(Code::Usage.into()),
            Some(dir) => run_study(&resumed(&args.run, dir)?),
            None => run_study(&args.run),
        },
    }
}

/// True where the directory has stored results; says what is wrong with the argument where it hasn't.
fn has_results(dir: &Path) -> bool {
    let has = dir.join("record.json").is_file();
    if !has {
        let dir = dir.display();
        tell!(
            "linerate: {dir} has no stored results: no record.json is there; results are below --out of linerate bench"
        );
    }
    has
}

/// The arguments with which an interrupted study was called.
fn resumed(args: &Run, dir: &Path) -> anyhow::Result<Run> {
    let (called, _) = store::invocation(dir)?;
    let record = store::load(dir)?.record;
    let study = dir.join("study.toml");
    Ok(Run {
        study: study.to_str().context("the directory's name is no text")?.to_owned(),
        blocks: Some(record.blocks),
        seed: record.seed,
        size: called.size,
        tree: called.tree,
        quick: called.quick,
        tools: called.tools,
        hosts: called.hosts,
        rsh: called.rsh,
        address_b: called.address_b,
        resume: Some(dir.to_owned()),
        ..args.clone()
    })
}

fn run_study(args: &Run) -> anyhow::Result<ExitCode> {
    if args.list {
        return listing::list(&load_tools(&args.tools)?, args.json);
    }
    let (tools, study) = match read_input(args) {
        Ok(read) => read,
        Err(error) => {
            tell!("linerate: {error:#}");
            return Ok(Code::Usage.into());
        }
    };
    let blocks = args.blocks.unwrap_or(if args.quick { 1 } else { study.blocks });
    if args.check {
        say!("{}", checked(&study, &tools, blocks));
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        say!("{}", plan(&study, &tools, blocks));
        return Ok(ExitCode::SUCCESS);
    }
    if args.hosts.is_none() {
        provide_packages(args, &study, &tools)?;
        linerate_lab::ensure_privileges()?;
    }
    // What a study that was killed had changed is put back before this one looks.
    linerate_lab::sweep_and_tell()?;
    let stop = stop_on_signals()?;
    let (record, dir) = measure(args, &study, &tools, blocks, &stop)?;
    if stop.load(Ordering::Relaxed) {
        let (runs, dir) = (record.runs.len(), dir.display());
        tell!("linerate: interrupted; {runs} runs are stored: linerate bench report {dir}");
        tell!("linerate: to make the others: linerate bench --resume {dir}");
        return Ok(Code::Interrupted.into());
    }
    show(&record, &dir, args.json)
}

/// What the arguments name, before anything is made: an error here is the arguments' fault.
fn read_input(args: &Run) -> anyhow::Result<(Toolbox, Study)> {
    let tools = load_tools(&args.tools)?;
    let study = load_study(args, &tools)?;
    // A tree on another host is looked at there.
    let tree = args.tree.as_deref().filter(|_| args.hosts.is_none());
    tree.map_or(Ok(()), |tree| read_own_tree(tree).map(drop))?;
    hosts(args)?;
    Ok((tools, study))
}

/// Bytes to generate, of which there must be some.
fn size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("there must be something to move; give a size such as \"1 GB\"".to_owned()),
        bytes => Ok(bytes),
    }
}

fn load_tools(dirs: &[PathBuf]) -> anyhow::Result<Toolbox> {
    let mut tools = Toolbox::built_in()?;
    for dir in dirs {
        tools.add_directory(dir)?;
    }
    Ok(tools)
}

fn load_study(args: &Run, tools: &Toolbox) -> anyhow::Result<Study> {
    let name = &args.study;
    let mut study = match Study::built_in(name) {
        Some((file, text)) => Study::parse(file, text, tools)?,
        None => {
            let text = read_study(name).map_err(|error| unknown_study(name, &error))?;
            Study::parse(name, &text, tools)?
        }
    };
    if args.quick {
        study.apply_quick();
    }
    if let Some(size) = args.size {
        study.set_size(size);
    }
    Ok(study)
}

/// More than any study file has, in bytes.
const LARGEST_STUDY: u64 = 1 << 20;

fn read_study(name: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(name)?.take(LARGEST_STUDY + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_STUDY {
        return Err(std::io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

fn unknown_study(name: &str, error: &std::io::Error) -> anyhow::Error {
    let names: Vec<&str> = Study::built_in_names().collect();
    let meant =
        nearest(name, names.iter().copied()).map_or(String::new(), |name| format!("; did you mean {name}?"));
    let names = names.join(", ");
    anyhow!("{name} is neither a built-in study ({names}) nor a study file that can be read ({error}){meant}")
}

/// Installs what is missing where that was asked for; says what it is where not. A lab's own programs must be there.
fn provide_packages(args: &Run, study: &Study, tools: &Toolbox) -> anyhow::Result<()> {
    let (needed, wanted) = missing_packages(study, tools);
    let all = [needed.as_slice(), wanted.as_slice()].concat();
    if all.is_empty() {
        return Ok(());
    }
    if args.install {
        tell!("linerate: installing from the distribution: {}", all.join(" "));
        if all.iter().any(|package| package == "openssh-server") {
            tell!("linerate: openssh-server may start an ssh server on this host; the lab uses its own");
        }
        return Ok(install(&all)?);
    }
    let advice = format!("as root: apt-get install {} (or run again with --install)", all.join(" "));
    if !needed.is_empty() {
        bail!("a lab needs packages that are missing: {}; {advice}", needed.join(" "));
    }
    tell!("linerate: some rows will be empty: {} missing; {advice}", wanted.join(" "));
    Ok(())
}

/// The first signal ends the study after its current run; one that comes later than [`SAME_REQUEST`] ends the process.
fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let mut signals = Signals::new(ending_signals())?;
    let seen = Arc::clone(&stop);
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            seen.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > SAME_REQUEST {
                // It can only fail for signals that have no default, and these have.
                let _ = emulate_default_handler(signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch)?;
    Ok(stop)
}

fn measure(
    args: &Run,
    study: &Study,
    tools: &Toolbox,
    blocks: u32,
    stop: &Stop,
) -> anyhow::Result<(Record, PathBuf)> {
    let linerate = std::env::current_exe().context("finding the running program")?;
    let (beds, work) = match hosts(args)? {
        Some(hosts) => host_beds(study, &hosts, &linerate, stop)?,
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
    let mut watch = |event: Event| tell(&progress.line(&event));
    let runner = match &args.resume {
        Some(dir) => Runner::resume(setup, beds, dir, &mut watch)?,
        None => Runner::new(setup, beds, &mut watch)?,
    };
    let dir = runner.dir();
    Ok((runner.run(&mut watch)?, dir))
}

/// What is written down so that the study can be continued, from wherever that is asked for.
fn invocation(args: &Run) -> anyhow::Result<Invocation> {
    let absolute =
        |path: &PathBuf| std::path::absolute(path).with_context(|| format!("finding {}", path.display()));
    Ok(Invocation {
        file: args.study.clone(),
        size: args.size,
        tree: args.tree.as_ref().map(absolute).transpose()?,
        quick: args.quick,
        tools: args.tools.iter().map(absolute).collect::<Result<_, _>>()?,
        hosts: args.hosts.clone(),
        rsh: args.rsh.clone(),
        address_b: args.address_b.clone(),
    })
}

/// Test beds by the name of their link.
type Beds<'a> = BTreeMap<String, Box<dyn Bed + 'a>>;

/// The hosts that the arguments name.
fn hosts(args: &Run) -> anyhow::Result<Option<Hosts>> {
    let Some(text) = &args.hosts else { return Ok(None) };
    let rsh = args.rsh.as_deref().unwrap_or("ssh");
    let words = shlex::split(rsh).filter(|words| !words.is_empty());
    let words = words.with_context(|| format!("--rsh '{rsh}': the quotes don't match, or it is empty"))?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    Hosts::parse(text, &words, args.address_b.as_deref()).map(Some).map_err(|reason| anyhow!(reason))
}

/// The same two hosts for each link that a case names: the path is the one that is there. What commands print is kept in
/// a directory of this host, which goes at the end.
fn host_beds<'a>(
    study: &Study,
    hosts: &Hosts,
    linerate: &Path,
    stop: &Stop,
) -> anyhow::Result<(Beds<'a>, Work)> {
    let mut beds: Beds = BTreeMap::new();
    for link in &study.links {
        if study.cases.iter().any(|case| case.link == link.name) {
            let bed = HostBed::up(hosts, linerate, stop, &|text| tell!("linerate: {text}"));
            beds.insert(link.name.clone(), Box::new(bed.context("making a bed of these hosts")?));
        }
    }
    Ok((beds, Work::Own(tempfile::tempdir().context("making a directory for outputs")?)))
}

/// The directory for what commands print; a lab's goes with the lab.
enum Work {
    Lab(PathBuf),
    Own(tempfile::TempDir),
}

impl Work {
    fn path(&self) -> &Path {
        match self {
            Work::Lab(path) => path,
            Work::Own(directory) => directory.path(),
        }
    }
}

/// A lab for each link that a case uses. Data is kept in the first one's scratch directory, and goes with it.
fn make_beds<'a>(study: &Study, linerate: &Path) -> anyhow::Result<(Beds<'a>, Work)> {
    let mut beds: BTreeMap<String, Box<dyn Bed>> = BTreeMap::new();
    let mut work = None;
    for link in &study.links {
        if study.cases.iter().any(|case| case.link == link.name) {
            let bed = LabBed::up(link, linerate)?;
            work.get_or_insert_with(|| bed.scratch());
            beds.insert(link.name.clone(), Box::new(bed));
        }
    }
    Ok((beds, Work::Lab(work.context("the study has no link")?)))
}

/// On a terminal a line under way is replaced by the next; elsewhere only what stays is written.
fn tell(line: &Line) {
    let mut err = std::io::stderr().lock();
    // Progress that can't be written is no reason to end a study.
    let _ = match (line, err.is_terminal()) {
        (Line::Passing(text), true) => write!(err, "\r\x1b[K{text}").and_then(|()| err.flush()),
        (Line::Passing(_), false) => Ok(()),
        (Line::Lasting(text), true) => writeln!(err, "\r\x1b[K{text}"),
        (Line::Lasting(text), false) => writeln!(err, "{text}"),
    };
}

fn report_again(report: &Report) -> anyhow::Result<ExitCode> {
    if !has_results(&report.dir) {
        return Ok(Code::Usage.into());
    }
    let loaded = store::load(&report.dir)?;
    if loaded.torn {
        tell!("linerate: the last run was cut off while it was stored; it is left out");
    }
    show(&loaded.record, &report.dir, report.json)
}

/// Writes report.html and prints the figures; a study with bounds decides the exit code.
fn show(record: &Record, dir: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let page = dir.join("report.html");
    std::fs::write(&page, linerate_report::html(record))
        .with_context(|| format!("writing {}", page.display()))?;
    write_figures(record, dir)?;
    let rows = gate(record);
    let holds = rows.iter().all(linerate_bench::stats::GateRow::holds);
    if json {
        let cases = summaries(record, record.baseline.as_deref());
        let shown = serde_json::json!({
            "schema": 1, "type": "study", "study": record.study, "blocks": record.blocks, "seed": record.seed,
            "cases": cases, "bounds": rows, "ok": holds, "results": dir, "report": page, "drift": drifts(record),
        });
        say!("{shown}");
    } else {
        say!("{}\n\n{}", headline(record), table(record));
        say!("\n{}", drift_statement(&drifts(record)));
        if !rows.is_empty() {
            say!("\n{}", gate_table(record, &rows));
        }
        say!("\nreport: {}", page.display());
    }
    let measured = record.runs.iter().any(|run| matches!(run.outcome, Outcome::Measured(_)));
    Ok(if holds && measured { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each figure as SVG, with its numbers as CSV, beside the report.
fn write_figures(record: &Record, dir: &Path) -> anyhow::Result<()> {
    for figure in linerate_report::figures(record) {
        for (extension, text) in [("svg", &figure.svg), ("csv", &figure.csv)] {
            let path = dir.join(format!("{}.{extension}", figure.name));
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}
