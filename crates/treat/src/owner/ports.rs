//! The owners of a port's settings: the files from which systemd, NetworkManager and ifupdown configure the port. Each program
//! but ifupdown records which file it took for a port, so that no rule of matching is repeated here.

use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::remedy::{Queues, RingWay, Setting};

use super::sections;

/// Where udev records what it knows about a device; a port's file has the letter n and the port's index.
const UDEV: &str = "run/udev/data";
/// Where systemd-networkd records the file of each port, by the port's index.
const NETWORKD: &str = "run/systemd/netif/links";
/// Where NetworkManager records the connection of each port, by the port's index.
const NETWORK_MANAGER: &str = "run/NetworkManager/devices";
/// Directories of NetworkManager's connections.
const CONNECTIONS: [&str; 3] = [
    "etc/NetworkManager/system-connections",
    "run/NetworkManager/system-connections",
    "usr/lib/NetworkManager/system-connections",
];
/// Red Hat's older files, one for each port.
const IFCFG: &str = "etc/sysconfig/network-scripts";
/// Debian's file, and the directory of its parts (interfaces(5)).
const INTERFACES: [&str; 2] = ["etc/network/interfaces", "etc/network/interfaces.d"];

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

impl PortFile {
    /// The file of the host below `root` that gives a port this setting; `None` if none is known.
    pub fn of(root: &Path, setting: &Setting) -> Option<Self> {
        let port = setting.port()?;
        let index = fs::read_to_string(root.join("sys/class/net").join(port).join("ifindex"));
        let index = index.unwrap_or_default().trim().to_owned();
        // The last to act comes first.
        let of_ports: [(Program, Vec<PathBuf>); 3] = [
            (Program::NetworkManager, connection(root, &index).into_iter().collect()),
            (Program::Networkd, named(root, &root.join(NETWORKD).join(&index), "NETWORK_FILE")),
            (Program::Udev, named(root, &root.join(UDEV).join(format!("n{index}")), "E:ID_NET_LINK_FILE")),
        ];
        let by_scripts = || scripts(root, port, setting).map(|path| (Program::Ifup, path));
        let by_sections = || {
            of_ports.iter().find_map(|(program, paths)| {
                let sets = |path: &&PathBuf| sets(&read(path), *program, setting);
                paths.iter().rev().find(sets).map(|path| (*program, path.clone()))
            })
        };
        let (program, path) = by_scripts().or_else(by_sections)?;
        Some(Self { file: format!("/{}", path.strip_prefix(root).unwrap_or(&path).display()), program })
    }

    /// Checks that the program doesn't set the value again after our unit.
    ///
    /// # Errors
    /// The reason why our unit can't keep the value.
    pub fn allow(&self) -> Result<(), String> {
        let file = &self.file;
        Err(match self.program {
            Program::Udev => return Ok(()),
            Program::Networkd => {
                format!(
                    "systemd-networkd sets it by {file} each time it configures the port: change it there"
                )
            }
            Program::NetworkManager => format!(
                "NetworkManager sets it by {file} each time it activates the connection: change it there \
                 (nmcli connection modify)"
            ),
            Program::Ifup => format!("{file} sets it each time the port comes up: change it there"),
        })
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The files that a record names under `key` and, for parts of the file, under `key_DROPINS`.
fn named(root: &Path, record: &Path, key: &str) -> Vec<PathBuf> {
    let text = read(record);
    let value = |key: String| {
        text.lines().find_map(|line| line.strip_prefix(&key)?.strip_prefix('=')).unwrap_or_default()
    };
    let paths = [value(key.into()), value(format!("{key}_DROPINS"))];
    let below = |path: &str| root.join(path.trim_matches(['"', '/']));
    paths.iter().flat_map(|paths| paths.split_whitespace()).map(below).collect()
}

/// The file of the connection that NetworkManager has activated on a port.
fn connection(root: &Path, index: &str) -> Option<PathBuf> {
    let record = read(&root.join(NETWORK_MANAGER).join(index));
    let uuid = record.lines().find_map(|line| line.strip_prefix("connection-uuid="))?.trim();
    let files = CONNECTIONS.iter().flat_map(|directory| fs::read_dir(root.join(directory)));
    let mut paths = files.flatten().flatten().map(|entry| entry.path());
    paths.find(|path| read(path).lines().any(|line| line.trim().strip_prefix("uuid=") == Some(uuid)))
}

/// Whether a file with sections sets this.
fn sets(text: &str, program: Program, setting: &Setting) -> bool {
    let names = Names::of(setting);
    let is_named = |key: &str| match program {
        Program::NetworkManager => is_of(&names.network_manager, key),
        _ => names.systemd.iter().any(|name| is_of(name, key)),
    };
    sections(text).iter().any(|(section, options)| {
        matches!(setting, Setting::Qdisc { .. }) && DISCIPLINES.contains(&section.as_str())
            || options.iter().any(|(key, _)| is_named(key))
    })
}

/// Sections of systemd.network(5) that give a port a queueing discipline.
const DISCIPLINES: [&str; 16] = [
    "BFIFO",
    "CAKE",
    "ControlledDelay",
    "DeficitRoundRobinScheduler",
    "FairQueueing",
    "FairQueueingControlledDelay",
    "FlowQueuePIE",
    "HeavyHitterFilter",
    "HierarchyTokenBucket",
    "NetworkEmulator",
    "PFIFO",
    "PFIFOFast",
    "PIE",
    "QuickFairQueueing",
    "StochasticFairnessQueueing",
    "TokenBucketFilter",
];

/// How the programs' files call a setting. A final * stands for any end.
#[derive(Default)]
struct Names {
    /// In systemd.link(5) and systemd.network(5).
    systemd: &'static [&'static str],
    /// In nm-settings-keyfile(5): sections [ethtool], [ethernet] and [tc].
    network_manager: String,
    /// In interfaces(5), with the scripts of Debian's package ethtool.
    interfaces: String,
    /// The option of ethtool(8), and the words after it of which one is the setting's.
    ethtool: Option<(&'static str, Vec<String>)>,
}

impl Names {
    fn of(setting: &Setting) -> Self {
        match setting {
            Setting::Ring { way: RingWay::Rx, .. } => Self::of_ring(&["RxBufferSize"], "rx"),
            Setting::Ring { way: RingWay::Tx, .. } => Self::of_ring(&["TxBufferSize"], "tx"),
            Setting::Channels { queues: Queues::Combined, .. } => {
                Self::of_queues(&["CombinedChannels"], "combined")
            }
            Setting::Channels { queues: Queues::Rx, .. } => Self::of_queues(&["RxChannels"], "rx"),
            Setting::Channels { queues: Queues::Tx, .. } => Self::of_queues(&["TxChannels"], "tx"),
            Setting::Coalescing { .. } => Self {
                systemd: &[
                    "RxCoalesce*",
                    "TxCoalesce*",
                    "RxMaxCoalesced*",
                    "TxMaxCoalesced*",
                    "UseAdaptive*",
                ],
                network_manager: "coalesce-*".into(),
                interfaces: "hardware-irq-coalesce-*".into(),
                ethtool: Some(("-C", Vec::new())),
            },
            Setting::Feature { feature, .. } => Self::of_feature(feature),
            Setting::Qdisc { .. } => Self { network_manager: "qdisc.root".into(), ..Self::default() },
            Setting::Rps { .. } => Self { systemd: &["ReceivePacketSteeringCPUMask"], ..Self::default() },
            Setting::Mtu { .. } => Self {
                systemd: &["MTUBytes"],
                network_manager: "mtu".into(),
                interfaces: "mtu".into(),
                ethtool: None,
            },
            _ => Self::default(),
        }
    }

    fn of_ring(systemd: &'static [&'static str], way: &str) -> Self {
        Self {
            systemd,
            network_manager: format!("ring-{way}"),
            interfaces: format!("hardware-dma-ring-{way}"),
            ethtool: Some(("-G", vec![way.into()])),
        }
    }

    fn of_queues(systemd: &'static [&'static str], queues: &str) -> Self {
        let network_manager = format!("channels-{queues}");
        Self { systemd, network_manager, ethtool: Some(("-L", vec![queues.into()])), ..Self::default() }
    }

    /// ethtool(8) and the files have short names for some of the kernel's features.
    fn of_feature(feature: &str) -> Self {
        let (systemd, short): (&'static [_], _) = match feature {
            "rx-gro" => (&["GenericReceiveOffload"], "gro"),
            "rx-gro-hw" => (&["GenericReceiveOffloadHardware"], "rx-gro-hw"),
            "rx-lro" => (&["LargeReceiveOffload"], "lro"),
            "rx-checksum" => (&["ReceiveChecksumOffload"], "rx"),
            "tx-generic-segmentation" => (&["GenericSegmentationOffload"], "gso"),
            "tx-tcp-segmentation" => (&["TCPSegmentationOffload"], "tso"),
            "tx-tcp6-segmentation" => (&["TCP6SegmentationOffload"], "tso"),
            "tx-scatter-gather" => (&[], "sg"),
            checksum if checksum.starts_with("tx-checksum-") => (&["TransmitChecksumOffload"], "tx"),
            other => (&[], other),
        };
        Self {
            systemd,
            network_manager: format!("feature-{short}"),
            interfaces: format!("offload-{short}"),
            ethtool: Some(("-K", vec![short.into(), feature.into()])),
        }
    }

    /// Whether a command line sets this by ethtool.
    fn are_in(&self, command: &str) -> bool {
        let Some((option, words)) = &self.ethtool else { return false };
        let long = match *option {
            "-G" => "--set-ring",
            "-L" => "--set-channels",
            "-C" => "--coalesce",
            _ => "--features",
        };
        let parts =
            command.split([';', '&']).map(|part| part.trim_matches(['"', '\'', ' ']).split_whitespace());
        parts.into_iter().any(|part| {
            let mut after = part.skip_while(|word| word != option && *word != long).skip(1).peekable();
            after.peek().is_some()
                && (words.is_empty() || after.any(|word| words.iter().any(|own| own == word)))
        })
    }
}

/// Whether a name is the one that a pattern means.
fn is_of(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => !pattern.is_empty() && name == pattern,
    }
}

/// The file of the scripts that bring up a port, if it sets this.
fn scripts(root: &Path, port: &str, setting: &Setting) -> Option<PathBuf> {
    let names = Names::of(setting);
    let ifcfg = root.join(IFCFG).join(format!("ifcfg-{port}"));
    let of_ifcfg = read(&ifcfg).lines().any(|line| match line.trim().split_once('=') {
        Some(("MTU", _)) => matches!(setting, Setting::Mtu { .. }),
        Some(("ETHTOOL_OPTS", options)) => names.are_in(options),
        _ => false,
    });
    if of_ifcfg {
        return Some(ifcfg);
    }
    let parts = fs::read_dir(root.join(INTERFACES[1])).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    paths.sort();
    paths.insert(0, root.join(INTERFACES[0]));
    paths.into_iter().find(|path| {
        stanzas(&read(path), port).iter().any(|(option, value)| {
            is_of(&names.interfaces, option) || (option.contains("up") && names.are_in(value))
        })
    })
}

/// The options of a port in interfaces(5).
fn stanzas(text: &str, port: &str) -> Vec<(String, String)> {
    const HEADS: [&str; 7] =
        ["iface", "auto", "allow-auto", "allow-hotplug", "mapping", "source", "source-directory"];
    let (mut is_its, mut options) = (false, Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let (option, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if HEADS.contains(&option) {
            is_its = option == "iface" && value.split_whitespace().next() == Some(port);
        } else if is_its {
            options.push((option.to_owned(), value.trim().to_owned()));
        }
    }
    options
}

#[cfg(test)]
mod tests;
