//! Creates each kind of limit on purpose, and counts how often linerate names it correctly.

mod kinds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail};
use kinds::{KINDS, LimitKind};

use crate::{cargo, setup};

/// The common first lines of each limit's script.
const BED: &str = include_str!("bed.sh");
/// The start of the result of a try whose limit couldn't be created, because this machine is too slow for it.
const NOT_MADE: &str = "NOT MADE";
/// The least share of tries in which the limit must be named correctly.
const BOUND: f64 = 0.95;

/// The options `--tries N`, `--only KIND,KIND` and `--program FILE`.
struct LimitOptions {
    tries: u32,
    only: Vec<String>,
    program: Option<PathBuf>,
}

/// Creates the limits and prints the table; returns an error if too few limits are named correctly.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = LimitOptions::parse(arguments)?;
    if let Some(reason) = missing() {
        bail!("limits can't be made here: {reason}");
    }
    let chosen: Vec<&LimitKind> = KINDS.iter().filter(|kind| options.is_chosen(kind)).collect();
    let bed = LimitBed::up(options.program()?)?;
    println!("{:<26} {:<18} {:>6}  named otherwise", "made", "expected", "right");
    let (mut right, mut all) = (0, 0);
    for kind in &chosen {
        let tries: Vec<String> = (0..options.tries).map(|_| bed.name(kind)).collect::<Result<_, _>>()?;
        let (unmade, named): (Vec<_>, Vec<_>) = tries.into_iter().partition(|one| one.starts_with(NOT_MADE));
        right += show(kind, &named);
        all += named.len() as u32;
        unmade.iter().for_each(|why| println!("{:<26} {why}; this try isn't counted", ""));
    }
    let share = f64::from(right) / f64::from(all.max(1));
    let unmade = chosen.len() as u32 * options.tries - all;
    println!("{right} of {all} named right: {:.1} %; {unmade} more tries weren't made", 100.0 * share);
    if all == 0 {
        bail!("this machine is too slow for the chosen limits");
    }
    if share < BOUND {
        bail!("less than {:.0} % were named right", 100.0 * BOUND);
    }
    Ok(())
}

/// Prints a row of the table, and returns the number of correct results.
fn show(kind: &LimitKind, named: &[String]) -> u32 {
    let is_right = |verdict: &&String| verdict.split(':').next() == Some(kind.expected);
    let right = named.iter().filter(is_right).count();
    let others: Vec<&str> = named.iter().filter(|verdict| !is_right(verdict)).map(String::as_str).collect();
    let shares: Vec<&str> = named.iter().filter(is_right).map(String::as_str).take(1).collect();
    println!("{:<26} {:<18} {right:>3}/{:<2}  {}", kind.made, kind.expected, named.len(), others.join(" | "));
    if let Some(example) = shares.first() {
        println!("{:<26} {example}", "");
    }
    right as u32
}

impl LimitOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self { tries: 5, only: Vec::new(), program: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("{word} takes a value"))?;
            match word.as_str() {
                "--tries" => options.tries = value.parse().context("the number of tries")?,
                "--only" => options.only = value.split(',').map(str::to_owned).collect(),
                "--program" => {
                    options.program = Some(PathBuf::from(value).canonicalize().context("the program")?)
                }
                _ => bail!("'{word}' is no option of limits"),
            }
        }
        let unknown = options.only.iter().find(|name| KINDS.iter().all(|kind| kind.made != name.as_str()));
        match unknown {
            Some(name) => {
                let known: Vec<_> = KINDS.iter().map(|kind| kind.made).collect();
                bail!("'{name}' is no kind of limit; there are {}", known.join(", "))
            }
            None => Ok(options),
        }
    }

    fn is_chosen(&self, kind: &LimitKind) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == kind.made)
    }

    /// The path of the chosen program or, if none was chosen, of a program that is built now.
    fn program(&self) -> anyhow::Result<PathBuf> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let mut build = cargo();
        build.args(["build", "--release", "--package", "linerate", "--message-format", "json"]);
        let output = build.output().context("building linerate")?;
        if !output.status.success() {
            bail!("building linerate: {}", String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let path = text.lines().rev().find_map(|line| {
            let (_, rest) = line.split_once("\"executable\":\"")?;
            Some(PathBuf::from(rest.split_once('"')?.0))
        });
        path.context("cargo doesn't say where the program is")
    }
}

/// A program or right that this host lacks; `None` if nothing is missing.
fn missing() -> Option<String> {
    let is_root = fs::read_to_string("/proc/self/status")
        .is_ok_and(|text| text.lines().any(|line| line.starts_with("Uid:\t0\t")));
    if !is_root {
        return Some("it needs root, for control groups and a loop device".into());
    }
    for tool in ["scp", "rsync", "mkfs.ext4", "losetup", "ip", "sshd", "iperf3", "nft", "python3"] {
        if !setup::is_there(tool) {
            return Some(format!(
                "{tool} is missing: apt-get install openssh-client openssh-server rsync e2fsprogs mount iproute2 iperf3 nftables python3"
            ));
        }
    }
    let groups = ["/sys/fs/cgroup/cpu/cpu.shares", "/sys/fs/cgroup/cgroup.controllers"];
    let has_groups = groups.iter().any(|file| Path::new(file).exists());
    let loops = Path::new("/dev/loop-control").exists() && Path::new("/dev/net/tun").exists();
    (!has_groups || !loops).then(|| "it needs control groups, /dev/loop-control and /dev/net/tun".into())
}

/// The test bed in which limits are created; it is removed on drop.
struct LimitBed {
    program: PathBuf,
    work: PathBuf,
}

impl LimitBed {
    fn up(program: PathBuf) -> anyhow::Result<Self> {
        let bed = Self { program, work: format!("/dev/shm/linerate-limits-{}", std::process::id()).into() };
        bed.must("bed_up")?;
        Ok(bed)
    }

    /// The result of one try: the name of the limiting factor, a colon, and the reason.
    fn name(&self, kind: &LimitKind) -> anyhow::Result<String> {
        self.must("bed_again")?;
        let script = format!("{BED}\n{}\n", kind.script);
        let mut lab = self.command(&self.program);
        lab.args(["lab", "run"]).args(kind.lab.split_whitespace()).args(["--", "sh", "-c", &script]);
        let output = lab.output().context("running the lab")?;
        Ok(verdict(&output))
    }

    fn must(&self, what: &str) -> anyhow::Result<()> {
        let output = self.command(Path::new("sh")).args(["-c", &format!("{BED}\n{what}")]).output()?;
        if !output.status.success() {
            bail!("{what}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("WORK", &self.work)
            .env("GROUP", format!("linerate-limits-{}", std::process::id()))
            .env("PROGRAM", &self.program);
        command
    }
}

impl Drop for LimitBed {
    fn drop(&mut self) {
        // If this fails, the next run removes what is left (`sweep` in bed.sh).
        if let Err(error) = self.must("bed_down") {
            eprintln!("xtask: {error:#}");
        }
    }
}

/// The limiting factor in the last JSON object of the output.
fn verdict(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(unmade) = text.lines().find(|line| line.starts_with(NOT_MADE)) {
        return unmade.to_owned();
    }
    let last = text.lines().rev().find(|line| line.contains("\"limiter\":\""));
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    match last.and_then(|line| Some((field(line, "limiter")?, field(line, "limiter_evidence")?))) {
        Some((limiter, evidence)) => format!("{limiter}: {evidence}"),
        None => format!("nothing: {}", String::from_utf8_lossy(&output.stderr).replace('\n', " ")),
    }
}
