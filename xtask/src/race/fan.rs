//! Compares a copy to several hosts with a copy to a single host. Each host is a network namespace. Its port at a
//! switch carries the same rate in each direction: 1 Gbit/s, unless the user chooses another rate.

use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::Spread;
use super::bed::make_mix;
use super::switched::SwitchedBed;
use crate::call;

/// The case's name on the command line.
pub const NAME: &str = "fan-out";
const HOSTS: usize = 4;
/// The default rate of a port. A lower rate needs less processor time, which all hosts share.
pub const RATE: &str = "1gbit";

/// The source and the destinations.
struct FanBed {
    bed: SwitchedBed,
    /// The number of bytes in the source's files.
    size: u64,
}

/// The measurements of one copy.
#[derive(Clone, Copy)]
struct FanTime {
    seconds: f64,
    /// The bytes that the source's port sent, divided by the bytes of the source's files.
    sent: f64,
}

/// Copies to one host, and to several as a chain, a tree and a star, in shuffled blocks.
pub fn run(program: &Path, blocks: usize, rate: &str) -> anyhow::Result<()> {
    println!("{NAME}: 0.4 GB in 250 files to {HOSTS} hosts, each with a link of {rate}");
    let bed = FanBed::up(program, rate)?;
    let copies = [("one", 1), ("chain", HOSTS), ("tree", HOSTS), ("star", HOSTS)];
    // After this copy, all hosts have the program.
    bed.copy("star", HOSTS)?;
    let mut times = vec![Vec::new(); copies.len()];
    for _ in 0..blocks {
        let mut order: Vec<_> = (0..copies.len()).collect();
        fastrand::shuffle(&mut order);
        for at in order {
            let (shape, hosts) = copies[at];
            times[at].push(bed.copy(shape, hosts)?);
        }
    }
    for ((shape, _), taken) in copies.iter().zip(&times) {
        let seconds = Spread::of(taken.iter().map(|time| time.seconds));
        let sent = Spread::of(taken.iter().map(|time| time.sent));
        let ratio = taken.iter().zip(&times[0]).map(|(time, one)| time.seconds / one.seconds);
        println!(
            "  {shape:6} {seconds:.2} s, / one {:.3}; left the source / tree {sent:.3}",
            Spread::of(ratio)
        );
    }
    Ok(())
}

impl FanBed {
    /// Makes the bed; host 0 is the source.
    fn up(program: &Path, rate: &str) -> anyhow::Result<Self> {
        let bed = SwitchedBed::up(program, "fan", HOSTS + 1, rate)?;
        make_mix(&bed.path("tree"), 2, &mut fastrand::Rng::with_seed(7))?;
        let size = size_of_tree(&bed.path("tree"))?;
        Ok(Self { bed, size })
    }

    fn copy(&self, shape: &str, hosts: usize) -> anyhow::Result<FanTime> {
        let to = |host: usize| self.bed.path(&format!("to{host}"));
        for host in 1..=HOSTS {
            // The directory may not exist.
            let _ = fs::remove_dir_all(to(host));
        }
        let (mut command, source) = (self.bed.command(0), self.bed.path("tree"));
        command.args(["cp", "-q", "-r", "--rsh"]).arg(self.bed.shell()).arg(&source);
        if hosts > 1 {
            command.args(["--fan-out", shape]);
        }
        (1..=hosts).for_each(|host| {
            command.arg("--to").arg(format!("{host}:{}", to(host).display()));
        });
        let (before, begun) = (self.bed.sent(0)?, Instant::now());
        let output = command.output().context("starting the copy")?;
        let seconds = begun.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{shape}: {}: {said}", output.status);
        let sent = (self.bed.sent(0)? - before) as f64 / self.size as f64;
        for host in 1..=hosts {
            call(Command::new("diff").arg("-r").args([&source, &to(host)]))?;
        }
        Ok(FanTime { seconds, sent })
    }
}

fn size_of_tree(top: &Path) -> anyhow::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(top)? {
        let entry = entry?;
        let found = entry.metadata()?;
        size += if found.is_dir() { size_of_tree(&entry.path())? } else { found.len() };
    }
    Ok(size)
}
