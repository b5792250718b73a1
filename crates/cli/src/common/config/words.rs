//! The options of a command's data that the configuration adds to its words. Those of logins are looked up by
//! [`crate::common::reach`], for each host of a command.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::ffi::{OsStr, OsString};

use super::keys::{ConfigKey, KEYS, KeyKind, KeyUse};
use super::{Configuration, ConfiguredValue};
use crate::common::spec::Spec;

/// Words for the options of `command` that neither are given nor conflict with a given one. A command within this host gets
/// none.
///
/// # Errors
/// If this host can't do what a value says. The message names the file and the line.
pub fn added(
    configuration: &Configuration,
    given: &ArgMatches,
    command: &Command,
) -> Result<Vec<OsString>, String> {
    let Some(host) = far_host(given) else { return Ok(Vec::new()) };
    let mut words = Vec::new();
    for key in KEYS.iter().filter(|key| key.use_ == KeyUse::Data) {
        // The matches can't be asked whether the command has the option: without debug assertions clap says yes to all.
        let option = key.option(command).filter(|option| is_free(option, given, command));
        let found = option.and_then(|_| configuration.values(key, Some(&host)).into_iter().next());
        let Some(found) = found.filter(|found| !is_in_clear_anywhere(key, found.value, given)) else {
            continue;
        };
        words.extend(word(key, &found, command)?);
    }
    Ok(words)
}

/// True if the option isn't given, nor one that it conflicts with.
fn is_free(option: &Arg, given: &ArgMatches, command: &Command) -> bool {
    let is_given = |other: &&Arg| {
        let source = given.value_source(other.get_id().as_str());
        source.is_some_and(|source| source != ValueSource::DefaultValue)
    };
    let forbids = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|forbidden| forbidden.get_id() == other.get_id())
    };
    !command
        .get_arguments()
        .filter(is_given)
        .any(|other| option.get_id() == other.get_id() || forbids(option, other) || forbids(other, option))
}

/// True for all interfaces where data goes in clear, which must go only where the user says.
fn is_in_clear_anywhere(key: &ConfigKey, value: &str, given: &ArgMatches) -> bool {
    let is_clear = matches!(given.try_get_one::<bool>("no_encrypt"), Ok(Some(true)));
    key.name == "interfaces" && value == "all" && is_clear
}

fn word(key: &ConfigKey, found: &ConfiguredValue<'_>, command: &Command) -> Result<Option<OsString>, String> {
    let ConfiguredValue { value, origin } = found;
    match (key.kind, *value) {
        (KeyKind::Flag, "true") => return Ok(Some(format!("--{}", key.name).into())),
        (KeyKind::Flag, _) => return Ok(None),
        _ => {}
    }
    key.check_here(value, command).map_err(|why| origin.error(&format!("{}: {why}", key.name)))?;
    Ok(Some(format!("--{}={value}", key.name).into()))
}

/// The host of the destination, else that of the sources.
fn far_host(given: &ArgMatches) -> Option<OsString> {
    let words = |id: &str| given.try_get_raw(id).ok().flatten().into_iter().flatten();
    let several: Vec<_> = words("places").collect();
    let named = ["to", "destination", "source"].into_iter().flat_map(words).chain(several.into_iter().rev());
    named.filter_map(of_spec).chain(words("host").map(OsStr::to_owned)).next()
}

fn of_spec(word: &OsStr) -> Option<OsString> {
    match Spec::parse(word) {
        Spec::Remote(host, _) => Some(host),
        Spec::Local(_) => None,
    }
}
