//! The completion scripts for shells. clap generates them, and this module adds the kinds of the options' values and
//! the paths of far hosts.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ValueEnum, ValueHint};
use clap_complete::Shell;

/// The first line of the completion function in zsh's script.
const ZSH_BEGINS: &str = "\n_linerate() {\n";

/// The line of clap's bash function that offers files, but doesn't escape their names; and the line that replaces it.
/// The new line offers no names, so readline offers file names itself.
const BASH_FILES: (&str, &str) = ("COMPREPLY=($(compgen -f \"${cur}\"))", "COMPREPLY=()");

/// The function that clap's zsh function calls for a word that may be a path, and the function that replaces
/// it.
const ZSH_PATHS: (&str, &str) = (":_default'", ":_linerate_near'");

/// Options that accept numbers, and the words that they accept in addition.
const WORDS: [(&str, &[&str]); 2] = [("compress", &["auto", "off"]), ("streams", &["auto"])];

/// Parts of value names. If a value's name contains one of these parts, the value is a path.
const PATHS: [&str; 13] = [
    "FILE", "DIR", "PATH", "SRC", "DST", "PLAN", "BASE", "NEW", "STUDY", "PATTERN", "CMD", "COMMAND",
    "ARGUMENT",
];

/// A shell that can complete linerate's words.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

/// The completion script for the commands in `shown`.
pub fn script(shell: CompletedShell, shown: clap::Command) -> String {
    let shell = match shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut bytes = Vec::new();
    let mut reported = with_hints(shown);
    clap_complete::generate(shell, &mut reported, "linerate", &mut bytes);
    let script = String::from_utf8_lossy(&bytes);
    match shell {
        Shell::Zsh => {
            let begins = format!("{}{ZSH_BEGINS}{}", include_str!("completions/near.zsh"), FAR_ZSH);
            script.replace(ZSH_PATHS.0, ZSH_PATHS.1).replacen(ZSH_BEGINS, &begins, 1)
        }
        Shell::Fish => {
            format!("{script}{}{}", fish_arguments(&reported), include_str!("completions/far.fish"))
        }
        _ => script.replace(BASH_FILES.0, BASH_FILES.1) + include_str!("completions/far.bash"),
    }
}

const FAR_ZSH: &str = include_str!("completions/far.zsh");

/// Adds hints to each option: whether its values are words, hosts, or texts that a shell can't complete.
fn with_hints(command: clap::Command) -> clap::Command {
    command.mut_args(with_hint).mut_subcommands(with_hints)
}

fn with_hint(arg: Arg) -> Arg {
    let is_known = arg.get_value_hint() != ValueHint::Unknown || !arg.get_possible_values().is_empty();
    if is_known || !arg.get_action().takes_values() {
        return arg;
    }
    if let Some((_, words)) = WORDS.iter().find(|(name, _)| arg.get_id() == *name) {
        return arg.value_parser(PossibleValuesParser::new(*words));
    }
    if is_path(&arg) {
        return arg;
    }
    let names = arg.get_value_names().unwrap_or_default().join(" ");
    let hint = if names.contains("HOST") { ValueHint::Hostname } else { ValueHint::Other };
    arg.value_hint(hint)
}

/// The lines of the fish script for commands whose arguments aren't paths; clap writes no such lines.
fn fish_arguments(reported: &clap::Command) -> String {
    let mut lines = String::new();
    for command in reported.get_subcommands().filter(|command| command.get_name() != "help") {
        if command.get_name() == "man" {
            let named: Vec<_> = reported.get_subcommands().map(clap::Command::get_name).collect();
            lines +=
                &fish_line("__fish_linerate_using_subcommand man", &format!(" -a \"{}\"", named.join(" ")));
            continue;
        }
        let below: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        let using = format!("__fish_linerate_using_subcommand {}", command.get_name());
        let seen = format!("; and not __fish_seen_subcommand_from {}", below.join(" "));
        let alone = if below.is_empty() { using.clone() } else { using.clone() + &seen };
        lines += &fish_argument(&alone, command).unwrap_or_default();
        for command in command.get_subcommands() {
            let both = format!("{using}; and __fish_seen_subcommand_from {}", command.get_name());
            lines += &fish_argument(&both, command).unwrap_or_default();
        }
    }
    lines
}

/// The line of the fish script for one command, if none of the command's arguments is a path.
fn fish_argument(condition: &str, command: &clap::Command) -> Option<String> {
    let first = command.get_positionals().next()?;
    if command.get_positionals().any(is_path) {
        return None;
    }
    let values = first.get_possible_values();
    let words: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
    let offered = match first.get_value_hint() {
        ValueHint::Hostname => " -a \"(__fish_print_hostnames)\"".to_owned(),
        _ if words.is_empty() => String::new(),
        _ => format!(" -a \"{}\"", words.join(" ")),
    };
    Some(fish_line(condition, &offered))
}

fn fish_line(condition: &str, offered: &str) -> String {
    format!("complete -c linerate -n \"{condition}\" -f{offered}\n")
}

fn is_path(arg: &Arg) -> bool {
    let is_named =
        |name: &str| arg.get_value_names().unwrap_or_default().iter().any(|given| given.contains(name));
    arg.get_value_hint() == ValueHint::AnyPath || PATHS.iter().any(|path| is_named(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts() -> [(CompletedShell, String); 3] {
        let shells = [CompletedShell::Bash, CompletedShell::Zsh, CompletedShell::Fish];
        shells.map(|shell| (shell, script(shell, crate::manual::without_hidden(&crate::command()))))
    }

    #[test]
    fn no_shell_completes_hidden_commands() {
        for (shell, script) in scripts() {
            assert!(script.contains("manifest"), "{shell:?}: {script}");
            for hidden in ["be-guest", "no-delete", "The far end of the other commands"] {
                assert!(!script.contains(hidden), "{shell:?} has {hidden}");
            }
        }
    }

    #[test]
    fn clap_names_files_in_no_way_of_its_own() {
        let [(_, bash), (_, zsh), _] = scripts();
        assert!(!bash.contains("compgen -f \""), "{bash}");
        assert!(zsh.contains(":_linerate_near'") && !zsh.contains(":_default"), "{zsh}");
    }
}
