//! `linerate config`: shows the options that a command gets from configuration files, and where they are set.

use clap::{Args, Subcommand};
use linerate_wire::path::printable;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::common::config::keys::{ConfigKey, KEYS, KeyKind};
use crate::common::config::{Configuration, ConfiguredValue, OFF, is_off, paths, shown};
use crate::common::failure::Failure;
use crate::common::spec::host_of;
use crate::exit::{Code, FAILED, Meaning, USAGE, table};
use crate::print::json;

const EXAMPLES: &str = "\
Examples:
  linerate config show
      prints the options for all far hosts, and the files that set them
  linerate config show web1.example.org
      prints the options for this far host
The files: ~/.config/linerate/config.toml, then /etc/linerate/config.toml
";

/// The version of the JSON output.
const SCHEMA: u32 = 1;

const MEANINGS: [Meaning; 3] = [(Code::Done, "printed"), FAILED, USAGE];

/// Arguments of `linerate config`.
#[derive(Debug, Args)]
#[command(before_long_help = EXAMPLES, after_long_help = table(&MEANINGS))]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print each option, its value, and where the value is set
    Show(ConfigShowArgs),
}

/// Arguments of `linerate config show`.
#[derive(Debug, Args)]
struct ConfigShowArgs {
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// The far host; without it, the options for all hosts
    ///
    /// If you write HOST:PATH, PATH is ignored.
    #[arg(value_name = "[USER@]HOST", value_parser = host_of)]
    host: Option<OsString>,
}

#[derive(Serialize)]
struct ConfigObject<'a> {
    schema: u32,
    r#type: &'static str,
    host: Option<String>,
    off: bool,
    files: Vec<ConfigFileObject>,
    options: Vec<ConfigOptionObject<'a>>,
}

#[derive(Serialize)]
struct ConfigFileObject {
    file: String,
    read: bool,
}

#[derive(Serialize)]
struct ConfigOptionObject<'a> {
    name: &'static str,
    /// The configured value; `None` if none is configured.
    value: Option<serde_json::Value>,
    built_in: &'a str,
    from: Vec<ConfigPlaceObject>,
    /// The option that is used instead of this one, if another option has precedence.
    overridden_by: Option<&'static str>,
}

#[derive(Serialize)]
struct ConfigPlaceObject {
    file: String,
    line: usize,
}

/// Prints the configuration. `cp` is the definition of the command `cp`, which has all options that can be
/// configured.
///
/// # Errors
/// If a file can't be read, or has an error.
pub fn run(args: ConfigArgs, cp: &clap::Command) -> Result<Code, Failure> {
    let ConfigCommand::Show(args) = args.command;
    let configuration = if is_off() { Configuration::default() } else { Configuration::load(cp)? };
    if args.json {
        json(&object(&configuration, &args));
    } else {
        print(&configuration, &args);
    }
    Ok(Code::Done)
}

fn print(configuration: &Configuration, args: &ConfigShowArgs) {
    for path in paths() {
        let state = if is_read(configuration, &path) { "read" } else { "not there" };
        output!("{}: {}", shown(&path), if is_off() { "not read" } else { state });
    }
    if is_off() {
        output!("{OFF} is set: no file is read");
    }
    output!("");
    for key in &KEYS {
        let found = configuration.values(key, args.host.as_deref());
        let values: Vec<_> = found.iter().map(|found| found.value).collect();
        let value = if found.is_empty() { key.builtin.to_owned() } else { values.join(", ") };
        let mut places: Vec<_> =
            found.iter().map(place).map(|it| format!("{}:{}", it.file, it.line)).collect();
        places.dedup();
        let mut from = if places.is_empty() { "built in".to_owned() } else { places.join(", ") };
        if let Some(other) = configuration.instead_of(key, args.host.as_deref()) {
            from += &format!(" (not used: {} has precedence)", other.name);
        }
        output!("{:14} {:26} {from}", key.name, value);
    }
}

fn object<'a>(configuration: &'a Configuration, args: &ConfigShowArgs) -> ConfigObject<'a> {
    let host = args.host.as_deref();
    let file = |path: &std::path::PathBuf| ConfigFileObject {
        file: shown(path),
        read: is_read(configuration, path),
    };
    let option = |key: &'static ConfigKey| {
        let found = configuration.values(key, host);
        ConfigOptionObject {
            name: key.name,
            value: value(key, &found),
            built_in: key.builtin,
            from: found.iter().map(place).collect(),
            overridden_by: configuration.instead_of(key, host).map(|other| other.name),
        }
    };
    ConfigObject {
        schema: SCHEMA,
        r#type: "config",
        host: host.map(|host| printable(host.as_bytes())),
        off: is_off(),
        files: paths().iter().map(file).collect(),
        options: KEYS.iter().map(option).collect(),
    }
}

fn value(key: &ConfigKey, found: &[ConfiguredValue<'_>]) -> Option<serde_json::Value> {
    let first = found.first()?;
    Some(match key.kind {
        KeyKind::Value => first.value.into(),
        KeyKind::Flag => (first.value == "true").into(),
        KeyKind::List => found.iter().map(|found| found.value).collect(),
    })
}

fn place(found: &ConfiguredValue<'_>) -> ConfigPlaceObject {
    ConfigPlaceObject { file: shown(found.origin.file), line: found.origin.line }
}

fn is_read(configuration: &Configuration, path: &Path) -> bool {
    configuration.files().any(|file| file == path)
}

#[cfg(test)]
mod tests;
