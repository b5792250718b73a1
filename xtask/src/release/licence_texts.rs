//! The licences of linerate and of everything in its static binary.

use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::parts::{Part, Parts};

/// The licence of the C library. Section 6 of the licence requires that each copy of the binary comes with
/// its text.
const LGPL: &str = include_str!("lgpl-2.1.txt");

/// The exception to the licence of GCC's runtime: a program that contains the runtime may have any licence.
const EXCEPTION: &str = include_str!("gcc-exception-3.1.txt");

/// The licence note of Rust's standard library, which cargo doesn't list.
const RUST_STD: &str = "\
rust-std (Rust's standard library, copyright by the Rust Project Developers): Apache-2.0 OR MIT
";

/// The names and texts of the licence files: those of linerate itself, and one file with the licences of all crates.
pub fn files(repository: &Path, parts: &Parts) -> anyhow::Result<Vec<(String, String)>> {
    let ours =
        [("LICENSE", "copyright"), ("LICENSE-APACHE", "LICENSE-APACHE"), ("LICENSE-MIT", "LICENSE-MIT")];
    let read = |(file, name): (&str, &str)| {
        let text = fs::read_to_string(repository.join(file)).with_context(|| format!("reading {file}"))?;
        Ok((name.to_owned(), text))
    };
    let mut files: Vec<_> = ours.into_iter().map(read).collect::<anyhow::Result<_>>()?;
    files.push(("LICENSE-LGPL-2.1".into(), LGPL.into()));
    files.push(("LICENSE-GCC-exception-3.1".into(), EXCEPTION.into()));
    files.push(("LICENSE-crates.txt".into(), of_crates(parts)?));
    Ok(files)
}

/// A list of the crates with their licences, and each licence text once, below the names of the crates that
/// contain it.
fn of_crates(parts: &Parts) -> anyhow::Result<String> {
    let mut list = String::from("The static binary of linerate contains these crates.\n\n") + RUST_STD;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts.crates.iter().filter(|part| part.source.is_some()) {
        let name = format!("{} {}", part.name, part.version);
        list += &format!("{name}: {}\n", part.licence());
        for text in texts_of(part)? {
            let names = texts.entry(text).or_default();
            if names.last() != Some(&name) {
                names.push(name.clone());
            }
        }
    }
    ensure!(!texts.is_empty(), "collecting licences: no crate brings one; does cargo fetch --locked work?");
    let mut sorted: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    sorted.sort();
    for (names, text) in sorted {
        list += &format!("\n{}\n{}\n\n{}\n", "=".repeat(79), names.join(", "), text.trim_end());
    }
    Ok(list)
}

/// The licence texts of a crate, including those of foreign sources in its direct subdirectories.
fn texts_of(part: &Part) -> anyhow::Result<Vec<String>> {
    let top = part.manifest_path.parent().context("a manifest is in a directory")?;
    let mut files = entries(top)?;
    let below: Vec<_> = files.iter().filter(|path| path.is_dir()).cloned().collect();
    for directory in below {
        files.extend(entries(&directory)?);
    }
    files.retain(|path| path.is_file() && is_licence(path));
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    };
    files.into_iter().map(read).collect()
}

fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut paths = read.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    let is_text = !name.ends_with(".RS") && !name.ends_with(".PY") && !name.ends_with(".TOML");
    is_text
        && ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"].iter().any(|word| name.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_known_by_their_names() {
        let is = |name: &str| is_licence(Path::new(name));
        assert!(is("a/LICENSE-MIT") && is("COPYING") && is("license.txt") && is("NOTICE"));
        assert!(!is("src/licenses.rs") && !is("README.md"));
    }

    #[test]
    fn the_crates_that_carry_foreign_code_bring_its_licence() {
        let parts = Parts::read(crate::repository(), [&crate::machine::Machine::here()]).unwrap();
        let text = of_crates(&parts).unwrap();
        for part in ["aws-lc-sys", "zstd-sys", "clap", "rustls"] {
            let heading = |line: &&str| line.contains(&format!("{part} ")) && !line.contains(": ");
            assert!(text.lines().any(|line| heading(&line)), "no text for {part}");
        }
        assert!(text.contains("\nrust-std (") && text.contains(": Apache-2.0 OR MIT\n"), "no rust-std");
        assert!(!text.contains("linerate-wire") && !text.contains("\nproptest "), "neither ours nor tests'");
    }
}
