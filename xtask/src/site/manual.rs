//! Converts the manual pages, as man displays them, to pages of the site.

use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::stage::write;

/// Writes a page of the site for each manual page below `out`, and returns these pages' part of the table of contents.
///
/// # Errors
/// If the program or man fails.
pub fn pages(program: Option<&Path>, out: &Path) -> anyhow::Result<String> {
    let written = tempfile::tempdir().context("making a directory for the manual pages")?;
    match program {
        Some(program) => crate::call(Command::new(program).args(["man", "--out"]).arg(written.path()))?,
        None => crate::man(written.path())?,
    }
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(written.path()).context("listing the manual pages")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".1").map(str::to_owned));
    }
    for name in &names {
        let text = shown(&written.path().join(format!("{name}.1")))?;
        let page = format!("# {name}(1)\n\n```text\n{}\n```\n", text.trim_end());
        write(&out.join(format!("man/{name}.md")), page.as_bytes())?;
    }
    Ok(contents(&names))
}

/// A manual page as text with 88 columns.
fn shown(page: &Path) -> anyhow::Result<String> {
    let mut man = Command::new("man");
    man.arg("--local-file").arg(page).env("MANWIDTH", "88").env("LC_ALL", "C.UTF-8").env("PAGER", "cat");
    let output = man.output().context("running man (apt-get install man-db)")?;
    let text = String::from_utf8(output.stdout).context("reading what man prints")?;
    if !output.status.success() || text.trim().is_empty() {
        bail!("man {}: {}", page.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

/// The lines of the table of contents; subcommands are below their command.
fn contents(names: &BTreeSet<String>) -> String {
    let mut contents = "\n# Manual pages\n\n".to_owned();
    // Names are sorted as lists of words, because as texts 'load-x' would be between 'load' and its subcommands.
    let mut words: Vec<Vec<&str>> = names.iter().map(|name| name.split('-').collect()).collect();
    words.sort_unstable();
    for words in words {
        let indent = "  ".repeat(words.len().saturating_sub(2));
        contents += &format!("{indent}- [{}](man/{}.md)\n", words.join(" "), words.join("-"));
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_command_are_below_it() {
        let names = ["linerate-lab-run", "linerate", "linerate-lab"].map(str::to_owned);
        let contents = contents(&names.into());
        let lines: Vec<&str> = contents.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "- [linerate](man/linerate.md)",
                "- [linerate lab](man/linerate-lab.md)",
                "  - [linerate lab run](man/linerate-lab-run.md)"
            ]
        );
    }
}
