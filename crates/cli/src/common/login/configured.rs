//! Completes the options of a login by the configured values.

use linerate_remote::agent_command::AgentCommand;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use super::LoginOptions;
use crate::common::config::keys::{find, ssh_option_name};
use crate::common::config::precedence::long_names;
use crate::common::config::{Configuration, ConfiguredValue};

/// The options `given`, completed by the values that are configured for the host.
///
/// # Errors
/// A message if a value is invalid for this login. The files themselves were checked when they were read.
pub fn fill(
    given: &LoginOptions,
    configuration: &Configuration,
    host: &OsStr,
) -> Result<LoginOptions, String> {
    let host = Some(host);
    let value = |name: &str| configuration.value(name, host).map(|found| found.value.to_owned());
    let is_set = |name: &str| value(name).is_some_and(|value| value == "true");
    let mut own = given.clone();
    own.no_install |= is_set("no-install");
    if let (None, Some(line)) = (&own.agent_command, value("agent-command")) {
        own.agent_command = Some(AgentCommand::parse(&line, None)?);
    }
    if given.rsh.is_some() {
        // Remote shells other than ssh don't accept ssh's options.
        return Ok(own);
    }
    let is_ssh = given.has_ssh_options() || given.program.is_some();
    if !is_ssh && configuration.ssh_instead_of_rsh(host).is_none() {
        own.rsh = value("rsh");
    }
    if own.rsh.is_none() {
        fill_ssh(&mut own, given, configuration, host)?;
    }
    Ok(own)
}

fn fill_ssh(
    own: &mut LoginOptions,
    given: &LoginOptions,
    configuration: &Configuration,
    host: Option<&OsStr>,
) -> Result<(), String> {
    // If both were given, ssh would use its one-letter options and not those of -o.
    let is_given =
        |name: &str| given.option.iter().any(|option| long_names(name).contains(&&*name_of(option)));
    let value = |name: &str| {
        let found = configuration.value(name, host).filter(|_| !is_given(name));
        found.filter(|_| configuration.ssh_instead_of(name, host).is_none())
    };
    let values = |name: &str| {
        let found = find(name).map(|key| configuration.values(key, host)).unwrap_or_default();
        found.into_iter().map(|found| OsString::from(found.value)).collect::<Vec<_>>()
    };
    if let (None, Some(port)) = (own.port, value("port")) {
        let port = port.value;
        own.port = Some(port.parse().map_err(|error| format!("port '{port}': {error}"))?);
    }
    if let (None, Some(file)) = (&own.config, value("ssh-config")) {
        own.config = Some(ssh_config(&file, host)?);
    }
    own.jump = own.jump.take().or_else(|| value("jump").map(|found| found.value.into()));
    // If an option of ssh is given several times, the first is used; several identities are tried in order.
    own.identity.extend(values("identity"));
    own.option.extend(values("option"));
    if !own.ipv4 && !own.ipv6 {
        let is_set = |name: &str| value(name).is_some_and(|found| found.value == "true");
        (own.ipv4, own.ipv6) = (is_set("ipv4"), is_set("ipv6"));
    }
    Ok(())
}

/// The path of the configured ssh configuration file. The file must exist, because ssh's own error would name neither
/// linerate's configuration file nor the line in it.
fn ssh_config(found: &ConfiguredValue<'_>, host: Option<&OsStr>) -> Result<OsString, String> {
    // In ssh, the word `none` means that no file is read.
    if found.value != "none" {
        let opened = File::open(found.value).map(drop);
        opened.map_err(|error| {
            let (value, host) = (found.value, printable(host.unwrap_or_default().as_bytes()));
            found.origin.error(&format!("ssh-config: '{value}' can't be read for {host}: {error}"))
        })?;
    }
    Ok(found.value.into())
}

/// The name of an option as ssh reads it, without blanks, quotes and a '=' before it.
fn name_of(option: &OsStr) -> String {
    let shown = option.to_string_lossy();
    ssh_option_name(shown.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()))
}
