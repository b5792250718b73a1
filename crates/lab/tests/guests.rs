//! Guests that are virtual machines: programs run in them, they can't reach certain things, and nothing is left
//! of them.

mod common;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Program, can_make_labs, example, on, options, remains, text, within};
use linerate_lab::{End, GuestSpec, Lab, LabError, LabOptions, sweep};
use linerate_testing::{has, skip};

/// True if this machine can make guests; otherwise the test is skipped.
fn can_make_guests() -> bool {
    let kernel = || std::fs::read_dir("/boot").into_iter().flatten().flatten();
    if !kernel().any(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-")) {
        skip("kernel", "there is no kernel in /boot for guests");
        return false;
    }
    can_make_labs() && has("qemu-system-x86_64")
}

/// True if this machine can also make guests by user-mode Linux; otherwise the test is skipped.
fn can_make_user_mode_guests() -> bool {
    can_make_labs() && has("linux.uml")
}

fn with_guests(name: &str, guests: u32, spec: &str) -> LabOptions {
    let machine: GuestSpec = spec.parse().expect("a guest");
    LabOptions { guests, machine: Some(machine), linerate: Some(example()), ..options(name, "open") }
}

fn in_guest(lab: &Lab, guest: usize, line: &str) -> String {
    in_host(lab, &lab.guest_host(guest).expect("a virtual machine"), line)
}

/// The output of a shell line on this host, by ssh from a.
fn in_host(lab: &Lab, host: &str, line: &str) -> String {
    let config = lab.ssh_config();
    text(&on(lab, End::A, &["ssh", "-F", config.to_str().expect("a plain path"), host, line]))
}

#[test]
fn programs_of_this_host_run_in_guests_and_change_nothing_here() {
    if can_make_guests() {
        look_at_guests("guests", "vcpus=2,queues=2,memory=256MiB", "qemu", ["2", "4"]);
    }
}

#[test]
fn programs_of_this_host_run_in_user_mode_guests_too() {
    if can_make_user_mode_guests() {
        look_at_guests("user-mode", "kind=uml,memory=256MiB", "linux.uml", ["1", "1"]);
    }
}

/// Makes a lab with two guests by `program`, each of which has these numbers of processors and of queues in /sys.
fn look_at_guests(lab: &str, spec: &str, program: &str, numbers: [&str; 2]) {
    let lab = Lab::up(&with_guests(lab, 2, spec)).expect("a lab");
    let name = lab.name().to_string();
    for guest in 0..2 {
        let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("procfs");
        let script = "cat /proc/sys/kernel/random/boot_id; hostname; nproc; ls /sys/class/net/eth0/queues | wc -l; \
            ip -j address show eth0; command -v ssh";
        let seen = in_guest(&lab, guest, script);
        let lines: Vec<&str> = seen.lines().collect();
        assert_ne!(lines[0], here.trim(), "it is another system");
        assert_eq!(lines[1], format!("g{guest}"), "{seen}");
        assert_eq!(lines[2..4], numbers, "{seen}");
        assert!(seen.contains(&lab.guests()[guest].address.to_string()), "{seen}");
        assert!(lines.last().is_some_and(|path| path.ends_with("/ssh")), "this host's programs: {seen}");
    }
    let file = format!("/etc/linerate-{name}");
    let place = lab.guest_place(1).expect("a place");
    let argv = ["sh", "-c", &format!("echo x >{file} && cat {file}")].map(Into::into);
    let written = place.command(&argv).and_then(|mut command| command.output()).expect("it starts");
    assert_eq!(text(&written).trim(), "x", "a guest may write to its own layer");
    assert!(!Path::new(&file).exists(), "which this host doesn't see");
    assert!(remains(&name).iter().any(|line| line.contains(program)), "or the last line could not fail");
    lab.down().expect("all of it goes");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn guests_have_a_card_on_each_link() {
    if !can_make_guests() {
        return;
    }
    let options = LabOptions { links: Some(2), ..with_guests("cards", 1, "nic=e1000") };
    let lab = Lab::up(&options).expect("a lab");
    let seen = in_guest(&lab, 0, "basename $(readlink /sys/class/net/eth1/device/driver)");
    assert_eq!(seen.trim(), "e1000");
    for port in lab.guests()[0].ports() {
        in_host(&lab, &port.address.to_string(), "true");
    }
    lab.down().expect("all of it goes");
}

#[test]
fn impossible_guests_are_refused_with_the_reason() {
    if !can_make_guests() {
        return;
    }
    let none = tempfile::tempdir().expect("a temporary directory");
    let kernel = LabOptions { kernel: Some(none.path().into()), ..with_guests("nokernel", 1, "vcpus=1") };
    let error = Lab::up(&kernel).expect_err("there is no kernel");
    assert!(matches!(error, LabError::Kernel { .. }), "{error}");
    let fault = LabOptions { guests: 0, ..with_guests("nobody", 1, "vcpus=1") };
    assert!(Lab::up(&fault).expect_err("no guests").to_string().contains("number of guests is 0"));
    let odd = LabOptions { linerate: Some("/bin/true".into()), ..with_guests("odd", 1, "vcpus=1") };
    let error = Lab::up(&odd).expect_err("its first process ends").to_string();
    assert!(error.contains("a guest doesn't run"), "{error}");
    for options in [kernel, fault, odd] {
        assert_eq!(remains(options.name.expect("given").as_str()), Vec::<String>::new());
    }
}

#[test]
fn a_kill_leaves_no_guest() {
    if can_make_guests() {
        kill_at_moments("killed", "vcpus=1", "qemu", Duration::from_secs(8));
    }
}

#[test]
fn a_kill_leaves_no_user_mode_guest() {
    if can_make_user_mode_guests() {
        kill_at_moments("killed-user-mode", "kind=uml", "linux.uml", Duration::from_secs(4));
    }
}

/// Kills the program at moments that are spread over the time in which it makes a lab with guests, and some after it.
/// `LINERATE_TEST_KILLS=20` kills at 20 moments.
fn kill_at_moments(lab: &str, guest: &str, program_of_guests: &str, spread: Duration) {
    let kills: u32 = std::env::var("LINERATE_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let program = Program::for_user(0);
    for number in 0..kills {
        let name = format!("test-{lab}-{number}-{}", std::process::id());
        let argv = ["--guests", "2", "--guest", guest, "--name", &name, "sleep", "60"];
        let mut child = program.command(&argv).stdout(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(spread * (number + 1) / kills);
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        let begun = Instant::now();
        let machines = || remains(&name).into_iter().filter(|line| line.contains(program_of_guests)).count();
        assert!(within(Duration::from_secs(5), || machines() == 0), "{:?}", remains(&name));
        assert!(begun.elapsed() < Duration::from_secs(5));
        sweep().expect("the state is readable");
        assert_eq!(remains(&name), Vec::<String>::new());
    }
}
