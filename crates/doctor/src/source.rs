//! Where several checks have their advice from.

use crate::Source;

macro_rules! sources {
    ($($name:ident = $title:literal, $url:literal;)*) => {
        $(pub(crate) const $name: Source = Source { name: $title, url: $url };)*
    };
}

sources! {
    IP_SYSCTL = "Linux, Documentation/networking/ip-sysctl.rst",
        "https://docs.kernel.org/networking/ip-sysctl.html";
    NET_SYSCTL = "Linux, Documentation/admin-guide/sysctl/net.rst",
        "https://docs.kernel.org/admin-guide/sysctl/net.html";
    VM_SYSCTL = "Linux, Documentation/admin-guide/sysctl/vm.rst",
        "https://docs.kernel.org/admin-guide/sysctl/vm.html";
    PSI = "Linux, Documentation/accounting/psi.rst", "https://docs.kernel.org/accounting/psi.html";
    IOV = "Linux, Documentation/PCI/pci-iov-howto.rst", "https://docs.kernel.org/PCI/pci-iov-howto.html";
    SCALING = "Linux, Documentation/networking/scaling.rst",
        "https://docs.kernel.org/networking/scaling.html";
    BRIDGE = "Linux, Documentation/networking/bridge.rst", "https://docs.kernel.org/networking/bridge.html";
    BLOCK = "Linux, Documentation/ABI/stable/sysfs-block: queue",
        "https://docs.kernel.org/block/queue-sysfs.html";
    SCHEDULERS = "Linux, Documentation/block/bfq-iosched.rst", "https://docs.kernel.org/block/bfq-iosched.html";
    SNMP = "Linux, Documentation/networking/snmp_counter.rst",
        "https://docs.kernel.org/networking/snmp_counter.html";
    ESNET = "ESnet, Linux host tuning", "https://fasterdata.es.net/host-tuning/linux/";
    ESNET_PACING = "ESnet, Packet pacing", "https://fasterdata.es.net/host-tuning/linux/packet-pacing/";
    ESNET_MTU = "ESnet, MTU issues", "https://fasterdata.es.net/network-tuning/mtu-issues/";
    ESNET_DISK = "ESnet, Tuning of data transfer nodes", "https://fasterdata.es.net/DTN/tuning/";
    RED_HAT = "Red Hat Enterprise Linux 9, Monitoring and managing system status and performance: network",
        "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/monitoring_and_managing_system_status_and_performance/tuning-the-network-performance_monitoring-and-managing-system-status-and-performance";
    TUNED = "tuned, profile network-throughput",
        "https://github.com/redhat-performance/tuned/blob/master/profiles/network-throughput/tuned.conf";
    BBR = "Linux, net/ipv4/tcp_bbr.c: use it with fq",
        "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/net/ipv4/tcp_bbr.c";
    RFC_7323 = "RFC 7323, TCP extensions for high performance", "https://www.rfc-editor.org/rfc/rfc7323";
    RFC_9438 = "RFC 9438, CUBIC", "https://www.rfc-editor.org/rfc/rfc9438";
    OPENSSH = "OpenSSH, ssh_config(5): Ciphers", "https://man.openbsd.org/ssh_config#Ciphers";
    HPN = "HPN-SSH, what it changes", "https://www.psc.edu/hpn-ssh-home/";
    MULTIQUEUE = "KVM, Multiqueue virtio-net", "https://www.linux-kvm.org/page/Multiqueue";
    LIBVIRT = "libvirt, Domain XML: NIC driver-specific options",
        "https://libvirt.org/formatdomain.html#setting-nic-driver-specific-options";
    VMWARE_NIC = "VMware, Choosing a network adapter for your virtual machine (1001805)",
        "https://kb.vmware.com/s/article/1001805";
    TRANSFER_PAPER = "Maximizing File Transfer Performance Using 10Gb Ethernet and Virtualization",
        "https://pdf4pro.com/view/maximizing-file-transfer-performance-using-10gb-intel-79af08.html";
}
