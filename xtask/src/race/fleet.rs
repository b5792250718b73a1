//! The race of a fleet with one pair of hosts: four hosts that see the source, four that see the destination, and a large file among
//! many small ones. The file systems of both sites are one memory, so that only links and processors count.

use anyhow::{Context, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use super::Spread;
use super::bed::make_files;
use super::switched::SwitchedBed;
use crate::call;

/// The case's name on the command line.
pub const NAME: &str = "fleet";
/// Hosts of a site.
const HOSTS: usize = 4;
/// The usual rate of a link: eight hosts share the processors.
pub const RATE: &str = "100mbit";
const FILES: usize = 10_000;
const FILE: usize = 10_000;
const LARGE: usize = 400_000_000;

/// The result of a run of the fleet.
struct FleetTime {
    seconds: f64,
    /// The slowest shard's seconds for the mean one's.
    balance: f64,
}

/// Copies by one pair and by the fleet, in blocks.
pub fn run(program: &Path, blocks: usize, rate: &str) -> anyhow::Result<()> {
    println!(
        "{NAME}: {FILES} files and one of 0.4 GB, from {HOSTS} hosts to {HOSTS} hosts, each with a link of {rate}"
    );
    let bed = SwitchedBed::up(program, NAME, 2 * HOSTS, rate)?;
    let mut random = fastrand::Rng::with_seed(7);
    make_files(&bed.path("tree/small"), FILES, FILE, &mut random)?;
    make_files(&bed.path("tree/large"), 1, LARGE, &mut random)?;
    // The program is at all hosts then.
    pair(&bed)?;
    fleet(&bed)?;
    let (mut pairs, mut fleets) = (Vec::new(), Vec::new());
    for _ in 0..blocks {
        if fastrand::bool() {
            pairs.push(pair(&bed)?);
            fleets.push(fleet(&bed)?);
        } else {
            fleets.push(fleet(&bed)?);
            pairs.push(pair(&bed)?);
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
    Ok(())
}

fn pair(bed: &SwitchedBed) -> anyhow::Result<f64> {
    forget(bed);
    let begun = Instant::now();
    let mut command = bed.command(0);
    command.args(["sync", "-a", "-q", "--rsh"]).arg(bed.shell()).arg(bed.path("tree"));
    end(command.arg(destination(bed)).spawn()?, "the pair")?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The plan counts, too.
fn fleet(bed: &SwitchedBed) -> anyhow::Result<FleetTime> {
    forget(bed);
    let begun = Instant::now();
    let mut plan = bed.command(0);
    let others: Vec<_> = (HOSTS + 1..2 * HOSTS).map(|host| host.to_string()).collect();
    plan.args([
        "fleet",
        "plan",
        "-q",
        "--shards",
        &HOSTS.to_string(),
        "--hosts",
        &others.join(","),
        "--into",
    ]);
    end(plan.arg(bed.path("plan")).arg(bed.path("tree")).arg(destination(bed)).spawn()?, "the plan")?;
    let start = |host: usize| {
        let mut task = bed.command(host);
        task.args(["fleet", "run", "-q", "--shard", &host.to_string(), "--rsh"]).arg(bed.shell());
        task.arg(bed.path("plan")).spawn().context("starting a task")
    };
    let tasks = (0..HOSTS).map(start).collect::<Result<Vec<_>, _>>()?;
    tasks.into_iter().try_for_each(|task| end(task, "a task"))?;
    let seconds = begun.elapsed().as_secs_f64();
    call(Command::new("diff").arg("-r").args([bed.path("tree"), bed.path("copy")]))?;
    Ok(FleetTime { seconds, balance: balance(bed)? })
}

fn balance(bed: &SwitchedBed) -> anyhow::Result<f64> {
    let mut status = bed.command(0);
    let status = status.args(["fleet", "status", "--json"]).arg(bed.path("plan"));
    let output = status.stdout(std::process::Stdio::piped()).output().context("starting status")?;
    let status: Value = serde_json::from_slice(&output.stdout).context("reading the status")?;
    ensure!(status["divided"] == 1, "the large file isn't divided: {status}");
    let parts = status["parts"].as_array().context("a status without parts")?;
    let seconds = |part: &Value| part["attempt"]["progress"]["seconds"].as_f64().unwrap_or(0.0);
    let seconds: Vec<f64> = parts.iter().take(HOSTS).map(seconds).collect();
    Ok(seconds.iter().fold(0.0, |most: f64, one| most.max(*one)) * HOSTS as f64 / seconds.iter().sum::<f64>())
}

fn destination(bed: &SwitchedBed) -> String {
    format!("{HOSTS}:{}", bed.path("copy").display())
}

fn forget(bed: &SwitchedBed) {
    for name in ["copy", "plan"] {
        // It may not be there.
        let _ = fs::remove_dir_all(bed.path(name));
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
