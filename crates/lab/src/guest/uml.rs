//! The command line of user-mode Linux.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use super::init::{PROGRAM, SUBCOMMAND};
use super::machine::{Booted, Card};
use crate::error::LabError;
use crate::tool::UNSHARE;

/// The number of packets that a card moves at a time.
const DEPTH: u32 = 128;

/// The command that runs a guest with these cards. The kernel is a process that traces one further process for each of
/// the guest's programs. They are in a process namespace, so that the end of the command ends them all. `directory` is
/// for the kernel's own files.
pub(super) fn with_cards(booted: &Booted, cards: &[Card], directory: &Path) -> Result<Command, LabError> {
    let Booted { spec, boot, log, name } = booted;
    let mut command = Command::new(UNSHARE.find()?);
    command.args(["--pid", "--fork", "--kill-child", "--"]).arg(&boot.kernel);
    command.arg(format!("mem={}K", spec.memory / 1024)).arg(format!("initrd={}", boot.archive.display()));
    command.arg(format!("uml_dir={}/", directory.join("uml").display())).arg(format!("umid={name}"));
    // The console's output is the command's standard output.
    command.args(["con=null", "con0=null,fd:1", "quiet", "loglevel=3", &format!("rdinit=/{PROGRAM}")]);
    for (link, Card { tap, mac }) in cards.iter().enumerate() {
        command.arg(format!("vec{link}:transport=tap,ifname={tap},mac={mac},depth={DEPTH},gro=1"));
    }
    // The kernel passes words that it doesn't know to the first process. They don't follow `--`, because this kernel adds
    // options of its own at the end of the line.
    command.args([SUBCOMMAND, name]);
    command.stdout(File::create(log).map_err(LabError::file("making", log))?);
    Ok(command)
}
