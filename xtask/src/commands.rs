//! Checks that the commands in the documentation exist in the programs' help.

use std::collections::HashMap;
use std::process::Command;

use crate::{USAGE, cargo};

/// The commands in a piece of shell or inline code, each split into words. A line that ends with a backslash forms one
/// command with the next line.
pub fn words(shell: &str) -> Vec<Vec<String>> {
    let joined = shell.replace("\\\n", " ");
    joined.lines().filter_map(shlex::split).filter(|words| !words.is_empty()).collect()
}

/// The help texts of the programs; each is read once.
#[derive(Default)]
pub struct Programs {
    help: HashMap<Vec<String>, Option<String>>,
}

impl Programs {
    /// The error in `command`, if it calls one of our programs and has an error.
    pub fn unknown(&mut self, command: &[String]) -> Option<String> {
        match ours(command)? {
            Ours::Xtask(name) if USAGE.contains(&format!("\n  {name} ")) => None,
            Ours::Xtask(name) => Some(format!("no command cargo xtask {name}")),
            Ours::Linerate(words) => self.unknown_to_linerate(words),
        }
    }

    fn unknown_to_linerate(&mut self, words: &[String]) -> Option<String> {
        // The words after two dashes are another program's command.
        let words: Vec<&String> = words.iter().take_while(|word| *word != "--").collect();
        let mut path = Vec::new();
        for word in words.iter().filter(|word| !word.starts_with('-')).take(2) {
            let help = self.help(&path)?;
            if has_command(&help, word) {
                path.push((*word).clone());
            } else if is_placeholder(word) {
                return None;
            } else if path.is_empty() {
                return Some(format!("no command linerate {word}"));
            }
        }
        let help = self.help(&path)?;
        let unknown =
            words.iter().flat_map(|word| options(word)).find(|option| !has_option(&help, option))?;
        Some(format!("linerate {} has no option {unknown}", path.join(" ")))
    }

    fn help(&mut self, path: &[String]) -> Option<String> {
        let ask = || {
            let mut run = cargo();
            run.args(["run", "--quiet", "--package", "linerate", "--"]).args(path).arg("--help");
            output(&mut run)
        };
        self.help.entry(path.to_vec()).or_insert_with(ask).clone()
    }
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

enum Ours<'a> {
    Linerate(&'a [String]),
    Xtask(&'a str),
}

/// The part of `command` that calls a program of this repository.
fn ours(command: &[String]) -> Option<Ours<'_>> {
    let start = command.iter().position(|word| word != "sudo" && !word.contains('='))?;
    let command = &command[start..];
    let rest = &command[1..];
    match (command[0].rsplit('/').next()?, rest.first().map(String::as_str)) {
        ("linerate", Some(_)) => Some(Ours::Linerate(rest)),
        ("cargo", Some("run")) if !rest.iter().any(|word| word == "-p") => {
            let start = rest.iter().position(|word| word == "--")? + 1;
            Some(Ours::Linerate(&rest[start..]))
        }
        ("cargo", Some("xtask")) => rest.get(1).map(|name| Ours::Xtask(name)),
        _ => None,
    }
}

/// Whether a word such as `COMMAND` stands for any command.
fn is_placeholder(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_uppercase())
}

fn has_command(help: &str, word: &str) -> bool {
    help.lines().any(|line| line.starts_with("  ") && line.split_whitespace().next() == Some(word))
        || word == "agent"
}

/// The options in a word: one long option, or the letters of short options, as far as they can't be a value.
fn options(word: &str) -> Vec<String> {
    if word.starts_with("--") {
        return vec![word.split('=').next().unwrap_or(word).to_owned()];
    }
    let letters = word.strip_prefix('-').unwrap_or_default();
    let all_letters = letters.len() <= 3 && letters.chars().all(|c| c.is_ascii_lowercase());
    letters.chars().take(if all_letters { 3 } else { 1 }).map(|letter| format!("-{letter}")).collect()
}

fn has_option(help: &str, option: &str) -> bool {
    let parts = help.split(|c: char| !(c.is_alphanumeric() || c == '-'));
    parts.into_iter().any(|part| part == option) || option == "--help" || option == "--version"
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Commands:\n  cp    Copy\n\nOptions:\n  -r, --recursive\n      --bytes <N>\n";

    fn programs() -> Programs {
        let help = HashMap::from([(vec![], HELP.to_owned()), (vec!["cp".to_owned()], HELP.to_owned())]);
        Programs { help: help.into_iter().map(|(path, text)| (path, Some(text))).collect() }
    }

    #[test]
    fn what_a_program_does_not_know_is_reported() {
        let mut programs = programs();
        let mut unknown = |shell: &str| programs.unknown(&words(shell)[0]).is_some();
        for right in [
            "linerate cp -r a b",
            "cargo run --release -- cp --bytes=3",
            "cargo xtask docs",
            "linerate X -z",
            "ls -z",
        ] {
            assert!(!unknown(right), "{right}");
        }
        for wrong in
            ["linerate mv a b", "sudo A=1 linerate cp -rz a", "linerate cp --byte 3", "cargo xtask no"]
        {
            assert!(unknown(wrong), "{wrong}");
        }
        assert!(!unknown("linerate cp -- --byte"), "another program's option");
    }

    #[test]
    fn lines_and_comments_are_read_as_a_shell_does() {
        assert_eq!(words("a \\\n  b # c\n\n'd e'"), [vec!["a", "b"], vec!["d e"]]);
    }
}
