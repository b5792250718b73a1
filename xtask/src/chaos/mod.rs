//! The kill test. Each *round* runs one command, of any kind and on any file system. While the command runs, the test
//! disturbs its ends, its remote shell or its link. Then the command is run again until it succeeds. A watcher reads
//! the destination during the whole round. At the end, rsync compares the trees, and no temporary files may be left.
//!
//! All files are in a lab and in a separate mount namespace, so that a killed test leaves nothing behind.

mod bed;
mod blow;
mod compare;
mod ground;
mod operation;
mod processes;
mod round;
pub mod tree;
mod watch;

use anyhow::{Context, bail};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::{built_release, call};
use bed::ChaosBed;
use operation::OPERATIONS;
use round::{ChaosRound, RoundOutcome};

/// The environment variable that marks the process inside the test's own namespace.
const INSIDE: &str = "LINERATE_CHAOS_INSIDE";

/// The arguments of the test.
#[derive(Debug, PartialEq)]
struct ChaosOptions {
    kills: u32,
    seed: u64,
    /// The seed of the only round to run, if the user names one.
    round: Option<u64>,
    program: Option<PathBuf>,
}

impl ChaosOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self { kills: 20, seed: fastrand::u64(..1 << 32), round: None, program: None };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { bail!("{} needs a value", pair[0]) };
            match name.as_str() {
                "--kills" => options.kills = value.parse().context("--kills")?,
                "--seed" => options.seed = value.parse().context("--seed")?,
                "--round" => options.round = Some(value.parse().context("--round")?),
                "--program" => options.program = Some(Path::new(value).canonicalize().context("--program")?),
                _ => bail!("{name} is no option: --kills, --seed, --round, --program"),
            }
        }
        Ok(options)
    }
}

/// Runs the test, in a mount namespace of its own.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = ChaosOptions::parse(arguments)?;
    if std::env::var_os(INSIDE).is_none() {
        return enter(arguments);
    }
    let program = options.program.clone().map_or_else(built_release, Ok)?;
    let bed = ChaosBed::up(&program)?;
    let mut figures = ChaosFigures::default();
    match options.round {
        Some(seed) => figures.play(&bed, seed)?,
        None => {
            println!("chaos: {} kills, --seed {}", options.kills, options.seed);
            figures.play_all(&bed, &options)?;
        }
    }
    figures.report()
}

fn enter(arguments: &[String]) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("the kill test mounts file systems: run it as root");
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe()?);
    call(unshare.arg("chaos").args(arguments).env(INSIDE, "1"))
}

/// The results of the test.
#[derive(Default)]
struct ChaosFigures {
    rounds: u32,
    kills: BTreeMap<&'static str, u32>,
    operations: BTreeMap<&'static str, u32>,
    grounds: BTreeMap<&'static str, u32>,
    /// The number of files that the watcher read.
    read: u64,
    /// The number of repeated runs that failed, so that another run was necessary.
    again: u32,
    failed: Vec<(u64, Vec<String>)>,
}

impl ChaosFigures {
    /// Plays rounds until the requested number of kills is reached, and each operation and each file system has been
    /// used at least once.
    fn play_all(&mut self, bed: &ChaosBed, options: &ChaosOptions) -> anyhow::Result<()> {
        let (operations, grounds) = (OPERATIONS.len() as u64, bed.grounds.len() as u64);
        let mut rng = Rng::with_seed(options.seed);
        for number in 0.. {
            if self.kills.values().sum::<u32>() >= options.kills && number >= operations.max(grounds) {
                break;
            }
            // The seed also determines the operation and the file system, so that a single round can be
            // repeated.
            let draw = rng.u64(..1 << 32);
            // Operations and file systems are used in turn. After each cycle of operations the file systems
            // are shifted by one, so that all pairs occur.
            let (operation, ground) = (number % operations, (number + number / operations) % grounds);
            self.play(
                bed,
                (draw * ground::KINDS.len() as u64 + bed.grounds[ground as usize].number()) * operations
                    + operation,
            )?;
        }
        Ok(())
    }

    fn play(&mut self, bed: &ChaosBed, seed: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        let round = ChaosRound::draw(bed, seed)?;
        let outcome = round.play().with_context(|| format!("--round {seed}"))?;
        let RoundOutcome { blows, wrong, read, again } = outcome;
        println!(
            "--round {seed}: {round}: {}; {} files read, {:.1} s{}",
            blows.join(", "),
            read,
            begun.elapsed().as_secs_f64(),
            if wrong.is_empty() { "" } else { ": WRONG" }
        );
        wrong.iter().take(12).for_each(|line| println!("  WRONG: {line}"));
        blows.iter().for_each(|name| *self.kills.entry(name).or_default() += 1);
        *self.operations.entry(round.operation.name).or_default() += 1;
        *self.grounds.entry(round.ground.name()).or_default() += 1;
        self.rounds += 1;
        self.read += read;
        self.again += again;
        if !wrong.is_empty() {
            self.failed.push((seed, wrong));
        }
        Ok(())
    }

    fn report(&self) -> anyhow::Result<()> {
        let list = |counts: &BTreeMap<&'static str, u32>| {
            counts.iter().map(|(name, number)| format!("{number} {name}")).collect::<Vec<_>>().join(", ")
        };
        println!("kills: {} ({})", self.kills.values().sum::<u32>(), list(&self.kills));
        println!("operations: {}", list(&self.operations));
        println!("file systems: {}", list(&self.grounds));
        println!(
            "{} rounds, {} files read meanwhile, {} reruns that needed another; rounds with something wrong: {}",
            self.rounds,
            self.read,
            self.again,
            self.failed.len()
        );
        for (seed, wrong) in &self.failed {
            println!("WRONG: --round {seed}: {} ({} in all)", wrong[0], wrong.len());
        }
        if !self.failed.is_empty() {
            bail!("the kill test has found something: cargo xtask chaos --round N repeats one round");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<ChaosOptions> {
        ChaosOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_pairs() {
        let options = parse("--kills 7 --seed 3").unwrap();
        assert_eq!((options.kills, options.seed, options.round), (7, 3, None));
        assert_eq!(parse("--round 12").unwrap().round, Some(12));
        assert!(parse("--kills").is_err() && parse("--size 3").is_err());
    }
}
