//! The archive from which a guest boots: this program as its first process, and the kernel's modules.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::init::{GuestJob, JOB, MODULES, PROGRAM};
use super::module::Module;
use crate::error::LabError;
use crate::tool;

/// Directories that the first process needs.
const DIRECTORIES: [&str; 6] = ["dev", "proc", "sys", "lower", "upper", "root"];

/// Files for the guest's ssh server: name and contents.
pub(crate) type LabFiles = [(&'static str, Vec<u8>)];

/// Writes the archive to `to`.
pub(crate) fn write(
    to: &Path,
    program: &Path,
    modules: &[Module],
    job: &GuestJob,
    files: &LabFiles,
) -> Result<(), LabError> {
    let read = |path: &Path| std::fs::read(path).map_err(LabError::file("reading", path));
    let binary = read(program)?;
    let libraries = if needs_libraries(&binary) { libraries(program)? } else { Vec::new() };
    let mut contents = vec![(PROGRAM.to_owned(), loaded(binary))];
    for library in libraries {
        contents.push((relative(&library), loaded(read(&library)?)));
    }
    for (number, module) in modules.iter().enumerate() {
        contents.push((format!("{MODULES}/{number:02}-{}", module.name), module.contents.clone()));
    }
    let job = serde_json::to_vec(job).map_err(|error| LabError::file("writing", to)(error.into()))?;
    contents.push((relative(Path::new(JOB)), job));
    contents.extend(files.iter().map(|(name, bytes)| (format!("lab/{name}"), bytes.clone())));
    pack(to, &contents).map_err(LabError::file("writing", to))
}

fn pack(to: &Path, contents: &[(String, Vec<u8>)]) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(to)?));
    let mut directories: BTreeSet<PathBuf> = DIRECTORIES.iter().map(PathBuf::from).collect();
    directories.extend(
        contents.iter().flat_map(|(path, _)| Path::new(path).ancestors().skip(1).map(Path::to_owned)),
    );
    // In this order, each directory precedes the directories below it.
    for directory in directories.iter().filter(|directory| !directory.as_os_str().is_empty()) {
        archive.directory(&directory.to_string_lossy())?;
    }
    // The kernel opens this device for the output of the first process.
    archive.device("dev/console", (5, 1))?;
    for (path, bytes) in contents {
        archive.file(path, bytes)?;
    }
    archive.finish().map(drop)
}

fn relative(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

/// The shared libraries of a program, including its loader, as ldd(1) prints them.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, LabError> {
    let shown = tool::output(Command::new("ldd").arg(program))?;
    let paths = shown.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

/// A segment in the program header of an ELF file: its kind, and the end of its bytes in the file.
struct Segment {
    kind: u32,
    end: u64,
}

const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;

/// The segments of a 64-bit little-endian ELF file (elf(5)); empty for any other file.
fn segments(file: &[u8]) -> Vec<Segment> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Vec::new();
    }
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let field = file.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let segment = |at: usize| {
        let end = number(at.checked_add(8)?, 8)?.checked_add(number(at.checked_add(32)?, 8)?)?;
        Some(Segment { kind: number(at, 4)? as u32, end })
    };
    let (Some(first), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2)) else {
        return Vec::new();
    };
    (0..count).filter_map(|n| segment(usize::try_from(first.checked_add(n * size)?).ok()?)).collect()
}

fn needs_libraries(file: &[u8]) -> bool {
    segments(file).iter().any(|segment| segment.kind == INTERPRETER)
}

/// The part of an ELF file that is loaded. It excludes debug information and symbols, because a guest has
/// little memory.
fn loaded(mut file: Vec<u8>) -> Vec<u8> {
    let ends = segments(&file).into_iter().filter(|segment| segment.kind == LOAD).map(|segment| segment.end);
    let Some(end) = ends.max().and_then(|end| usize::try_from(end).ok()).filter(|end| *end < file.len())
    else {
        return file;
    };
    file.truncate(end);
    // The section table is after that part, so these fields of the header are set to 0: the table's offset,
    // the number of sections, the index of their names.
    file[40..48].fill(0);
    file[60..64].fill(0);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_without_what_is_not_loaded() {
        let whole = std::fs::read(std::env::current_exe().expect("procfs")).expect("readable");
        let size = whole.len();
        let part = loaded(whole);
        assert!(part.len() < size && needs_libraries(&part));
        let directory = tempfile::tempdir().expect("a temporary directory");
        let program = directory.path().join("program");
        std::fs::write(&program, part).expect("writable");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("our own");
        let listed = tool::output(Command::new(&program).arg("--list")).expect("it runs");
        assert!(listed.contains("a_program_runs_without_what_is_not_loaded"), "{listed}");
        assert!(
            libraries(&program).expect("ldd").iter().any(|path| path.to_string_lossy().contains("libc.so"))
        );
    }

    #[test]
    fn a_file_that_is_no_program_stays_as_it_is() {
        for odd in [
            &b""[..],
            b"#!/bin/sh",
            b"\x7fELF\x02\x01",
            &[b"\x7fELF\x02\x01".as_slice(), &[0xff; 200]].concat(),
        ] {
            assert_eq!(loaded(odd.to_vec()), odd);
        }
    }
}
