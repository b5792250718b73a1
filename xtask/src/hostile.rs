//! Tests with a random mix of a hostile peer's actions. The driver `crates/cli/tests/peer/run.py` has the
//! modes, and runs this repository's program.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{built_release, call, repository};

/// The arguments of the command.
#[derive(Debug, PartialEq)]
struct HostileOptions {
    seconds: u64,
    all: bool,
    program: Option<PathBuf>,
    /// Further arguments for the driver, unchanged.
    others: Vec<String>,
}

impl HostileOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self { seconds: 60, all: false, program: None, others: Vec::new() };
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            if name == "--all" {
                options.all = true;
                continue;
            }
            let value = words.next().with_context(|| format!("{name} needs a value"))?;
            options.take(name, value)?;
        }
        Ok(options)
    }

    fn take(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        match name {
            "--seconds" => self.seconds = value.parse().context("--seconds")?,
            "--program" => self.program = Some(Path::new(value).canonicalize().context("--program")?),
            "--seed" | "--mode" | "--command" | "--flood-seconds" | "--jobs" => {
                self.others.extend([name.to_owned(), value.to_owned()]);
            }
            _ => bail!(
                "{name} is no option: --seconds, --seed, --program, --mode, --command, --flood-seconds, --jobs, --all"
            ),
        }
        Ok(())
    }

    /// The driver's arguments, without its program name.
    fn words(&self) -> Vec<String> {
        let what = if self.all {
            vec!["--all".to_owned()]
        } else {
            vec!["--mix".to_owned(), self.seconds.to_string()]
        };
        [what, self.others.clone()].concat()
    }
}

/// Runs the test; returns an error if anything failed.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = HostileOptions::parse(arguments)?;
    let program = options.program.clone().map_or_else(built_release, Ok)?;
    let driver = repository().join("crates/cli/tests/peer/run.py");
    call(Command::new("python3").arg("-B").arg(driver).arg("--program").arg(program).args(options.words()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<HostileOptions> {
        HostileOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_not_said_is_a_minute_at_random() {
        assert_eq!(parse("").unwrap().words(), ["--mix", "60"]);
        assert_eq!(parse("--seed 7 --seconds 5").unwrap().words(), ["--mix", "5", "--seed", "7"]);
        assert_eq!(parse("--all --jobs 4").unwrap().words(), ["--all", "--jobs", "4"]);
    }

    #[test]
    fn other_options_and_missing_values_are_refused() {
        assert!(
            parse("--seconds").is_err() && parse("--seconds soon").is_err() && parse("--kills 3").is_err()
        );
    }
}
