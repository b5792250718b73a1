use linerate_doctor::remedy::{Queues, RingWay};

use super::*;

/// A host with a port `lan0` of index 7.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        host.put("sys/class/net/lan0/ifindex", "7\n");
        host
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn file(&self, setting: &Setting) -> Option<(String, Program)> {
        PortFile::of(self.0.path(), setting).map(|found| (found.file, found.program))
    }
}

fn port() -> String {
    "lan0".into()
}

fn ring() -> Setting {
    Setting::Ring { port: port(), way: RingWay::Rx }
}

fn feature(feature: &str) -> Setting {
    Setting::Feature { port: port(), feature: feature.into() }
}

#[test]
fn systemds_files_are_those_that_it_records() {
    let host = Host::new();
    host.put("run/udev/data/n7", "I:1\nE:ID_NET_LINK_FILE=/etc/systemd/network/10-lan.link\nG:systemd\n");
    host.put(
        "etc/systemd/network/10-lan.link",
        "[Match]\nOriginalName=*\n[Link]\nRxBufferSize=4096\nMTUBytes=9000\n",
    );
    host.put(
        "etc/systemd/network/05-other.link",
        "[Match]\nMACAddress=0:1:2:3:4:5\n[Link]\nTxBufferSize=512\n",
    );
    let link = "/etc/systemd/network/10-lan.link".to_owned();
    assert_eq!(host.file(&ring()), Some((link.clone(), Program::Udev)));
    assert_eq!(host.file(&Setting::Ring { port: port(), way: RingWay::Tx }), None);
    let mtu = Setting::Mtu { port: port() };
    assert_eq!(host.file(&mtu), Some((link, Program::Udev)));
    assert_eq!(PortFile::of(host.0.path(), &ring()).unwrap().allow(), Ok(()), "our unit comes later");

    host.put(
        "run/systemd/netif/links/7",
        "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/20-lan.network\n\
         NETWORK_FILE_DROPINS=/etc/systemd/network/20-lan.network.d/a.conf:/run/b\\x3ac.conf\n",
    );
    host.put("etc/systemd/network/20-lan.network", "[Match]\nName=lan0\n[FairQueueing]\nParent=root\n");
    host.put("run/b:c.conf", "[Route]\nMTUBytes=600\n[Link]\nMTUBytes=1500\n");
    let network = ("/etc/systemd/network/20-lan.network".to_owned(), Program::Networkd);
    assert_eq!(host.file(&Setting::Qdisc { port: port() }), Some(network));
    assert_eq!(host.file(&mtu), Some(("/run/b:c.conf".into(), Program::Networkd)));
    let why = PortFile::of(host.0.path(), &mtu).unwrap().allow().unwrap_err();
    assert!(why.contains("systemd-networkd sets it by /run/b:c.conf"), "{why}");
}

#[test]
fn parts_that_older_systemds_do_not_record_are_found() {
    let host = Host::new();
    host.put("run/systemd/netif/links/7", "NETWORK_FILE=/run/systemd/network/10-netplan-lan0.network\n");
    host.put("run/systemd/network/10-netplan-lan0.network", "[Match]\nName=lan0\n[Route]\nMTUBytes=600\n");
    let mtu = Setting::Mtu { port: port() };
    assert_eq!(host.file(&mtu), None, "that of a route");
    host.put("etc/systemd/network/10-netplan-lan0.network.d/mtu.conf", "[Link]\nMTUBytes=9000\n");
    let part = "/etc/systemd/network/10-netplan-lan0.network.d/mtu.conf".to_owned();
    assert_eq!(host.file(&mtu), Some((part, Program::Networkd)));
    assert!(PortFile::of(host.0.path(), &mtu).unwrap().allow().unwrap_err().ends_with("in /etc/netplan"));
    host.put("run/systemd/network/10-netplan-lan0.network", "[CAKE]\nParent=1:10\n[DHCPv4]\nUseMTU=true\n");
    assert_eq!(host.file(&Setting::Qdisc { port: port() }), None, "not the root");
    host.put("etc/systemd/network/10-netplan-lan0.network.d/mtu.conf", "[Link]\nMTUBytes=\n");
    assert!(host.file(&mtu).is_some(), "by DHCP");
}

#[test]
fn network_managers_file_is_that_of_the_active_connection() {
    let host = Host::new();
    let directory = "etc/NetworkManager/system-connections";
    host.put("run/NetworkManager/devices/7", "[device]\nmanaged=true\nconnection-uuid=4-5\nnm-owned=false\n");
    host.put(
        &format!("{directory}/lan.nmconnection"),
        "[connection]\nid=lan\nuuid=4-5\ntype=ethernet\n[ethernet]\nmtu=9000\n[ethtool]\nring-rx=4096\nfeature-gro=true\n\
         coalesce-rx-usecs=30\n[tc]\nqdisc.root=fq\n",
    );
    host.put(&format!("{directory}/4-5.nmmeta"), "[connection]\nuuid=4-5\n");
    host.put(
        &format!("{directory}/old.nmconnection"),
        "[connection]\nuuid=6-7\n[ethtool]\nring-tx=64\nfeature-tso=false\n",
    );
    let file = Some((format!("/{directory}/lan.nmconnection"), Program::NetworkManager));
    let of_lan = [
        ring(),
        feature("rx-gro"),
        Setting::Coalescing { port: port() },
        Setting::Qdisc { port: port() },
        Setting::Mtu { port: port() },
    ];
    of_lan.iter().for_each(|setting| assert_eq!(host.file(setting), file, "{setting:?}"));
    assert_eq!(host.file(&feature("tx-tcp-segmentation")), None, "of a connection that isn't active");
    assert_eq!(host.file(&Setting::Ring { port: "lan1".into(), way: RingWay::Rx }), None);
    assert!(PortFile::of(host.0.path(), &ring()).unwrap().allow().unwrap_err().contains("nmcli"));
}

#[test]
fn stanzas_of_a_port_are_its_own_and_those_from_which_it_inherits() {
    let host = Host::new();
    host.put("etc/network/interfaces", "source interfaces.d/*\nsource-directory /etc/network/more\n");
    host.put("run/network/ifstate", "lo=lo\nlan0=office\n");
    host.put(
        "etc/network/interfaces.d/lan",
        "auto lan0\niface office inet static inherits jumbo\n  address 10.0.0.1/24\n  hardware-dma-ring-rx 4096\n  # offload-lro on\n\
         \x20 post-up /sbin/ethtool --set-channels $IFACE combined 8 || \\\n    true; ethtool -K lan0 gro on\n\
         iface lan1 inet dhcp\n  offload-tso off\n  up iptables -C FORWARD lan0\n",
    );
    host.put("etc/network/more/base", "iface jumbo inet manual\n  mtu 9000\n");
    host.put("etc/network/more/base.old", "iface lan0 inet manual\n  offload-lro on\n");
    let file = Some(("/etc/network/interfaces.d/lan".to_owned(), Program::Ifup));
    let channels = |queues| Setting::Channels { port: port(), queues };
    for setting in [ring(), feature("rx-gro"), channels(Queues::Combined)] {
        assert_eq!(host.file(&setting), file, "{setting:?}");
    }
    assert_eq!(
        host.file(&Setting::Mtu { port: port() }),
        Some(("/etc/network/more/base".into(), Program::Ifup))
    );
    let coalescing = Setting::Coalescing { port: port() };
    for setting in [feature("rx-lro"), feature("tx-tcp-segmentation"), channels(Queues::Rx), coalescing] {
        assert_eq!(host.file(&setting), None, "{setting:?}");
    }
}

#[test]
fn commands_of_other_ports_stanzas_name_the_port() {
    let host = Host::new();
    // As on a hypervisor whose bridge has the port.
    host.put(
        "etc/network/interfaces",
        "iface vmbr0 inet static\n  bridge-ports lan0\n  post-up ethtool -K lan0 gso off tso off rxvlan off txvlan off\n\
         \x20 up ip link set dev lan0 mtu 9000\n  post-up tc qdisc replace dev lan0 root fq\n\
         \x20 post-up echo f >/sys/class/net/lan0/queues/rx-0/rps_cpus\n  up ethtool -G $IFACE rx 512\n",
    );
    let file = Some(("/etc/network/interfaces".to_owned(), Program::Ifup));
    let of_port = [
        feature("rx-vlan-hw-parse"),
        feature("tx-tcp-segmentation"),
        Setting::Mtu { port: port() },
        Setting::Qdisc { port: port() },
        Setting::Rps { port: port(), queue: 0 },
    ];
    of_port.iter().for_each(|setting| assert_eq!(host.file(setting), file, "{setting:?}"));
    assert_eq!(host.file(&ring()), None, "of the bridge");
}

#[test]
fn red_hats_files_are_found_by_their_contents() {
    let host = Host::new();
    host.put("run/NetworkManager/devices/7", "[device]\nconnection-uuid=8-9\n");
    host.put(
        "etc/sysconfig/network-scripts/ifcfg-office",
        "UUID=\"8-9\"\nMTU=\nETHTOOL_OPTS=\"-G ${DEVICE} tx 4096; -C ${DEVICE} rx-usecs 30\"\n",
    );
    host.put("etc/sysconfig/network-scripts/ifcfg-lan1", "DEVICE=lan1\nMTU=9000\n");
    let file = Some(("/etc/sysconfig/network-scripts/ifcfg-office".to_owned(), Program::Ifup));
    assert_eq!(host.file(&Setting::Ring { port: port(), way: RingWay::Tx }), file);
    assert_eq!(host.file(&Setting::Coalescing { port: port() }), file);
    assert_eq!((host.file(&ring()), host.file(&Setting::Mtu { port: port() })), (None, None));
}

#[test]
fn a_host_without_such_files_has_no_owner() {
    let host = Host::new();
    for setting in [ring(), feature("rx-gro"), Setting::Governor, Setting::Rps { port: port(), queue: 0 }] {
        assert_eq!(host.file(&setting), None);
    }
}
