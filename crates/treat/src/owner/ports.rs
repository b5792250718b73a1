//! The owners of a port's settings: the files from which systemd, NetworkManager, ifupdown and Red Hat's older scripts
//! configure the port. systemd and NetworkManager record which file they use for a port, so this module needn't repeat
//! their matching rules.

mod names;
mod scripts;

use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::remedy::Setting;

use self::names::{Names, is_of};
use super::{Section, sections, text_of};

/// The directory in which udev records what it knows about devices; the name of a port's file is the letter n and the
/// port's index.
const UDEV: &str = "run/udev/data";
/// The directory in which systemd-networkd records the file of each port, by the port's index.
const NETWORKD: &str = "run/systemd/netif/links";
/// Directories of systemd's files, by precedence.
const SYSTEMD: [&str; 4] = [
    "etc/systemd/network",
    "run/systemd/network",
    "usr/local/lib/systemd/network",
    "usr/lib/systemd/network",
];
/// The directory in which NetworkManager records the connection of each port, by the port's index.
const NETWORK_MANAGER: &str = "run/NetworkManager/devices";
/// Directories of NetworkManager's connections, by precedence. In all of them except the second, the names of files
/// must end in `.nmconnection`.
const CONNECTIONS: [&str; 3] = [
    "run/NetworkManager/system-connections",
    "etc/NetworkManager/system-connections",
    "usr/lib/NetworkManager/system-connections",
];

/// A file that sets a value of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFile {
    /// The file, as the host names it.
    pub file: String,
    /// The program that reads the file.
    pub program: Program,
}

/// A program that configures ports from files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// systemd-udevd, when a port appears: before our unit runs.
    Udev,
    /// systemd-networkd, each time it configures a port.
    Networkd,
    /// NetworkManager, each time it activates a connection.
    NetworkManager,
    /// The scripts that bring ports up: ifupdown, or Red Hat's older ones.
    Ifup,
}

/// A port, with the properties by which files identify it.
struct KnownPort<'a> {
    root: &'a Path,
    name: &'a str,
    index: String,
    /// The UUID of the connection that NetworkManager has activated on the port.
    connection: Option<String>,
}

impl<'a> KnownPort<'a> {
    fn of(root: &'a Path, name: &'a str) -> Self {
        let index = text_of(&root.join("sys/class/net").join(name).join("ifindex")).trim().to_owned();
        let record = text_of(&root.join(NETWORK_MANAGER).join(&index));
        let uuid = record.lines().find_map(|line| line.strip_prefix("connection-uuid="));
        Self { root, name, connection: uuid.map(|uuid| uuid.trim().to_owned()), index }
    }

    /// The files of systemd that a record names under `key`; a later one wins over those before it.
    fn of_systemd(&self, record: &Path, key: &str) -> Vec<PathBuf> {
        let text = text_of(record);
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let Some(main) = value(key).map(|path| below(self.root, path)) else { return Vec::new() };
        let parts = match value(&format!("{key}_DROPINS")) {
            Some(paths) => paths.split(':').map(|path| below(self.root, &unescaped(path))).collect(),
            None => self.drop_ins(&main),
        };
        [vec![main], parts].concat()
    }

    /// The parts of a file in directories `NAME.d`, which systemd before version 253 doesn't record.
    fn drop_ins(&self, main: &Path) -> Vec<PathBuf> {
        let Some(name) = main.file_name().map(|name| format!("{}.d", name.display())) else {
            return Vec::new();
        };
        let directories = SYSTEMD.iter().map(|directory| self.root.join(directory).join(&name));
        let mut parts: Vec<PathBuf> = directories.flat_map(|directory| entries(&directory)).collect();
        parts.retain(|path| path.extension().is_some_and(|end| end == "conf"));
        parts.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
        parts
    }

    /// The file of the active connection.
    fn of_network_manager(&self) -> Option<PathBuf> {
        let uuid = self.connection.as_deref()?;
        let is_read = |directory: &str, name: &str| match directory == CONNECTIONS[1] {
            true => {
                !name.starts_with('.')
                    && !["~", ".pem", ".der", ".nmmeta"].iter().any(|end| name.ends_with(end))
            }
            false => name.ends_with(".nmconnection"),
        };
        let paths = CONNECTIONS.iter().flat_map(|directory| {
            let named = move |path: &PathBuf| path.file_name()?.to_str().map(|name| is_read(directory, name));
            entries(&self.root.join(directory)).into_iter().filter(move |path| named(path) == Some(true))
        });
        paths.into_iter().find(|path| {
            let is_its = |(key, value): &(String, String)| key == "uuid" && value == uuid;
            sections(&text_of(path))
                .iter()
                .any(|(name, options)| name == "connection" && options.iter().any(is_its))
        })
    }
}

impl PortFile {
    /// The file of the host below `root` that gives a port this setting; `None` if none is known.
    pub fn of(root: &Path, setting: &Setting) -> Option<Self> {
        let port = KnownPort::of(root, setting.port()?);
        let names = Names::of(setting);
        let records = [
            (Program::Networkd, root.join(NETWORKD).join(&port.index), "NETWORK_FILE"),
            (Program::Udev, root.join(UDEV).join(format!("n{}", port.index)), "E:ID_NET_LINK_FILE"),
        ];
        let sets = |program, path: &PathBuf| {
            sections(&text_of(path)).iter().any(|part| is_in(part, program, &names, setting))
        };
        // The program that acts last comes first.
        let found = scripts::of(&port, &names, setting).map(|path| (Program::Ifup, path));
        let found = found.or_else(|| {
            let path = port.of_network_manager().filter(|path| sets(Program::NetworkManager, path))?;
            Some((Program::NetworkManager, path))
        });
        let (program, path) = found.or_else(|| {
            records.into_iter().find_map(|(program, record, key)| {
                let paths = port.of_systemd(&record, key);
                paths.into_iter().rev().find(|path| sets(program, path)).map(|path| (program, path))
            })
        })?;
        Some(Self { file: format!("/{}", path.strip_prefix(root).unwrap_or(&path).display()), program })
    }

    /// Checks that the program doesn't set the value again after our unit.
    ///
    /// # Errors
    /// The reason why our unit can't keep the value.
    pub fn allow(&self) -> Result<(), String> {
        let file = &self.file;
        // netplan writes these files anew at each start.
        let place = if file.contains("netplan-") { "in /etc/netplan" } else { "there" };
        Err(match self.program {
            Program::Udev => return Ok(()),
            Program::Networkd => {
                format!(
                    "systemd-networkd sets it by {file} each time it configures the port: change it {place}"
                )
            }
            Program::NetworkManager => {
                let how = if place == "there" { " (nmcli connection modify)" } else { "" };
                format!(
                    "NetworkManager sets it by {file} each time it activates the connection: change it {place}{how}"
                )
            }
            Program::Ifup => format!("{file} sets it each time the port comes up: change it there"),
        })
    }
}

/// Whether a section of a file sets this setting.
fn is_in((name, options): &Section, program: Program, names: &Names, setting: &Setting) -> bool {
    let is_discipline = matches!(setting, Setting::Qdisc { .. });
    let is_mtu = matches!(setting, Setting::Mtu { .. });
    let any = |is_its: &dyn Fn(&str, &str) -> bool| {
        options.iter().any(|(key, value)| !value.is_empty() && is_its(key, value))
    };
    match (program, name.as_str()) {
        (Program::NetworkManager, "ethtool") => any(&|key, _| names.are_network_managers(key)),
        // If a connection has any traffic control, NetworkManager replaces the root discipline.
        (Program::NetworkManager, "tc") => {
            is_discipline && any(&|key, _| is_of("qdisc.*", key) || is_of("tfilter.*", key))
        }
        // An MTU in the sections [ipv4] and [ipv6] isn't the port's MTU.
        (Program::NetworkManager, section) => {
            is_mtu && !["ipv4", "ipv6"].contains(&section) && any(&|key, value| key == "mtu" && value != "0")
        }
        (_, "Link") => any(&|key, _| names.systemd.iter().any(|name| is_of(name, key))),
        (Program::Networkd, "DHCPv4" | "DHCP") => {
            is_mtu && any(&|key, value| key == "UseMTU" && ["yes", "true", "on", "1"].contains(&value))
        }
        (Program::Networkd, section) => {
            let is_elsewhere = any(&|key, value| key == "Parent" && value != "root");
            is_discipline && DISCIPLINES.contains(&section) && !is_elsewhere
        }
        _ => false,
    }
}

/// Sections of systemd.network(5) that give a port a queueing discipline, by default as its root.
const DISCIPLINES: [&str; 23] = [
    "BFIFO",
    "BandMultiQueueing",
    "CAKE",
    "ClassfulMultiQueueing",
    "ControlledDelay",
    "DeficitRoundRobinScheduler",
    "EnhancedTransmissionSelection",
    "FairQueueing",
    "FairQueueingControlledDelay",
    "FlowQueuePIE",
    "GenericRandomEarlyDetection",
    "HeavyHitterFilter",
    "HierarchyTokenBucket",
    "NetworkEmulator",
    "PFIFO",
    "PFIFOFast",
    "PFIFOHeadDrop",
    "PIE",
    "QuickFairQueueing",
    "StochasticFairBlue",
    "StochasticFairnessQueueing",
    "TokenBucketFilter",
    "TrivialLinkEqualizer",
];

/// The path below `root` of a file, whose path on the host is `path`.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Decodes a path in which systemd has written colons, spaces and backslashes as `\x3a`, `\x20` and `\\`.
fn unescaped(path: &str) -> String {
    path.replace("\\x3a", ":").replace("\\x20", " ").replace("\\\\", "\\")
}

/// The entries of a directory, in the order of their names.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests;
