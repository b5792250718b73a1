//! Reads the configuration files, which contain defaults and values for hosts. docs/guide/configuration.md
//! specifies them.

mod file;
pub mod keys;
mod pattern;
pub mod precedence;
pub mod words;

use clap::{ArgMatches, Command};
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::failure::Failure;
pub use file::at_home;
use file::{ConfigFile, ConfigOwner, ConfigSection};
use keys::ConfigKey;
use pattern::bare;

/// The environment variable that disables all configuration files unless it is empty.
pub const OFF: &str = "LINERATE_NO_CONFIG";
/// The environment variable that names the system's configuration file.
const SYSTEM: &str = "LINERATE_SYSTEM_CONFIG";
const USUAL_SYSTEM: &str = "/etc/linerate/config.toml";

/// The configuration of this process. It isn't set for commands that don't read it.
static CURRENT: OnceLock<Configuration> = OnceLock::new();

/// The configuration files that were read.
#[derive(Debug, Default)]
pub struct Configuration {
    /// The files: the user's and then the system's. An earlier file has precedence.
    files: Vec<ConfigFile>,
}

/// The place where a configured value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOrigin<'a> {
    /// The configuration file.
    pub file: &'a Path,
    /// The number of the line.
    pub line: usize,
    /// The number of places that have precedence over this one.
    pub rank: usize,
}

impl ConfigOrigin<'_> {
    /// The place as text: `FILE:LINE`.
    pub fn place(&self) -> String {
        format!("{}:{}", shown(self.file), self.line)
    }

    /// An error message about the value at this place.
    pub fn error(&self, why: &str) -> String {
        format!("{}: {why}", self.place())
    }
}

/// A configured value, and the place where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredValue<'a> {
    /// The value in the form that the command line accepts; `true` or `false` for a flag.
    pub value: &'a str,
    /// The place where the value was found.
    pub origin: ConfigOrigin<'a>,
}

/// The paths of the configuration files, the user's first.
pub fn paths() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    // A relative path is ignored, as the XDG Base Directory Specification says.
    let above = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let above = above.or_else(|| Some(std::env::home_dir()?.join(".config")));
    let user = above.map(|above| above.join("linerate/config.toml"));
    let system = variable(SYSTEM).map_or_else(|| USUAL_SYSTEM.into(), PathBuf::from);
    user.into_iter().chain([system]).collect()
}

/// The path of a file as messages show it.
pub fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// True if the environment disables the configuration files.
pub fn is_off() -> bool {
    std::env::var_os(OFF).is_some_and(|value| !value.is_empty())
}

/// The configuration of this process, which is empty for commands that don't read it.
pub fn current() -> &'static Configuration {
    static NONE: Configuration = Configuration { files: Vec::new() };
    CURRENT.get().unwrap_or(&NONE)
}

/// Reads the configuration if `command`, with the arguments `given`, uses it. Returns the words that the
/// configuration adds to the arguments. `cp` is a command that has all options.
///
/// # Errors
/// If a file can't be read, or has an error, or if this host can't apply a value.
pub fn apply(given: &ArgMatches, command: &Command, cp: &Command) -> Result<Vec<OsString>, Failure> {
    let is_wanted = matches!(given.try_get_one::<bool>("no_config"), Ok(Some(false)));
    if !is_wanted || is_off() {
        return Ok(Vec::new());
    }
    let configuration = Configuration::load(cp)?;
    let words = words::added(&configuration, given, command).map_err(Failure::usage)?;
    // A process has only one command line, so this is set only once.
    let _ = CURRENT.set(configuration);
    Ok(words)
}

/// Reads the configuration for a command that completes the command line of another command. `cp` is a
/// command that has all options.
///
/// # Errors
/// If a file can't be read, or has an error.
pub fn apply_to_login(cp: &Command) -> Result<(), Failure> {
    if !is_off() {
        // A process has only one command line, so this is set only once.
        let _ = CURRENT.set(Configuration::load(cp)?);
    }
    Ok(())
}

impl Configuration {
    /// Reads the configuration files. `cp` is a command that has all options.
    ///
    /// # Errors
    /// If a file can't be read, or has an error: a message with the file and the line.
    pub fn load(cp: &Command) -> Result<Self, Failure> {
        Self::of(&paths(), cp).map_err(Failure::usage)
    }

    /// Reads these configuration files, of which the last is the system's. `cp` is a command that has all
    /// options.
    ///
    /// # Errors
    /// A message with the file and the line.
    pub fn of(paths: &[PathBuf], cp: &Command) -> Result<Self, String> {
        let read = |(index, path): (usize, &PathBuf)| {
            let owner = if index + 1 < paths.len() { ConfigOwner::User } else { ConfigOwner::System };
            ConfigFile::read(path, owner, cp).transpose()
        };
        Ok(Self { files: paths.iter().enumerate().filter_map(read).collect::<Result<_, _>>()? })
    }

    /// The paths of the files that exist.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// The sections for `host`, in order of precedence; without a host, the sections for all hosts.
    fn sections(&self, host: Option<&OsStr>) -> impl Iterator<Item = (usize, &Path, &ConfigSection)> {
        let host = host.map(bare);
        let fits = move |section: &ConfigSection| match (&section.pattern, &host) {
            (None, _) => true,
            (Some(pattern), Some(host)) => pattern.fits(host),
            (Some(_), None) => false,
        };
        let all =
            self.files.iter().flat_map(|file| file.sections.iter().map(|section| (&*file.path, section)));
        let fitting = all.filter(move |(_, section)| fits(section));
        fitting.enumerate().map(|(rank, (path, section))| (rank, path, section))
    }

    /// The values of a key for a host. For a list, the values of all sections are joined; otherwise the value
    /// with the highest precedence is used.
    pub fn values(&self, key: &ConfigKey, host: Option<&OsStr>) -> Vec<ConfiguredValue<'_>> {
        let mut found = Vec::new();
        for (rank, file, section) in self.sections(host) {
            for entry in section.entries.iter().filter(|entry| entry.key == key) {
                let origin = ConfigOrigin { file, line: entry.line, rank };
                let value = |value| ConfiguredValue { value, origin: origin.clone() };
                found.extend(entry.values.iter().map(|text| value(text.as_str())));
            }
        }
        if key.kind != keys::KeyKind::List {
            found.truncate(1);
        }
        found
    }

    /// The value of the key `name` for a host, if it is configured.
    pub fn value(&self, name: &str, host: Option<&OsStr>) -> Option<ConfiguredValue<'_>> {
        self.values(keys::find(name)?, host).into_iter().next()
    }
}
