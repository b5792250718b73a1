//! The configuration files: defaults, and by host. docs/guide/configuration.md specifies them.

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

/// The environment variable that switches all configuration files off, if it isn't empty.
pub const OFF: &str = "LINERATE_NO_CONFIG";
/// The environment variable that names the system's file.
const SYSTEM: &str = "LINERATE_SYSTEM_CONFIG";
const USUAL_SYSTEM: &str = "/etc/linerate/config.toml";

/// The configuration of this process; not set for a command that doesn't read it.
static CURRENT: OnceLock<Configuration> = OnceLock::new();

/// The configuration files that were read.
#[derive(Debug, Default)]
pub struct Configuration {
    /// The user's file and the system's: the earlier one takes precedence.
    files: Vec<ConfigFile>,
}

/// The place at which a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOrigin<'a> {
    /// The file.
    pub file: &'a Path,
    /// Its line.
    pub line: usize,
    /// The number of places that take precedence over this one.
    pub rank: usize,
}

impl ConfigOrigin<'_> {
    /// `FILE:LINE`.
    pub fn place(&self) -> String {
        format!("{}:{}", shown(self.file), self.line)
    }

    /// A message about what is written here.
    pub fn error(&self, why: &str) -> String {
        format!("{}: {why}", self.place())
    }
}

/// A value and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredValue<'a> {
    /// The text, as the command line takes it; `true` or `false` for a flag.
    pub value: &'a str,
    /// Its place.
    pub origin: ConfigOrigin<'a>,
}

/// The paths of the configuration files, the user's first.
pub fn paths() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    // The XDG Base Directory Specification says to ignore a relative path.
    let above = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let above = above.or_else(|| Some(std::env::home_dir()?.join(".config")));
    let user = above.map(|above| above.join("linerate/config.toml"));
    let system = variable(SYSTEM).map_or_else(|| USUAL_SYSTEM.into(), PathBuf::from);
    user.into_iter().chain([system]).collect()
}

/// The path of a file as messages name it.
pub fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// True if the environment switches the configuration files off.
pub fn is_off() -> bool {
    std::env::var_os(OFF).is_some_and(|value| !value.is_empty())
}

/// The configuration of this process; an empty one for commands that don't read it.
pub fn current() -> &'static Configuration {
    static NONE: Configuration = Configuration { files: Vec::new() };
    CURRENT.get().unwrap_or(&NONE)
}

/// Reads the configuration if `command`, with these arguments, uses it, and returns the words that it adds to them. `cp` is the
/// command that has all options.
///
/// # Errors
/// If a file can't be read, or has an error, or if this host can't do what one says.
pub fn apply(given: &ArgMatches, command: &Command, cp: &Command) -> Result<Vec<OsString>, Failure> {
    let is_wanted = matches!(given.try_get_one::<bool>("no_config"), Ok(Some(false)));
    if !is_wanted || is_off() {
        return Ok(Vec::new());
    }
    let configuration = Configuration::load(cp)?;
    let words = words::added(&configuration, given, command).map_err(Failure::usage)?;
    // There is one command line.
    let _ = CURRENT.set(configuration);
    Ok(words)
}

/// Reads the configuration for a command that finishes a line of another one. `cp` is the command that has all options.
///
/// # Errors
/// If a file can't be read, or has an error.
pub fn apply_to_login(cp: &Command) -> Result<(), Failure> {
    if !is_off() {
        // There is one command line.
        let _ = CURRENT.set(Configuration::load(cp)?);
    }
    Ok(())
}

impl Configuration {
    /// Reads the files. `cp` is the command that has all options.
    ///
    /// # Errors
    /// If a file can't be read, or has an error: a message with the file and the line.
    pub fn load(cp: &Command) -> Result<Self, Failure> {
        Self::of(&paths(), cp).map_err(Failure::usage)
    }

    /// Reads these files, the last of which is the system's. `cp` is the command that has all options.
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

    /// The files that exist.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// The sections for a host, the one that takes precedence first; without a host, those for all hosts.
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

    /// The values of a key: for a list the values of all sections, otherwise the one that takes precedence.
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

    /// The one value of the key `name`, if it is configured.
    pub fn value(&self, name: &str, host: Option<&OsStr>) -> Option<ConfiguredValue<'_>> {
        self.values(keys::find(name)?, host).into_iter().next()
    }
}
