//! Fills in the configured values for a login that the command line doesn't set.

use linerate_remote::command::AgentCommand;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use super::Reach;
use crate::common::config::Configuration;
use crate::common::config::keys::{KEYS, KeyUse, find, ssh_option_name};

/// `given`, with the values that are configured for the host.
///
/// # Errors
/// A message if a value is wrong; the files were checked when they were read.
pub fn fill(given: &Reach, configuration: &Configuration, host: &OsStr) -> Result<Reach, String> {
    let value = |name: &str| configuration.value(name, Some(host)).map(|found| found.value.to_owned());
    let is_set = |name: &str| value(name).is_some_and(|value| value == "true");
    let mut own = given.clone();
    own.no_install |= is_set("no-install");
    if let (None, Some(line)) = (&own.agent_command, value("agent-command")) {
        own.agent_command = Some(AgentCommand::parse(&line, None)?);
    }
    if given.rsh.is_some() {
        // Another remote shell doesn't take ssh's options.
        return Ok(own);
    }
    if let Some(rsh) = rsh(given, configuration, host) {
        own.rsh = Some(rsh);
        return Ok(own);
    }
    let values = |name: &str| {
        let found = find(name).map(|key| configuration.values(key, Some(host))).unwrap_or_default();
        found.into_iter().map(|found| OsString::from(found.value)).collect::<Vec<_>>()
    };
    // ssh would let its options of one letter win over those of -o.
    let says = |names: &[&str]| given.option.iter().any(|option| names.contains(&&*name_of(option)));
    if let (None, Some(port), false) = (own.port, value("port"), says(&["port"])) {
        own.port = Some(port.parse().map_err(|error| format!("port '{port}': {error}"))?);
    }
    if own.config.is_none() {
        own.config = ssh_config(configuration, host)?;
    }
    own.jump =
        own.jump.or_else(|| value("jump").filter(|_| !says(&["proxyjump", "proxycommand"])).map(Into::into));
    // If an option of ssh is given twice, the first one counts, and keys are tried in order.
    own.identity.extend(values("identity"));
    own.option.extend(values("option"));
    if !own.ipv4 && !own.ipv6 && !says(&["addressfamily"]) {
        let rank = |name: &str| Some(configuration.value(name, Some(host))?.origin.rank);
        (own.ipv4, own.ipv6) = (is_set("ipv4"), is_set("ipv6"));
        if own.ipv4 && own.ipv6 {
            // They are in different places, of which the more important one counts.
            (own.ipv4, own.ipv6) = (rank("ipv4") < rank("ipv6"), rank("ipv6") < rank("ipv4"));
        }
    }
    Ok(own)
}

/// The configured file of ssh, which must be there: ssh names neither the file nor the line that it comes from.
fn ssh_config(configuration: &Configuration, host: &OsStr) -> Result<Option<OsString>, String> {
    let Some(found) = configuration.value("ssh-config", Some(host)) else { return Ok(None) };
    // ssh's word for no file.
    if found.value != "none" {
        let opened = File::open(found.value).map(drop);
        opened.map_err(|error| {
            let (value, host) = (found.value, printable(host.as_bytes()));
            found.origin.error(&format!("ssh-config: '{value}' can't be read for {host}: {error}"))
        })?;
    }
    Ok(Some(found.value.into()))
}

/// The name of an option as ssh reads it: blanks, quotes and a '=' before the name don't count.
fn name_of(option: &OsStr) -> String {
    let shown = option.to_string_lossy();
    ssh_option_name(shown.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()))
}

/// The configured remote shell, unless an option of ssh is set in a place that takes precedence.
fn rsh(given: &Reach, configuration: &Configuration, host: &OsStr) -> Option<String> {
    if given.has_ssh_options() || given.program.is_some() {
        return None;
    }
    let rsh = configuration.value("rsh", Some(host))?;
    let of_ssh = KEYS.iter().filter(|key| key.use_ == KeyUse::Ssh);
    let ranks = of_ssh.flat_map(|key| configuration.values(key, Some(host))).map(|found| found.origin.rank);
    ranks.min().is_none_or(|rank| rsh.origin.rank < rank).then(|| rsh.value.to_owned())
}
