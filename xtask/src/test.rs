//! Runs the tests of the workspace. Failed tests are run a second time, each by itself, because on a busy machine a
//! timeout alone can make a test fail.

use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use crate::{call, cargo, repository, setup, show};

/// If more tests fail than this, they aren't run again. A busy machine fails only a few tests; more failures
/// mean a defect.
const MOST_AGAIN: usize = 8;

/// A test that failed.
#[derive(Debug, PartialEq)]
struct Failed {
    /// The arguments with which cargo selects the test's program, such as `-p linerate --test e2e`.
    target: String,
    name: String,
}

/// The word that the names of tests that measure time contain.
const TIMED: &str = "timed_";

/// Runs tests, and fails if a test fails twice. Without arguments, all tests are run: first those that share the
/// processors, then those that measure time, one by one.
///
/// # Errors
/// If the tests can't be built, or a test fails twice.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    setup::run()?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    // Most slow tests wait for a link or a timeout, so more threads than processors are useful.
    let sharing = 2 * processors;
    // With this option, all programs are run, so that all failed tests are known.
    let all = ["--workspace", "--no-fail-fast"];
    if !arguments.is_empty() {
        return run_part(all.into_iter().chain(arguments.iter().map(String::as_str)), sharing);
    }
    let shared = run_part(all.into_iter().chain(["--", "--skip", TIMED]), sharing);
    let timed = run_part(all.into_iter().chain(["--bins", "--lib", "--tests", "--", TIMED]), 1);
    shared.and(timed)
}

/// Runs the tests that the arguments of cargo select: `threads` at the same time, unless RUST_TEST_THREADS sets another
/// number.
fn run_part<'a>(arguments: impl Iterator<Item = &'a str>, threads: usize) -> anyhow::Result<()> {
    let mut tests = cargo_test();
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        tests.env("RUST_TEST_THREADS", threads.to_string());
    }
    tests.args(arguments);
    let (status, failed) = watch(&mut tests)?;
    if status.success() {
        return Ok(());
    }
    if failed.is_empty() || failed.len() > MOST_AGAIN {
        bail!("{}: {status}", show(&tests));
    }
    run_again(&failed)
}

fn run_again(failed: &[Failed]) -> anyhow::Result<()> {
    for Failed { target, name } in failed {
        println!("\nonce more, alone: {target} {name}");
        let mut alone = cargo_test();
        alone.args(target.split(' ')).args(["--", "--exact", name]);
        call(&mut alone)?;
    }
    println!("\nfailed beside others and passed alone: {}", failed.len());
    for Failed { target, name } in failed {
        println!("    {target} {name}");
    }
    Ok(())
}

/// The cargo command that runs tests, with default signal handlers. A shell makes its commands in the background ignore
/// some signals, and the tests' children would inherit this.
fn cargo_test() -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal=INT,QUIT,HUP").arg(cargo().get_program()).arg("test");
    env.current_dir(repository());
    env
}

/// Runs cargo and prints its output. Returns the failed tests, or none if they can't be determined.
fn watch(tests: &mut Command) -> anyhow::Result<(ExitStatus, Vec<Failed>)> {
    let running = tests.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = running.with_context(|| format!("running {}", show(tests)))?;
    let (Some(out), Some(err)) = (running.stdout.take(), running.stderr.take()) else {
        bail!("running {}: it has no output", show(tests));
    };
    let said = thread::spawn(move || pass_on(err, std::io::stderr()));
    let names = names(&pass_on(out, std::io::stdout())?);
    let targets = targets(&said.join().ok().context("reading what cargo reports failed")??);
    Ok((running.wait()?, pair(targets, names)))
}

/// Copies each line from `from` to `to` as it is read, and returns all lines.
fn pass_on(from: impl Read, mut to: impl Write) -> anyhow::Result<String> {
    let (mut from, mut all) = (BufReader::new(from), Vec::new());
    loop {
        let length = all.len();
        if from.read_until(b'\n', &mut all)? == 0 {
            return Ok(String::from_utf8_lossy(&all).into_owned());
        }
        to.write_all(&all[length..])?;
        to.flush()?;
    }
}

/// The names of the failed tests, for each test program with failures, in the programs' words.
fn names(out: &str) -> Vec<Vec<String>> {
    let (mut programs, mut names) = (Vec::new(), Vec::new());
    for line in out.lines() {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            names.push(name.to_owned());
        } else if line.starts_with("test result: FAILED") {
            programs.push(std::mem::take(&mut names));
        }
    }
    programs
}

/// The test programs that failed, as cargo names them at the end.
fn targets(err: &str) -> Vec<String> {
    let quoted = |line: &str| line.trim().strip_prefix('`')?.strip_suffix('`').map(str::to_owned);
    err.lines().filter_map(quoted).filter(|words| words.starts_with("-p ")).collect()
}

/// Combines programs and tests; `None` if a program failed for another reason than a failed test.
fn pair(targets: Vec<String>, names: Vec<Vec<String>>) -> Vec<Failed> {
    if targets.len() != names.len() || names.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let of = |(target, names): (String, Vec<String>)| {
        names.into_iter().map(move |name| Failed { target: target.clone(), name })
    };
    targets.into_iter().zip(names).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of cargo 1.95.
    const OUT: &str = "\
test one ... ok
test two::deep ... FAILED

failures:

---- two::deep stdout ----
thread 'two::deep' panicked at src/lib.rs:1:1:

failures:
    two::deep

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

---- src/lib.rs - three (line 7) stdout ----

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    const ERR: &str = "\
     Running unittests src/lib.rs (target/debug/deps/one-4c1f0d)
error: 2 targets failed:
    `-p one --lib`
    `-p one --doc`
";

    #[test]
    fn tests_that_failed_are_found_with_their_programs() {
        let of = |target: &str, name: &str| Failed { target: target.into(), name: name.into() };
        let failed = [of("-p one --lib", "two::deep"), of("-p one --doc", "src/lib.rs - three (line 7)")];
        assert_eq!(pair(targets(ERR), names(OUT)), failed);
    }

    #[test]
    fn a_program_that_failed_without_a_test_leaves_none_to_run_again() {
        assert!(pair(targets(ERR), names(&OUT[..OUT.len() / 2])).is_empty());
        assert!(pair(targets(ERR), vec![Vec::new(), vec!["x".into()]]).is_empty());
        assert!(pair(targets("error[E0432]: unresolved import `-p`"), names("")).is_empty());
    }

    #[test]
    fn everything_is_passed_on() {
        let mut to = Vec::new();
        assert_eq!(pass_on(&b"one\n\xff two"[..], &mut to).unwrap(), "one\n\u{fffd} two");
        assert_eq!(to, b"one\n\xff two");
    }
}
