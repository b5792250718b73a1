//! Measures how often the rule for differences calls equal cases different on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{call, cargo};

/// The number of blocks in one comparison.
const GROUP: u32 = 5;

/// Measures two equal cases in enough blocks for this number of comparisons, and counts the wrong verdicts.
pub fn run(repository: &Path, comparisons: u32) -> anyhow::Result<()> {
    let out = repository.join(format!("target/aa/{}", std::process::id()));
    // Each group of blocks is compared with the next one, so N comparisons need N + 1 groups.
    let blocks = GROUP * (comparisons + 1);
    let mut bench = linerate(&["bench", "xtask/aa.toml", "--blocks", &blocks.to_string(), "--out"]);
    call(bench.arg(&out))?;
    call(linerate(&["compare", "--equal"]).arg(only(&out)?))
}

fn linerate(arguments: &[&str]) -> std::process::Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "linerate", "--"]).args(arguments);
    command
}

/// The only results directory in a new directory.
fn only(out: &Path) -> anyhow::Result<PathBuf> {
    let mut found = fs::read_dir(out).with_context(|| format!("listing {}", out.display()))?;
    let entry = found.next().with_context(|| format!("{} holds no results", out.display()))??;
    Ok(entry.path())
}
