//! Sources that several checks cite.

use crate::Source;

/// The paper behind rows 1 to 15 of docs/papers.md.
pub const FEDEX: Source = Source {
    name: "Maximizing File Transfer Performance Using 10Gb Ethernet and Virtualization, best practices",
    url: "docs/papers.md",
};
/// The paper on a web server's ports and drivers.
pub const WEB: Source =
    Source { name: "the paper on web traffic with many ports, tuning of the server", url: "docs/papers.md" };
pub const SCALING: Source = Source {
    name: "Linux, Documentation/networking/scaling.rst",
    url: "https://docs.kernel.org/networking/scaling.html",
};
pub const CPUIDLE: Source = Source {
    name: "Linux, Documentation/admin-guide/pm/cpuidle.rst",
    url: "https://docs.kernel.org/admin-guide/pm/cpuidle.html",
};
pub const STATISTICS: Source = Source {
    name: "Linux, Documentation/networking/statistics.rst",
    url: "https://docs.kernel.org/networking/statistics.html",
};
pub const SYSCTL_NET: Source = Source {
    name: "Linux, Documentation/admin-guide/sysctl/net.rst",
    url: "https://docs.kernel.org/admin-guide/sysctl/net.html",
};
pub const BONDING: Source = Source {
    name: "Linux, Documentation/networking/bonding.rst",
    url: "https://docs.kernel.org/networking/bonding.html",
};
pub const SEGMENTATION: Source = Source {
    name: "Linux, Documentation/networking/segmentation-offloads.rst",
    url: "https://docs.kernel.org/networking/segmentation-offloads.html",
};
pub const SYSFS_PCI: Source = Source {
    name: "Linux, Documentation/ABI/testing/sysfs-bus-pci",
    url: "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-bus-pci",
};
pub const PCIE: Source = Source {
    name: "Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018",
    url: "https://doi.org/10.1145/3230543.3230560",
};
pub const REDHAT: Source = Source {
    name: "Red Hat Enterprise Linux 9, Tuning the network performance",
    url: "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/monitoring_and_managing_system_status_and_performance/tuning-the-network-performance_monitoring-and-managing-system-status-and-performance",
};
pub const ESNET_NIC: Source =
    Source { name: "ESnet, NIC tuning", url: "https://fasterdata.es.net/host-tuning/nic-tuning/" };
pub const ESNET_HOST: Source =
    Source { name: "ESnet, Linux host tuning", url: "https://fasterdata.es.net/host-tuning/linux/" };
pub const STACK: Source = Source {
    name: "Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021",
    url: "https://doi.org/10.1145/3452296.3472888",
};
pub const CORES: Source = Source {
    name: "Corbet, Improving Linux networking performance: 1 to 2 million packets a second on a core",
    url: "https://lwn.net/Articles/629155/",
};
