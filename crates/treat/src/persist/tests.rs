use super::*;
use crate::course::{UndoneBy, apply, undo};
use crate::journal::PlannedStep;
use crate::testing::{Pretended, sysctl};

fn step(setting: Setting, before: &str, new: &str) -> PlannedStep {
    PlannedStep {
        checks: vec!["x".into()],
        setting,
        before: before.into(),
        new: new.into(),
        owner: None,
        kept: None,
    }
}

fn confirmed(shelf: &Shelf, steps: Vec<PlannedStep>) -> (TreatmentJournal, Pretended) {
    let mut host = Pretended::of(&steps);
    let mut journal = shelf.begin(steps, 60, &mut host).unwrap();
    apply(&mut journal, &mut host, &mut |_, _| {}).unwrap();
    journal.note(TreatmentEvent::Confirmed).unwrap();
    (journal, host)
}

#[test]
fn what_is_kept_goes_with_its_treatment() {
    let directory = tempfile::tempdir().unwrap();
    let (root, shelf) =
        (directory.path().join("root"), Shelf::open(&directory.path().join("state")).unwrap());
    fs::create_dir_all(root.join(UNITS)).unwrap();
    let system = System::below(&root);
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let (own, unit) = ("etc/sysctl.d/90-linerate.conf", "etc/systemd/system/linerate-doctor.service");
    let rps = Setting::Rps { port: "eth0".into(), queue: 0 };
    let irq = Setting::IrqAffinity { irq: 24 };
    let ecn = || sysctl("net.ipv4.tcp_ecn");
    let (mut first, mut host) =
        confirmed(&shelf, vec![step(ecn(), "0", "2"), step(rps, "0", "f"), step(irq, "0-3", "1")]);
    let (mut second, _) = confirmed(&shelf, vec![step(sysctl("net.ipv4.tcp_sack"), "0", "1")]);
    let keeping = system.keep(&shelf, &mut first, &PresentPorts::default()).unwrap();
    assert_eq!((keeping.kept, keeping.left.len()), (vec![0, 1], 1));
    assert_eq!(keeping.files, [format!("/{own}"), format!("/{unit}")]);
    system.keep(&shelf, &mut second, &PresentPorts::default()).unwrap();
    assert!(read(own).starts_with(MARK), "{}", read(own));
    assert!(read(own).contains("net.ipv4.tcp_ecn = 2\n") && read(own).contains("net.ipv4.tcp_sack = 1\n"));
    let line = r#"ExecStart=-/bin/sh -c "echo f > /sys/class/net/eth0/queues/rx-0/rps_cpus""#;
    assert!(read(unit).contains(line), "{}", read(unit));
    assert!(read(unit).contains("sys-subsystem-net-devices-eth0.device"));
    assert!(root.join(WANTS).join(UNIT).is_symlink());
    // The lines of the other treatment stay.
    let mut first = shelf.journal(&first.id).unwrap();
    system.forget(&shelf, &mut first).unwrap();
    undo(&mut first, &mut host, UndoneBy::User).unwrap();
    assert!(!read(own).contains("tcp_ecn") && read(own).contains("tcp_sack"));
    assert!(!root.join(unit).exists() && !root.join(WANTS).join(UNIT).is_symlink());
    system.forget(&shelf, &mut second).unwrap();
    assert!(!root.join(own).exists());
    // The journal says in which other directory a treatment was kept.
    let (other, usual) = (directory.path().join("other"), System::below(&directory.path().join("usual")));
    let (mut far, _) = confirmed(&shelf, vec![step(sysctl("net.ipv4.tcp_sack"), "0", "1")]);
    System::below(&other).keep(&shelf, &mut far, &PresentPorts::default()).unwrap();
    system.keep(&shelf, &mut second, &PresentPorts::default()).unwrap();
    assert!(other.join(own).exists() && !read(own).contains(&far.id));
    usual.forget(&shelf, &mut shelf.journal(&far.id).unwrap()).unwrap();
    assert!(!other.join(own).exists() && root.join(own).exists());
    usual.forget(&shelf, &mut second).unwrap();
    assert!(!root.join(own).exists());
    // A run that was interrupted after it removed the link leaves the unit, by which the next run finds the rest.
    let (mut cut, _) =
        confirmed(&shelf, vec![step(Setting::Rps { port: "eth0".into(), queue: 0 }, "0", "f")]);
    system.keep(&shelf, &mut cut, &PresentPorts::default()).unwrap();
    system.enable(false).unwrap();
    cut.note(TreatmentEvent::Forgotten).unwrap();
    system.forget(&shelf, &mut cut).unwrap();
    assert!(!root.join(unit).exists() && !root.join(WANTS).join(UNIT).is_symlink());
    // A run that was interrupted in the middle of a file leaves the unfinished file, which the next run removes.
    system.keep(&shelf, &mut second, &PresentPorts::default()).unwrap();
    fs::write(root.join("etc/sysctl.d/90-linerate.linerate-new"), "half").unwrap();
    system.forget(&shelf, &mut second).unwrap();
    assert_eq!(fs::read_dir(root.join("etc/sysctl.d")).unwrap().count(), 0);
    // Somebody else's file is never touched.
    fs::write(root.join(own), "mine\n").unwrap();
    let (mut third, _) = confirmed(&shelf, vec![step(ecn(), "0", "2")]);
    assert!(
        system
            .keep(&shelf, &mut third, &PresentPorts::default())
            .unwrap_err()
            .contains("isn't a file of linerate's")
    );
    assert_eq!((read(own).as_str(), third.kept().is_empty()), ("mine\n", true));
}

/// systemd-sysctl.service reads sysctl.d(5) before the module of connection tracking is loaded, and ignores its
/// sysctls.
#[test]
fn sysctls_of_a_module_are_kept_by_the_unit() {
    let directory = tempfile::tempdir().unwrap();
    let (root, shelf) =
        (directory.path().join("root"), Shelf::open(&directory.path().join("state")).unwrap());
    fs::create_dir_all(root.join(UNITS)).unwrap();
    let system = System::below(&root);
    let (mut journal, _) =
        confirmed(&shelf, vec![step(sysctl("net.netfilter.nf_conntrack_max"), "65536", "131072")]);
    system.keep(&shelf, &mut journal, &PresentPorts::default()).unwrap();
    let unit = fs::read_to_string(root.join(UNITS).join(UNIT)).unwrap();
    let line = "modprobe -q nf_conntrack; sysctl -w net.netfilter.nf_conntrack_max=131072";
    assert!(unit.contains(line) && !root.join(SYSCTLS).join(OWN_SYSCTLS).exists(), "{unit}");
    system.forget(&shelf, &mut journal).unwrap();
    assert!(!root.join(UNITS).join(UNIT).exists());
}

#[test]
fn what_a_damaged_journal_forgot_goes_too() {
    let directory = tempfile::tempdir().unwrap();
    let (root, state) = (directory.path().join("root"), directory.path().join("state"));
    let (system, shelf) = (System::below(&root), Shelf::open(&state).unwrap());
    let (mut journal, _) = confirmed(&shelf, vec![step(sysctl("net.ipv4.tcp_sack"), "0", "1")]);
    system.keep(&shelf, &mut journal, &PresentPorts::default()).unwrap();
    let file = state.join(&journal.id).join("journal.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let (before, _) = text.trim_end().rsplit_once('\n').unwrap();
    fs::write(&file, format!("{before}\n\u{1}\n")).unwrap();
    let mut journal = shelf.journal(&journal.id).unwrap();
    assert!(journal.kept().is_empty() && root.join(SYSCTLS).join(OWN_SYSCTLS).exists());
    system.forget(&shelf, &mut journal).unwrap();
    assert!(!root.join(SYSCTLS).join(OWN_SYSCTLS).exists());
}

/// At a restart, files have set their values again. These values are undone even if the journal has lost the event for
/// the files, or if the files couldn't be removed before.
#[test]
fn what_files_set_at_a_start_is_restored_afterwards() {
    for is_lost in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let (root, state) = (directory.path().join("root"), directory.path().join("state"));
        let (system, shelf) = (System::below(&root), Shelf::open(&state).unwrap());
        let sack = step(sysctl("net.ipv4.tcp_sack"), "0", "1");
        let (mut journal, mut host) =
            confirmed(&shelf, vec![sack, step(Setting::IrqAffinity { irq: 24 }, "0-3", "1")]);
        system.keep(&shelf, &mut journal, &PresentPorts::default()).unwrap();
        let applied = host.values.clone();
        if !is_lost {
            undo(&mut journal, &mut host, UndoneBy::User).unwrap();
        }
        let file = state.join(&journal.id).join("journal.jsonl");
        let text = fs::read_to_string(&file).unwrap().replace(&journal.head.place.boot, "another");
        let is_there = |line: &&str| !is_lost || !line.contains("\"event\":\"kept\"");
        fs::write(&file, text.lines().filter(is_there).collect::<Vec<_>>().join("\n") + "\n").unwrap();
        host.values = applied;
        let mut journal = shelf.journal(&journal.id).unwrap();
        system.recall(&mut journal).unwrap();
        system.forget(&shelf, &mut journal).unwrap();
        let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
        assert_eq!(ends, [(0, crate::course::WayBack::Restored)], "{is_lost}");
        assert_eq!(host.values[&sysctl("net.ipv4.tcp_sack")], "0");
        assert!(!root.join(SYSCTLS).join(OWN_SYSCTLS).exists());
        assert_eq!(undo(&mut journal, &mut host, UndoneBy::User).unwrap(), []);
    }
}

/// systemd passes the line to a shell, and so does this test.
#[test]
fn a_governor_is_set_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let (root, shelf) =
        (directory.path().join("root"), Shelf::open(&directory.path().join("state")).unwrap());
    fs::create_dir_all(root.join(UNITS)).unwrap();
    let file = |cpu: u32| root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    for cpu in 0..2 {
        fs::create_dir_all(file(cpu).parent().unwrap()).unwrap();
        fs::write(file(cpu), "powersave\n").unwrap();
    }
    let (mut journal, _) = confirmed(&shelf, vec![step(Setting::Governor, "powersave", "performance")]);
    System::below(&root).keep(&shelf, &mut journal, &PresentPorts::default()).unwrap();
    let unit = fs::read_to_string(root.join(UNITS).join(UNIT)).unwrap();
    let word = unit.lines().find_map(|line| line.strip_prefix("ExecStart=-/bin/sh -c \"")).unwrap();
    let line = word.strip_suffix('"').unwrap().replace("$$", "$").replace("%%", "%");
    let line = line.replace("/sys/", &format!("{}/sys/", root.display()));
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
    for cpu in 0..2 {
        assert_eq!(fs::read_to_string(file(cpu)).unwrap(), "performance\n", "{line}");
    }
}

/// A driver refuses a command with numbers that it doesn't have, and may leave a port closed when a change fails.
#[test]
fn a_ports_coalescing_and_rings_are_kept_by_commands_that_drivers_take() {
    let directory = tempfile::tempdir().unwrap();
    let (root, shelf) =
        (directory.path().join("root"), Shelf::open(&directory.path().join("state")).unwrap());
    fs::create_dir_all(root.join(UNITS)).unwrap();
    let (now, new) = ("rx-usecs 3 rx-frames 0 adaptive-rx off", "rx-usecs 50");
    let steps = vec![
        step(Setting::Coalescing { port: "d0".into() }, now, new),
        step(Setting::Ring { port: "d0".into(), way: linerate_doctor::remedy::RingWay::Rx }, "512", "1024"),
    ];
    let mut host = Pretended::of(&steps);
    let holds = "rx-usecs 50 rx-frames 0 adaptive-rx off";
    host.rounded = Some((steps[0].setting.clone(), holds.into()));
    let mut journal = shelf.begin(steps, 60, &mut host).unwrap();
    apply(&mut journal, &mut host, &mut |_, _| {}).unwrap();
    journal.confirm().unwrap();
    assert_eq!(journal.holds(0), Some(holds));
    System::below(&root).keep(&shelf, &mut journal, &PresentPorts::default()).unwrap();
    let unit = fs::read_to_string(root.join(UNITS).join(UNIT)).unwrap();
    assert!(unit.contains("\"ethtool -C d0 rx-usecs 50\""), "{unit}");
    assert!(unit.contains("\"ethtool -G d0 rx 1024 || ip link set d0 up\""), "{unit}");
}

/// After a restart, the unit finds a port by the card's address, even if the port has another name.
#[test]
fn a_port_is_found_by_its_address_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let (root, shelf) =
        (directory.path().join("root"), Shelf::open(&directory.path().join("state")).unwrap());
    fs::create_dir_all(root.join(UNITS)).unwrap();
    let file = |port: &str| root.join(format!("sys/class/net/{port}/queues/rx-0/rps_cpus"));
    for port in ["d0", "d1", "w0"] {
        fs::create_dir_all(file(port).parent().unwrap()).unwrap();
        fs::write(file(port), "0\n").unwrap();
    }
    let steps = vec![step(Setting::Rps { port: "d0".into(), queue: 0 }, "0", "f")];
    let mac = Some("52:54:00:00:00:0a".to_owned());
    let ports = vec![crate::port::PortIdentity { name: "d0".into(), index: 3, mac }];
    let mut host = Pretended { ports, ..Pretended::of(&steps) };
    let mut journal = shelf.begin(steps, 60, &mut host).unwrap();
    apply(&mut journal, &mut host, &mut |_, _| {}).unwrap();
    journal.confirm().unwrap();
    let present = PresentPorts::of(&journal, &mut host);
    let keeping = System::below(&root).keep(&shelf, &mut journal, &present).unwrap();
    assert_eq!((keeping.kept, keeping.left), (vec![0], vec![]));
    let unit = fs::read_to_string(root.join(UNITS).join(UNIT)).unwrap();
    let word = unit.lines().find_map(|line| line.strip_prefix("ExecStart=-/bin/sh -c \"")).unwrap();
    let line = word.strip_suffix('"').unwrap().replace("$$", "$").replace("%%", "%").replace("\\\"", "\"");
    let ethtool = "ethtool() { case $2 in w0) m=0a;; d0) m=1a;; *) m=;; esac; echo Permanent address: 52:54:00:00:00:$m; }";
    let line = format!("{ethtool}\n{}", line.replace("/sys/", &format!("{}/sys/", root.display())));
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
    let values = ["d0", "d1", "w0"].map(|port| fs::read_to_string(file(port)).unwrap());
    assert_eq!(values, ["0\n", "0\n", "f\n"], "{line}");
    // What a damaged journal has lost is found again by the same lines.
    let place = shelf.path().join(&journal.id).join("journal.jsonl");
    let text = fs::read_to_string(&place).unwrap().replace("\"event\":\"kept\"", "\u{1}");
    fs::write(&place, text).unwrap();
    let mut journal = shelf.journal(&journal.id).unwrap();
    System::below(&root).recall(&mut journal).unwrap();
    assert_eq!((journal.kept(), journal.goes_by_address()), (&[0][..], true));
}

#[test]
fn words_of_systemd_are_taken_as_they_are() {
    assert_eq!(quoted(r#"echo "a" 50% $f \ "#), r#""echo \"a\" 50%% $$f \\ ""#);
    assert_eq!(device("br-lan.7"), r"sys-subsystem-net-devices-br\x2dlan.7.device");
}
