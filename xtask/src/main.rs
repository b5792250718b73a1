//! Developer commands: the steps of checks and releases that need more than one call of cargo.

mod aa;
mod chaos;
mod commands;
mod dist;
mod docs;
mod first_copy;
mod foreign;
mod fuzz;
mod grid;
mod hostile;
mod lengths;
mod limits;
mod machine;
mod names;
mod race;
mod release;
mod resent;
mod rooms;
mod setup;
mod site;
mod sizes;
mod suites;
mod test;

use anyhow::{Context, bail};
use machine::Machine;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask COMMAND
  setup          as root, install the Debian packages that the tests need; otherwise print which are missing
  test [ARGS]    setup, then cargo test --workspace --no-fail-fast [ARGS]; if only a few tests fail, run each of them
                 once more, alone, and print their names
  docs           check that the links, headings, commands, options and source files that the documentation names exist
  rooms          print which modules of a crate use which; fail if a module uses one that it may not use, or if a Rust
                 file has more than 500 lines
  names          check that the name of each type has one meaning, and list the names that are defined more than once
  aa [N]         measure two equal cases, as root, and count how many of N comparisons (default 200) call them different
  fuzz TARGET [--seconds N]
                 run a fuzz target, for ten minutes by default
  chaos [OPTIONS]  disturb transfers of every kind onto every file system, as root, run them again, and compare the
                 trees: --kills N, --seed S, --program FILE; --round N repeats one round
  race [CASE...] [--blocks N] [--program FILE]
                 compare the times of linerate, of other programs, and of linerate with other options, in shuffled
                 blocks, as root; print the ratios, and fail if one misses its bound
  resent [OPTIONS]  kill transfers at random moments, run them again, and count the bytes that are sent again:
                 --kills N, --size 2GB, --seed S, --dir DIR, --program FILE
  limits [--tries N] [--only KIND,KIND] [--program FILE]
                 create each limit of a transfer on purpose, as root, and count how often linerate names the limit
                 correctly
  grid [--program FILE] [--congestion NAME,NAME] [--rtt MS,MS]
                 compare the rates that the doctor predicts from TCP windows with those that iperf3 reaches, as root,
                 for several buffers, round trips and congestion controls; fail unless at least 95 % of the predictions
                 differ by at most 15 %
  hostile [OPTIONS]  run the program against a hostile far end, with modes, commands and options at random, each
                 followed by runs of the same command with an honest far end: --seconds N, --seed S, --program FILE,
                 --mode NAME; --all runs every mode with each of its commands
  rsync-suite [--program FILE] [--only NAME,NAME] [--may-lack]
                 run rsync's own test suite, fetched from Debian, with linerate in rsync's place, and compare the
                 results with the list in crates/cli/tests/suites; --may-lack: succeed if the suite can't be fetched
  scp-suite [--program FILE] [--only NAME,NAME] [--may-lack]
                 run OpenSSH's own tests of scp with linerate in scp's place, and compare the results with their list
  man DIR        write the manual pages of all commands into DIR
  site [--out DIR] [--program FILE]
                 make a site of the documentation and of the program's manual pages, with mdBook, and check every link
                 in the site
  dist [--twice]  build the static binaries dist/linerate and dist/linerate-agent (the part that is copied to other
                 hosts), and check that they are static; --twice: build the same commit again at another path, and fail
                 if a byte differs
  dist --environment
                 print the environment of this build as shell commands; with it, cargo run --release runs the same
                 binary
  dist [--twice] --for MACHINE
                 build the binaries for another kind of machine (aarch64, riscv64, x86_64) as dist/linerate-MACHINE and
                 dist/linerate-agent-MACHINE
  first-copy [--program FILE] [--agent FILE] [--tries N]
                 copy to hosts that have no linerate yet, as root, over a link of 100 Mbit/s; fail if a copy sends more
                 than 5 MB or takes over a second longer than a command run by ssh, or if the documentation states other
                 sizes
  foreign MACHINE  build linerate and its tests for another kind of machine, run the tests by qemu-user, and copy a tree
                 to a host of that kind and back, as root
  release --out DIR [--program [MACHINE=]FILE]... [--agent [MACHINE=]FILE]... [--sign KEY] [--maintainer 'NAME <ADDRESS>']
                 pack the static binaries for each MACHINE, by default for this one, as tar.zst, deb and rpm, and write
                 the list of parts (SPDX) and the SHA-256 sums; for several machines, also pack all binaries as
                 linerate-agents; --sign: sign the sums with an ssh key
  ci             run all checks that a change must pass: .ci/run
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<()> {
    let Some((command, rest)) = arguments.split_first() else { bail!("no command\n{USAGE}") };
    match (command.as_str(), rest) {
        ("setup", []) => setup::run(),
        ("test", rest) => test::run(rest),
        ("docs", []) => docs::run(repository()),
        ("rooms", []) => rooms::run(repository()).and_then(|()| lengths::run(repository())),
        ("names", []) => names::run(repository()),
        ("chaos", rest) => chaos::run(rest),
        ("resent", rest) => resent::run(rest),
        ("resent-far", rest) => resent::far(rest),
        ("aa", []) => aa::run(repository(), 200),
        ("aa", [number]) => aa::run(repository(), number.parse().context("the number of comparisons")?),
        ("limits", rest) => limits::run(rest),
        ("grid", rest) => grid::run(rest),
        ("fuzz", rest) => fuzz::run(repository(), rest),
        ("hostile", rest) => hostile::run(rest),
        ("race", rest) => race::run(rest),
        ("rsync-suite", rest) => suites::rsync(rest),
        ("scp-suite", rest) => suites::scp(rest),
        ("man", [directory]) => man(Path::new(directory)),
        ("site", rest) => site::run(repository(), rest),
        ("dist", []) => dist::run(repository()),
        ("dist", [option]) if option == "--environment" => dist::print_environment(repository()),
        ("dist", [twice]) if twice == "--twice" => dist::twice(repository(), None),
        ("dist", [twice, option, name]) if twice == "--twice" && option == "--for" => {
            dist::twice(repository(), Some(&Machine::named(name)?))
        }
        ("dist", [option, name]) if option == "--for" => dist::run_for(repository(), &Machine::named(name)?),
        ("first-copy", rest) => first_copy::run(repository(), rest),
        ("foreign", [name]) => foreign::run(repository(), &Machine::named(name)?),
        ("release", rest) => release::run(repository(), rest),
        ("ci", []) => call(&mut Command::new(repository().join(".ci/run"))),
        ("help" | "-h" | "--help", _) => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("'{}' is no command\n{USAGE}", arguments.join(" ")),
    }
}

/// Writes the manual pages of all commands.
fn man(directory: &Path) -> anyhow::Result<()> {
    let directory = std::path::absolute(directory).context("the directory for the pages")?;
    let run = ["run", "--quiet", "--locked", "--package", "linerate", "--", "man", "--out"];
    call(cargo().args(run).arg(directory))
}

/// The top of the working tree.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a directory of the repository")
}

/// The command of the cargo that started this program, in the top directory of the working tree.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository());
    cargo
}

/// Builds the program as it is released, and returns its path.
fn built_release() -> anyhow::Result<PathBuf> {
    call(cargo().args(["build", "--quiet", "--release", "--locked", "--package", "linerate"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Ok(target.join("release/linerate"))
}

/// Runs `command`, and returns an error if it fails.
fn call(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("running {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// The words of `command`, for messages.
fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
