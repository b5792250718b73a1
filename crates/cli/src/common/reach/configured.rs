//! Fills in the configured values for a login that the command line doesn't set.

use linerate_remote::command::AgentCommand;
use std::ffi::{OsStr, OsString};

use super::Reach;
use crate::common::config::Configuration;
use crate::common::config::keys::{KEYS, KeyUse};

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
        let key = KEYS.iter().find(|key| key.name == name);
        let found = key.map(|key| configuration.values(key, Some(host))).unwrap_or_default();
        found.into_iter().map(|found| OsString::from(found.value)).collect::<Vec<_>>()
    };
    if let (None, Some(port)) = (own.port, value("port")) {
        own.port = Some(port.parse().map_err(|error| format!("port '{port}': {error}"))?);
    }
    own.config = own.config.or_else(|| value("ssh-config").map(Into::into));
    own.jump = own.jump.or_else(|| value("jump").map(Into::into));
    // If an option of ssh is given twice, the first one counts, and keys are tried in order.
    own.identity.extend(values("identity"));
    own.option.extend(values("option"));
    if !own.ipv4 && !own.ipv6 {
        (own.ipv4, own.ipv6) = (is_set("ipv4"), is_set("ipv6"));
    }
    Ok(own)
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
