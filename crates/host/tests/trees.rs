//! Facts read from constructed trees, and from bytes that no kernel would write.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use linerate_host::{CpuTimes, Fact, Facts, Profile};
use proptest::prelude::*;
use tempfile::TempDir;

fn put(root: &TempDir, path: &str, content: impl AsRef<[u8]>) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A guest as the kernel shows one: virtio-net with four queues, and a veth without a driver.
fn guest() -> TempDir {
    let root = TempDir::new().unwrap();
    put(&root, "proc/sys/kernel/hostname", "web1\n");
    put(&root, "proc/sys/kernel/osrelease", "6.1.0-56-amd64\n");
    put(&root, "etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    put(
        &root,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu aes hypervisor avx2\n\nprocessor\t: 1\n",
    );
    put(&root, "sys/devices/system/cpu/online", "0-1\n");
    put(&root, "proc/meminfo", "MemTotal:       24672340 kB\nMemFree: 1 kB\n");
    put(&root, "proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
    put(&root, "proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    put(&root, "proc/sys/net/ipv4/tcp_wmem", "4096\t16384\n");
    put(&root, "sys/class/dmi/id/sys_vendor", "QEMU\n");
    put(&root, "proc/net/dev", "Inter-| Receive\n face |bytes\n lo: 0\n eth0: 1\n veth9: 1\n gone: 1\n");
    put(&root, "sys/class/net/eth0/mtu", "1500\n");
    put(&root, "sys/class/net/eth0/speed", "-1\n");
    for queue in ["rx-0", "rx-1", "rx-2", "rx-3", "tx-0"] {
        put(&root, &format!("sys/class/net/eth0/queues/{queue}/x"), "");
    }
    fs::create_dir_all(root.path().join("sys/class/net/eth0/device")).unwrap();
    symlink("../../../bus/virtio/drivers/virtio_net", root.path().join("sys/class/net/eth0/device/driver"))
        .unwrap();
    put(&root, "sys/class/net/veth9/mtu", "9000\n");
    put(&root, "sys/class/net/veth9/speed", "10000\n");
    root
}

#[test]
fn reads_a_guest() {
    let root = guest();
    let facts = Profile::read(root.path());
    assert_eq!(facts.hostname, Fact::Known("web1".into()));
    assert_eq!(facts.kernel, Fact::Known("6.1.0-56-amd64".into()));
    assert_eq!(facts.distribution, Fact::Known("Debian GNU/Linux 12 (bookworm)".into()));
    assert_eq!(facts.cpu_model, Fact::Known("Xeon".into()));
    assert_eq!(facts.processors, Fact::Known(2));
    assert_eq!(facts.cpu_features, Fact::Known(vec!["aes".into(), "avx2".into()]));
    assert_eq!(facts.governor, Fact::NotApplicable);
    assert_eq!(facts.hypervisor, Fact::Known("QEMU".into()));
    assert_eq!(facts.memory_bytes, Fact::Known(24_672_340 * 1024));
    assert_eq!(facts.congestion_control, Fact::Known("bbr".into()));
    assert_eq!(facts.tcp_rmem, Fact::Known([4096, 131_072, 6_291_456]));
    assert!(matches!(&facts.tcp_wmem, Fact::Unreadable(reason) if reason.contains("three numbers")));
}

#[test]
fn reads_interfaces_and_says_what_it_cannot_see() {
    let root = guest();
    let interfaces = Profile::read(root.path()).interfaces;
    let names: Vec<_> = interfaces.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["eth0", "gone", "veth9"]);
    let (eth0, gone, veth) = (&interfaces[0], &interfaces[1], &interfaces[2]);
    assert_eq!(eth0.driver, Fact::Known("virtio_net".into()));
    assert_eq!(eth0.speed_mbps, Fact::NotApplicable);
    assert_eq!(
        (&eth0.mtu, &eth0.rx_queues, &eth0.tx_queues),
        (&Fact::Known(1500), &Fact::Known(4), &Fact::Known(1))
    );
    assert!(matches!(&gone.mtu, Fact::Unreadable(reason) if reason.contains("namespace")));
    assert_eq!((&veth.driver, &veth.speed_mbps), (&Fact::NotApplicable, &Fact::Known(10_000)));
    assert!(matches!(veth.rx_queues, Fact::Unreadable(_)));
}

/// A tree stands for another host, so links that lead out of the tree to this host's files aren't followed.
#[test]
fn links_out_of_a_tree_are_not_followed() {
    let (root, here) = (guest(), TempDir::new().unwrap());
    put(&here, "osrelease", "9.9.9\n");
    put(&here, "device/uevent", "");
    symlink("../../../bus/pci/drivers/ixgbe", here.path().join("device/driver")).unwrap();
    let replace = |path: &str, target: &Path| {
        let path = root.path().join(path);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        symlink(target, path).unwrap();
    };
    replace("proc/sys/kernel/osrelease", &here.path().join("osrelease"));
    replace("sys/class/net/eth0/device", &here.path().join("device"));
    replace("sys/class/net/eth0/queues", &here.path().join("device"));
    let facts = Facts::read(root.path());
    assert!(
        matches!(&facts.kernel, Fact::Unreadable(why) if why.contains("out of the root")),
        "{:?}",
        facts.kernel
    );
    let port = facts.port("eth0").unwrap();
    assert!(matches!(port.driver, Fact::Unreadable(_)), "{:?}", port.driver);
    assert!(matches!(port.rx_queues, Fact::Unreadable(_)), "{:?}", port.rx_queues);
    // Links that stay inside are followed, and a pipe isn't waited for.
    replace("proc/sys/kernel/osrelease", Path::new("../../version"));
    put(&root, "proc/version", "5.5.5\n");
    assert_eq!(Facts::read(root.path()).kernel, Fact::Known("5.5.5".into()));
    fs::remove_file(root.path().join("proc/version")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(root.path().join("proc/version")).status();
    if pipe.is_ok_and(|status| status.success()) {
        assert!(matches!(Facts::read(root.path()).kernel, Fact::Unreadable(_)));
    }
}

#[test]
fn an_empty_tree_gives_reasons_and_survives_json() {
    let root = TempDir::new().unwrap();
    let facts = Profile::read(root.path());
    assert_eq!(facts.hostname, Fact::Unreadable("/proc/sys/kernel/hostname is missing".into()));
    assert!(facts.interfaces.is_empty());
    let json = serde_json::to_string(&facts).unwrap();
    let back: Profile = serde_json::from_str(&json).unwrap();
    assert_eq!(back.hostname, facts.hostname);
    assert!(CpuTimes::read(root.path()).is_err());
}

#[test]
fn a_hypervisor_is_reported_by_flag_where_dmi_is_missing() {
    let root = guest();
    fs::remove_dir_all(root.path().join("sys/class/dmi")).unwrap();
    assert_eq!(Profile::read(root.path()).hypervisor, Fact::Known("unnamed".into()));
    put(&root, "sys/hypervisor/type", "xen\n");
    assert_eq!(Profile::read(root.path()).hypervisor, Fact::Known("xen".into()));
    put(&root, "proc/cpuinfo", "flags : fpu aes\n");
    fs::remove_dir_all(root.path().join("sys/hypervisor")).unwrap();
    assert_eq!(Profile::read(root.path()).hypervisor, Fact::NotApplicable);
}

#[test]
fn the_running_host_has_the_facts_that_every_linux_has() {
    let facts = Profile::read(Path::new("/"));
    assert!(matches!(&facts.kernel, Fact::Known(release) if release.contains('.')), "{:?}", facts.kernel);
    assert!(matches!(facts.processors, Fact::Known(n) if n > 0), "{:?}", facts.processors);
    assert!(matches!(facts.memory_bytes, Fact::Known(n) if n > 1 << 26), "{:?}", facts.memory_bytes);
}

#[test]
fn processor_time_passes_at_the_rate_of_the_clock() {
    let before = CpuTimes::read(Path::new("/")).unwrap();
    let clock = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_millis(400));
    let after = CpuTimes::read(Path::new("/")).unwrap();
    let passed = after.since(&before);
    let expected = clock.elapsed().as_secs_f64() * f64::from(passed.processors);
    // The counters move in ticks of 10 ms for each processor, and idle time is brought up to date lazily.
    assert!((passed.total() - expected).abs() < 0.3 * expected + 0.1, "{passed:?}, expected {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let root = guest();
        for path in [
            "proc/cpuinfo", "proc/meminfo", "proc/net/dev", "etc/os-release", "sys/devices/system/cpu/online",
            "proc/sys/net/ipv4/tcp_rmem", "sys/class/net/eth0/speed", "sys/class/net/eth0/mtu", "proc/stat",
            "proc/pressure/cpu", "sys/hypervisor/type",
        ] {
            put(&root, path, &bytes);
        }
        let facts = Profile::read(root.path());
        prop_assert!(serde_json::to_string(&facts).is_ok());
        let _ = CpuTimes::read(root.path());
    }

    #[test]
    fn stat_lines_survive_a_round_trip(values in proptest::collection::vec(0_u64..1 << 40, 10)) {
        let root = TempDir::new().unwrap();
        let words: Vec<String> = values.iter().map(u64::to_string).collect();
        put(&root, "proc/stat", format!("cpu  {}\ncpu0 {}\n", words.join(" "), words.join(" ")));
        put(&root, "proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n");
        let times = CpuTimes::read(root.path()).unwrap();
        let sum = times.user + times.nice + times.system + times.idle + times.iowait + times.irq + times.softirq
            + times.steal + times.guest + times.guest_nice;
        let guests = (values[8].saturating_sub(values[0])) + (values[9].saturating_sub(values[1]));
        prop_assert_eq!(sum, values[..8].iter().sum::<u64>() + guests);
        let json = serde_json::to_string(&times).unwrap();
        prop_assert_eq!(serde_json::from_str::<CpuTimes>(&json).unwrap(), times);
    }
}
