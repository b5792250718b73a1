//! Measures how many bytes transfers send again after they were killed. The ends and the remote shell of transfers are
//! killed at random times, and the transfers are run again until they succeed. The test runs in a separate network
//! namespace, so that the counter of its loopback shows the bytes sent.

mod far;
mod run;
mod tree;
mod watch;

use anyhow::{Context, bail};
use fastrand::Rng;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{built_release, call};
pub use far::run as far;
use run::{EndWay, ResentBed, RunEnd};
use watch::HalfWatch;

/// The least number of kills for judging the bytes that were sent again. With fewer kills, a single delay by
/// slow storage would matter too much.
const ENOUGH_KILLS: u32 = 100;
/// The greatest amount that may be sent again beyond the allowed bytes (chunk size times streams, for each kill), in
/// percent of the bytes that had to be sent.
const MAX_BEYOND: f64 = 2.0;

/// The environment variable that marks the process inside the test's own namespace.
const INSIDE: &str = "LINERATE_RESENT_INSIDE";

/// The arguments of the test.
pub struct ResentOptions {
    kills: u32,
    size: u64,
    seed: u64,
    directory: PathBuf,
    program: Option<PathBuf>,
}

impl ResentOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir();
        let mut options =
            Self { kills: 20, size: 200_000_000, seed: fastrand::u64(..), directory, program: None };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { bail!("{} needs a value", pair[0]) };
            match name.as_str() {
                "--kills" => options.kills = value.parse().context("--kills")?,
                "--size" => options.size = bytes(value).context("--size: a number of MB or GB")?,
                "--seed" => options.seed = value.parse().context("--seed")?,
                "--dir" => options.directory = value.into(),
                "--program" => options.program = Some(Path::new(value).canonicalize()?),
                _ => bail!("{name} is no option: --kills, --size, --seed, --dir, --program"),
            }
        }
        Ok(options)
    }
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Runs the test, in a network namespace of its own.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = ResentOptions::parse(arguments)?;
    if std::env::var_os(INSIDE).is_none() {
        return enter(arguments);
    }
    call(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    let program = options.program.clone().map_or_else(built_release, Ok)?;
    println!("resent: {} kills, {} MB, seed {}", options.kills, options.size / 1_000_000, options.seed);
    let mut rng = Rng::with_seed(options.seed);
    let bed = ResentBed::make(&options.directory, program, options.size, &mut rng)?;
    let outcome = ResentTest::new(&bed, rng).and_then(|mut test| test.run(options.kills));
    bed.remove();
    outcome
}

fn enter(arguments: &[String]) -> anyhow::Result<()> {
    let mut unshare = Command::new("unshare");
    unshare.arg("--net");
    if !rustix::process::geteuid().is_root() {
        unshare.arg("--map-root-user");
    }
    call(unshare.arg(std::env::current_exe()?).arg("resent").args(arguments).env(INSIDE, "1"))
}

/// The results of the test.
#[derive(Default)]
struct ResentFigures {
    kills: [u32; 4],
    cycles: u32,
    /// The bytes that would have been sent without any kill.
    needed: u64,
    /// The bytes that were sent again.
    again: u64,
    /// The allowed bytes: chunk size times streams, summed over the kills.
    allowed: u64,
    /// The bytes that were sent again beyond the allowed ones, computed for each transfer.
    beyond: u64,
    wrong: Vec<String>,
}

struct ResentTest<'a> {
    bed: &'a ResentBed,
    rng: Rng,
    /// The bytes on the wire and the duration of a run without a kill.
    undisturbed: (u64, Duration),
    figures: ResentFigures,
}

impl<'a> ResentTest<'a> {
    fn new(bed: &'a ResentBed, rng: Rng) -> anyhow::Result<Self> {
        // The first run copies the program to the far end, the second is measured.
        let mut undisturbed = Default::default();
        for _ in 0..2 {
            let (before, begun) = (run::sent()?, Instant::now());
            let ended = bed.start(EndWay::Push, 4)?.end()?;
            if ended != RunEnd::Done {
                bail!("a run that nobody disturbed failed: {ended:?}");
            }
            undisturbed = (run::sent()? - before, begun.elapsed());
            bed.empty()?;
        }
        Ok(Self { bed, rng, undisturbed, figures: ResentFigures::default() })
    }

    fn run(&mut self, kills: u32) -> anyhow::Result<()> {
        // The test ends after the first error, so that the consequences of the error aren't reported too.
        while self.figures.kills.iter().sum::<u32>() < kills && self.figures.wrong.is_empty() {
            self.cycle(kills)?;
            self.figures.cycles += 1;
            self.bed.empty()?;
        }
        self.report()
    }

    /// Fills one destination, from an empty directory to the complete copy.
    fn cycle(&mut self, kills: u32) -> anyhow::Result<()> {
        let way = if self.rng.bool() { EndWay::Push } else { EndWay::Pull };
        let watch = HalfWatch::start(&self.bed.tree, &self.bed.destination);
        let (before, mut allowed) = (run::sent()?, 0);
        loop {
            let streams = 1 << self.rng.u32(0..4);
            let mut running = self.bed.start(way, streams)?;
            let moment = self.undisturbed.1.mul_f64(self.rng.f64() * 0.9).max(Duration::from_millis(20));
            let may_kill = self.figures.kills.iter().sum::<u32>() < kills;
            if may_kill && !running.ends_within(moment)? {
                let whom = self.rng.usize(0..4);
                running.kill(run::WHOM[whom], way)?;
                self.figures.kills[whom] += 1;
                allowed += self.bed.chunk(streams) * u64::from(streams);
                continue;
            }
            match running.end()? {
                RunEnd::Done => break,
                RunEnd::Failed(why) => {
                    self.figures.wrong.push(format!("a run failed: {why}"));
                    break;
                }
            }
        }
        let again = (run::sent()? - before).saturating_sub(self.undisturbed.0);
        self.figures.again += again;
        self.figures.beyond += again.saturating_sub(allowed);
        self.figures.allowed += allowed;
        self.figures.needed += self.undisturbed.0;
        self.figures.wrong.extend(watch.end());
        self.figures.wrong.extend(tree::differences(&self.bed.tree, &self.bed.destination)?);
        self.figures.wrong.extend(self.bed.leftovers()?);
        println!(
            "{way:?}: {} kills so far, {} MB again, {} things wrong",
            self.figures.kills.iter().sum::<u32>(),
            again / 1_000_000,
            self.figures.wrong.len()
        );
        Ok(())
    }

    fn report(&self) -> anyhow::Result<()> {
        let ResentFigures { kills, cycles, needed, again, allowed, beyond, wrong } = &self.figures;
        let mega = |bytes: &u64| *bytes / 1_000_000;
        let percent = |bytes: &u64| *bytes as f64 / (*needed).max(1) as f64 * 100.0;
        println!(
            "kills: {} sender, {} receiver, {} remote shell, {} both ends; {cycles} transfers came through",
            kills[0], kills[1], kills[2], kills[3]
        );
        println!(
            "wrong or missing, half a file under a real name, failed reruns, left-overs: {}",
            wrong.len()
        );
        println!(
            "sent again: {} of {} MB ({:.2} %); chunk size x streams of all kills are {} MB; beyond: {:.2} %",
            mega(again),
            mega(needed),
            percent(again),
            mega(allowed),
            percent(beyond)
        );
        wrong.iter().take(20).for_each(|line| println!("WRONG: {line}"));
        let is_judged = kills.iter().sum::<u32>() >= ENOUGH_KILLS;
        if !wrong.is_empty() || is_judged && percent(beyond) > MAX_BEYOND {
            bail!("the kill test has found something: run it again with the same seed");
        }
        Ok(())
    }
}
