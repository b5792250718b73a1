//! Adds the configured options of a command's data to its command line. Options for logins are looked up by
//! [`crate::common::login`], for each host of a command.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::keys::{ConfigKey, KEYS, KeyKind, KeyUse};
use super::{Configuration, ConfiguredValue};
use crate::common::spec::{Spec, listed};

/// A configured value (`None` if there is none), and the destinations' hosts for which it comes from the same
/// place.
type HostGroup<'a> = (Option<ConfiguredValue<'a>>, Vec<String>);

/// The words for the configured options of `command`, without options that are given or that conflict with a
/// given one. Empty for a command within this host.
///
/// # Errors
/// If this host can't apply a value, or if the values for several destinations differ. The message names the
/// file and the line.
pub fn added(
    configuration: &Configuration,
    given: &ArgMatches,
    command: &Command,
) -> Result<Vec<OsString>, String> {
    let hosts = far_hosts(given);
    let mut words = Vec::new();
    for key in KEYS.iter().filter(|key| key.use_ == KeyUse::Data) {
        // `is_free` can't find out whether the command has the option: without debug assertions, clap answers
        // yes for every option.
        if !key.option(command).is_some_and(|option| is_free(option, given, command)) {
            continue;
        }
        let of_host = |host: &OsString| {
            let found = configuration.values(key, Some(host)).into_iter().next();
            found.filter(|found| !is_in_clear_anywhere(key, found.value, given))
        };
        if let Some(found) = agreed(key, &hosts, of_host)? {
            words.extend(word(key, &found, command)?);
        }
    }
    Ok(words)
}

/// The configured value, if it is the same for all hosts.
///
/// # Errors
/// If the values differ, because a copy has one value for all its destinations.
fn agreed<'a>(
    key: &ConfigKey,
    hosts: &[OsString],
    of_host: impl Fn(&OsString) -> Option<ConfiguredValue<'a>>,
) -> Result<Option<ConfiguredValue<'a>>, String> {
    let mut groups: Vec<HostGroup<'_>> = Vec::new();
    for host in hosts {
        let (found, host) = (of_host(host), printable(host.as_bytes()));
        match groups.iter_mut().find(|group| place(&group.0) == place(&found)) {
            Some((_, hosts)) if hosts.contains(&host) => {}
            Some((_, hosts)) => hosts.push(host),
            None => groups.push((found, vec![host])),
        }
    }
    let value = |(found, _): &HostGroup<'a>| found.as_ref().map_or(key.builtin, |found| found.value);
    if groups.windows(2).any(|pair| value(&pair[0]) != value(&pair[1])) {
        return Err(differing(key, &groups));
    }
    Ok(groups.into_iter().find_map(|(found, _)| found))
}

fn place<'a>(found: &Option<ConfiguredValue<'a>>) -> Option<(&'a Path, usize)> {
    found.as_ref().map(|found| (found.origin.file, found.origin.line))
}

fn differing(key: &ConfigKey, groups: &[HostGroup<'_>]) -> String {
    let name = key.name;
    let group = |(found, hosts): &HostGroup<'_>| {
        let hosts = hosts.join(", ");
        match found {
            Some(found) => format!("{} for {hosts} ({})", found.value, found.origin.place()),
            None => format!("{} for {hosts} (built in)", key.builtin),
        }
    };
    let groups: Vec<_> = groups.iter().map(group).collect();
    format!(
        "the destinations have different configured values of {name}, but a copy has one value for all of them: {}; \
         give --{name} on the command line, or copy to the hosts one by one",
        groups.join("; ")
    )
}

/// True if neither the option nor an option that it conflicts with is given.
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

/// True for the value "all interfaces" if the data isn't encrypted. Such data must use only interfaces that
/// the user names.
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

/// The hosts of several destinations; for a single destination, its host, or else the host of the sources.
/// Empty for a command within this host.
fn far_hosts(given: &ArgMatches) -> Vec<OsString> {
    let words = |id: &str| given.try_get_raw(id).ok().flatten().into_iter().flatten();
    // If the file can't be read, the command itself reports that.
    let files = words("to_file").flat_map(|file| listed(Path::new(file)).unwrap_or_default());
    let several = words("to").map(OsStr::to_owned).chain(files);
    let several: Vec<_> = several.filter_map(|place| of_spec(&place)).collect();
    if !several.is_empty() {
        return several;
    }
    let places: Vec<_> = words("places").collect();
    let named = ["destination", "source"].into_iter().flat_map(words).chain(places.into_iter().rev());
    named.filter_map(of_spec).chain(words("host").map(OsStr::to_owned)).take(1).collect()
}

fn of_spec(word: &OsStr) -> Option<OsString> {
    match Spec::parse(word) {
        Spec::Remote(host, _) => Some(host),
        Spec::Local(_) => None,
    }
}
