//! `linerate`: arguments, output and exit codes.

#[macro_use]
mod say;

mod agent;
mod bench;
mod clean;
mod compare;
mod cp;
mod data;
mod doctor;
mod exit;
mod facts;
mod keep;
mod lab;
mod load;
mod measure;
mod reach;
mod stream;
mod sync;
mod units;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  linerate cp -r tree host:/data/       move a tree to another host, as scp -r would, at the line rate
  linerate cp -r host:/data/tree .      and the other way
  linerate sync tree host:/data/tree    only what differs
  linerate bench                        measure this machine's own test bed, draw the figure
  linerate doctor                       what keeps this host from the line rate, and the fix
  linerate measure -- scp big host:/tmp what any command achieves, and what it costs
  linerate lab run --link 10gbit -- sh  a shell on a test bed of two hosts
";

/// Moves file trees between Linux servers at the line rate, measures the path, and says what limits it.
#[derive(Debug, Parser)]
#[command(version, before_help = EXAMPLES, after_help = exit::CODES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy files and trees to another host, or from it
    Cp(cp::CpArgs),
    /// Make a tree on another host, or one here, like its original: only what differs travels
    Sync(sync::SyncArgs),
    /// List and remove what transfers that were cut off have left
    Clean(clean::CleanArgs),
    /// Compare a tree here with one on another host, without moving it
    Verify(verify::VerifyArgs),
    /// Measure a path from memory to memory, over the same streams as cp
    Stream(stream::StreamArgs),
    /// Run a command, and tell what it achieved and what it cost
    Measure(measure::MeasureArgs),
    /// Tell what a host says about itself: processors, slots, ports, TCP, storage
    Facts(facts::FactsArgs),
    /// Tell what keeps transfers from the line rate, what it costs, and what to do
    Doctor(doctor::DoctorArgs),
    /// Make traffic: requests and responses, bulk, HTTP users, tiles
    Load(load::LoadArgs),
    /// Answer the traffic of load
    Serve(load::ServeArgs),
    /// Make test beds of two hosts on this machine
    Lab(lab::LabArgs),
    /// Run studies: measure, compare and draw
    Bench(bench::BenchArgs),
    /// Say what differs between two results of a study, and how surely
    Compare(compare::CompareArgs),
    /// The far end of the other commands; started by them
    #[command(hide = true)]
    Agent(agent::AgentArgs),
    /// The files of a study's far host; started by bench
    #[command(hide = true)]
    Data(data::DataArgs),
    /// The emulator of a lab's link; started by lab
    #[command(hide = true)]
    Wan(lab::WanArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Cp(args) => Ok(cp::run(args)),
        Command::Sync(args) => Ok(sync::run(args)),
        Command::Clean(args) => Ok(clean::run(&args)),
        Command::Verify(args) => Ok(verify::run(&args)),
        Command::Stream(args) => Ok(stream::run(args)),
        Command::Measure(args) => Ok(measure::run(args)),
        Command::Facts(args) => Ok(facts::run(&args)),
        Command::Doctor(args) => Ok(doctor::run(&args)),
        Command::Load(args) => Ok(load::run(args)),
        Command::Serve(args) => Ok(load::serve(args)),
        Command::Agent(args) => Ok(agent::run(&args)),
        Command::Bench(args) => bench::run(args),
        Command::Compare(args) => Ok(compare::run(&args)),
        Command::Data(args) => data::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Wan(args) => lab::emulate(&args),
    };
    outcome.unwrap_or_else(|error| {
        tell!("linerate: {error:#}");
        exit::Code::Failed.into()
    })
}
