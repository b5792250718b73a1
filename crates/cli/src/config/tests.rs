use super::*;
use crate::command_named;
use crate::common::config::keys::{KeyUse, find};
use crate::common::config::words::added;
use clap::builder::{ArgAction, ValueParser};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const GUIDE: &str = include_str!("../../../../docs/guide/configuration.md");

fn cp() -> clap::Command {
    crate::command_named("cp")
}

/// The configuration from two files: the user's and the system's.
fn read(texts: [&str; 2]) -> Result<Configuration, String> {
    let directory = tempfile::tempdir().unwrap();
    let paths = [0, 1].map(|index| {
        let path = directory.path().join(format!("{index}.toml"));
        fs::write(&path, texts[index]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    });
    Configuration::of(&paths, &cp())
}

fn value(configuration: &Configuration, key: &str, host: &str) -> Option<String> {
    configuration.value(key, Some(OsStr::new(host))).map(|found| found.value.to_owned())
}

#[test]
fn the_more_important_place_counts_and_lists_add_up() {
    let user = "streams = 4\noption = [\"A=1\"]\n[host.\"*.org\"]\nstreams = 8\n[host.\"a.org\"]\nstreams = 2\nport = 23\n";
    let system = "streams = 1\nretry = 3\noption = \"B=2\"\n[host.\"a.org\"]\nport = 24\nbwlimit = \"5m\"\n";
    let configuration = read([user, system]).unwrap();
    let at = |key, host| value(&configuration, key, host);
    assert_eq!(at("streams", "a.org").as_deref(), Some("8"), "the first section that fits");
    assert_eq!(at("streams", "x.net").as_deref(), Some("4"), "the user's, before the system's");
    assert_eq!(at("port", "u@A.org").as_deref(), Some("23"));
    assert_eq!(at("bwlimit", "a.org").as_deref(), Some("5m"));
    assert_eq!((at("retry", "x.net").as_deref(), at("bwlimit", "x.net")), (Some("3"), None));
    let options = configuration.values(find("option").unwrap(), None);
    assert_eq!(options.iter().map(|found| found.value).collect::<Vec<_>>(), ["A=1", "B=2"]);
    assert_eq!((options[0].origin.line, options[1].origin.line), (2, 3));
}

#[test]
fn errors_name_the_line_and_what_to_write() {
    for (text, line, says) in [
        ("streams = 99", 1, "1 to 64, or auto"),
        ("\nsteams = 4", 2, "did you mean streams?"),
        ("streams = true", 1, "must be a string or a number"),
        ("no-pacing = \"yes\"", 1, "must be true or false"),
        ("safe-links = true", 1, "is allowed only on the command line"),
        ("option = [1]", 1, "must be a list of strings"),
        ("# x\n\nno-encrypt = true", 3, "allowed only on the command line"),
        ("delete-me = 1", 1, "there is no option delete-me"),
        ("recursive = true", 1, "is allowed only on the command line"),
        ("[host.\"a b\"]\n", 1, "matches no host"),
        ("[host.a.b]\nstreams = 1\n", 1, "there is no option b"),
        ("[hosts.x]\n", 1, "there is no option hosts"),
        ("[host.x]\nstreams = \"many\"\n", 2, "many"),
        ("bwlimit = \"fast\"", 1, "fast"),
        ("port-range = \"9-1\"", 1, "50000-50010"),
        ("compress = 30", 1, "1 to 19"),
        ("timeout = -1", 1, "-1"),
        ("timeout = 99999999999999999999", 1, "'99999999999999999999': the number is too large"),
        ("port = 70000", 1, "70000"),
        ("port = 0", 1, "'0'"),
        ("identity = \"\"", 1, "identity: "),
        ("jump = \"\"", 1, "its value is empty"),
        ("jump = \" \"", 1, "its value is empty"),
        ("agent-command = \"sudo other\"", 1, "linerate"),
        ("option = [\"StrictHostKeyChecking=no\"]", 1, "ssh's own configuration"),
        ("rsh = \"x\"\nport = 1", 1, "rsh and port"),
        ("ipv4 = true\n[host.x]\nipv4 = true\nipv6 = true", 4, "write one of them"),
        ("interfaces = \"\"", 1, "can't be the name of an interface"),
        ("interfaces = \"eth2,a/b\"", 1, "'a/b' can't be the name of an interface"),
        ("streams = [", 1, ""),
        ("streams = 1\nstreams = 2\n", 2, ""),
    ] {
        let error = read([text, ""]).unwrap_err();
        assert!(error.contains(&format!("0.toml:{line}: ")) && error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let as_users = || Configuration::of(&[path.clone(), PathBuf::from("/nowhere/at/all")], &cp());
    let as_systems = || Configuration::of(std::slice::from_ref(&path), &cp());
    assert_eq!(as_users().unwrap().files().count(), 0, "none is no error");
    fs::write(&path, "streams = 1").unwrap();
    for mode in [0o664, 0o646, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(as_users().unwrap_err().contains("chmod go-w"));
        assert!(as_systems().unwrap_err().contains("chmod go-w"));
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(as_systems().unwrap().files().count(), 1);
    fs::write(&path, b"\xff").unwrap();
    assert!(as_systems().unwrap_err().contains("UTF-8"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(as_systems().unwrap_err().contains("a regular file"));
    fs::remove_dir(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    assert!(as_systems().unwrap_err().contains("a regular file"), "nobody waits for a writer");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("missing", &path).unwrap();
    assert!(as_users().unwrap_err().contains("it can't be read: No such file"), "a link that leads nowhere");
}

#[test]
fn every_key_is_an_option_of_its_kind_with_its_built_in_value() {
    let cp = cp();
    for key in &KEYS {
        let option = key.option(&cp).unwrap_or_else(|| panic!("{key:?}"));
        let action = match key.kind {
            KeyKind::Value => ArgAction::Set,
            KeyKind::Flag => ArgAction::SetTrue,
            KeyKind::List => ArgAction::Append,
        };
        assert_eq!(format!("{:?}", option.get_action()), format!("{action:?}"), "{key:?}");
        if key.use_ != KeyUse::Ssh {
            assert_eq!(option.get_long(), Some(key.name));
        }
        for default in option.get_default_values() {
            assert_eq!(default.to_str(), Some(key.builtin), "{key:?}");
        }
    }
}

/// All commands that read the configuration files, each with the keys that it takes.
fn readers(command: &clap::Command, name: &str) -> Vec<(String, BTreeSet<&'static str>)> {
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let names_a_host = ["to", "destination", "source", "places", "host"].into_iter().any(has);
    let takes = |key: &&ConfigKey| key.use_ != KeyUse::Data || names_a_host && has(key.id);
    let own = has("no_config")
        .then(|| (name.trim_start().to_owned(), KEYS.iter().filter(takes).map(|key| key.name).collect()));
    let below = command.get_subcommands();
    let below = below.flat_map(|command| readers(command, &format!("{name} {}", command.get_name())));
    own.into_iter().chain(below).collect()
}

#[test]
fn the_guide_has_a_row_for_each_command_that_reads_the_files() {
    let section = section("Which command takes which");
    let of_data = || KEYS.iter().filter(|key| key.use_ == KeyUse::Data).map(|key| key.name);
    let mut rows = BTreeMap::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (commands, keys) = row.split_once(" | ").expect("two columns");
        let keys: BTreeSet<_> =
            if keys.starts_with("all") { of_data().collect() } else { quoted(keys).collect() };
        rows.extend(quoted(&format!("`{commands}")).map(|command| (command.to_owned(), keys.clone())));
    }
    let mut readers = BTreeMap::from_iter(readers(&crate::command(), ""));
    for keys in readers.values_mut() {
        let (data, login): (BTreeSet<_>, BTreeSet<_>) =
            keys.iter().partition(|key| of_data().any(|it| it == **key));
        assert_eq!(login.len(), KEYS.len() - of_data().count(), "every command takes all keys of the login");
        *keys = data;
    }
    assert_eq!(rows, readers);
}

/// The texts between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn section(heading: &str) -> &'static str {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).expect("the heading is there");
    section.split("\n## ").next().unwrap_or(section)
}

#[test]
fn the_guide_has_a_row_for_each_key() {
    let rows = section("Options").lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: BTreeSet<_> = rows.collect();
    assert_eq!(rows, KEYS.iter().map(|key| key.name).collect());
}

/// The text of a file with every key about data.
const DATA: &str = "streams = 2\ninterfaces = \"all\"\nport-range = \"50000-50010\"\ncompress = 3\nbwlimit = \"5m\"\n\
                    no-pacing = true\nretry = 2\ntimeout = 9\n";

/// The parsed command line of a command with these further words, whose values aren't checked.
fn line(command: &clap::Command, further: &[String]) -> Result<clap::ArgMatches, clap::Error> {
    let any = |arg: clap::Arg| {
        if arg.get_action().takes_values() { arg.value_parser(ValueParser::os_string()) } else { arg }
    };
    let places = command.get_positionals().flat_map(|arg| match arg.get_id().as_str() {
        "places" => vec!["h1:a", "h2:b"],
        id if arg.is_required_set() || ["destination", "host"].contains(&id) => vec!["h1:a"],
        _ => vec![],
    });
    let words = [command.get_name()].into_iter().map(str::to_owned);
    let words = words.chain(further.iter().cloned()).chain(places.map(str::to_owned));
    command.clone().mut_args(any).try_get_matches_from(words)
}

#[test]
fn configured_options_give_way_to_every_option_that_is_given() {
    let configuration = read([DATA, ""]).unwrap();
    let mut tried = BTreeMap::new();
    for (name, _) in readers(&crate::command(), "") {
        let command = command_named(&name);
        for option in command.get_opts().filter(|option| !option.is_positional()) {
            let given = match (option.get_long(), option.get_short()) {
                (Some(long), _) => format!("--{long}"),
                (None, short) => format!("-{}", short.unwrap()),
            };
            let equals = if option.get_long().is_some() { "=1" } else { "1" };
            let given = if option.get_action().takes_values() { format!("{given}{equals}") } else { given };
            // Some options require other options, or replace an argument.
            let Ok(matches) = line(&command, std::slice::from_ref(&given)) else { continue };
            let words = added(&configuration, &matches, &command).unwrap();
            let words: Vec<_> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
            let all = [words.clone(), vec![given.clone()]].concat();
            if let Err(error) = line(&command, &all) {
                panic!("{name} {all:?}: {error}");
            }
            tried.insert(format!("{name} {given}"), words.len());
        }
    }
    // With `cp --verify`, all eight keys apply. Each of the next four lines excludes one key, because it gives the key
    // or conflicts with it. stream has only two of the keys; verify, clean and facts have none.
    for (line, count) in [
        ("cp --verify", 8),
        ("cp --detach", 7),
        ("sync --detach", 7),
        ("sync --retry=1", 7),
        ("cp --no-encrypt", 7),
        ("stream --bytes=1", 2),
        ("stream --streams=1", 1),
        ("verify --json", 0),
        ("clean --dry-run", 0),
        ("facts --json", 0),
    ] {
        assert_eq!(tried.get(line), Some(&count), "{line}");
    }
}
