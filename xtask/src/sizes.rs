//! Checks the sizes of the static binaries for x86-64 that the documentation states.

use anyhow::{Context, bail};
use linerate_remote::packed;
use std::fs;
use std::path::Path;

/// The greatest share by which a size may differ from the stated size. A smaller difference doesn't matter to readers,
/// and shouldn't make the check fail.
const MARGIN: f64 = 0.05;

/// An item whose size the documentation states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sized {
    Program,
    Agent,
    /// The parts of the program that the agent lacks.
    AtHome,
    /// The compressed agent that is sent to far hosts.
    Brought,
}

/// The pages that state a size in MB, and the words before the size.
const STATED: [(&str, &str, Sized); 7] = [
    ("CHANGELOG.md", "the ssh login, ", Sized::Brought),
    ("README.md", "So does the agent, ", Sized::Brought),
    ("docs/architecture.md", "and clap: together these take ", Sized::AtHome),
    ("docs/architecture.md", "| in all | ", Sized::Agent),
    ("docs/guide/copying.md", "there and prints that ", Sized::Brought),
    ("docs/guide/installing.md", "On x86-64 it has ", Sized::Agent),
    ("docs/guide/installing.md", "the whole program has ", Sized::Program),
];

/// Compares the stated sizes with those of the binaries.
///
/// # Errors
/// If a page can't be read, or a size differs by more than [`MARGIN`]; each such size is named.
pub fn check(repository: &Path, program: &Path, agent: &Path) -> anyhow::Result<()> {
    let megabytes = |file: &Path| {
        let metadata = fs::metadata(file).with_context(|| format!("reading {}", file.display()))?;
        anyhow::Ok(metadata.len() as f64 * 1e-6)
    };
    let mut packed = Vec::new();
    packed::write(agent, &mut packed).with_context(|| format!("packing {}", agent.display()))?;
    let (of_program, of_agent, of_packed) =
        (megabytes(program)?, megabytes(agent)?, packed.len() as f64 * 1e-6);
    println!("MB: the program {of_program:.2}, the agent {of_agent:.2}, {of_packed:.2} compressed");
    let size = |of| match of {
        Sized::Program => of_program,
        Sized::Agent => of_agent,
        Sized::AtHome => of_program - of_agent,
        Sized::Brought => of_packed,
    };
    let wrong = |(page, words, of): &(&str, &str, Sized)| match stated(repository, page, words) {
        Ok(stated) if (stated / size(*of) - 1.0).abs() <= MARGIN => None,
        Ok(stated) => Some(format!("{page}: '{words}{stated}': it is {:.1}", size(*of))),
        Err(error) => Some(format!("{error:#}")),
    };
    let wrong: Vec<_> = STATED.iter().filter_map(wrong).collect();
    if !wrong.is_empty() {
        bail!("the documentation states other sizes of the binaries:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// The pages that don't state the size that they should.
pub fn unstated(repository: &Path) -> impl Iterator<Item = String> {
    STATED.iter().filter_map(|(page, words, _)| {
        let error = stated(repository, page, words).err()?;
        Some(format!("{error:#}: xtask/src/sizes.rs has the words before each size"))
    })
}

/// The number after these words on a page.
fn stated(repository: &Path, page: &str, words: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(repository.join(page)).with_context(|| format!("reading {page}"))?;
    let (_, behind) = text.split_once(words).with_context(|| format!("{page} hasn't the words '{words}'"))?;
    let end = behind.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(behind.len());
    behind[..end].parse().with_context(|| format!("{page}: behind '{words}' is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_states_its_sizes() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(unstated(repository).collect::<Vec<_>>(), [""; 0]);
        assert!(stated(repository, "README.md", "no such words").is_err());
    }

    #[test]
    fn other_sizes_are_named() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let [program, agent] = ["program", "agent"].map(|name| directory.path().join(name));
        fs::write(&program, [0; 2000]).unwrap();
        fs::write(&agent, linerate_wire::identity::STAMP).unwrap();
        let error = check(repository, &program, &agent).unwrap_err().to_string();
        assert_eq!(error.lines().count(), STATED.len() + 1, "{error}");
    }
}
