//! `linerate`: arguments, output and exit codes.

#[macro_use]
mod say;

mod agent;
mod bench;
mod clean;
mod common;
mod compare;
mod copying;
mod cp;
mod data;
mod doctor;
mod exit;
mod facts;
mod keep;
mod lab;
mod load;
mod measure;
mod stream;
mod sync;
mod units;
mod verify;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

use common::failure::Failure;
use exit::Code;
use say::{is_lost, note_loss};

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

impl Command {
    fn run(self) -> Result<Code, Failure> {
        match self {
            Self::Cp(args) => cp::run(args),
            Self::Sync(args) => sync::run(args),
            Self::Clean(args) => clean::run(args),
            Self::Verify(args) => verify::run(args),
            Self::Stream(args) => stream::run(args),
            Self::Measure(args) => measure::run(args),
            Self::Facts(args) => facts::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Load(args) => load::run(args),
            Self::Serve(args) => load::serve(args),
            Self::Lab(args) => lab::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Agent(args) => agent::run(args),
            Self::Data(args) => data::run(args),
            Self::Wan(args) => lab::emulate(args),
        }
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(cli) => cli.command.run(),
        Err(answer) => Ok(print(&answer)),
    };
    let code = match outcome {
        // Whatever the command found, its caller hasn't got all of it.
        Ok(_) if is_lost() => Code::Failed,
        Ok(code) => code,
        Err(Failure(message, code)) => {
            tell!("linerate: {message}");
            code
        }
    };
    code.into()
}

/// Prints help, the version, or what is wrong with the arguments.
fn print(answer: &clap::Error) -> Code {
    let printed = answer.print();
    if answer.use_stderr() {
        return Code::Usage;
    }
    note_loss(printed.and_then(|()| std::io::stdout().flush()));
    Code::Done
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    /// tests/output.rs reads the other commands from the help.
    #[test]
    fn three_commands_are_not_in_the_help() {
        let hidden = Cli::command();
        let hidden = hidden.get_subcommands().filter(|command| command.is_hide_set());
        assert_eq!(hidden.map(clap::Command::get_name).collect::<Vec<_>>(), ["agent", "data", "wan"]);
    }
}
