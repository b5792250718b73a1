//! The options that a configuration file may contain. They concern a host or the way to it; none of them
//! changes what a command does to files.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};
use std::error::Error;

use crate::common::login::shell_words;
use crate::common::refused_number;
use crate::units::interface_names;

/// An option that a configuration file may contain.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// The key in the file: the option's name, or a word if the option has only a letter.
    pub name: &'static str,
    /// The ID that clap uses for the option.
    pub id: &'static str,
    /// The kind of values that the key takes.
    pub kind: KeyKind,
    /// The part of a command to which the option applies.
    pub use_: KeyUse,
    /// The text that is displayed as the value if none is configured.
    pub builtin: &'static str,
}

/// The kind of values that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A string or a number.
    Value,
    /// True or false.
    Flag,
    /// A list of strings; the lists of several sections are joined.
    List,
}

/// To which part of a command an option applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The option applies to the data, once for each command.
    Data,
    /// The option applies to ssh, for each login.
    Ssh,
    /// The option applies to the login, by ssh or by another program.
    Login,
}

const fn key(
    name: &'static str,
    id: &'static str,
    kind: KeyKind,
    use_: KeyUse,
    builtin: &'static str,
) -> ConfigKey {
    ConfigKey { name, id, kind, use_, builtin }
}

/// All keys, in the order in which they are displayed.
pub const KEYS: [ConfigKey; 18] = {
    use KeyKind::{Flag, List, Value};
    use KeyUse::{Data, Login, Ssh};
    [
        key("streams", "streams", Value, Data, "auto"),
        key("interfaces", "interfaces", Value, Data, "ssh's"),
        key("port-range", "port_range", Value, Data, "any"),
        key("compress", "compress", Value, Data, "auto"),
        key("bwlimit", "bwlimit", Value, Data, "none"),
        key("no-pacing", "no_pacing", Flag, Data, "false"),
        key("retry", "retry", Value, Data, "0"),
        key("timeout", "timeout", Value, Data, "30, and 150 for the login"),
        key("port", "port", Value, Ssh, "ssh's"),
        key("identity", "identity", List, Ssh, "ssh's"),
        key("ssh-config", "config", Value, Ssh, "ssh's"),
        key("jump", "jump", Value, Ssh, "ssh's"),
        key("option", "option", List, Ssh, "none"),
        key("ipv4", "ipv4", Flag, Ssh, "false"),
        key("ipv6", "ipv6", Flag, Ssh, "false"),
        key("rsh", "rsh", Value, Login, "ssh"),
        key("agent-command", "agent_command", Value, Login, "linerate"),
        key("no-install", "no_install", Flag, Login, "false"),
    ]
};

/// ssh's options that change which hosts a login trusts. The first one may be set, but only to a strict value.
const HOST_KEYS: [&str; 8] = [
    "stricthostkeychecking",
    "userknownhostsfile",
    "globalknownhostsfile",
    "knownhostscommand",
    "nohostauthenticationforlocalhost",
    "hostkeyalias",
    "revokedhostkeys",
    "verifyhostkeydns",
];

/// The key with this name.
pub fn find(name: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.name == name)
}

impl ConfigKey {
    /// The option of `command` that belongs to this key, if the command has it.
    pub fn option<'a>(&self, command: &'a Command) -> Option<&'a Arg> {
        command.get_arguments().find(|arg| arg.get_id() == self.id)
    }

    /// Checks a value that may be for another host or another machine. `cp` is a command that has all
    /// options.
    ///
    /// # Errors
    /// A message that states why the value is invalid.
    pub fn check(&self, value: &str, cp: &Command) -> Result<(), String> {
        match self.name {
            "option" => refuse_host_keys(value)?,
            "rsh" => check_shell(value)?,
            // The interfaces may be those of another machine, if several machines share the file.
            "interfaces" => return interface_names(value).map(drop),
            _ => {}
        }
        self.check_here(value, cp)?;
        if value.trim().is_empty() { Err("its value is empty".to_owned()) } else { Ok(()) }
    }

    /// Checks a value as the command line of `command` does.
    ///
    /// # Errors
    /// A message that states why the value is invalid.
    pub fn check_here(&self, value: &str, command: &Command) -> Result<(), String> {
        if self.kind == KeyKind::Flag {
            return Ok(());
        }
        let parser = self.option(command).map(|arg| arg.get_value_parser().clone());
        parser.map_or(Ok(()), |parser| parse(parser, value))
    }
}

/// Parses the value as if no other option were given, because options that conflict with it may be given.
fn parse(parser: ValueParser, value: &str) -> Result<(), String> {
    let arg = Arg::new("value").long("value").action(ArgAction::Set).value_parser(parser);
    let command = Command::new("configuration").no_binary_name(true).disable_help_flag(true).arg(arg);
    let parsed = command.try_get_matches_from([format!("--value={value}")]);
    parsed.map(drop).map_err(|error| {
        let why = error.source().map_or_else(
            || "this value isn't allowed".to_owned(),
            |source| refused_number::why(source).unwrap_or_else(|| source.to_string()),
        );
        if why.contains(value) { why } else { format!("'{value}': {why}") }
    })
}

/// The name with which a text for ssh's -o begins, in lower case; empty if it begins with something else.
pub fn ssh_option_name(option: &str) -> String {
    option.chars().take_while(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

fn refuse_host_keys(option: &str) -> Result<(), String> {
    // ssh ignores blanks, quotes and a '=' before the name, so the name must be compared without them.
    let name = ssh_option_name(option);
    let value = option[name.len()..].to_ascii_lowercase();
    if name.is_empty() {
        return Err(format!(
            "'{option}' isn't an option of ssh: an option begins with its name, as in Compression=no"
        ));
    }
    let is_strict = name == HOST_KEYS[0] && ["yes", "ask"].contains(&value.trim_matches([' ', '\t', '=']));
    if HOST_KEYS.contains(&&*name) && !is_strict {
        return Err(format!(
            "'{option}' would change which hosts ssh trusts: write it into ssh's own configuration, or on the \
             command line"
        ));
    }
    Ok(())
}

/// Returns an error if a word of the remote shell's command names an option that changes which hosts ssh
/// trusts. The name may be anywhere in a word: as in `-vCoNAME=no`, or in a text that another shell splits
/// again.
fn check_shell(shell: &str) -> Result<(), String> {
    for word in shell_words(shell)? {
        let plain = word.to_ascii_lowercase().replace(['\'', '"', '\\'], "");
        if let Some(at) = HOST_KEYS.iter().filter_map(|name| plain.find(name)).min() {
            refuse_host_keys(&plain[at..])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_believe_any_host_is_refused() {
        for weak in [
            "StrictHostKeyChecking=no",
            "stricthostkeychecking accept-new",
            "UserKnownHostsFile=/dev/null",
            " StrictHostKeyChecking=no",
            "\tStrictHostKeyChecking=no",
            "=StrictHostKeyChecking=no",
            "\"StrictHostKeyChecking\" no",
            "StrictHostKeyChecking\"=no",
            "VerifyHostKeyDNS=yes",
            "HostKeyAlias=x",
            "RevokedHostKeys=none",
            "",
        ] {
            assert!(refuse_host_keys(weak).is_err(), "{weak}");
        }
        for weak in [
            "ssh -o StrictHostKeyChecking=no",
            "ssh -oUserKnownHostsFile=/dev/null",
            "ssh -4oStrictHostKeyChecking=no",
            "ssh -vCo StrictHostKeyChecking=no",
            "ssh -vCo '\"StrictHostKeyChecking\" no'",
            "env -S 'ssh -o StrictHostKeyChecking=no'",
            "sh -c 'ssh -oStrictHost\"\"KeyChecking=no \"$@\"' ssh",
            "ssh 'x",
            " ",
        ] {
            assert!(check_shell(weak).is_err(), "{weak}");
        }
        assert_eq!(check_shell("ssh -p 22 -o Compression=no -oStrictHostKeyChecking=yes"), Ok(()));
        for fine in [
            "StrictHostKeyChecking=yes",
            "StrictHostKeyChecking = ask",
            "Compression=no",
            "User git",
            "IPQoS",
        ] {
            assert_eq!(refuse_host_keys(fine), Ok(()), "{fine}");
        }
    }
}
