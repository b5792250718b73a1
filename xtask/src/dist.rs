//! Builds the binary that is released: static, since `linerate cp` carries it to hosts with any C library.

use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::Machine;
use crate::{call, cargo};

/// Builds `dist/linerate`.
///
/// # Errors
/// Where the build fails, or what it built needs a loader.
pub fn run(repository: &Path) -> anyhow::Result<()> {
    let released = keep(repository, &build(repository)?, "linerate")?;
    call(Command::new(&released).arg("--version"))
}

/// Builds `dist/linerate-MACHINE` for another kind of machine.
///
/// # Errors
/// Where there is no compiler for it, the build fails, or what it built needs a loader.
pub fn run_for(repository: &Path, machine: &Machine) -> anyhow::Result<()> {
    let built = build_in(repository, &target_directory(repository), machine)?;
    keep(repository, &built, &format!("linerate-{}", machine.name())).map(|_| ())
}

fn keep(repository: &Path, built: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let released = repository.join("dist").join(name);
    fs::create_dir_all(repository.join("dist"))?;
    let length = fs::copy(built, &released).with_context(|| format!("writing {}", released.display()))?;
    println!("{}: static, {:.1} MB", released.display(), length as f64 * 1e-6);
    Ok(released)
}

/// Builds `dist/linerate`, and then the same commit once more in a clone at another path with a target directory of its
/// own, and compares.
///
/// # Errors
/// Where something isn't committed, a build fails, or the two differ.
pub fn twice(repository: &Path) -> anyhow::Result<()> {
    let changes = Command::new("git").args(["status", "--porcelain"]).current_dir(repository).output();
    ensure!(
        changes.context("running git")?.stdout.is_empty(),
        "commit first: the second build is of the commit"
    );
    run(repository)?;
    let directory =
        tempfile::Builder::new().prefix("linerate-built-again-").tempdir_in(repository.join("dist"))?;
    let again = directory.path().join("under/another/path");
    call(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(repository).arg(&again))?;
    let other = fs::read(build_in(&again, &again.join("elsewhere"), &Machine::here())?)
        .context("reading the second binary")?;
    let one = fs::read(repository.join("dist/linerate")).context("reading the first binary")?;
    let differ = different(&one, &other);
    println!("two builds at two paths: {} and {} bytes, {differ} of them differ", one.len(), other.len());
    ensure!(differ == 0, "the build isn't reproducible");
    Ok(())
}

/// The number of bytes that aren't the same; bytes that only one of the two has count too.
fn different(one: &[u8], other: &[u8]) -> usize {
    let unequal = one.iter().zip(other).filter(|(one, other)| one != other).count();
    unequal + one.len().abs_diff(other.len())
}

/// Builds the static binary, and says where it is. No directory of this machine is in it: the same source gives the
/// same bytes in every working tree.
///
/// # Errors
/// Where the build fails, or what it built needs a loader.
pub fn build(repository: &Path) -> anyhow::Result<PathBuf> {
    build_in(repository, &target_directory(repository), &Machine::here())
}

/// Builds the static binary in a target directory, for a kind of machine, and returns its path.
fn build_in(repository: &Path, target_directory: &Path, machine: &Machine) -> anyhow::Result<PathBuf> {
    let directories = directories(repository, target_directory)?;
    let renamed = |option: &str| {
        let rename = |(from, to): &(PathBuf, &str)| format!("{option}={}={to}", from.display());
        directories.iter().map(rename).collect::<Vec<_>>()
    };
    let mut build = cargo();
    build.args(["build", "--locked", "--release", "--package", "linerate"]).current_dir(repository);
    build.env("CARGO_TARGET_DIR", target_directory);
    machine.build_with(
        &mut build,
        renamed("--remap-path-prefix"),
        &renamed("-ffile-prefix-map").join(" "),
    )?;
    call(&mut build)?;
    let built = target_directory.join(machine.triple()).join("release/linerate");
    let bytes = fs::read(&built).with_context(|| format!("reading {}", built.display()))?;
    ensure!(is_static(&bytes)?, "{} needs a loader: is libc.a installed?", built.display());
    Ok(built)
}

/// Directories of this machine, and their names in the binary. Of several that fit, the compilers take the last.
fn directories(repository: &Path, target: &Path) -> anyhow::Result<[(PathBuf, &'static str); 3]> {
    let home = std::env::home_dir().context("building: HOME is needed to find cargo's sources")?;
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), Into::into);
    Ok([(cargo, "cargo"), (repository.to_owned(), "linerate"), (target.to_owned(), "target")])
}

fn target_directory(repository: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), Into::into)
}

/// True for a 64-bit little-endian ELF file without an interpreter (PT_INTERP, elf(5)).
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

    /// An ELF file of nothing but program headers of these kinds.
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
