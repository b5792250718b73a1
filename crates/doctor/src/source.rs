//! Documents that several checks cite, each with one title.

use crate::Citation;

macro_rules! sources {
    ($($name:ident = $title:literal, $url:literal;)*) => {
        $(pub(crate) const $name: Citation = Citation { name: $title, url: $url };)*
    };
}

sources! {
    // Linux.
    BBR = "Linux, net/ipv4/tcp_bbr.c: use it with fq",
        "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/net/ipv4/tcp_bbr.c";
    BLOCK = "Linux, Documentation/ABI/stable/sysfs-block: queue",
        "https://docs.kernel.org/block/queue-sysfs.html";
    BONDING = "Linux, Documentation/networking/bonding.rst",
        "https://docs.kernel.org/networking/bonding.html";
    BANDWIDTH = "Linux, Documentation/scheduler/sched-bwc.rst", "https://docs.kernel.org/scheduler/sched-bwc.html";
    BRIDGE = "Linux, Documentation/networking/bridge.rst", "https://docs.kernel.org/networking/bridge.html";
    CGROUPS = "Linux, Documentation/admin-guide/cgroup-v2.rst",
        "https://docs.kernel.org/admin-guide/cgroup-v2.html";
    CPUIDLE = "Linux, Documentation/admin-guide/pm/cpuidle.rst",
        "https://docs.kernel.org/admin-guide/pm/cpuidle.html";
    I40E = "Linux, i40e_main.c: devices that aren't on PCI Express report one lane of its first generation",
        "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/drivers/net/ethernet/intel/i40e/i40e_main.c";
    IXGBE = "Linux, ixgbe_main.c, ixgbe_check_minimum_link: devices whose reported link means nothing",
        "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/drivers/net/ethernet/intel/ixgbe/ixgbe_main.c";
    IP_LINK = "ip-link(8)", "https://man7.org/linux/man-pages/man8/ip-link.8.html";
    IOV = "Linux, Documentation/PCI/pci-iov-howto.rst", "https://docs.kernel.org/PCI/pci-iov-howto.html";
    IP_SYSCTL = "Linux, Documentation/networking/ip-sysctl.rst",
        "https://docs.kernel.org/networking/ip-sysctl.html";
    LEARNED_WINDOW = "Linux 6.6, commit dfa2f0483360: the kernel measures the share that tcp_adv_win_scale set before",
        "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/commit/?id=dfa2f0483360";
    PSTATE = "Linux, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst",
        "https://docs.kernel.org/admin-guide/pm/intel_pstate.html";
    MLX5_COUNTERS = "Linux, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",
        "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html";
    PARAMETERS = "Linux, Documentation/admin-guide/kernel-parameters.rst",
        "https://docs.kernel.org/admin-guide/kernel-parameters.html";
    NAMESPACES = "network_namespaces(7)", "https://man7.org/linux/man-pages/man7/network_namespaces.7.html";
    NET_SYSCTL = "Linux, Documentation/admin-guide/sysctl/net.rst",
        "https://docs.kernel.org/admin-guide/sysctl/net.html";
    PSI = "Linux, Documentation/accounting/psi.rst", "https://docs.kernel.org/accounting/psi.html";
    SCALING = "Linux, Documentation/networking/scaling.rst",
        "https://docs.kernel.org/networking/scaling.html";
    SCHEDULERS = "Linux, Documentation/block/bfq-iosched.rst", "https://docs.kernel.org/block/bfq-iosched.html";
    SEGMENTATION = "Linux, Documentation/networking/segmentation-offloads.rst",
        "https://docs.kernel.org/networking/segmentation-offloads.html";
    SNMP = "Linux, Documentation/networking/snmp_counter.rst",
        "https://docs.kernel.org/networking/snmp_counter.html";
    STATISTICS = "Linux, Documentation/networking/statistics.rst",
        "https://docs.kernel.org/networking/statistics.html";
    SYSFS_PCI = "Linux, Documentation/ABI/testing/sysfs-bus-pci",
        "https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-bus-pci";
    VM_SYSCTL = "Linux, Documentation/admin-guide/sysctl/vm.rst",
        "https://docs.kernel.org/admin-guide/sysctl/vm.html";
    ETHTOOL = "ethtool(8)", "https://man7.org/linux/man-pages/man8/ethtool.8.html";

    // Guides.
    ESNET = "ESnet, Linux host tuning", "https://fasterdata.es.net/host-tuning/linux/";
    ESNET_100G = "ESnet, 100G tuning", "https://fasterdata.es.net/host-tuning/linux/100g-tuning/";
    ESNET_DISK = "ESnet, Tuning of data transfer nodes", "https://fasterdata.es.net/DTN/tuning/";
    ESNET_MTU = "ESnet, MTU issues", "https://fasterdata.es.net/network-tuning/mtu-issues/";
    ESNET_NIC = "ESnet, NIC tuning", "https://fasterdata.es.net/host-tuning/nic-tuning/";
    ESNET_PACING = "ESnet, Packet pacing", "https://fasterdata.es.net/host-tuning/linux/packet-pacing/";
    RED_HAT = "Red Hat Enterprise Linux 9, Tuning the network performance",
        "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/monitoring_and_managing_system_status_and_performance/tuning-the-network-performance_monitoring-and-managing-system-status-and-performance";
    TUNED = "tuned, profile network-throughput",
        "https://github.com/redhat-performance/tuned/blob/master/profiles/network-throughput/tuned.conf";
    MULTIQUEUE = "KVM, Multiqueue virtio-net", "https://www.linux-kvm.org/page/Multiqueue";
    LIBVIRT = "libvirt, Domain XML: NIC driver-specific options",
        "https://libvirt.org/formatdomain.html#setting-nic-driver-specific-options";
    VMWARE_NIC = "VMware, Choosing a network adapter for your virtual machine (1001805)",
        "https://kb.vmware.com/s/article/1001805";
    OPENSSH = "OpenSSH, ssh_config(5): Ciphers", "https://man.openbsd.org/ssh_config#Ciphers";
    HPN = "HPN-SSH, what it changes", "https://www.psc.edu/hpn-ssh-home/";

    // Standards and papers. docs/papers.md explains the first three.
    FEDEX = "Maximizing File Transfer Performance Using 10Gb Ethernet and Virtualization", "docs/papers.md";
    VMMARK = "Networking technologies on IBM System x servers running VMware ESX 4.0", "docs/papers.md";
    WEB = "1Gbps and 10Gbps Ethernet Server Scalability", "docs/papers.md";
    PCIE = "Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018",
        "https://doi.org/10.1145/3230543.3230560";
    STACK = "Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021",
        "https://doi.org/10.1145/3452296.3472888";
    CORES = "Corbet, Improving Linux networking performance: 1 to 2 million packets a second on a core",
        "https://lwn.net/Articles/629155/";
    SFF_8472 = "SFF-8472, Management interface for SFP+", "https://www.snia.org/technology-communities/sff/specifications";
    RFC_7323 = "RFC 7323, TCP extensions for high performance", "https://www.rfc-editor.org/rfc/rfc7323";
    RFC_9293 = "RFC 9293, TCP", "https://www.rfc-editor.org/rfc/rfc9293";
    RFC_9438 = "RFC 9438, CUBIC", "https://www.rfc-editor.org/rfc/rfc9438";
}
