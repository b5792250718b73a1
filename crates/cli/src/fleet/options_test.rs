//! Tests that the messages of each command of `fleet` name only options that the command has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command;

/// The folders and files whose messages the commands of `fleet` can print.
const ROOMS: [&str; 8] = [
    "transfer/src",
    "wire/src",
    "remote/src",
    "fleet/src",
    "cli/src/common",
    "cli/src/copying",
    "cli/src/fleet",
    "cli/src/sync/selecting.rs",
];

/// Files in these folders that contain no messages of the commands of `fleet`, each with the reason.
const OTHERS: [(&str, &str); 7] = [
    ("cli/src/fleet/mod.rs", "examples, each of which names its command"),
    ("cli/src/copying/fan/", "a task has one destination"),
    ("cli/src/copying/leave.rs", "no task is detached"),
    ("transfer/src/between/", "the source is on the task's host"),
    ("transfer/src/permit.rs", "options of the agent that the far account prescribes"),
    ("remote/src/install.rs", "scripts for far shells, and --no-install"),
    ("fleet/src/export.rs", "options of sbatch and parallel"),
];

/// Beginnings or other parts of messages that no command of `fleet` prints, each with the reason.
const NEVER: [(&str, &str); 11] = [
    ("--max-delete allows no more", DELETES),
    ("listing the directory for --delete failed", DELETES),
    ("opening the directory for --delete failed", DELETES),
    ("more entries than --delete can remember", DELETES),
    ("in a directory that --delete would clear", DELETES),
    ("--delete removes the directory", "only without a list of files, and each task has one"),
    ("Entries that sync --delete removed.", "it describes a metric, not an option"),
    ("the far end's account restricts this login to `linerate agent --below DIR`", "the far account's rule"),
    ("--files-from lists paths below one SRC", "no command of them has this option"),
    ("because --temp-dir without --partial-dir", "these are rsync's options"),
    ("the agent has sent nothing for 60 s", "it names doctor's option with the command"),
];
const DELETES: &str = "a fleet deletes nothing";

/// The long options of `linerate fleet NAME`.
fn options(name: &str) -> BTreeSet<String> {
    let all = command();
    let fleet = all.find_subcommand("fleet").expect("it is a command");
    let Some(own) = fleet.find_subcommand(name) else { return BTreeSet::new() };
    let long = own.get_arguments().flat_map(|arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect::<Vec<_>>()
    });
    long.chain(["help".to_owned()]).collect()
}

/// The names of the long options in a text.
fn named(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words = text.split(|c: char| !(is_part(c) || c == '='));
    let option = |word: &str| word.strip_prefix("--")?.split('=').next().map(str::to_owned);
    words.filter_map(option).filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase())).collect()
}

/// The string literals in a file's code, without its tests.
fn strings(code: &str) -> Vec<String> {
    let code = code.split("mod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n").replace("'\"'", "' '").replace("b'\"'", "b' '");
    let (mut found, mut chars, mut open) = (Vec::new(), code.chars(), None::<String>);
    while let Some(c) = chars.next() {
        match (c, &mut open) {
            ('"', Some(_)) => found.extend(open.take()),
            ('"', None) => open = Some(String::new()),
            ('\\', Some(text)) => text.extend(chars.next().filter(|c| *c != '\n')),
            (c, Some(text)) => text.push(c),
            _ => {}
        }
    }
    found
}

fn files(at: &Path) -> Vec<PathBuf> {
    if at.is_file() {
        return vec![at.to_owned()];
    }
    let below = fs::read_dir(at).unwrap_or_else(|error| panic!("{}: {error}", at.display()));
    let mut below: Vec<_> = below.map(|entry| entry.unwrap().path()).collect();
    below.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !["tests", "tests.rs", "options_test.rs"].contains(&&*name) && !name.ends_with("_measured.rs")
    });
    below.iter().flat_map(|path| files(path)).collect()
}

/// All messages in these folders that name options, with their files.
fn messages() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in one");
    let paths = ROOMS.iter().flat_map(|room| files(&crates.join(room)));
    let all = paths.flat_map(|path| {
        let name = path.strip_prefix(crates).expect("it is below").display().to_string();
        strings(&fs::read_to_string(path).unwrap()).into_iter().map(move |text| (name.clone(), text))
    });
    // A text of a single word is an argument of a program, and not a message.
    all.filter(|(_, text)| text.contains(' ') && !named(text).is_empty()).collect()
}

#[test]
fn messages_name_only_options_that_the_command_has() {
    let (run, plan) = (options("run"), options("plan"));
    let is_other = |file: &str| OTHERS.iter().any(|(other, _)| file.starts_with(other));
    let is_never = |text: &str| NEVER.iter().any(|(never, _)| text.contains(never));
    let all = messages();
    for (file, text) in all.iter().filter(|(file, text)| !is_other(file) && !is_never(text)) {
        let own = file.strip_prefix("cli/src/fleet/").and_then(|name| name.strip_suffix(".rs"));
        let own = own.map(options).unwrap_or_default();
        let plans = text.contains("plan") || file.contains("/filter/") || file.contains("selecting");
        let has = |name: &String| run.contains(name) || own.contains(name) || plans && plan.contains(name);
        let missing: Vec<_> = named(text).into_iter().filter(|name| !has(name)).collect();
        assert!(missing.is_empty(), "{file}: {missing:?} in {text:?}");
    }
    let is_stale = |(never, _): &&(&str, &str)| !all.iter().any(|(_, text)| text.contains(never));
    assert_eq!(NEVER.iter().find(is_stale), None);
    let is_stale = |(other, _): &&(&str, &str)| !all.iter().any(|(file, _)| file.starts_with(other));
    assert_eq!(OTHERS.iter().find(is_stale), None);
}

#[test]
fn help_names_only_options_that_the_command_has() {
    let all = command();
    let fleet = all.find_subcommand("fleet").expect("it is a command");
    let plan = options("plan");
    for own in fleet.get_subcommands() {
        let has = options(own.get_name());
        for arg in own.get_arguments() {
            let text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
            // One message mentions an option of sbatch, as an example of an option that is passed on.
            let is_known =
                |name: &String| has.contains(name) || text.contains("sbatch") && name == "exclusive";
            let is_of_plan = |name: &String| text.contains("a plan") && plan.contains(name);
            let missing: Vec<_> =
                named(&text).into_iter().filter(|name| !is_known(name) && !is_of_plan(name)).collect();
            assert!(missing.is_empty(), "fleet {}: {}: {missing:?}", own.get_name(), arg.get_id());
        }
    }
}
