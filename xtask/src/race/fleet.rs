//! Compares a fleet with a single pair of hosts: four hosts at each of two sites, many small files and one
//! sparse file of 20 GB. The file systems of both sites are in this machine's memory, so that only links and
//! processors matter. Then the times of 1, 2, 4 and 8 pairs are compared with those that
//! `linerate fleet simulate` computes.

use anyhow::{Context, ensure};
use linerate_lab::{Lab, LabOptions, parse_link};
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::Spread;
use super::bed::{make_files, noise};
use crate::call;

/// The case's name on the command line.
pub const NAME: &str = "fleet";
/// The number of hosts of each site.
const HOSTS: usize = 4;
/// The sizes of the fleets, in pairs of hosts, whose times are also computed.
const COMPUTED: [usize; 4] = [1, 2, 4, 8];
/// The default rate of a link; it is low because eight hosts share the processors.
pub const RATE: &str = "100mbit";
const FILES: usize = 100_000;
const FILE: usize = 4_000;
/// The number of pieces of data in the large file. They are at equal distances, with holes between them.
const PIECES: u64 = 400;
const STEP: u64 = 50_000_000;
const PIECE: usize = 1_000_000;
/// The number of empty files in the copy that measures how many files per second a pair of hosts copies.
const EMPTY: usize = 10_000;

/// The result of a run of the fleet.
struct FleetTime {
    seconds: f64,
    /// The seconds that the tasks took, without the time for planning.
    of_tasks: f64,
    /// The time of the slowest shard divided by the mean time of all shards.
    balance: f64,
}

/// Copies with one pair and with the fleet, in shuffled blocks.
pub fn run(program: &Path, blocks: usize, rate: &str) -> anyhow::Result<()> {
    println!(
        "{NAME}: {FILES} files and one of 20 GB, 0.8 GB of data in all, from {HOSTS} hosts to {HOSTS} hosts, each with a link of {rate}"
    );
    let bed = FleetBed::up(program, rate)?;
    let mut random = fastrand::Rng::with_seed(7);
    make_files(&bed.source("tree/small"), FILES, FILE, &mut random)?;
    make_large_file(&bed.source("tree/large"), &mut random)?;
    // After this copy, the far end has the program.
    bed.pair()?;
    bed.fleet("tree", HOSTS)?;
    let (mut pairs, mut fleets) = (Vec::new(), Vec::new());
    for _ in 0..blocks {
        if fastrand::bool() {
            pairs.push(bed.pair()?);
            fleets.push(bed.fleet("tree", HOSTS)?);
        } else {
            fleets.push(bed.fleet("tree", HOSTS)?);
            pairs.push(bed.pair()?);
        }
    }
    let ratio = fleets.iter().zip(&pairs).map(|(fleet, pair)| fleet.seconds / pair);
    println!("  one pair {:.2} s", Spread::of(pairs.iter().copied()));
    println!(
        "  fleet    {:.2} s, / one pair {:.3}; slowest shard / mean {:.3}",
        Spread::of(fleets.iter().map(|fleet| fleet.seconds)),
        Spread::of(ratio),
        Spread::of(fleets.iter().map(|fleet| fleet.balance)),
    );
    compare_with_simulation(&bed, blocks, rate)?;
    Ok(bed.lab.down()?)
}

fn make_large_file(path: &Path, random: &mut fastrand::Rng) -> anyhow::Result<()> {
    let file = fs::File::create(path).with_context(|| format!("making {}", path.display()))?;
    file.set_len(PIECES * STEP)?;
    for piece in 0..PIECES {
        file.write_all_at(&noise(PIECE, random), piece * STEP)?;
    }
    Ok(())
}

/// Prints the times of fleets of several sizes beside those that the simulation computes from the costs of
/// small runs of one pair.
fn compare_with_simulation(bed: &FleetBed, blocks: usize, rate: &str) -> anyhow::Result<()> {
    make_files(&bed.source("one"), 1, 1, &mut fastrand::Rng::with_seed(7))?;
    make_files(&bed.source("empty"), EMPTY, 0, &mut fastrand::Rng::with_seed(7))?;
    let of_tasks = |tree| anyhow::Ok(bed.fleet(tree, 1)?.of_tasks);
    let task = (0..blocks).map(|_| of_tasks("one")).collect::<Result<Vec<_>, _>>()?;
    let task = Spread::of(task.into_iter()).median;
    let empty = (0..blocks).map(|_| of_tasks("empty")).collect::<Result<Vec<_>, _>>()?;
    let files_per_second = EMPTY as f64 / (Spread::of(empty.into_iter()).median - task).max(1e-3);
    println!("  one pair: {task:.2} s for a task, {files_per_second:.0} files/s");
    for nodes in COMPUTED {
        let times = (0..blocks)
            .map(|_| Ok(bed.fleet("tree", nodes)?.of_tasks))
            .collect::<anyhow::Result<Vec<_>>>()?;
        // The plan of the last run contains the amount to move.
        let computed = bed.simulate(nodes, rate, task, files_per_second)?;
        let ratios = times.iter().map(|seconds| seconds / computed);
        println!(
            "  pairs {nodes}: {:.2} s, computed {computed:.2} s: measured / computed {:.3}",
            Spread::of(times.iter().copied()),
            Spread::of(ratios)
        );
    }
    Ok(())
}

/// The test bed: two sites of hosts.
struct FleetBed {
    program: PathBuf,
    lab: Lab,
}

impl FleetBed {
    fn up(program: &Path, rate: &str) -> anyhow::Result<Self> {
        let sites = Some("2x8".parse()?);
        let lab = Lab::up(&LabOptions { sites, host_link: parse_link(rate)?, ..LabOptions::default() })?;
        Ok(Self { program: program.to_owned(), lab })
    }

    /// The path of a source tree, which the hosts of the first site can read.
    fn source(&self, name: &str) -> PathBuf {
        self.lab.sites()[0].directory.join(name)
    }

    fn copy(&self) -> PathBuf {
        self.lab.sites()[1].directory.join("copy")
    }

    /// The destination on a host of the second site, in the form `HOST:PATH`.
    fn destination(&self) -> OsString {
        format!("{}:{}", self.lab.sites()[1].hosts[0].name, self.copy().display()).into()
    }

    /// The command that runs the program on a host of the first site, without arguments.
    fn command(&self, host: usize) -> anyhow::Result<Command> {
        let mut command = self.lab.sites()[0].hosts[host].place().command(&[self.program.clone().into()])?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }

    fn pair(&self) -> anyhow::Result<f64> {
        self.forget();
        let begun = Instant::now();
        let mut command = self.command(0)?;
        command.args(["sync", "-a", "-q", "-F"]).arg(self.lab.ssh_config()).arg(self.source("tree"));
        end(command.arg(self.destination()).spawn()?, "the pair")?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Copies a tree with the given number of pairs.
    fn fleet(&self, tree: &str, pairs: usize) -> anyhow::Result<FleetTime> {
        self.forget();
        let begun = Instant::now();
        let mut plan = self.command(0)?;
        plan.args(["fleet", "plan", "-q", "--shards", &pairs.to_string()]);
        let others = self.lab.sites()[1].hosts[1..pairs].iter().map(|host| host.name.as_str());
        let others = others.collect::<Vec<_>>().join(",");
        if !others.is_empty() {
            plan.args(["--hosts", &others]);
        }
        plan.arg("--into").arg(self.source("plan")).arg(self.source(tree)).arg(self.destination());
        end(plan.spawn()?, "the plan")?;
        let planned = begun.elapsed().as_secs_f64();
        let tasks = (0..pairs).map(|host| self.start_task(host)).collect::<Result<Vec<_>, _>>()?;
        tasks.into_iter().try_for_each(|task| end(task, "a task"))?;
        let seconds = begun.elapsed().as_secs_f64();
        call(Command::new("diff").arg("-r").args([self.source(tree), self.copy()]))?;
        Ok(FleetTime { seconds, of_tasks: seconds - planned, balance: self.balance(pairs)? })
    }

    fn start_task(&self, host: usize) -> anyhow::Result<Child> {
        let mut task = self.command(host)?;
        task.args(["fleet", "run", "-q", "--shard", &host.to_string(), "-F"]).arg(self.lab.ssh_config());
        task.arg(self.source("plan")).spawn().context("starting a task")
    }

    fn balance(&self, pairs: usize) -> anyhow::Result<f64> {
        let status = self.json(&["status"], &[self.source("plan").into()])?;
        ensure!(pairs == 1 || status["divided"] == 1, "the large file isn't divided: {status}");
        let parts = status["parts"].as_array().context("a status without parts")?;
        let seconds = |part: &Value| part["attempt"]["progress"]["seconds"].as_f64().unwrap_or(0.0);
        let seconds: Vec<f64> = parts.iter().take(pairs).map(seconds).collect();
        let most = seconds.iter().fold(0.0, |most: f64, one| most.max(*one));
        Ok(most * pairs as f64 / seconds.iter().sum::<f64>())
    }

    /// The seconds that the simulation computes for the last plan. The pairs share this machine's processors.
    fn simulate(&self, pairs: usize, rate: &str, task: f64, files: f64) -> anyhow::Result<f64> {
        let processors = std::thread::available_parallelism()?.get() as f64 / pairs as f64;
        let large = PIECES as usize * PIECE;
        let largest = if pairs == 1 { large } else { FILE };
        let words = [
            "simulate".to_owned(),
            format!("--nodes={pairs}"),
            format!("--link={rate}"),
            format!("--per-task={task:.3}s"),
            format!("--files-per-second={files:.1}"),
            format!("--processors={processors}"),
            // The plan counts holes as data, but the simulation gets only the bytes of real data.
            format!("--bytes={}", FILES * FILE + large),
            format!("--largest={largest}"),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let computed = self.json(&words, &["--plan".into(), self.source("plan").into()])?;
        computed["seconds"].as_f64().context("a simulation without seconds")
    }

    /// The JSON output of a `linerate fleet` command.
    fn json(&self, words: &[&str], more: &[OsString]) -> anyhow::Result<Value> {
        let mut command = self.command(0)?;
        let output =
            command.arg("fleet").args(words).arg("--json").args(more).stdout(Stdio::piped()).output()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("fleet {words:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn forget(&self) {
        for path in [self.copy(), self.source("plan")] {
            // The path may not exist.
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn end(child: Child, what: &str) -> anyhow::Result<()> {
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{what}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
