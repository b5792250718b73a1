//! `linerate`: arguments, output and exit codes.

#[macro_use]
mod print;

mod agent;
mod bench;
mod clean;
mod common;
mod compare;
mod complete;
mod completions;
mod config;
mod copying;
mod cp;
mod data;
mod doctor;
mod exit;
mod facts;
mod fleet;
mod jobs;
mod keep;
mod lab;
mod load;
mod manual;
mod measure;
mod modes;
mod rsync;
mod scp;
mod stream;
mod sync;
mod units;
mod verify;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use common::config::apply;
use common::failure::Failure;
use common::log;
use common::recording::not_begun;
use common::refused_number::explained;
use exit::Code;
use print::{is_lost, note_loss};

const EXAMPLES: &str = "\
Examples:
  linerate cp -r tree host:/data/       copies a tree to another host, as scp -r does
  linerate cp -r host:/data/tree .      copies the tree back
  linerate sync tree host:/data/tree    sends only the differences
  linerate bench                        measures a test bed on this machine, and draws a report
  linerate doctor                       finds the causes of slow transfers on this host, and fixes
  linerate measure -- scp big host:/tmp measures a command's rate and cost
  linerate lab run --link 10gbit -- sh  runs a shell on a test bed of two hosts
";

/// The text that refers to the exit codes in each command's help.
const CODES: &str = "linerate COMMAND --help lists COMMAND's exit codes.";

/// Moves file trees between Linux servers at the line rate, measures the path, and names what limits it.
#[derive(Debug, Parser)]
#[command(version, long_version = linerate_agent::VERSION, max_term_width = 100)]
#[command(before_long_help = EXAMPLES, after_long_help = CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy files and trees to another host, from it, or within this one
    Cp(Box<cp::CpArgs>),
    /// Make a tree equal to another one, here or on another host; only differences are sent
    Sync(Box<sync::SyncArgs>),
    /// Run a command line of rsync over linerate's streams
    #[command(disable_help_flag = true)]
    Rsync(rsync::RsyncArgs),
    /// Run a command line of scp over linerate's streams
    #[command(disable_help_flag = true)]
    Scp(scp::ScpArgs),
    /// Move a tree with many hosts, shard by shard
    Fleet(fleet::FleetArgs),
    /// List the detached copies (--detach) on a host
    Status(jobs::JobStatusArgs),
    /// Follow a detached copy until its end, or cancel it
    Attach(jobs::AttachArgs),
    /// List and remove the remains of interrupted transfers
    Clean(clean::CleanArgs),
    /// Compare two trees, on this host or on others, by hashes
    Verify(verify::VerifyArgs),
    /// Measure the network path from memory to memory, over the same streams as cp
    Stream(stream::StreamArgs),
    /// Run a command, and report its rate, its cost and its limiter
    Measure(measure::MeasureArgs),
    /// Print a host's facts: processors, slots, ports, TCP, storage
    Facts(facts::FactsArgs),
    /// Find the causes of transfers below the line rate, their costs, and fixes
    Doctor(Box<doctor::DoctorArgs>),
    /// Generate traffic: requests and responses, bulk, HTTP users, tiles
    Load(load::LoadArgs),
    /// Answer the traffic of linerate load
    Serve(load::ServeArgs),
    /// Make test beds of two hosts on this machine
    Lab(lab::LabArgs),
    /// Run studies: measure, compare and draw
    Bench(bench::BenchArgs),
    /// Compare two results of a study
    Compare(compare::CompareArgs),
    /// Print options from configuration files
    Config(config::ConfigArgs),
    /// Print the manual page of a command
    Man(manual::ManArgs),
    /// Print a shell's completions for commands and options
    Completions(manual::CompletionsArgs),
    /// The far end of the other commands; started by them
    #[command(hide = true)]
    Agent(agent::AgentArgs),
    /// Print paths of a far host for a shell's completions; started by them
    #[command(hide = true)]
    Complete(complete::CompleteArgs),
    /// The files of a study's far host; started by bench
    #[command(hide = true)]
    Data(data::DataArgs),
    /// The process that undoes a doctor's changes unless they are confirmed; started by doctor
    #[command(hide = true)]
    UndoTimer(doctor::UndoTimerArgs),
    /// The emulator of a lab's link; started by lab
    #[command(hide = true)]
    Wan(lab::WanArgs),
    /// The first process of a lab's virtual machine; started by its kernel
    #[command(hide = true)]
    Guest(lab::GuestArgs),
}

impl Command {
    fn run(self) -> Result<Code, Failure> {
        match self {
            Self::Cp(args) => cp::run(*args),
            Self::Sync(args) => sync::run(*args),
            Self::Rsync(args) => rsync::run(args),
            Self::Scp(args) => scp::run(args),
            Self::Fleet(args) => fleet::run(args),
            Self::Status(args) => jobs::status(args),
            Self::Attach(args) => jobs::attach(args),
            Self::Clean(args) => clean::run(args),
            Self::Verify(args) => verify::run(args),
            Self::Stream(args) => stream::run(args),
            Self::Measure(args) => measure::run(args),
            Self::Facts(args) => facts::run(args),
            Self::Doctor(args) => doctor::run(*args),
            Self::Load(args) => load::run(args),
            Self::Serve(args) => load::serve(args),
            Self::Lab(args) => lab::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Config(args) => config::run(args, &command_named("cp")),
            Self::Man(args) => manual::man(&args, &command()),
            Self::Completions(args) => manual::completions(&args, &command()),
            Self::Agent(args) => agent::run(args),
            Self::Complete(args) => complete::run(&args),
            Self::Data(args) => data::run(args),
            Self::UndoTimer(args) => doctor::run_undo_timer(&args),
            Self::Wan(args) => lab::emulate(args),
            Self::Guest(args) => lab::be_guest(args),
        }
    }
}

fn main() -> ExitCode {
    linerate_sys::limits::outlive_largest_file();
    let outcome = match parse(words(std::env::args_os())) {
        Ok(Ok(cli)) => cli.command.run(),
        Ok(Err(answer)) => Ok(print(&answer)),
        Err(failure) => Err(failure),
    };
    let code = match outcome {
        // Some output was lost, so the command's own result doesn't count.
        Ok(_) if is_lost() => Code::Failed,
        Ok(code) => code,
        Err(Failure(message, code)) => {
            if !log::report_failure(&message, code) {
                message!("linerate: {message}");
            }
            code
        }
    };
    code.into()
}

/// Parses the command line, with the words that the configuration adds after the command's name.
fn parse(mut words: Vec<OsString>) -> Result<Result<Cli, clap::Error>, Failure> {
    let mut all = command();
    let matches = match all.try_get_matches_from_mut(&words) {
        Ok(matches) => matches,
        Err(answer) => return Ok(Err(explained(answer))),
    };
    let given = matches.subcommand().map(|(name, given)| match given.subcommand() {
        // Only the subcommands of `fleet` log in, to the hosts in the plan, so the configuration applies to
        // them.
        Some((of_fleet, below)) if name == "fleet" => (format!("{name} {of_fleet}"), below),
        _ => (name.to_owned(), given),
    });
    let added = given.map_or(Ok(Vec::new()), |(name, given)| {
        let file = |id: &str| given.try_get_one::<PathBuf>(id).ok().flatten().map(PathBuf::as_path);
        let [command, cp] = [&*name, "cp"].map(|name| named(&all, name).unwrap_or(&all));
        let added = apply(given, command, cp);
        added.inspect_err(|failure| not_begun(file("log_file"), file("metrics"), &name, failure))
    })?;
    if added.is_empty() {
        return Ok(Cli::from_arg_matches(&matches));
    }
    let behind = words.len().min(2);
    words.splice(behind..behind, added);
    Ok(all
        .try_get_matches_from_mut(words)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(explained))
}

/// The words of the command line. If the program is called under the name `rsync` or `scp`, the subcommand of
/// that name is inserted.
fn words(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = args.collect();
    let called = words.first().and_then(|program| Path::new(program).file_name());
    let name = called.and_then(|name| ["rsync", "scp"].into_iter().find(|known| name == *known));
    if let Some(name) = name {
        words.splice(..1, ["linerate", name].map(OsString::from));
    }
    words
}

/// The definition of the command line.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(with_texts_below)
}

/// The definition of the subcommand with this name, such as `cp` or `fleet run`.
fn command_named(name: &str) -> clap::Command {
    named(&command(), name).cloned().unwrap_or_default()
}

fn named<'a>(all: &'a clap::Command, name: &str) -> Option<&'a clap::Command> {
    name.split(' ').try_fold(all, |above, name| above.find_subcommand(name))
}

/// Gives the examples and exit codes of a command to its subcommands, unless these have their own.
fn with_texts_below(command: clap::Command) -> clap::Command {
    let (examples, codes) = (command.get_before_long_help().cloned(), command.get_after_long_help().cloned());
    command.mut_subcommands(|mut below| {
        if let (None, Some(examples)) = (below.get_before_long_help(), &examples) {
            below = below.before_long_help(examples.clone());
        }
        if let (None, Some(codes)) = (below.get_after_long_help(), &codes) {
            below = below.after_long_help(codes.clone());
        }
        with_texts_below(below)
    })
}

/// Prints help, the version, or an error in the arguments.
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
    use super::command;

    const HIDDEN: [&str; 6] = ["agent", "complete", "data", "undo-timer", "wan", "guest"];

    /// tests/output.rs gets the names of all other commands from the help.
    #[test]
    fn some_commands_are_not_in_the_help() {
        let hidden = command();
        let hidden = hidden.get_subcommands().filter(|command| command.is_hide_set());
        assert_eq!(hidden.map(clap::Command::get_name).collect::<Vec<_>>(), HIDDEN);
    }

    /// Calls `check` with each command and its full name.
    fn each(command: &clap::Command, path: &str, check: &mut dyn FnMut(&str, &clap::Command)) {
        let path = format!("{path} {}", command.get_name());
        check(&path, command);
        let below = command.get_subcommands().filter(|below| below.get_name() != "help");
        below.for_each(|below| each(below, &path, check));
    }

    /// clap doesn't ask for a required option that conflicts with a given one: what requires it must have the same conflicts, or
    /// would do nothing.
    #[test]
    fn an_option_conflicts_with_all_that_its_required_option_conflicts_with() {
        let mut whole = command();
        whole.build();
        let mut lacking = Vec::new();
        each(&whole, "", &mut |path, command| {
            let all: Vec<_> = command.get_arguments().collect();
            let forbids = |one: &clap::Arg, other: &clap::Arg| {
                command.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
            };
            for (one, required) in all.iter().flat_map(|one| {
                let names = required(one);
                let found = all.iter().filter(move |arg| names.iter().any(|name| arg.get_id() == name));
                found.map(move |required| (one, required))
            }) {
                let others = all.iter().filter(|other| {
                    let is_free = !forbids(one, other) && !forbids(other, one);
                    is_free && (forbids(required, other) || forbids(other, required))
                });
                lacking
                    .extend(others.map(|other| format!("{path}: {} with {}", one.get_id(), other.get_id())));
            }
        });
        assert_eq!(lacking, Vec::<String>::new());
        assert!(all_required() > 10);
    }

    /// The options that an option requires. clap shows them only in the text for programmers.
    fn required(arg: &clap::Arg) -> Vec<String> {
        let text = format!("{arg:?}");
        let list = text.split_once(" requires: [").and_then(|(_, rest)| rest.split_once(']'));
        let names = list.map_or("", |(list, _)| list).split('"').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    }

    /// The number of options that require another one.
    fn all_required() -> usize {
        let mut count = 0;
        each(&command(), "", &mut |_, command| {
            count += command.get_arguments().filter(|arg| !required(arg).is_empty()).count();
        });
        count
    }

    /// A line that begins with at least twelve spaces is the continuation of a wrapped line.
    #[test]
    fn short_help_has_a_line_for_each_option_and_no_examples() {
        let mut whole = command().term_width(100);
        whole.build();
        let mut wrapped = Vec::new();
        each(&whole, "", &mut |path, command| {
            let help = command.clone().term_width(100).render_help().to_string();
            let is_wrong = |line: &&str| line.chars().count() > 100 || line.starts_with("            ");
            wrapped.extend(help.lines().filter(is_wrong).map(|line| format!("{path}: {line}")));
            assert!(!help.contains("Examples:") && !help.contains("Exit codes:"), "{path}");
        });
        assert_eq!(wrapped, Vec::<String>::new());
    }

    #[test]
    fn long_help_has_examples_and_exit_codes_and_no_line_is_wrapped() {
        let mut whole = command().term_width(100);
        whole.build();
        each(&whole, "", &mut |path, command| {
            let help = command.clone().term_width(100).render_long_help().to_string();
            assert!(help.lines().all(|line| line.chars().count() <= 100), "{path}: {help}");
            let texts = [command.get_before_long_help(), command.get_after_long_help()];
            let texts: Vec<String> = texts.into_iter().flatten().map(ToString::to_string).collect();
            for line in texts.iter().flat_map(|text| text.lines()) {
                assert!(line.chars().count() <= 100, "{path}: {line}");
            }
            let is_hidden = path.split(' ').any(|word| HIDDEN.contains(&word));
            assert!(is_hidden || help.contains("Examples:"), "{path} has examples");
            assert!(
                help.contains("Exit codes:")
                    || path == " linerate"
                    || [" undo-timer", " wan", " guest"].iter().any(|name| path.ends_with(name)),
                "{path}"
            );
        });
    }
}
