//! Builds the released binaries: the program, and the agent that `linerate cp` copies to other hosts. They
//! are linked statically, so that they run with any C library.

use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::Machine;
use crate::release::{commit, output};
use crate::{call, cargo};

/// The static binaries for one kind of machine.
pub struct Built {
    pub program: PathBuf,
    pub agent: PathBuf,
}

/// Builds `dist/linerate` and `dist/linerate-agent`.
///
/// # Errors
/// If the build fails, or a built binary needs a dynamic loader.
pub fn run(repository: &Path) -> anyhow::Result<()> {
    build_here(repository).map(|_| ())
}

fn build_here(repository: &Path) -> anyhow::Result<Built> {
    let released = keep(repository, &build(repository)?, "")?;
    for (binary, name) in [(&released.program, "linerate"), (&released.agent, "linerate-agent")] {
        let printed = output(Command::new(binary).arg("--version"))?;
        let expected = format!("{name} {}", version(repository)?);
        ensure!(
            printed.trim() == expected,
            "{} prints '{}' in place of '{expected}'",
            binary.display(),
            printed.trim()
        );
        println!("{expected}");
    }
    Ok(released)
}

/// Builds `dist/linerate-MACHINE` and `dist/linerate-agent-MACHINE` for another kind of machine.
///
/// # Errors
/// If there is no compiler for that machine, the build fails, or a built binary needs a dynamic loader.
pub fn run_for(repository: &Path, machine: &Machine) -> anyhow::Result<()> {
    build_for(repository, machine).map(|_| ())
}

fn build_for(repository: &Path, machine: &Machine) -> anyhow::Result<Built> {
    let built = build_in(repository, &target_directory(repository), machine)?;
    keep(repository, &built, &format!("-{}", machine.name()))
}

fn keep(repository: &Path, built: &Built, end: &str) -> anyhow::Result<Built> {
    fs::create_dir_all(repository.join("dist"))?;
    let keep = |built: &Path, name: &str| {
        let released = repository.join("dist").join(format!("{name}{end}"));
        let length = fs::copy(built, &released).with_context(|| format!("writing {}", released.display()))?;
        println!("{}: static, {:.1} MB", released.display(), length as f64 * 1e-6);
        anyhow::Ok(released)
    };
    Ok(Built { program: keep(&built.program, "linerate")?, agent: keep(&built.agent, "linerate-agent")? })
}

/// Builds both binaries, and then the same commit once more in a clone at another path with a separate target
/// directory, and compares the results. `foreign` selects another kind of machine.
///
/// # Errors
/// If changes aren't committed, a build fails, or two binaries differ.
pub fn twice(repository: &Path, foreign: Option<&Machine>) -> anyhow::Result<()> {
    let changes = Command::new("git").args(["status", "--porcelain"]).current_dir(repository).output();
    ensure!(
        changes.context("running git")?.stdout.is_empty(),
        "commit first: the second build is of the commit"
    );
    let first = match foreign {
        Some(machine) => build_for(repository, machine)?,
        None => build_here(repository)?,
    };
    let directory =
        tempfile::Builder::new().prefix("linerate-built-again-").tempdir_in(repository.join("dist"))?;
    let again = directory.path().join("under/another/path");
    call(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(repository).arg(&again))?;
    let here = Machine::here();
    let other = build_in(&again, &again.join("elsewhere"), foreign.unwrap_or(&here))?;
    same(&first.program, &other.program)?;
    same(&first.agent, &other.agent)
}

/// Returns an error if two builds of a binary differ.
fn same(one: &Path, other: &Path) -> anyhow::Result<()> {
    let read = |file: &Path| fs::read(file).with_context(|| format!("reading {}", file.display()));
    let (first, second) = (read(one)?, read(other)?);
    let differ = different(&first, &second);
    let name = one.file_name().unwrap_or_default().display();
    println!(
        "{name}, two builds at two paths: {} and {} bytes, {differ} of them differ",
        first.len(),
        second.len()
    );
    ensure!(differ == 0, "the build of {name} isn't reproducible");
    Ok(())
}

/// The number of different bytes. If one input is longer, the additional bytes count as different.
fn different(one: &[u8], other: &[u8]) -> usize {
    let unequal = one.iter().zip(other).filter(|(one, other)| one != other).count();
    unequal + one.len().abs_diff(other.len())
}

/// Builds the static binaries. They contain no directory names of this machine, so that the same source gives
/// the same bytes in every working tree.
///
/// # Errors
/// If the build fails, or a built binary needs a dynamic loader.
pub fn build(repository: &Path) -> anyhow::Result<Built> {
    build_in(repository, &target_directory(repository), &Machine::here())
}

/// Prints the environment of the static build as shell commands. With it, `cargo run --release` runs the binary that
/// [`run`] has built, and builds nothing.
///
/// # Errors
/// If cargo's directory can't be determined.
pub fn print_environment(repository: &Path) -> anyhow::Result<()> {
    let here = Machine::here();
    println!("export CARGO_BUILD_TARGET={}", here.triple());
    for (name, value) in command(repository, &target_directory(repository), &here)?.get_envs() {
        let Some(value) = value else { continue };
        let value = value.to_string_lossy();
        println!(
            "export {}={}",
            name.display(),
            shlex::try_quote(&value).context("a value has a null byte")?
        );
    }
    Ok(())
}

/// The cargo command that builds the static binaries.
fn command(repository: &Path, target_directory: &Path, machine: &Machine) -> anyhow::Result<Command> {
    let directories = directories(repository, target_directory)?;
    let renamed = |option: &str| {
        let rename = |(from, to): &(PathBuf, &str)| format!("{option}={}={to}", from.display());
        directories.iter().map(rename).collect::<Vec<_>>()
    };
    let mut build = cargo();
    build.args(["build", "--locked", "--release", "--package", "linerate", "--package", "linerate-agent"]);
    build.current_dir(repository);
    build.env("CARGO_TARGET_DIR", target_directory).env("LINERATE_BUILD_VERSION", version(repository)?);
    machine.build_with(
        &mut build,
        renamed("--remap-path-prefix"),
        &renamed("-ffile-prefix-map").join(" "),
    )?;
    Ok(build)
}

/// Builds the static binaries in a target directory, for a kind of machine.
fn build_in(repository: &Path, target_directory: &Path, machine: &Machine) -> anyhow::Result<Built> {
    let mut build = command(repository, target_directory, machine)?;
    call(&mut build)?;
    let release = target_directory.join(machine.triple()).join("release");
    let built = |name: &str| {
        let built = release.join(name);
        let bytes = fs::read(&built).with_context(|| format!("reading {}", built.display()))?;
        ensure!(is_static(&bytes)?, "{} needs a loader: is libc.a installed?", built.display());
        Ok(built)
    };
    Ok(Built { program: built("linerate")?, agent: built("linerate-agent")? })
}

/// The text that precedes the commit in a version.
const COMMIT: &str = "(commit ";

/// The commit that a binary contains as its source, with `-dirty` after it if the working tree had changes;
/// `None` if the binary wasn't built by [`run`].
pub fn commit_of(binary: &[u8]) -> Option<&str> {
    let of = |begin: usize| {
        let behind = &binary[begin + COMMIT.len()..];
        let commit =
            str::from_utf8(&behind[..behind.iter().take(64).position(|&byte| byte == b')')?]).ok()?;
        let number = commit.strip_suffix("-dirty").unwrap_or(commit);
        (number.len() == 40 && number.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(commit)
    };
    let places = binary.windows(COMMIT.len()).enumerate();
    places.filter(|(_, bytes)| *bytes == COMMIT.as_bytes()).find_map(|(begin, _)| of(begin))
}

/// The version that the released program prints: the version of its crate and, in a git checkout, the commit.
fn version(repository: &Path) -> anyhow::Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    Ok(match commit(repository)? {
        Some(commit) => format!("{version} {COMMIT}{commit})"),
        None => version.to_owned(),
    })
}

/// Directories of this machine, and the names that replace them in the binary. If several directories match a path, the
/// compilers use the last one.
fn directories(repository: &Path, target: &Path) -> anyhow::Result<[(PathBuf, &'static str); 3]> {
    let home = std::env::home_dir().context("building: HOME is needed to find cargo's sources")?;
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), Into::into);
    Ok([(cargo, "cargo"), (repository.to_owned(), "linerate"), (target.to_owned(), "target")])
}

/// The directory in which cargo builds.
pub fn target_directory(repository: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), Into::into)
}

/// Whether a file is a 64-bit little-endian ELF file without a dynamic loader (PT_INTERP, elf(5)).
fn is_static(elf: &[u8]) -> anyhow::Result<bool> {
    const PT_INTERP: u32 = 3;
    if elf.get(..6) != Some(b"\x7fELF\x02\x01") {
        bail!("what was built is no 64-bit little-endian ELF file");
    }
    let number = |at: usize, length: usize| {
        let field = elf.get(at..at.checked_add(length)?)?;
        Some(field.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let table = || Some((number(0x20, 8)? as usize, number(0x36, 2)? as usize, number(0x38, 2)? as usize));
    let (start, size, count) = table().context("the ELF header is cut off")?;
    for index in 0..count {
        let kind = number(start + index * size, 4).context("the ELF program headers are cut off")?;
        if kind == u64::from(PT_INTERP) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file that consists only of program headers of these kinds.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[0x20] = 64;
        bytes[0x36] = 56;
        bytes[0x38] = kinds.len() as u8;
        for kind in kinds {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.resize(bytes.len() + 52, 0);
        }
        bytes
    }

    #[test]
    fn a_loader_is_noticed() {
        assert!(is_static(&elf(&[1, 2])).unwrap());
        assert!(!is_static(&elf(&[1, 3])).unwrap());
        assert!(is_static(b"#!/bin/sh\n").is_err());
        assert!(is_static(&elf(&[1, 2])[..100]).is_err());
    }

    #[test]
    fn bytes_that_differ_are_counted() {
        assert_eq!(different(b"abc", b"abc"), 0);
        assert_eq!(different(b"abc", b"axcd"), 2);
        assert_eq!(different(b"", b"ab"), 2);
    }

    #[test]
    fn this_test_itself_is_read() {
        assert!(is_static(&fs::read("/proc/self/exe").unwrap()).is_ok());
    }
}
