//! Tests of a fleet under Slurm in which any process may be killed at any time.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::Fleet;
use super::slurm::{Slurm, case_with_slurm};
use crate::bed::{Case, args};
use crate::support::{PATIENCE, processes_with, send, within};
use crate::tree::{noise, write};

/// The number of files that each round changes; copying them takes some seconds.
const FILES: u64 = 8;
const SIZE: usize = 3_000_000;
/// The greatest number of submissions until a round must be complete.
const MOST: usize = 8;

/// The processes that are killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// All processes of the tasks at one source host.
    Tasks,
    /// All agents at one destination host.
    Agents,
    /// The daemon of a node, and the node's tasks.
    Node,
    Controller,
}

const VICTIMS: [Victim; 4] = [Victim::Tasks, Victim::Agents, Victim::Node, Victim::Controller];

/// The number of kills: two, or the value of `LINERATE_TEST_KILLS`.
fn kills() -> usize {
    std::env::var("LINERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(2)
}

#[test]
fn whatever_is_killed_at_any_moment_everything_arrives_in_the_end() {
    let Some(case) = case_with_slurm() else { return };
    let fleet = Fleet::new(&case).with_tree();
    let slurm = Slurm::of(&case);
    let mut random = fastrand::Rng::new();
    let first = random.usize(..VICTIMS.len());
    let (mut found, mut done) = (0, 0);
    while done < kills() {
        let round = done as u64;
        for number in 0..FILES {
            write(fleet.source.join(name(number)), version(round, number));
        }
        fleet.plan(args!["--shards", "8", "--hosts", "s2h2"]).exits(0);
        slurm.submit();
        let is_at_work = || fleet.states().iter().any(|(state, _)| state == "running");
        assert!(within(PATIENCE, is_at_work), "{}{}", slurm.said(), fleet.status());
        std::thread::sleep(Duration::from_millis(random.u64(0..3000)));
        let victim = VICTIMS[(first + done) % VICTIMS.len()];
        found += usize::from(kill(&case, &slurm, victim, random.bool()));
        assert_whole(&fleet, round);
        for _ in 0..MOST {
            assert!(
                within(PATIENCE * 3, || slurm.is_over()),
                "{victim:?}: {}{}",
                slurm.said(),
                fleet.status()
            );
            if fleet.status()["done"] == true {
                break;
            }
            slurm.submit();
        }
        fleet.assert_done();
        done += 1;
    }
    println!("{done} kills, of which {found} hit something at work: nothing wrong, missing or half");
}

fn name(number: u64) -> String {
    format!("large/{number}")
}

/// The contents of a file in a round.
fn version(round: u64, number: u64) -> Vec<u8> {
    noise(FILES * round + number, SIZE)
}

/// Panics if a file of the copy is neither this round's nor the previous round's version.
#[track_caller]
fn assert_whole(fleet: &Fleet<'_>, round: u64) {
    for number in 0..FILES {
        let Ok(there) = fs::read(fleet.copy.join(name(number))) else { continue };
        let versions = [Some(round), round.checked_sub(1)].into_iter().flatten();
        assert!(versions.into_iter().any(|round| there == version(round, number)), "file {number} is half");
    }
}

/// Kills the processes at one of the two hosts; returns whether there were any.
fn kill(case: &Case, slurm: &Slurm<'_>, victim: Victim, is_first: bool) -> bool {
    let (source, destination) = if is_first { ("s1h1", "s2h1") } else { ("s1h2", "s2h2") };
    let killed = match victim {
        Victim::Tasks => {
            let tasks = processes_with("SLURM_ARRAY_TASK_ID=");
            slurm.named(source, &["linerate"]).into_iter().filter(|pid| tasks.contains(pid)).collect()
        }
        Victim::Agents => slurm.named(destination, &["linerate", "linerate-agent"]),
        Victim::Node => slurm.named("s1h2", &["slurmd", "slurmstepd", "linerate", "slurm_script", "ssh"]),
        Victim::Controller => {
            slurm.restart_controller();
            return true;
        }
    };
    killed.iter().for_each(|pid: &i32| send(*pid, Signal::KILL));
    if let Victim::Node = victim {
        // There it has the host's name.
        let config = case.bed.lab.ssh_config();
        case.start_with(args!["ssh", "-F", config, "s1h2", "slurmd"], args![]).end().exits(0);
    }
    !killed.is_empty()
}
