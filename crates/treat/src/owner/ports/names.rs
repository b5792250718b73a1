//! The names of ports' settings in programs and in their files.

use linerate_doctor::remedy::{Queues, RingWay, Setting};

/// The names of a setting. A final * stands for any end.
#[derive(Default)]
pub struct Names {
    /// The names in the section [Link] of systemd.link(5) and systemd.network(5).
    pub systemd: &'static [&'static str],
    /// The names in the section [ethtool] of nm-settings-keyfile(5).
    network_manager: Vec<String>,
    /// The names in interfaces(5), with the scripts of Debian's package ethtool or with ifupdown2.
    interfaces: Vec<String>,
    /// The spellings of the option of ethtool(8), and the words of which one must follow the option to mean this
    /// setting; if there are none, the option alone means it.
    ethtool: Option<(&'static [&'static str], Vec<String>)>,
}

impl Names {
    pub fn of(setting: &Setting) -> Self {
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
                    "CoalescePacketRate*",
                    "StatisticsBlockCoalesceSec",
                    "UseAdaptive*",
                ],
                network_manager: vec!["coalesce-*".into()],
                interfaces: vec!["hardware-irq-coalesce-*".into()],
                ethtool: Some((&["-C", "--coalesce"], Vec::new())),
            },
            Setting::Feature { feature, .. } => Self::of_feature(feature),
            Setting::Rps { .. } => Self { systemd: &["ReceivePacketSteeringCPUMask"], ..Self::default() },
            Setting::Mtu { .. } => {
                Self { systemd: &["MTUBytes"], interfaces: vec!["mtu".into()], ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    fn of_ring(systemd: &'static [&'static str], way: &str) -> Self {
        Self {
            systemd,
            network_manager: vec![format!("ring-{way}")],
            interfaces: vec![format!("hardware-dma-ring-{way}")],
            ethtool: Some((&["-G", "--set-ring"], vec![way.into()])),
        }
    }

    fn of_queues(systemd: &'static [&'static str], queues: &str) -> Self {
        let ethtool = Some((&["-L", "--set-channels"] as &[_], vec![queues.into()]));
        Self { systemd, network_manager: vec![format!("channels-{queues}")], ethtool, ..Self::default() }
    }

    fn of_feature(feature: &str) -> Self {
        let (systemd, aliases): (&'static [_], &[&str]) = match feature {
            "rx-gro" => (&["GenericReceiveOffload"], &["gro", "generic-receive-offload"]),
            "rx-gro-hw" => (&["GenericReceiveOffloadHardware"], &[]),
            "rx-lro" => (&["LargeReceiveOffload"], &["lro", "large-receive-offload"]),
            "rx-checksum" => (&["ReceiveChecksumOffload"], &["rx", "rx-checksumming"]),
            "rx-vlan-hw-parse" => (&["ReceiveVLANCTAGHardwareAcceleration"], &["rxvlan", "rx-vlan-offload"]),
            "tx-vlan-hw-insert" => {
                (&["TransmitVLANCTAGHardwareAcceleration"], &["txvlan", "tx-vlan-offload"])
            }
            "tx-generic-segmentation" => (
                &["GenericSegmentationOffload"],
                &["gso", "generic-segmentation-offload", "sg", "scatter-gather"],
            ),
            "tx-tcp-segmentation" => (&["TCPSegmentationOffload"], &TSO),
            "tx-tcp6-segmentation" => (&["TCP6SegmentationOffload"], &TSO),
            "tx-scatter-gather" => (&[], &["sg", "scatter-gather"]),
            checksum if checksum.starts_with("tx-checksum-") => {
                (&["TransmitChecksumOffload"], &["tx", "tx-checksumming"])
            }
            _ => (&[], &[]),
        };
        let all = || aliases.iter().copied().chain([feature]);
        Self {
            systemd,
            network_manager: all().map(|alias| format!("feature-{alias}")).collect(),
            interfaces: all()
                .flat_map(|alias| [format!("offload-{alias}"), format!("{alias}-offload")])
                .collect(),
            ethtool: Some((&["-K", "--features", "--offload"], all().map(str::to_owned).collect())),
        }
    }

    /// Whether a key of NetworkManager's section [ethtool] means this setting.
    pub fn are_network_managers(&self, key: &str) -> bool {
        self.network_manager.iter().any(|name| is_of(name, key))
    }

    /// Whether an option of interfaces(5) means this setting.
    pub fn are_in_interfaces(&self, option: &str) -> bool {
        self.interfaces.iter().any(|name| is_of(name, option))
    }

    /// Whether the words after `ethtool` set this setting.
    pub fn are_ethtools(&self, words: &[&str]) -> bool {
        let (Some((options, own)), Some((option, after))) = (&self.ethtool, words.split_first()) else {
            return false;
        };
        options.contains(option)
            && (own.is_empty() || after.iter().skip(1).any(|word| own.iter().any(|own| own == word)))
    }
}

/// The names in ethtool(8) of TCP segmentation, and of the features without which the kernel turns this segmentation
/// off.
const TSO: [&str; 6] = ["tso", "tcp-segmentation-offload", "tx", "tx-checksumming", "sg", "scatter-gather"];

/// Whether a name matches a pattern, in which a final * stands for any end.
pub fn is_of(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    }
}
