//! Reads a configuration file, which is TOML. Error messages name the file and the line.

use clap::Command;
use rustix::fs::OFlags;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{ConfigKey, KEYS, KeyKind, KeyUse, find};
use super::pattern::HostPattern;
use super::shown;

/// The size of the largest configuration file that is accepted, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// If an unknown name has at least this similarity to a known name, it is probably a typing error.
const SLIP: f64 = 0.75;

/// The owner of a configuration file: the user or the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOwner {
    /// The file is this user's.
    User,
    /// The file is the system's.
    System,
}

/// A configuration file that was read.
#[derive(Debug)]
pub struct ConfigFile {
    /// The file's path.
    pub path: PathBuf,
    /// The sections: first those with host patterns in the file's order, then the section for all hosts.
    pub sections: Vec<ConfigSection>,
}

/// A section of a configuration file, for some hosts or for all.
#[derive(Debug)]
pub struct ConfigSection {
    /// The pattern of the hosts; `None` for all hosts.
    pub pattern: Option<HostPattern>,
    /// The keys of the section, with their values.
    pub entries: Vec<ConfigEntry>,
}

/// One key and its value.
#[derive(Debug)]
pub struct ConfigEntry {
    /// The key of the entry.
    pub key: &'static ConfigKey,
    /// The value: one text, or the texts of a list.
    pub values: Vec<String>,
    /// The number of the entry's line, from 1.
    pub line: usize,
}

impl ConfigFile {
    /// Reads a file; `None` if it doesn't exist. A file that users other than root and this user may write is
    /// refused.
    ///
    /// # Errors
    /// A message with the file and the line.
    pub fn read(path: &Path, owner: ConfigOwner, cp: &Command) -> Result<Option<Self>, String> {
        let said = |why: String| format!("{}: {why}", shown(path));
        let Some(text) = text(path, owner).map_err(said)? else { return Ok(None) };
        let reader = ConfigReader { path, text: &text, cp };
        Ok(Some(Self { path: path.to_owned(), sections: reader.sections()? }))
    }
}

fn text(path: &Path, owner: ConfigOwner) -> Result<Option<String>, String> {
    // With this flag, opening a fifo doesn't wait for a writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        // If the name is a link to a missing file, that is an error, because the user meant a file to be there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Err(_) if owner == ConfigOwner::User && is_out_of_reach(path) => return Ok(None),
        opened => opened.map_err(|error| format!("it can't be read: {error}"))?,
    };
    let metadata = file.metadata().map_err(|error| format!("it can't be read: {error}"))?;
    if !metadata.is_file() {
        return Err("it isn't a regular file".into());
    }
    refuse_strangers(&metadata, owner)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("it can't be read: {error}"))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err("it is larger than 1 MiB".into());
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it isn't UTF-8".into())
}

/// True if this user isn't even allowed to find out whether the file exists. This happens after `sudo -u`, if `HOME`
/// is still the directory of the user who called sudo.
fn is_out_of_reach(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns an error if the file may be written by an untrusted user. This is necessary because the file names
/// programs to run; those in the system's file are run by every user, including root. The rule is the one that ssh
/// applies to `~/.ssh/config`: the owner and mode of the opened file are checked. The directory isn't checked, because
/// a file that another user puts there belongs to that user.
fn refuse_strangers(metadata: &Metadata, owner: ConfigOwner) -> Result<(), String> {
    let may_own = |uid: u32| {
        // If a user namespace has no number for root, root's files have the same owner as `/`.
        let root = || std::fs::metadata("/").is_ok_and(|root| root.uid() == uid);
        uid == 0 || uid == rustix::process::geteuid().as_raw() || owner == ConfigOwner::System && root()
    };
    let uid = metadata.uid();
    if !may_own(uid) {
        return Err(format!(
            "it belongs to user {uid}, not to you or root: change its owner (chown), or give the command --no-config"
        ));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("users other than its owner may write it: change its mode (chmod go-w), or give the command --no-config".into());
    }
    Ok(())
}

/// The state of reading a configuration file.
struct ConfigReader<'a> {
    path: &'a Path,
    text: &'a str,
    cp: &'a Command,
}

impl ConfigReader<'_> {
    fn sections(&self) -> Result<Vec<ConfigSection>, String> {
        let root = DeTable::parse(self.text)
            .map_err(|error| self.error(&error.span().unwrap_or(0..0), error.message()))?;
        let mut sections = Vec::new();
        if let Some((_, hosts)) = root.get_ref().get_key_value("host") {
            let table = hosts.get_ref().as_table();
            let table = table.ok_or_else(|| self.error(&hosts.span(), "write [host.\"PATTERN\"]"))?;
            for (pattern, section) in table {
                sections
                    .push((pattern.span().start, self.of_hosts(pattern.get_ref(), pattern.span(), section)?));
            }
        }
        sections.sort_by_key(|(start, _)| *start);
        let mut sections: Vec<_> = sections.into_iter().map(|(_, section)| section).collect();
        sections.push(ConfigSection { pattern: None, entries: self.entries(root.get_ref(), &["host"])? });
        Ok(sections)
    }

    fn of_hosts(
        &self,
        pattern: &str,
        span: Range<usize>,
        section: &Spanned<DeValue<'_>>,
    ) -> Result<ConfigSection, String> {
        let table = section.get_ref().as_table();
        let table = table.ok_or_else(|| {
            self.error(
                &span,
                &format!("'{pattern}' is not a table: quote patterns, as [host.\"*.example.org\"]"),
            )
        })?;
        let pattern = HostPattern::parse(pattern).map_err(|why| self.error(&span, &why))?;
        Ok(ConfigSection { pattern: Some(pattern), entries: self.entries(table, &[])? })
    }

    fn entries(&self, table: &DeTable<'_>, besides: &[&str]) -> Result<Vec<ConfigEntry>, String> {
        let mut entries = Vec::new();
        for (name, value) in table {
            let name = (name.get_ref().as_ref(), name.span());
            if !besides.contains(&name.0) {
                entries.push(self.entry(name, value)?);
            }
        }
        entries.sort_by_key(|entry| entry.line);
        let has = |use_| entries.iter().find(|entry| entry.key.use_ == use_ && !entry.values.is_empty());
        if let (Some(rsh), Some(ssh)) = (entries.iter().find(|it| it.key.name == "rsh"), has(KeyUse::Ssh)) {
            let why = format!("rsh and {}: ssh's own options are for ssh; write them into rsh", ssh.key.name);
            return Err(self.at_line(rsh.line, &why));
        }
        let is_on = |name| entries.iter().find(|it| it.key.name == name && it.values == ["true"]);
        if let (Some(_), Some(ipv6)) = (is_on("ipv4"), is_on("ipv6")) {
            return Err(self.at_line(ipv6.line, "ipv4 and ipv6: write one of them"));
        }
        Ok(entries)
    }

    fn entry(
        &self,
        (name, span): (&str, Range<usize>),
        value: &Spanned<DeValue<'_>>,
    ) -> Result<ConfigEntry, String> {
        let key = find(name).ok_or_else(|| self.error(&span, &self.unknown(name)))?;
        let wrong = |expected: &str| {
            let found = value.get_ref().type_str();
            self.error(&value.span(), &format!("{name} is of type {found}, but must be {expected}"))
        };
        let values = match (key.kind, value.get_ref()) {
            (KeyKind::Flag, DeValue::Boolean(on)) => vec![on.to_string()],
            (KeyKind::Flag, _) => return Err(wrong("true or false")),
            (KeyKind::List, DeValue::Array(items)) => {
                let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().ok_or_else(|| wrong("a list of strings"))?
            }
            (KeyKind::List, value) => vec![plain(value).ok_or_else(|| wrong("a list of strings"))?],
            (KeyKind::Value, value) => vec![plain(value).ok_or_else(|| wrong("a string or a number"))?],
        };
        for value in &values {
            let said = |why: String| self.error(&span, &format!("{name}: {why}"));
            key.check(value, self.cp).map_err(said)?;
        }
        let values =
            values.into_iter().map(|value| if is_path(key) { at_home(value) } else { value }).collect();
        Ok(ConfigEntry { key, values, line: self.line(&span) })
    }

    /// The error message for a name that isn't a key.
    fn unknown(&self, name: &str) -> String {
        if name == "no-encrypt" {
            return "no-encrypt is allowed only on the command line, so that data never travels in clear by accident"
            .into();
        }
        if self.cp.get_arguments().any(|arg| arg.get_long() == Some(name)) {
            return format!(
                "{name} is allowed only on the command line, because it changes the command's effect"
            );
        }
        let slips = KEYS.iter().map(|key| (strsim::jaro_winkler(name, key.name), key.name));
        match slips.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((likeness, near)) if likeness >= SLIP => {
                format!("there is no option {name}; did you mean {near}?")
            }
            _ => format!("there is no option {name}"),
        }
    }

    fn error(&self, span: &Range<usize>, why: &str) -> String {
        self.at_line(self.line(span), why)
    }

    fn at_line(&self, line: usize, why: &str) -> String {
        format!("{}:{line}: {why}", shown(self.path))
    }

    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// The value if it is a string, or a number in decimal digits; otherwise `None`.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.as_ref().to_owned()),
        // A number that is too large is refused later, by the option itself.
        DeValue::Integer(number) => Some(
            i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()),
        ),
        _ => None,
    }
}

fn is_path(key: &ConfigKey) -> bool {
    ["identity", "ssh-config"].contains(&key.name)
}

/// The path with a leading `~/` replaced by the home directory, as a shell does.
pub fn at_home(path: String) -> String {
    let home = || std::env::home_dir()?.into_os_string().into_string().ok();
    match path.strip_prefix("~/").and_then(|rest| Some(format!("{}/{rest}", home()?))) {
        Some(whole) => whole,
        None => path,
    }
}
