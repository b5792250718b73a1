//! A lab around one command: `lab [--link RATE] [--guests N] [--guest PROPERTIES] [--name NAME] [--rtt TIME]
//! [--sites 2xN] [--slurm] COMMAND...` is what `linerate lab run` is made of.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use linerate_lab::{LabOptions, SlurmWish, Wan, ensure_privileges, parse_link, run};

fn main() -> ExitCode {
    make_and_run().unwrap_or_else(|error| {
        eprintln!("lab: {error}");
        ExitCode::FAILURE
    })
}

fn make_and_run() -> Result<ExitCode, Box<dyn Error>> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == linerate_lab::wan::SUBCOMMAND) {
        linerate_lab::wan::serve(words.get(1).and_then(|word| word.to_str()).ok_or("there is no job")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if words.first().is_some_and(|word| word == linerate_lab::guest::SUBCOMMAND) {
        linerate_lab::guest::serve(words.get(1).and_then(|word| word.to_str()).ok_or("there is no name")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut options = LabOptions::default();
    if words.first().is_some_and(|word| word == "--link") {
        let rate = words.get(1).and_then(|word| word.to_str()).ok_or("--link needs a rate")?;
        options.link = parse_link(rate)?;
        words.drain(..2);
    }
    if words.first().is_some_and(|word| word == "--guests") {
        options.guests =
            words.get(1).and_then(|word| word.to_str()).ok_or("--guests needs a number")?.parse()?;
        words.drain(..2);
    }
    if words.first().is_some_and(|word| word == "--guest") {
        options.machine = Some(words.get(1).and_then(|word| word.to_str()).ok_or("no properties")?.parse()?);
        words.drain(..2);
    }
    if words.first().is_some_and(|word| word == "--name") {
        options.name = Some(words.get(1).and_then(|word| word.to_str()).ok_or("no name")?.parse()?);
        words.drain(..2);
    }
    if words.first().is_some_and(|word| word == "--rtt") {
        let rtt = words.get(1).and_then(|word| word.to_str()).ok_or("--rtt needs a time")?.parse()?;
        options.wan = Some(Wan { rtt, ..Wan::default() });
        words.drain(..2);
    }
    if words.first().is_some_and(|word| word == "--sites") {
        options.sites = Some(words.get(1).and_then(|word| word.to_str()).ok_or("no shape")?.parse()?);
        words.drain(..2);
    }
    if words.first().is_some_and(|word| word == "--slurm") {
        options.slurm = SlurmWish::Always;
        words.drain(..1);
    }
    ensure_privileges()?;
    Ok(run(&options, &words)?.into())
}
