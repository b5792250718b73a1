//! `linerate man` and `linerate completions`: print manual pages of the commands, and completion scripts for
//! shells.

use anyhow::Context;
use clap::Args;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::failure::Failure;
use crate::completions::{CompletedShell, script};
use crate::exit::{Code, FAILED, Meaning, USAGE, table};
use crate::units::named_file;

const MAN_EXAMPLES: &str = "\
Examples:
  linerate man cp | man -l -
      shows the manual page of linerate cp
  linerate man --out /usr/local/share/man/man1
      writes the pages of all commands. 'man linerate-cp' then shows a page
";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  linerate completions bash > ~/.local/share/bash-completion/completions/linerate
  linerate completions zsh > /usr/local/share/zsh/site-functions/_linerate
  linerate completions fish > ~/.config/fish/completions/linerate.fish
";

const MEANINGS: [Meaning; 3] = [(Code::Done, "everything was printed, or written"), FAILED, USAGE];

/// A command that linerate itself starts, but that administrators use too. So this command has a manual page,
/// although the help doesn't list it.
const ADMINISTERED: &str = "agent";

/// Arguments of `linerate man`.
#[derive(Debug, Args)]
#[command(before_long_help = MAN_EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct ManArgs {
    /// Write the pages of all commands into DIR, creating DIR if needed
    #[arg(long, value_name = "DIR", value_parser = named_file(), conflicts_with = "command")]
    out: Option<PathBuf>,
    /// The command, such as lab run; without it, linerate itself
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Arguments of `linerate completions`.
#[derive(Debug, Args)]
#[command(before_long_help = COMPLETIONS_EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct CompletionsArgs {
    /// The shell
    shell: CompletedShell,
}

/// Prints a manual page, or writes all manual pages to a directory.
///
/// # Errors
/// If the command doesn't exist, or the directory can't be written.
pub fn man(args: &ManArgs, whole: &clap::Command) -> Result<Code, Failure> {
    let shown = with_page(whole);
    match &args.out {
        Some(directory) => write_pages(&shown, directory)?,
        None => output!("{}", page(below(&shown, &args.command)?).trim_end()),
    }
    Ok(Code::Done)
}

/// Prints the completion script for a shell.
///
/// # Errors
/// None: if standard output can't be written, `main` reports a failure.
pub fn completions(args: &CompletionsArgs, whole: &clap::Command) -> Result<Code, Failure> {
    output!("{}", script(args.shell, without_hidden(whole)).trim_end());
    Ok(Code::Done)
}

/// The command line without the commands that only linerate itself starts, which completions don't list.
pub fn without_hidden(whole: &clap::Command) -> clap::Command {
    with_commands(whole, |below| !below.is_hide_set())
}

/// The command line with only the commands that have a manual page.
fn with_page(whole: &clap::Command) -> clap::Command {
    let mut paged = with_commands(whole, |below| !below.is_hide_set() || below.get_name() == ADMINISTERED);
    paged.build();
    paged
}

fn with_commands(whole: &clap::Command, is_in: impl Fn(&clap::Command) -> bool) -> clap::Command {
    let shown = whole.get_subcommands().filter(|below| is_in(below)).cloned();
    clap::Command::new("linerate")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .before_long_help(whole.get_before_long_help().cloned().unwrap_or_default())
        .after_long_help(whole.get_after_long_help().cloned().unwrap_or_default())
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(shown)
}

/// The subcommand that `words` name.
fn below<'a>(command: &'a clap::Command, words: &[String]) -> Result<&'a clap::Command, Failure> {
    let Some((word, rest)) = words.split_first() else { return Ok(command) };
    let found = command.get_subcommands().find(|below| below.get_name() == word);
    let name = command.get_bin_name().unwrap_or("linerate");
    let found = found.ok_or_else(|| {
        Failure::usage(format!(
            "printing a manual page: {name} has no command '{word}'; {name} --help lists its commands"
        ))
    });
    below(found?, rest)
}

/// Writes the manual pages of a command and of all its subcommands.
fn write_pages(command: &clap::Command, directory: &Path) -> anyhow::Result<()> {
    let doing = || format!("writing manual pages into {}; is the directory writable?", directory.display());
    fs::create_dir_all(directory).with_context(doing)?;
    let file = directory.join(format!("{}.1", page_name(command)));
    fs::write(file, page(command)).with_context(doing)?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.into_iter().try_for_each(|below| write_pages(below, directory))
}

/// The name of a command's manual page, such as `linerate-lab-run` for `linerate lab run`.
fn page_name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// A manual page, with the sections of man-pages(7) in their usual order.
fn page(command: &clap::Command) -> String {
    let man = Man::new(with_usage(command)).source(concat!("linerate ", env!("CARGO_PKG_VERSION")));
    let mut bytes = Vec::new();
    let mut sections = vec![Man::render_title, Man::render_name_section, Man::render_synopsis_section];
    sections.extend([Man::render_description_section, Man::render_options_section]);
    if command.has_subcommands() {
        sections.push(Man::render_subcommands_section);
    }
    for section in sections {
        section(&man, &mut bytes).expect("a vector takes any bytes");
    }
    let mut rest = Roff::new();
    literal(&mut rest, "EXIT STATUS", command.get_after_long_help(), "Exit codes:\n");
    literal(&mut rest, "EXAMPLES", command.get_before_long_help(), "Examples:\n");
    if page_name(command) != "linerate" {
        rest.control("SH", ["SEE ALSO"]).text([roman("linerate(1)")]);
    }
    rest.to_writer(&mut bytes).expect("a vector takes any bytes");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The command, with the usage line of its help set explicitly. Otherwise clap would write another usage line into the
/// synopsis.
fn with_usage(command: &clap::Command) -> clap::Command {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    command.clone().override_usage(usage)
}

/// Adds a section to a manual page. The section has the lines of `text` as they are, not joined into paragraphs, and
/// without the heading `first`.
fn literal(page: &mut Roff, heading: &str, text: Option<&clap::builder::StyledStr>, first: &str) {
    let text = text.map(ToString::to_string).unwrap_or_default();
    let text = text.strip_prefix(first).unwrap_or(&text);
    if text.is_empty() {
        return;
    }
    page.control("SH", [heading]).control("EX", []);
    for line in text.lines() {
        page.text([roman(line)]);
    }
    page.control("EE", []);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_every_section_and_stays_the_same() {
        let shown = with_page(&crate::command());
        let copy = page(below(&shown, &["cp".to_owned()]).unwrap());
        for section in
            ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "EXAMPLES", "\"SEE ALSO\""]
        {
            assert!(copy.contains(&format!("\n.SH {section}\n")), "{section}: {copy}");
        }
        assert!(copy.contains("linerate\\-cp \\- Copy files"), "{copy}");
        assert_eq!(copy, page(below(&shown, &["cp".to_owned()]).unwrap()));
        assert!(below(&shown, &["lab".to_owned(), "cp".to_owned()]).is_err());
    }

    #[test]
    fn each_command_has_a_page_and_hidden_ones_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let shown = with_page(&crate::command());
        write_pages(&shown, directory.path()).unwrap();
        let is_there = |name: &str| directory.path().join(format!("{name}.1")).exists();
        assert!(is_there("linerate") && is_there("linerate-sync") && is_there("linerate-lab-run"));
        assert!(is_there("linerate-agent"), "authorized_keys(5) names it");
        let is_hidden = |below: &&clap::Command| below.is_hide_set() && below.get_name() != ADMINISTERED;
        for hidden in crate::command().get_subcommands().filter(is_hidden) {
            assert!(!is_there(&format!("linerate-{}", hidden.get_name())), "{hidden}");
        }
        assert!(!is_there("linerate-help") && !is_there("linerate-lab-help"));
    }
}
