use super::*;

/// The start of the command that sets all governors.
const LOOP: &str = "for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo ";

fn sysctl(key: &str) -> Setting {
    Setting::Sysctl { key: key.into() }
}

#[test]
fn what_changes_nothing_or_lowers_a_number_is_no_remedy() {
    let of = |now, new| Remedy::sysctl("net.ipv4.tcp_rmem", now, new);
    assert!(of("4096 131072 6291456", "4096 131072 33554432").is_some());
    assert!(of("4096 131072 6291456", "4096\t131072\t6291456").is_none());
    assert!(of("4096 131072 6291456", "4096 65536 33554432").is_none());
    assert!(Remedy::sysctl("net.ipv4.tcp_congestion_control", "reno", "cubic").is_some());
    let ring = || Setting::Ring { port: "eth0".into(), way: RingWay::Rx };
    assert!(
        Remedy::of(ring(), 512, 2048).is_some()
            && Remedy::of(ring(), 512, 4096).is_none()
            && Remedy::of(ring(), 4096, 512).is_none()
    );
    let gro = Setting::Feature { port: "eth0".into(), feature: "rx-gro".into() };
    assert!(Remedy::of(gro, "on", "off").is_none());
}

#[test]
fn a_value_is_judged_as_a_proposal_is() {
    let port = || "eth0".to_owned();
    let bounds = HostBounds { memory: Some(8 << 30), page: None, isolated: [6, 7].into() };
    let why =
        |setting: &Setting, now: &str, new: &str| setting.judge(now, new, &bounds).err().unwrap_or_default();
    let (rmem, wmem) = (sysctl("net.ipv4.tcp_rmem"), sysctl("net.core.wmem_max"));
    let of_v = |feature: &str| Setting::Feature { port: port(), feature: feature.into() };
    let (xps, coalescing) = (Setting::Xps { port: port(), queue: 0 }, Setting::Coalescing { port: port() });
    for (setting, now, new) in [
        (&rmem, "4096 131072 6291456", "4096 131072 33554432"),
        (&wmem, "212992", "1073741824"),
        (&sysctl("net.ipv4.tcp_mem"), "93333 124445 186666", "93333 200000 300000"),
        (&sysctl("net.ipv4.tcp_ecn"), "0", "2"),
        (&of_v("rx-gro"), "off", "on"),
        (&Setting::Qdisc { port: port() }, "mq pfifo_fast", "mq fq"),
        (&xps, "00000001", "3"),
        (&Setting::IrqAffinity { irq: 24 }, "0-3", "1"),
        (&coalescing, "adaptive-rx off rx-usecs 3", "rx-usecs 50"),
        (&coalescing, "adaptive-rx off adaptive-tx off", "adaptive-rx on adaptive-tx on"),
        (&Setting::Ring { port: port(), way: RingWay::Rx }, "256", "1024"),
        (&Setting::Mtu { port: port() }, "1500", "9000"),
    ] {
        assert_eq!(why(setting, now, new), "", "{setting}: {new}");
    }
    for (setting, now, new, part) in [
        (&rmem, "4096 131072 6291456", "4096 131072 0x7fffffff", "is no number"),
        (&rmem, "4096 131072 6291456", "4096 131072 +33554432", "is no number"),
        (&rmem, "4096 131072 6291456", "4096 131072", "the setting has 3 numbers"),
        (&rmem, "4096 131072 6291456", "8192 131072 33554432", "last number may be raised"),
        (&rmem, "4096 131072 6291456", "4096 131072 2147483648", "checks propose at most 1073741824"),
        (&wmem, "212992", "1073741825", "checks propose at most 1073741824"),
        (&sysctl("net.ipv4.tcp_mem"), "1 2 3", "1 9 8", "ascending"),
        (&sysctl("net.core.somaxconn"), "128", "1000000", "checks propose at most 8192"),
        (&sysctl("net.ipv4.tcp_sack"), "0", "2", "isn't among the values"),
        (&sysctl("net.core.default_qdisc"), "pfifo_fast", "plug", "isn't among the disciplines"),
        (&sysctl("net.ipv4.tcp_congestion_control"), "reno", "bbr; reboot", "is no name"),
        (&of_v("loopback"), "off", "on", "isn't among the features"),
        (&Setting::Qdisc { port: port() }, "pfifo_fast", "blackhole", "isn't among the disciplines"),
        (&Setting::Qdisc { port: port() }, "htb", "fq", "classes that somebody has made"),
        (&Setting::Qdisc { port: port() }, "mqprio", "mq fq", "classes that somebody has made"),
        (&Setting::Governor, "performance", "powersave", "isn't among the governors"),
        (&xps, "3", "4", "takes processors away"),
        (&xps, "3", "0", "names no processors"),
        (&xps, "0", "40", "processor 6 is isolated"),
        (&Setting::Rps { port: port(), queue: 0 }, "0", "ff", "processor 6 is isolated"),
        (&Setting::IrqAffinity { irq: 24 }, "0-3", "0-7", "processor 6 is isolated"),
        (&coalescing, "rx-usecs 3", "rx-usecs 100000", "checks propose at most 250"),
        (&coalescing, "rx-usecs 3", "rx-usecs", "names and values"),
        (&Setting::Rss { port: port() }, "equal 2", "equal x", "is no number"),
        (&Setting::Mtu { port: port() }, "1500", "65535", "checks propose at most 9216"),
        (&Setting::Ring { port: port(), way: RingWay::Rx }, "512", "4k", "is no number"),
        (&Setting::Ring { port: port(), way: RingWay::Rx }, "256", "1048576", "checks propose at most 1024"),
        (
            &Setting::Ring { port: port(), way: RingWay::Tx },
            "65536",
            "131072",
            "checks propose at most 32768",
        ),
    ] {
        let reported = why(setting, now, new);
        assert!(reported.contains(part), "{setting}: {new}: {reported}");
    }
    // Each sysctl that checks may propose has a rule.
    for key in proposed::SYSCTLS {
        assert!(sysctl(key).judge("1", "1 2 3 4 x", &HostBounds::default()).is_err(), "{key}");
    }
}

#[test]
fn several_changes_become_one_command() {
    let queue = |queue| Remedy::of(Setting::Rps { port: "eth0".into(), queue }, 0, "f").unwrap();
    let ring = |way| Remedy::of(Setting::Ring { port: "eth0".into(), way }, 512, 2048).unwrap();
    let remedies = [
        Remedy::sysctl("net.ipv4.tcp_rmem", "1 2 3", "1 2 4").unwrap(),
        Remedy::sysctl("net.core.rmem_max", 3, 4).unwrap(),
        ring(RingWay::Rx),
        ring(RingWay::Tx),
        queue(0),
        queue(1),
        Remedy::of(Setting::Governor, "powersave", "performance").unwrap(),
    ];
    let line = commands(&remedies);
    assert_eq!(
        line,
        "sysctl -w net.ipv4.tcp_rmem='1 2 4' net.core.rmem_max=4; ethtool -G eth0 rx 2048 tx 2048; \
         for f in /sys/class/net/eth0/queues/rx-0/rps_cpus /sys/class/net/eth0/queues/rx-1/rps_cpus; \
         do echo f > $f; done; \
         for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $f; done"
    );
    assert!(undo_commands(&remedies).contains("net.core.rmem_max=3; ethtool -G eth0 rx 512 tx 512"));
    let on = |host, key| Remedy::sysctl(key, 1, 2).unwrap().on(host);
    let two = [on("a", "net.core.wmem_max"), on("b", "net.core.rmem_max")];
    assert_eq!(commands(&two), "a: sysctl -w net.core.wmem_max=2; b: sysctl -w net.core.rmem_max=2");
}

#[test]
fn values_are_compared_by_what_they_mean() {
    let rps = Setting::Rps { port: "eth0".into(), queue: 0 };
    assert!(rps.is_same("00000000,0000000f", "f") && !rps.is_same("0f", "1f") && !rps.is_same("x", "x"));
    let irq = Setting::IrqAffinity { irq: 24 };
    assert!(irq.is_same("0-3", "0,1,2,3") && !irq.is_same("0-3", "0-2"));
    let coalescing = Setting::Coalescing { port: "eth0".into() };
    assert!(coalescing.holds("adaptive-rx on rx-usecs 8", "adaptive-rx on"));
    assert!(!coalescing.holds("adaptive-rx off rx-usecs 8", "adaptive-rx on"));
}

#[test]
fn names_lead_nowhere_else() {
    for key in ["net.ipv4.tcp_rmem", "vm.dirty_ratio", "net.bridge.bridge-nf-call-iptables"] {
        assert!(sysctl(key).is_sound(), "{key}");
    }
    for key in [
        "kernel.core_pattern",
        "net..x",
        "net./etc/passwd",
        "net.ipv4.x=1",
        "",
        "net.",
        "vm.x y",
        "net.ipv4/../x",
        "net.x/",
        "net./",
        "net./.x",
    ] {
        assert!(!sysctl(key).is_sound(), "{key}");
    }
    for port in ["..", "a/b", "", "a b", "-x", "0123456789abcdef"] {
        assert!(!Setting::Qdisc { port: port.into() }.is_sound(), "{port}");
        assert!(!Setting::Feature { port: port.into(), feature: "rx-gro".into() }.is_sound(), "{port}");
    }
    let tunable =
        |name: &str| Setting::Tunable { governor: "ondemand".into(), policy: Some(4), name: name.into() };
    assert!(tunable("up_threshold").is_sound() && !tunable("../x").is_sound() && !tunable("").is_sound());
    assert_eq!(
        tunable("up_threshold").file().unwrap(),
        "/sys/devices/system/cpu/cpufreq/policy4/ondemand/up_threshold"
    );
    assert!(Setting::Mtu { port: "ens1f0.12".into() }.is_sound());
    let vlan = sysctl("net.ipv6.conf.ens1f0/12.mtu");
    assert!(vlan.is_sound());
    assert_eq!(vlan.file().unwrap(), "/proc/sys/net/ipv6/conf/ens1f0.12/mtu");
}

/// Values from a snapshot or another host can't be trusted; they stay words of the command.
#[test]
fn no_value_becomes_a_command() {
    let port = || "eth0".to_owned();
    let all = [
        sysctl("net.ipv4.tcp_congestion_control"),
        Setting::Ring { port: port(), way: RingWay::Rx },
        Setting::Channels { port: port(), queues: Queues::Tx },
        Setting::Coalescing { port: port() },
        Setting::Feature { port: port(), feature: "rx-gro".into() },
        Setting::Qdisc { port: port() },
        Setting::Rss { port: port() },
        Setting::Rps { port: port(), queue: 0 },
        Setting::Governor,
        Setting::EnergyPreference,
        Setting::IrqAffinity { irq: 1 },
        Setting::Mtu { port: port() },
    ];
    for setting in all {
        for value in ["1;reboot", "1 '; reboot #", "$(reboot)", "1\nreboot"] {
            let line = setting.command(value);
            // The loop isn't a part of the value.
            let line = match setting {
                Setting::Governor | Setting::EnergyPreference => {
                    let line = line.replace(super::PREFERENCE, super::GOVERNOR);
                    let inside = line.strip_prefix(LOOP).and_then(|line| line.strip_suffix(" > $f; done"));
                    inside.unwrap_or_else(|| panic!("{line}")).to_owned()
                }
                _ => line,
            };
            let bare = line.replace(r"'\''", "_").split('\'').step_by(2).collect::<String>();
            assert!(!bare.contains([';', '$', '`', '\n', '#']), "{line}");
        }
    }
}

/// A host's files in a directory, and programs that only note their arguments.
struct Tree(tempfile::TempDir);

impl Tree {
    fn with(files: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for file in files {
            let path = tree.0.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "none\n").unwrap();
        }
        std::fs::create_dir_all(tree.0.path().join("bin")).unwrap();
        for name in ["sysctl", "ethtool", "tc", "ip"] {
            let script =
                format!("#!/bin/sh\nprintf '[%s]' {name} \"$@\" > {}/ran\n", tree.0.path().display());
            linerate_testing::write_script(&tree.0.path().join("bin").join(name), &script);
        }
        tree
    }

    fn run(&self, line: &str) {
        let root = self.0.path().display().to_string();
        let line = ["/sys/", "/proc/", "/root/"]
            .iter()
            .fold(line.to_owned(), |line, top| line.replace(top, &format!("{root}{top}")));
        let path = format!("{root}/bin:{}", std::env::var("PATH").unwrap());
        let output =
            std::process::Command::new("sh").args(["-ec", &line]).env("PATH", path).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.path().join(file)).unwrap().trim().to_owned()
    }
}

/// The doctor prints and keeps lines for a shell, so a shell runs them here.
#[test]
fn a_shell_sets_what_each_command_says() {
    let governor = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let governors: Vec<_> = (0..4).map(governor).collect();
    let others = [
        "sys/class/net/eth0/queues/rx-0/rps_cpus",
        "sys/class/net/eth0/queues/tx-1/xps_cpus",
        "proc/irq/24/smp_affinity_list",
        "sys/devices/system/cpu/cpufreq/ondemand/up_threshold",
    ];
    let tunable = Setting::Tunable { governor: "ondemand".into(), policy: None, name: "up_threshold".into() };
    let all: Vec<&str> = governors.iter().map(String::as_str).chain(others).collect();
    let tree = Tree::with(&all);
    let port = || "eth0".to_owned();
    let files = [
        (Setting::Rps { port: port(), queue: 0 }, "00000000,0000000f", others[0]),
        (Setting::Xps { port: port(), queue: 1 }, "f", others[1]),
        (Setting::IrqAffinity { irq: 24 }, "0-3,8", others[2]),
        (tunable, "95", others[3]),
    ];
    for (setting, value, file) in files {
        tree.run(&setting.command(value));
        assert_eq!(tree.read(file), value, "{setting}");
    }
    tree.run(&Setting::Governor.command("performance"));
    assert!(governors.iter().all(|file| tree.read(file) == "performance"));
    let remedy = Remedy::of(Setting::Governor, "ondemand 3 powersave 0-1,2", "performance").unwrap();
    tree.run(&undo_commands(&[remedy]));
    let now: Vec<_> = governors.iter().map(|file| tree.read(file)).collect();
    assert_eq!(now, ["powersave", "powersave", "powersave", "ondemand"]);
    let programs = [
        (sysctl("net.ipv4.tcp_rmem"), "1 2 3", "[sysctl][-w][net.ipv4.tcp_rmem=1 2 3]"),
        (Setting::Ring { port: port(), way: RingWay::Tx }, "512", "[ethtool][-G][eth0][tx][512]"),
        (
            Setting::Channels { port: port(), queues: Queues::Combined },
            "4",
            "[ethtool][-L][eth0][combined][4]",
        ),
        (Setting::Coalescing { port: port() }, "rx-usecs 8", "[ethtool][-C][eth0][rx-usecs][8]"),
        (
            Setting::Feature { port: port(), feature: "rx-gro".into() },
            "on",
            "[ethtool][-K][eth0][rx-gro][on]",
        ),
        (Setting::Qdisc { port: port() }, "fq", "[tc][qdisc][replace][dev][eth0][root][fq]"),
        (Setting::Rss { port: port() }, "equal 4", "[ethtool][-X][eth0][equal][4]"),
        (Setting::Rss { port: port() }, "0 0 0 2", "[ethtool][-X][eth0][weight][3][0][1]"),
        (Setting::Mtu { port: port() }, "9000", "[ip][link][set][eth0][mtu][9000]"),
    ];
    for (setting, value, ran) in programs {
        tree.run(&setting.command(value));
        assert_eq!(tree.read("ran"), ran);
    }
}

#[test]
fn the_kernels_own_discipline_comes_back_by_removing_the_other() {
    let qdisc = Setting::Qdisc { port: "eth0".into() };
    assert_eq!(qdisc.way_back("pfifo_fast"), "tc qdisc del dev eth0 root");
    assert_eq!(
        qdisc.way_back("mq fq_codel"),
        "tc qdisc replace dev eth0 root pfifo && tc qdisc del dev eth0 root"
    );
    let mtu = Setting::Mtu { port: "eth0".into() };
    assert_eq!(mtu.way_back("1500"), mtu.command("1500"));
}

#[test]
fn values_that_differ_are_noted_and_come_back() {
    let tree = Tree::with(&["sys/a/max", "sys/b/max", "root/x"]);
    tree.run("echo 3000 > /sys/a/max; echo 2000 > /sys/b/max");
    let (note, back) = noted("/sys/*/max", "caps");
    tree.run(&format!("{note}; for f in /sys/*/max; do echo 5000 > $f; done"));
    assert_eq!(tree.read("sys/a/max"), "5000");
    tree.run(&back);
    assert_eq!((tree.read("sys/a/max").as_str(), tree.read("sys/b/max").as_str()), ("3000", "2000"));
}

#[test]
fn no_value_panics() {
    let mut random = fastrand::Rng::with_seed(1);
    let letters: Vec<char> = "0123456789abcdef,- \t\n+x.\u{e9}on".chars().collect();
    let settings = [
        sysctl("net.ipv4.tcp_rmem"),
        Setting::Rps { port: "eth0".into(), queue: 0 },
        Setting::IrqAffinity { irq: 1 },
        Setting::Rss { port: "eth0".into() },
        Setting::Coalescing { port: "eth0".into() },
        Setting::Mtu { port: "eth0".into() },
    ];
    for _ in 0..20_000 {
        let mut value =
            || (0..random.usize(..24)).map(|_| letters[random.usize(..letters.len())]).collect::<String>();
        let (one, other) = (value(), value());
        for setting in &settings {
            let _ =
                (setting.is_same(&one, &other), setting.holds(&one, &other), setting.lowers(&one, &other));
            assert!(!setting.command(&one).is_empty());
        }
    }
}

#[test]
fn json_is_read_as_it_is_written() {
    let all = [
        sysctl("vm.dirty_ratio"),
        Setting::Channels { port: "eth0".into(), queues: Queues::Combined },
        Setting::Governor,
        Setting::EnergyPreference,
        Setting::IrqAffinity { irq: 3 },
    ];
    for setting in all {
        let text = serde_json::to_string(&setting).unwrap();
        assert_eq!(serde_json::from_str::<Setting>(&text).unwrap(), setting, "{text}");
    }
    assert!(serde_json::from_str::<Setting>(r#"{"kind":"shell","command":"x"}"#).is_err());
}
