//! Releases that the tests pack, and what is in them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use linerate_testing::skip;
use linerate_wire::identity::STAMP;
use tempfile::TempDir;

const DATE: &str = "1700000000";
pub const HERE: &str = std::env::consts::ARCH;
/// The other kind of machine that is released for.
pub const OTHER: &str = if cfg!(target_arch = "aarch64") { "x86_64" } else { "aarch64" };

/// A processor's name in Debian.
pub fn debian(machine: &str) -> &str {
    if machine == "aarch64" { "arm64" } else { "amd64" }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The program to pack, below `directory` unless it is given.
pub fn program(directory: &Path) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("LINERATE_TEST_PROGRAM") {
        return Some(given.into());
    }
    let built = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("linerate");
    if !built.exists() {
        let why = format!("{} isn't built; `cargo test --workspace` does", built.display());
        skip("linerate", why);
        return None;
    }
    let script = directory.join("linerate");
    let text = format!("#!/bin/sh\n# {STAMP} {}\nexec '{}' \"$@\"\n", named_commit(), built.display());
    linerate_testing::write_script(&script, &text);
    Some(script)
}

/// The commit of the working tree; none outside of a git checkout.
pub fn commit() -> Option<String> {
    let mut describe = Command::new("git");
    describe
        .args(["describe", "--always", "--no-abbrev", "--exclude=*", "--dirty"])
        .current_dir(repository());
    repository().join(".git").exists().then(|| text(&run(&mut describe)).trim().to_owned())
}

/// As `cargo xtask dist` puts it into a binary.
pub fn named_commit() -> String {
    commit().map_or_else(String::new, |commit| format!("(commit {commit})"))
}

pub fn release(program: &Path, out: &Path) {
    // A script stands for the agent, and the beginning of an ELF file for the binaries of the other machine.
    let directory = tempfile::tempdir().unwrap();
    let (script, elf) = (directory.path().join("script"), directory.path().join("elf"));
    fs::write(&script, format!("#!/bin/sh\n# {STAMP} {}\n", named_commit())).unwrap();
    fs::write(&elf, other_elf()).unwrap();
    let other = for_other(&elf);
    let agent = std::env::var_os("LINERATE_TEST_AGENT").unwrap_or_else(|| script.into());
    run(xtask_release(program, out).args([
        OsStr::new("--program"),
        &other,
        OsStr::new("--agent"),
        &agent,
        OsStr::new("--agent"),
        &other,
    ]));
}

pub fn xtask_release(program: &Path, out: &Path) -> Command {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.current_dir(repository()).args(["release", "--program"]).arg(program).arg("--out").arg(out);
    xtask.env("SOURCE_DATE_EPOCH", DATE);
    xtask
}

/// An ELF file of nothing but a header, what it speaks and the commit, elf(5): EM_X86_64 is 62, EM_AARCH64 183.
pub fn other_elf() -> Vec<u8> {
    elf_with(STAMP)
}

pub fn elf_with(stamp: &str) -> Vec<u8> {
    let mut elf = [vec![0; 64], stamp.as_bytes().to_vec(), named_commit().into_bytes()].concat();
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[18] = if OTHER == "aarch64" { 183 } else { 62 };
    elf
}

pub fn for_other(file: &Path) -> OsString {
    [OsStr::new(OTHER), file.as_os_str()].join(OsStr::new("="))
}

/// A release in a directory that is removed with it.
pub fn released() -> Option<TempDir> {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path())?;
    release(&program, directory.path());
    Some(directory)
}

/// The one file in `directory` whose name ends so.
pub fn ending(directory: &Path, end: &str) -> PathBuf {
    let mut files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_string_lossy().ends_with(end)).expect("the release has it")
}

/// Unpacks a machine's archive into a directory of its own below `to`.
pub fn unpacked(release: &Path, machine: &str, to: &Path) -> PathBuf {
    let archive = ending(release, &format!("{machine}.tar.zst"));
    run(Command::new("tar").arg("-C").arg(to).arg("-xf").arg(archive));
    to.join(format!("linerate-{}-{machine}", env!("CARGO_PKG_VERSION")))
}

/// Everything below a directory, apart from what a package manager notes for itself.
pub fn tree(root: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let shown = path.strip_prefix(root).unwrap().to_owned();
            if shown.starts_with("var") {
                continue;
            }
            if path.symlink_metadata().unwrap().is_dir() {
                open.push(path);
            }
            found.insert(shown);
        }
    }
    found
}

pub fn list_of_parts(release: &Path, machine: &str) -> serde_json::Value {
    let list = fs::read_to_string(ending(release, &format!("{machine}.spdx.json"))).unwrap();
    serde_json::from_str(&list).unwrap()
}
