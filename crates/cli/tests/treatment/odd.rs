//! Tests of treatments in unusual situations: renamed ports, lost journals, and plans of other hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_testing::skip;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::host::Ill;
use super::support::{Running, send, within};
use super::{DEADLINE, PROGRAM, far_shell, planned};

/// Writes a plan with these steps for this host, and returns its path.
pub fn planned_for(host: &str, directory: &Path, name: &str, steps: &[Value]) -> PathBuf {
    let plan =
        json!({"type": "doctor-plan", "schema": 1, "host": host, "steps": steps, "left": [], "advice": []});
    let file = directory.join(name);
    fs::write(&file, plan.to_string()).unwrap();
    file
}

fn step(setting: Value, before: &str, new: &str) -> Value {
    json!({"checks": ["x"], "setting": setting, "before": before, "new": new})
}

/// Writes a plan with all kinds of changes that port v0 supports.
fn of_v0(host: &Ill) -> PathBuf {
    let steps = [
        step(json!({"kind": "sysctl", "key": "net.ipv4.tcp_sack"}), "0", "1"),
        step(json!({"kind": "mtu", "port": "v0"}), "1500", "9000"),
        step(json!({"kind": "feature", "port": "v0", "feature": "tx-tcp-segmentation"}), "off", "on"),
        step(json!({"kind": "qdisc", "port": "v0"}), "noqueue", "pfifo_fast"),
        step(json!({"kind": "rps", "port": "v0", "queue": 0}), "0", "1"),
        step(json!({"kind": "xps", "port": "v0", "queue": 0}), "0", "1"),
    ];
    planned(host.directory.path(), "v0.json", &steps)
}

/// The settings of a port that `of_v0` changes.
fn state_of(host: &Ill, port: &str) -> String {
    host.sh(&format!(
        "cat /sys/class/net/{port}/mtu /proc/sys/net/ipv6/conf/{port}/mtu 2>/dev/null || true
         ethtool -k {port} | grep 'tx-tcp-segmentation:'; tc qdisc show dev {port}
         cat /sys/class/net/{port}/queues/rx-0/rps_cpus /sys/class/net/{port}/queues/tx-0/xps_cpus"
    ))
}

/// Renames v0, and gives its old name to a new port with the same settings.
fn rename_v0(host: &Ill) {
    host.sh("ip link set v0 down; ip link set v0 name w0; ip link set w0 up
         ip link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v7 numrxqueues 2 numtxqueues 2
         ip link set v0 mtu 9000 up; tc qdisc replace dev v0 root pfifo_fast
         echo 1 > /sys/class/net/v0/queues/rx-0/rps_cpus; echo 1 > /sys/class/net/v0/queues/tx-0/xps_cpus");
}

#[test]
fn a_port_with_another_name_is_undone_and_its_namesake_stays() {
    let Some(host) = Ill::host() else { return };
    let plan = of_v0(&host);
    let from = ["--from-plan", plan.to_str().unwrap()];
    let before = state_of(&host, "v0");
    let id = host.apply(&from);
    rename_v0(&host);
    let namesake = state_of(&host, "v0");
    assert_ne!(state_of(&host, "w0"), before);
    let run = host.doctor(&["--undo", &id]).end().exits(0).says(&["the port v0 is named w0 now"]);
    assert!(run.out.contains("w0's MTU is as before") && !run.out.contains("v0's"), "{run}");
    assert_eq!((state_of(&host, "w0"), state_of(&host, "v0")), (before, namesake));
}

#[test]
fn the_undo_timer_finds_a_port_with_another_name_and_leaves_one_that_is_gone() {
    let Some(host) = Ill::host() else { return };
    let plan = of_v0(&host);
    let from = ["--from-plan", plan.to_str().unwrap()];
    let before = state_of(&host, "v0");
    host.apply(&[&from[..], &["--confirm-within", "3"]].concat());
    rename_v0(&host);
    let namesake = state_of(&host, "v0");
    assert!(within(DEADLINE, || state_of(&host, "w0") == before), "{}", state_of(&host, "w0"));
    assert_eq!(state_of(&host, "v0"), namesake);
    assert!(within(DEADLINE, || host.undo_timers().is_empty()));
    // A port that was made anew under the name is another one.
    host.sh("ip link del v0; ip link set w0 down; ip link set w0 name v0; ip link set v0 up; sysctl -qw net.ipv4.tcp_sack=0");
    let id = host.apply(&from);
    host.sh("ip link del v0");
    host.sh("ip link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1; ip link set v0 mtu 9000");
    let namesake = state_of(&host, "v0");
    let run = host.doctor(&["--undo", &id]).end().exits(3);
    let gone = "v0's MTU is not as before: the port v0 is gone: nothing to restore";
    assert!(run.out.contains(gone) && run.out.contains("net.ipv4.tcp_sack is as before"), "{run}");
    assert_eq!(state_of(&host, "v0"), namesake);
}

/// A kept setting is applied by the port's name at each boot.
#[test]
fn a_port_with_another_name_is_not_kept() {
    let Some(host) = Ill::host() else { return };
    let root = host.directory.path().join("root");
    fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
    let plan = of_v0(&host);
    let id = host.apply(&["--from-plan", plan.to_str().unwrap()]);
    rename_v0(&host);
    host.doctor(&["--confirm", &id]).end().exits(0);
    let run = host.doctor(&["--persist", &id, "--system", root.to_str().unwrap()]).end().exits(3);
    let left = "v0's MTU is not kept: its port has another name now: the setting is w0's MTU";
    assert!(run.out.contains(left) && run.out.contains("net.ipv4.tcp_sack is kept"), "{run}");
    assert!(!root.join("etc/systemd/system/linerate-doctor.service").exists());
}

/// As long as a treatment's undo timer hasn't finished, no other treatment may start, even if the journal is
/// lost.
#[test]
fn a_lost_journal_blocks_the_next_treatment() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let apply = ["--apply", "--yes", "--only", "tcp-sack,tcp-buffers"];
    let empty = |id: &str| fs::write(host.state().join(id).join("journal.jsonl"), "").unwrap();
    let id = host.apply(&["--only", "tcp-sack", "--confirm-within", "8"]);
    empty(&id);
    let undo_timer = format!("the undo timer of {id} (process {})", host.undo_timers()[0]);
    host.doctor(&apply).end().exits(1).says(&["reading", &undo_timer, "wait until it has ended"]);
    host.doctor(&["--undo", &id]).end().exits(1).says(&[&undo_timer, "wait until it has ended"]);
    let run = host.doctor(&["--applied"]).end().exits(3);
    assert_eq!(run.err.matches("can't be").count() + run.err.matches(&undo_timer).count(), 1, "{run}");
    assert!(within(DEADLINE, || host.undo_timers().is_empty()));
    assert_eq!(host.differing(&before), Vec::<String>::new());
    // A treatment that was undone completely is over.
    let run = host.doctor(&["--applied"]).end().exits(0);
    assert!(run.err.is_empty() && run.out.contains(&id) && run.out.contains("  undone"), "{run}");
    let id = host.apply(&["--only", "tcp-sack"]);
    empty(&id);
    host.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
    assert!(within(DEADLINE, || host.undo_timers().is_empty()));
    let place = host.state().join(&id);
    let remove = format!("then remove {}", place.display());
    host.doctor(&apply).end().exits(1).says(&["can't be undone any more", &remove]);
    fs::remove_dir_all(place).unwrap();
    host.sh("sysctl -qw net.ipv4.tcp_sack=0");
    let id = host.apply(&["--only", "tcp-sack"]);
    host.doctor(&["--undo", &id]).end().exits(0);
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

#[test]
fn damage_is_said_once_and_never_of_what_is_past() {
    let Some(host) = Ill::host() else { return };
    let id = host.apply(&["--only", "tcp-sack,tcp-buffers", "--confirm-within", "1"]);
    host.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
    let path = host.state().join(&id).join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.lines().next().unwrap().to_owned() + "\n{\n").unwrap();
    let mut reported = String::new();
    let swept = || {
        let run = host.doctor(&["--applied"]).end().exits(0);
        reported = run.err.clone();
        run.out.contains("  undone")
    };
    assert!(within(DEADLINE, swept));
    assert_eq!(reported.matches("is damaged").count(), 1, "{reported}");
    for words in [&["--applied"][..], &["--undo", &id]] {
        let run = host.doctor(words).end().exits(0);
        assert!(!run.err.contains("damaged"), "{run}");
    }
}

#[test]
fn a_plan_is_for_its_host_and_for_what_checks_propose() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let sack = step(json!({"kind": "sysctl", "key": "net.ipv4.tcp_sack"}), "0", "1");
    let forward = step(json!({"kind": "sysctl", "key": "net.ipv4.ip_forward"}), "0", "1");
    let file = |of: &str, steps: &[Value]| planned_for(of, host.directory.path(), of, steps);
    let (ours, theirs) = (file("local", &[forward]), file("root@far", &[sack]));
    let apply = |plan: &Path| host.doctor(&["--apply", "--yes", "--from-plan", plan.to_str().unwrap()]).end();
    apply(&theirs).exits(2).says(&["is a plan of far, not of local"]);
    let run = apply(&ours).exits(3);
    for part in ["net.ipv4.ip_forward: no check proposes to change this setting", "nothing was changed"] {
        assert!(run.out.contains(part), "{part}: {run}");
    }
    assert_eq!(host.differing(&before), Vec::<String>::new());
    // A plan that was made of the far host is for that host.
    let (shell, cache) = (far_shell(&host), host.directory.path().join("cache"));
    let near = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("doctor").args(words).args(["--rsh", &shell, "--state"]).arg(host.state());
        command.env("XDG_CACHE_HOME", &cache);
        Running::start(command).end()
    };
    let from = |plan: &Path| near(&["--apply", "--yes", "--from-plan", plan.to_str().unwrap(), "far"]);
    from(&ours).exits(2).says(&["is a plan of local, not of far"]);
    let plan = near(&["--apply", "--plan", "--json", "--only", "tcp-sack", "far"]).exits(0);
    let made = host.directory.path().join("made");
    fs::write(&made, &plan.out).unwrap();
    let run = from(&made).exits(0);
    // The command that confirms leads to the host in the same way.
    let line = run.out.lines().find_map(|line| line.trim().strip_prefix("linerate doctor ")).unwrap();
    let mut words = vec![PROGRAM.to_owned(), "doctor".into()];
    words.extend(shlex::split(line).unwrap());
    let mut confirm = Command::new(&words[0]);
    confirm.args(&words[1..]).env("XDG_CACHE_HOME", &cache);
    let run = Running::start(confirm).end().exits(0);
    let undo = format!("linerate doctor --undo {} --state {} --rsh", words[3], host.state().display());
    assert!(run.out.contains("is confirmed") && run.out.contains(&undo), "{run}");
    near(&["--undo", &words[3], "far"]).exits(0);
    let run = from(&theirs).exits(0);
    near(&["--undo", run.out.split("--confirm ").nth(1).unwrap().split_whitespace().next().unwrap(), "far"])
        .exits(0);
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

#[test]
fn a_plan_s_values_are_those_that_checks_propose() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let sysctl = |key: &str| json!({"kind": "sysctl", "key": format!("net.ipv4.{key}")});
    let steps = [
        (json!({"kind": "quantum", "port": "v0"}), "", "fq_codel 9014", "no discipline with a quantum"),
        // A kernel without it says so first.
        (json!({"kind": "qdisc", "port": "v0"}), "noqueue", "tbf", "tbf"),
        (sysctl("tcp_rmem"), "4096 131072 262144", "4096 131072 0x7000000", "\"0x7000000\" is no number"),
        (sysctl("tcp_wmem"), "4096 16384 262144", "4096 16384 2147483648", "2147483648 is too large"),
        (sysctl("tcp_sack"), "0", "3", "\"3\" isn't among the values"),
        (sysctl("tcp_window_scaling"), "0", "1\n", "isn't among the values"),
        (json!({"kind": "mtu", "port": "v0"}), "1500", "9217", "9217 is too large"),
        (json!({"kind": "rps", "port": "v0", "queue": 0}), "0", "x", "\"x\" names no processors"),
        (sysctl("tcp_moderate_rcvbuf"), "0", "1", ""),
    ];
    let list: Vec<Value> =
        steps.iter().map(|(setting, now, new, _)| step(setting.clone(), now, new)).collect();
    let file = planned(host.directory.path(), "values.json", &list);
    let reported = host.json(&["--apply", "--yes", "--from-plan", file.to_str().unwrap()]);
    let left: Vec<_> =
        reported["left"].as_array().unwrap().iter().map(|left| left["why"].as_str().unwrap()).collect();
    assert_eq!((left.len(), reported["steps"].as_array().unwrap().len()), (steps.len() - 1, 1), "{reported}");
    for ((.., part), why) in steps.iter().zip(&left) {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert_eq!(host.differing(&before).len(), 1, "{:?}", host.differing(&before));
    host.doctor(&["--undo", reported["id"].as_str().unwrap()]).end().exits(0);
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

#[test]
fn wrong_names_and_rates_are_refused_with_what_may_be_meant() {
    for option in ["--only", "--skip"] {
        let mut command = Command::new(PROGRAM);
        command.args(["doctor", option, "rx-rng"]);
        Running::start(command).end().exits(2).says(&["the nearest names: rx-ring, "]);
    }
    let mut command = Command::new(PROGRAM);
    command.args(["doctor", "--target", "99999999999999999999gbit"]);
    Running::start(command).end().exits(2).says(&["is too large for a rate"]);
}

#[test]
fn without_root_it_says_what_to_do() {
    let Some(host) = Ill::host() else { return };
    let mut command = Command::new("ip");
    let script =
        format!("exec setpriv --reuid 65534 --regid 65534 --clear-groups {PROGRAM} doctor --apply --yes");
    command.args(["netns", "exec", &host.name, "sh", "-c", &script]);
    if !linerate_testing::has("setpriv") {
        return skip("setpriv", "there is no setpriv");
    }
    let before = host.settings();
    let run = Running::start(command).end();
    // A build below a private directory can't be run by that user at all.
    if run.code != Some(126) && run.code != Some(127) {
        run.exits(1).says(&["needs root", "sudo linerate"]);
    }
    assert_eq!(host.differing(&before), Vec::<String>::new());
}
