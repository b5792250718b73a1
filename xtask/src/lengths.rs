//! Checks the lengths of Rust files: a file that is too long has more than one purpose.

use anyhow::{Context, bail};
use std::fs;
use std::path::Path;

use crate::names::rust_files;

/// The greatest number of lines of a file, including comments, blank lines and tests.
const MOST_LINES: usize = 500;

/// Compares the files of the whole repository with [`MOST_LINES`].
///
/// # Errors
/// If a file can't be read, or has more lines; each such file is printed with its length.
pub fn run(repository: &Path) -> anyhow::Result<()> {
    let files = rust_files(repository)?;
    let mut long = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let lines = text.lines().count();
        if lines > MOST_LINES {
            let shown = file.strip_prefix(repository).unwrap_or(file).display();
            long.push(format!("{shown}: {lines} lines"));
        }
    }
    if !long.is_empty() {
        bail!(
            "files of more than {MOST_LINES} lines, which are to be split by what they are about:\n  {}",
            long.join("\n  ")
        );
    }
    println!("lengths: none of {} files has more than {MOST_LINES} lines", files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_too_long() {
        run(crate::repository()).unwrap();
    }

    #[test]
    fn a_file_that_is_too_long_is_named_with_its_length() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, lines: usize| {
            let file = directory.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "// a line\n".repeat(lines)).unwrap();
        };
        write("Cargo.toml", 1);
        write("crates/wire/src/longest.rs", MOST_LINES);
        write("docs/page.md", MOST_LINES + 1);
        write("target/debug/build/made.rs", MOST_LINES + 1);
        write(".git/refs/heads/branch.rs", MOST_LINES + 1);
        run(directory.path()).unwrap();
        write("crates/wire/src/target/long.rs", MOST_LINES + 1);
        write("fuzz/src/longer.rs", 2 * MOST_LINES);
        let error = run(directory.path()).unwrap_err().to_string();
        let named: Vec<_> = error.lines().skip(1).map(str::trim).collect();
        assert_eq!(named, ["crates/wire/src/target/long.rs: 501 lines", "fuzz/src/longer.rs: 1000 lines"]);
    }
}
