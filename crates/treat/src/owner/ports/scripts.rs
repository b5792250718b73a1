//! The files of scripts that bring ports up: ifupdown's interfaces(5), and Red Hat's ifcfg files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use linerate_doctor::remedy::Setting;

use super::names::{Names, is_of};
use super::{KnownPort, below, entries};
use crate::owner::text_of;

const IFCFG: &str = "etc/sysconfig/network-scripts";
const INTERFACES: &str = "etc/network/interfaces";
/// The file in which ifupdown records the logical name of each port that it brought up.
const LOGICAL: &str = "run/network/ifstate";
/// The most templates that inherit from one another.
const MOST_TEMPLATES: usize = 16;

/// The file that sets this setting when a port comes up.
pub(super) fn of(port: &KnownPort<'_>, names: &Names, setting: &Setting) -> Option<PathBuf> {
    of_ifcfg(port, names, setting).or_else(|| of_interfaces(port, names, setting))
}

fn of_ifcfg(port: &KnownPort<'_>, names: &Names, setting: &Setting) -> Option<PathBuf> {
    let address = text_of(&port.root.join("sys/class/net").join(port.name).join("address"));
    let is_ifcfg =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ifcfg-"));
    entries(&port.root.join(IFCFG)).into_iter().filter(is_ifcfg).find(|path| {
        let text = text_of(path);
        let all: Vec<(&str, &str)> = text.lines().filter_map(|line| line.trim().split_once('=')).collect();
        let all: Vec<_> =
            all.into_iter().map(|(key, value)| (key, value.trim_matches(['"', '\'']))).collect();
        let is_its = all.iter().any(|(key, value)| match *key {
            "DEVICE" => *value == port.name,
            "HWADDR" => value.eq_ignore_ascii_case(address.trim()),
            "UUID" => Some(*value) == port.connection.as_deref(),
            _ => false,
        });
        is_its
            && all.iter().filter(|(_, value)| !value.is_empty()).any(|(key, value)| match *key {
                "MTU" => matches!(setting, Setting::Mtu { .. }),
                "ETHTOOL_OPTS" => parts(value).any(|words| names.are_ethtools(&words)),
                key => matches!(setting, Setting::Qdisc { .. }) && is_of("QDISC*", key),
            })
    })
}

fn of_interfaces(port: &KnownPort<'_>, names: &Names, setting: &Setting) -> Option<PathBuf> {
    let files = files(port.root);
    let all: Vec<Stanza> = files.iter().flat_map(|path| stanzas(path)).collect();
    let own = own_names(port, &all);
    let found = all.iter().find(|stanza| {
        let is_own = own.contains(&stanza.name);
        stanza.options.iter().any(|(option, value)| {
            let is_command = ["up", "pre-up", "post-up"].contains(&option.as_str());
            (is_own && names.are_in_interfaces(option))
                || (is_command && parts(value).any(|words| is_set(&words, is_own, port.name, names, setting)))
        })
    });
    found.map(|stanza| stanza.file.clone())
}

/// The names whose stanzas configure a port: its own, its logical name, and the templates from which these inherit.
fn own_names(port: &KnownPort<'_>, all: &[Stanza]) -> BTreeSet<String> {
    let states = text_of(&port.root.join(LOGICAL));
    let logical =
        states.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| *name == port.name);
    let mut own: BTreeSet<String> = logical.map(|(_, logical)| logical.trim().to_owned()).collect();
    own.insert(port.name.to_owned());
    for _ in 0..MOST_TEMPLATES {
        let templates = all.iter().filter(|stanza| own.contains(&stanza.name));
        let more: Vec<String> = templates.filter_map(|stanza| stanza.template.clone()).collect();
        own.extend(more);
    }
    own
}

/// The commands of a line, each as its words.
fn parts(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.split([';', '&', '|'])
        .map(|part| part.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect())
}

/// Whether a command sets this setting of a port. In the port's own stanza, a variable counts as the port's name.
fn is_set(words: &[&str], is_own: bool, port: &str, names: &Names, setting: &Setting) -> bool {
    let is_named = words.iter().any(|word| *word == port || (is_own && word.contains('$')));
    let at = |program: &str| words.iter().position(|word| word.rsplit('/').next() == Some(program));
    let has = |wanted: &str| words.contains(&wanted);
    match setting {
        Setting::Rps { .. } => {
            let is_own_path = |word: &&str| is_own || word.contains(&format!("/{port}/"));
            words.iter().filter(|word| word.contains("rps_cpus")).any(is_own_path)
        }
        _ if !is_named => false,
        Setting::Mtu { .. } => (at("ip").is_some() || at("ifconfig").is_some()) && has("mtu"),
        Setting::Qdisc { .. } => at("tc").is_some() && has("qdisc") && has("root"),
        _ => at("ethtool").is_some_and(|at| names.are_ethtools(&words[at + 1..])),
    }
}

/// A stanza of interfaces(5): the part of a file that configures one port.
struct Stanza {
    file: PathBuf,
    name: String,
    /// The name of the stanza from which this one inherits.
    template: Option<String>,
    options: Vec<(String, String)>,
}

/// The lines of a file of interfaces(5): without comments, and with continued lines joined.
fn lines(path: &Path) -> Vec<(String, String)> {
    let text = text_of(path).replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = |line: &str| {
        let (option, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        (option.to_owned(), value.trim().to_owned())
    };
    lines.map(split).collect()
}

fn stanzas(path: &Path) -> Vec<Stanza> {
    let mut stanzas: Vec<Stanza> = Vec::new();
    let mut is_in_stanza = false;
    for (option, value) in lines(path) {
        let mut words = value.split_whitespace();
        if option == "iface" {
            let name = words.next().unwrap_or_default().to_owned();
            let template = words.skip_while(|word| *word != "inherits").nth(1).map(str::to_owned);
            stanzas.push(Stanza { file: path.to_owned(), name, template, options: Vec::new() });
            is_in_stanza = true;
        } else if ["auto", "mapping", "source", "source-directory", "template"].contains(&option.as_str())
            || option.starts_with("allow-")
        {
            is_in_stanza = false;
        } else if let Some(stanza) = stanzas.last_mut().filter(|_| is_in_stanza) {
            stanza.options.push((option, value));
        }
    }
    stanzas
}

/// The main file, and the files that it sources.
fn files(root: &Path) -> Vec<PathBuf> {
    let main = root.join(INTERFACES);
    let sourced = lines(&main).into_iter().flat_map(|(option, value)| {
        let path =
            if value.starts_with('/') { below(root, &value) } else { root.join("etc/network").join(&value) };
        match option.as_str() {
            "source" => matching(&path),
            "source-directory" => entries(&path).into_iter().filter(|path| has_plain_name(path)).collect(),
            _ => Vec::new(),
        }
    });
    let sourced: Vec<PathBuf> = sourced.collect();
    [vec![main], sourced].concat()
}

/// The files whose last component has this pattern, in which * stands for any text.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) =
        (pattern.parent(), pattern.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let Some((begin, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let is_its = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !name.starts_with('.')
            && name.len() >= begin.len() + end.len()
            && name.starts_with(begin)
            && name.ends_with(end)
    };
    entries(directory).into_iter().filter(is_its).collect()
}

/// True if `source-directory` reads a file with this name.
fn has_plain_name(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
}
