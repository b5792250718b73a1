//! Tests of `linerate doctor --apply` and of taking changes back, in separate network namespaces. This
//! machine itself isn't changed: every command runs in such a namespace, in which only the namespace's
//! settings can be changed.

#[path = "treatment/guests.rs"]
mod guests;
#[path = "treatment/host.rs"]
mod host;
#[path = "treatment/lost.rs"]
mod lost;
#[path = "treatment/odd.rs"]
mod odd;
#[path = "treatment/restart.rs"]
mod restart;
#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use host::Ill;
use linerate_testing::skip;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Running, send, within};

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");
/// A time that suffices for an undo timer with a deadline of five seconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// Writes a plan with changes of all kinds that a virtual port supports, and returns its path.
fn everything(host: &Ill) -> PathBuf {
    let step = |setting: Value, before: &str, new: &str| json!({"checks": ["rx-ring"], "setting": setting, "before": before, "new": new});
    let mut steps = vec![
        step(
            json!({"kind": "sysctl", "key": "net.ipv4.tcp_rmem"}),
            "4096 131072 262144",
            "4096 131072 33554432",
        ),
        step(
            json!({"kind": "sysctl", "key": "net.ipv4.tcp_wmem"}),
            "4096 16384 262144",
            "4096 16384 33554432",
        ),
        step(json!({"kind": "sysctl", "key": "net.ipv4.tcp_sack"}), "0", "1"),
        step(json!({"kind": "sysctl", "key": "net.core.somaxconn"}), "4096", "8192"),
        step(json!({"kind": "mtu", "port": "v0"}), "1500", "9000"),
        step(json!({"kind": "feature", "port": "v0", "feature": "tx-tcp-segmentation"}), "off", "on"),
        step(json!({"kind": "rps", "port": "v0", "queue": 0}), "0", "1"),
        step(json!({"kind": "rps", "port": "v0", "queue": 1}), "0", "1"),
        step(json!({"kind": "qdisc", "port": "v0"}), "noqueue", "pfifo_fast"),
    ];
    if host.sh("ethtool -l v0 | grep -c '^RX:.*2' || true").trim() != "0" {
        steps.push(step(json!({"kind": "channels", "port": "v0", "queues": "rx"}), "2", "2"));
    }
    planned(host.directory.path(), "plan.json", &steps)
}

/// Writes a plan with these steps, and returns its path.
fn planned(directory: &Path, name: &str, steps: &[Value]) -> PathBuf {
    odd::planned_for("local", directory, name, steps)
}

#[test]
fn a_plan_changes_nothing_and_nobody_is_asked_without_a_terminal() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let one = host.doctor(&["--only", "tcp-sack"]).end().exits(0);
    assert!(one.out.contains("1 check: "), "{one}");
    let found = host.doctor(&[]).end().exits(0);
    assert!(found.out.contains(": linerate doctor --apply --plan; "), "{found}");
    let run = host.doctor(&["--apply", "--plan"]).end().exits(0);
    for part in [
        "net.ipv4.tcp_rmem  [tcp-buffers]",
        "now   4096 131072 262144",
        "undo  sysctl -w net.ipv4.tcp_sack=0",
    ] {
        assert!(run.out.contains(part), "{part}: {run}");
    }
    host.doctor(&["--apply"]).end().exits(2).says(&["--yes applies the changes"]);
    host.doctor(&["--apply", "--json"]).end().exits(2).says(&["add --yes, or --plan"]);
    let reported = host.json(&["--apply", "--plan"]);
    assert_eq!((&reported["type"], &reported["schema"]), (&"doctor-plan".into(), &1.into()));
    assert!(reported["steps"].as_array().unwrap().len() >= 4, "{reported}");
    assert_eq!(host.differing(&before), Vec::<String>::new());
    assert!(!host.state().exists(), "a plan leaves no journal");
}

#[test]
fn what_was_applied_is_undone_exactly_and_again() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let plan = everything(&host);
    let reported = host.json(&["--apply", "--yes", "--from-plan", plan.to_str().unwrap()]);
    let steps = reported["steps"].as_array().unwrap();
    let refused: Vec<_> = steps.iter().filter(|step| step["holds"].is_null()).collect();
    assert!(refused.is_empty() && steps.len() >= 8, "{reported}");
    assert!(host.differing(&before).len() >= 8, "{:?}", host.differing(&before));
    let id = reported["id"].as_str().unwrap();
    for _ in 0..2 {
        host.doctor(&["--undo", id]).end().exits(0);
        assert_eq!(host.differing(&before), Vec::<String>::new());
    }
    // The printed commands do the same.
    let shown = host.doctor(&["--apply", "--plan", "--from-plan", plan.to_str().unwrap()]).end().exits(0);
    let mut undo: Vec<_> = shown.out.lines().filter_map(|line| line.strip_prefix("   undo  ")).collect();
    undo.reverse();
    let id = host.apply(&["--from-plan", plan.to_str().unwrap()]);
    host.sh(&undo.join("\n"));
    assert_eq!((undo.len(), host.differing(&before)), (steps.len(), Vec::new()));
    host.doctor(&["--undo", &id]).end().exits(0);
    // The undo timer has nothing to wait for.
    assert!(within(DEADLINE, || host.undo_timers().is_empty()));
    assert_eq!(host.json(&["--applied"])["treatments"][0]["standing"], "undone");
}

/// Side effects are also undone: setting an MTU changes the MTU of IPv6, and a congestion control may
/// become available to all users.
#[test]
fn what_is_changed_by_the_way_is_as_before() {
    let Some(host) = Ill::host() else { return };
    if !Path::new("/proc/sys/net/ipv6").exists() {
        return skip("IPv6", "this kernel has none");
    }
    host.sh("ip link add v0.7 type veth peer name v8; ip link set v0.7 up; ip link set v0 mtu 9000
         sysctl -qw net.ipv6.conf.v0.mtu=1400 net/ipv6/conf/v0.7/mtu=1300");
    let mtu = |port: &str, before: &str, new: &str| json!({"checks": ["jumbo-frames"], "setting": {"kind": "mtu", "port": port}, "before": before, "new": new});
    let steps = [mtu("v0", "9000", "9100"), mtu("v0.7", "1500", "9000")];
    let file = planned(host.directory.path(), "mtu.json", &steps);
    let before = host.settings();
    let id = host.apply(&["--from-plan", file.to_str().unwrap()]);
    let changed = host.differing(&before);
    assert_eq!(changed.iter().filter(|line| line.contains("/ipv6/")).count(), 2, "{changed:?}");
    host.doctor(&["--undo", &id]).end().exits(0);
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

#[test]
fn a_damaged_journal_is_named_and_takes_everything_back() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let plan = everything(&host);
    let from = ["--from-plan", plan.to_str().unwrap()];
    let cut = |id: &str| {
        let path = host.state().join(id).join("journal.jsonl");
        let text = fs::read(&path).unwrap();
        let first = text.iter().position(|byte| *byte == b'\n').unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(first as u64 + 6).unwrap();
    };
    // The undo timer knows what it has read.
    let id = host.apply(&[&from[..], &["--confirm-within", "2"]].concat());
    cut(&id);
    assert!(within(DEADLINE, || host.differing(&before).is_empty()), "{:?}", host.differing(&before));
    assert!(within(DEADLINE, || host.undo_timers().is_empty()));
    // Without the undo timer only the first line is left.
    let id = host.apply(&from);
    host.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
    cut(&id);
    host.doctor(&["--undo", &id]).end().exits(0).says(&["journal", "is damaged"]);
    assert_eq!(host.differing(&before), Vec::<String>::new());
    // Without the first line nothing is known, and the list is incomplete.
    fs::write(host.state().join(&id).join("journal.jsonl"), "{\n").unwrap();
    let run = host.doctor(&["--applied"]).end().exits(3).says(&["reading", &id]);
    assert!(run.out.contains("1 treatment's journal can't be read"), "{run}");
    assert!(run.out.contains("  undone"), "the other one: {run}");
}

#[test]
fn a_plan_leaves_what_somebody_has_changed_since() {
    let Some(host) = Ill::host() else { return };
    let plan = host.json(&["--apply", "--plan", "--only", "tcp-buffers,tcp-sack"]);
    let file = host.directory.path().join("old.json");
    fs::write(&file, plan.to_string()).unwrap();
    host.sh("sysctl -qw 'net.ipv4.tcp_rmem=4096 131072 300000'");
    let reported = host.json(&["--apply", "--yes", "--from-plan", file.to_str().unwrap()]);
    let left = reported["left"].to_string();
    assert!(left.contains("300000 now, and was 4096 131072 262144 when the plan was made"), "{reported}");
    assert!(reported["steps"].to_string().contains("tcp_sack"), "{reported}");
    assert_eq!(host.sh("sysctl -n net.ipv4.tcp_rmem").split_whitespace().last(), Some("300000"));
    let whole = host.doctor(&["local", "local", "--only", "tcp-buffers"]).end().exits(0);
    assert!(!whole.out.contains("local, local"), "a host is examined once: {whole}");
}

#[test]
fn without_a_confirmation_all_is_undone_in_time() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let id = host.apply(&["--confirm-within", "2"]);
    assert!(!host.differing(&before).is_empty());
    // One at a time, until it is confirmed.
    let plan = everything(&host);
    host.doctor(&["--apply", "--yes", "--from-plan", plan.to_str().unwrap()])
        .end()
        .exits(1)
        .says(&["isn't confirmed"]);
    assert!(within(DEADLINE, || host.differing(&before).is_empty()), "{:?}", host.differing(&before));
    assert!(within(DEADLINE, || host.undo_timers().is_empty()));
    host.doctor(&["--confirm", &id]).end().exits(1).says(&["undone already"]);
}

#[test]
fn only_another_login_confirms() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let first = Some("10.0.0.1 5000 10.0.0.2 22");
    let mut older = host.command("sh");
    let confirming =
        format!("read id; exec {PROGRAM} doctor --confirm $id --state {}", host.state().display());
    older.args(["-c", &confirming]).env("SSH_CONNECTION", "10.0.0.1 4000 10.0.0.2 22");
    let mut older = older.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let run =
        host.doctor_from(first, &["--apply", "--yes", "--json", "--confirm-within", "20"]).end().exits(0);
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    let id = reported["id"].as_str().unwrap();
    host.doctor_from(first, &["--confirm", id]).end().exits(1).says(&["confirm them from a new login"]);
    // Another login, which is there since before the changes: the window of a tmux.
    writeln!(older.stdin.take().unwrap(), "{id}").unwrap();
    let refused = older.wait_with_output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && why.contains("older than the changes"), "{why}");
    host.doctor_from(Some("10.0.0.1 5001 10.0.0.2 22"), &["--confirm", id]).end().exits(0);
    assert!(within(DEADLINE, || host.undo_timers().is_empty()));
    sleep(Duration::from_secs(1));
    assert!(!host.differing(&before).is_empty(), "it was confirmed");
    // What somebody else changes later stays, unless the user insists.
    host.sh("sysctl -qw net.ipv4.tcp_rmem='4096 131072 50000000'");
    host.doctor(&["--undo", id]).end().exits(3);
    assert_eq!(host.differing(&before).len(), 1, "{:?}", host.differing(&before));
    let reported = host.json(&["--applied"]);
    assert_eq!(reported["treatments"][0]["left"], json!(["net.ipv4.tcp_rmem"]), "{reported}");
    host.doctor(&["--undo", id, "--force"]).end().exits(0);
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

/// The command is killed at a random time within its duration of a few tens of milliseconds.
#[test]
fn killed_at_any_moment_it_can_be_undone() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let plan = everything(&host);
    let mut touched = 0;
    for moment in 0..24 {
        let words = ["--apply", "--yes", "--from-plan", plan.to_str().unwrap(), "--confirm-within", "1"];
        let running = host.doctor(&words);
        // What ip(8) starts keeps its process.
        let begun = within(DEADLINE, || host.state().read_dir().is_ok_and(|mut all| all.next().is_some()));
        assert!(begun, "no journal");
        sleep(Duration::from_millis(moment * 2));
        running.signal(Signal::KILL);
        drop(running.end());
        touched += usize::from(!host.differing(&before).is_empty());
        if moment % 2 == 0 {
            // Both die: the next run finds the journal.
            host.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
            let back = || {
                host.doctor(&[]).end().exits(0);
                host.differing(&before).is_empty()
            };
            assert!(within(DEADLINE, back), "moment {moment}: {:?}", host.differing(&before));
        } else if moment % 3 == 0 {
            // The undo timer alone does it.
            assert!(within(DEADLINE, || host.differing(&before).is_empty()), "moment {moment}");
            assert!(within(DEADLINE, || host.undo_timers().is_empty()));
        } else {
            let reported = host.json(&["--applied"]);
            for treatment in reported["treatments"].as_array().unwrap() {
                host.doctor(&["--undo", treatment["id"].as_str().unwrap()]).end().exits(0);
            }
        }
        assert_eq!(host.differing(&before), Vec::<String>::new(), "moment {moment}");
        fs::remove_dir_all(host.state()).unwrap();
        host.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
    }
    assert!(touched >= 3, "only {touched} of the kills came while something was changed");
}

#[test]
fn what_cannot_be_done_is_refused_and_said() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    host.sh("tc qdisc replace dev v1 root pfifo limit 77");
    let step =
        |setting: Value, new: &str| json!({"checks": ["x"], "setting": setting, "before": "0", "new": new});
    let steps = [
        (json!({"kind": "sysctl", "key": "vm.dirty_ratio"}), "99", "belongs to the whole host"),
        (json!({"kind": "governor"}), "performance", "governor"),
        (json!({"kind": "ring", "port": "v0", "way": "rx"}), "4096", "doesn't support"),
        (json!({"kind": "channels", "port": "v0", "queues": "rx"}), "64", "at most"),
        (json!({"kind": "mtu", "port": "v0"}), "70000", "at most"),
        (json!({"kind": "qdisc", "port": "v0"}), "no_such", "this kernel has no no_such"),
        (json!({"kind": "qdisc", "port": "v1"}), "fq", "somebody has chosen pfifo"),
        (json!({"kind": "sysctl", "key": "net.ipv4.tcp_congestion_control"}), "nonesuch", "this kernel has"),
        (json!({"kind": "sysctl", "key": "net.ipv4.tcp_rmem"}), "4096 131072 4096", "is less"),
        (json!({"kind": "feature", "port": "nowhere", "feature": "rx-gro"}), "on", "no such port"),
        (json!({"kind": "sysctl", "key": "net.ipv4/../kernel.x"}), "1", "no host has such a setting"),
    ];
    let list: Vec<Value> = steps.iter().map(|(setting, new, _)| step(setting.clone(), new)).collect();
    let file = planned(host.directory.path(), "refused.json", &list);
    let reported = host.json(&["--apply", "--yes", "--from-plan", file.to_str().unwrap()]);
    assert!(reported["id"].is_null() && reported["steps"].as_array().unwrap().is_empty(), "{reported}");
    let left = reported["left"].as_array().unwrap();
    assert_eq!(left.len(), steps.len(), "{reported}");
    for ((_, _, why), left) in steps.iter().zip(left) {
        assert!(left["why"].as_str().unwrap().contains(why), "{why}: {left}");
    }
    host.sh("tc qdisc del dev v1 root");
    assert_eq!(host.differing(&before), Vec::<String>::new());
    // What no plan is.
    fs::write(&file, r#"{"type":"doctor-plan","schema":2}"#).unwrap();
    host.doctor(&["--apply", "--yes", "--from-plan", file.to_str().unwrap()]).end().exits(2);
    host.doctor(&["--undo", "../x"]).end().exits(1).says(&["there is no treatment"]);
    host.doctor(&["--apply", "--only", "no-such"]).end().exits(2).says(&["there is no check"]);
}

#[test]
fn a_namespace_sets_only_allowed_congestion_controls_and_keeps_nothing() {
    let Some(host) = Ill::host() else { return };
    let words = |name: &str| -> Vec<String> {
        let text = host.sh(&format!("cat /proc/sys/net/ipv4/{name}"));
        text.split_whitespace().map(str::to_owned).collect()
    };
    let plan = host.doctor(&["--apply", "--plan"]).end().exits(0);
    assert!(plan.out.contains("until the host restarts") && !plan.out.contains("--persist"), "{plan}");
    let allowed = words("tcp_allowed_congestion_control");
    let other = words("tcp_available_congestion_control").into_iter().find(|one| !allowed.contains(one));
    let Some(other) = other else { return skip("congestion controls", "all are allowed here") };
    let now = words("tcp_congestion_control").remove(0);
    let step = json!({"checks": ["congestion-control"], "setting": {"kind": "sysctl", "key": "net.ipv4.tcp_congestion_control"}, "before": now, "new": other});
    let file = planned(host.directory.path(), "control.json", &[step]);
    let reported = host.json(&["--apply", "--plan", "--from-plan", file.to_str().unwrap()]);
    assert_eq!(reported["steps"], json!([]));
    assert!(reported["left"][0]["why"].as_str().unwrap().contains("the kernel allows"), "{reported}");
}

#[test]
fn what_is_kept_lies_in_files_of_its_own_that_go_with_it() {
    let Some(host) = Ill::host() else { return };
    let root = host.directory.path().join("root");
    fs::create_dir_all(root.join("etc/sysctl.d")).unwrap();
    fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
    fs::write(root.join("etc/sysctl.d/10-site.conf"), "net.ipv4.tcp_wmem = 4096 16384 262144\n").unwrap();
    fs::write(root.join("etc/sysctl.d/99-site.conf"), "net.ipv4.tcp_sack = 0\n").unwrap();
    let system = ["--system", root.to_str().unwrap()];
    let with = |words: &[&str]| host.doctor(&[words, &system].concat()).end();
    let before = host.settings();
    let plan = with(&["--apply", "--plan"]).exits(0);
    for part in [
        "owner /etc/sysctl.d/10-site.conf sets it to 4096 16384 262144",
        "keeps it in /etc/sysctl.d/90-linerate.conf",
    ] {
        assert!(plan.out.contains(part), "{part}: {plan}");
    }
    let plan = everything(&host);
    let id = host.apply(&["--from-plan", plan.to_str().unwrap()]);
    with(&["--persist", &id]).exits(1).says(&["isn't confirmed"]);
    host.doctor(&["--confirm", &id]).end().exits(0);
    host.doctor(&["--persist", &id]).end().exits(1).says(&["a container or a network namespace"]);
    // Another's file sets one of them later: it stays with its owner.
    let run = with(&["--persist", &id]).exits(3);
    assert!(run.out.contains("net.ipv4.tcp_sack is not kept: /etc/sysctl.d/99-site.conf sets it"), "{run}");
    let (own, unit) =
        (root.join("etc/sysctl.d/90-linerate.conf"), root.join("etc/systemd/system/linerate-doctor.service"));
    let kept = fs::read_to_string(&own).unwrap();
    assert!(
        kept.contains("net.ipv4.tcp_rmem = 4096 131072 33554432") && !kept.contains("tcp_sack"),
        "{kept}"
    );
    // What a start of the host makes of the files is what was applied.
    let text = fs::read_to_string(&unit).unwrap();
    let applied = host.settings();
    host.sh("sysctl -qw net.ipv4.tcp_rmem='4096 131072 262144'; ip link set v0 mtu 1500; ethtool -K v0 tx-tcp-segmentation off >/dev/null");
    assert!(host.differing(&applied).len() >= 3);
    let commands = text.lines().filter_map(|line| line.strip_prefix("ExecStart=-/bin/sh -c "));
    let script: Vec<&str> = commands.map(|quoted| quoted.trim_matches('"')).collect();
    assert!(script.len() >= 4 && script.iter().all(|line| !line.contains(['\\', '%'])), "{text}");
    host.sh(&format!("sysctl -qp {}; {}", own.display(), script.join("; ").replace("$$", "$")));
    assert_eq!(host.differing(&applied), Vec::<String>::new());
    assert!(
        text.contains("ethtool -K v0 tx-tcp-segmentation on") && text.contains("ip link set v0 mtu 9000"),
        "{text}"
    );
    with(&["--undo", &id]).exits(0);
    assert!(!own.exists() && !unit.exists());
    assert_eq!(fs::read_dir(root.join("etc/sysctl.d")).unwrap().count(), 2);
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

/// The test simulates a restart of the host: changes that weren't kept are lost, and the journal belongs to
/// an earlier boot.
#[test]
fn after_a_restart_only_what_was_kept_is_undone() {
    let Some(host) = Ill::host() else { return };
    let root = host.directory.path().join("root");
    fs::create_dir_all(root.join("etc/sysctl.d")).unwrap();
    let system = ["--system", root.to_str().unwrap()];
    let before = host.settings();
    let restart = |id: &str| {
        host.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
        let path = host.state().join(id).join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert!(text.contains(boot.trim()));
        fs::write(&path, text.replace(boot.trim(), "0b5e55ed-0000-4000-8000-000000000000")).unwrap();
    };
    let standing = |id: &str| {
        let reported = host.json(&["--applied"]);
        let all = reported["treatments"].as_array().unwrap().iter();
        let one =
            all.filter(|treatment| treatment["id"] == id).map(|treatment| treatment["standing"].to_string());
        one.collect::<String>()
    };
    // Not confirmed, nor kept: somebody has set the same since, which isn't this program's any more.
    let id = host.apply(&[]);
    restart(&id);
    let now = host.settings();
    host.doctor(&[]).end().exits(0);
    assert_eq!((standing(&id), host.differing(&now)), ("\"undone\"".into(), Vec::new()));
    host.doctor(&["--undo", &id]).end().exits(0);
    assert_eq!(host.differing(&now), Vec::<String>::new());
    host.sh("sysctl -qw net.ipv4.tcp_rmem='4096 131072 262144' net.ipv4.tcp_wmem='4096 16384 262144'
         sysctl -qw net.ipv4.tcp_sack=0 net.ipv4.tcp_moderate_rcvbuf=0 net.ipv4.tcp_window_scaling=0");
    assert_eq!(host.differing(&before), Vec::<String>::new());
    // Kept: the file has set it again. In a namespace of its own it can only be forgotten.
    let id = host.apply(&[]);
    host.doctor(&["--confirm", &id]).end().exits(0);
    host.doctor(&[&["--persist", &id], &system[..]].concat()).end().exits(0);
    let own = root.join("etc/sysctl.d/90-linerate.conf");
    assert!(own.exists());
    restart(&id);
    host.doctor(&[&["--undo", &id], &system[..]].concat())
        .end()
        .exits(1)
        .says(&["another one: run this command there"]);
    assert!(!own.exists(), "it isn't set at the next start");
}

/// On another host, the journal and the undo timer are on that host.
#[test]
fn another_host_is_treated_there() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let shell = far_shell(&host);
    let cache = host.directory.path().join("cache");
    let near = |words: &[&str]| {
        // Here nothing can be changed: it isn't the host that is named.
        let mut command = Command::new(PROGRAM);
        command.arg("doctor").args(words).args(["--rsh", &shell, "--state"]).arg(host.state());
        command.arg("far").env("XDG_CACHE_HOME", &cache).process_group(0);
        Running::start(command).end()
    };
    let run = near(&["--apply", "--plan"]).exits(0);
    assert!(run.out.contains("far: ") && run.out.contains("net.ipv4.tcp_rmem"), "{run}");
    assert_eq!(host.differing(&before), Vec::<String>::new());
    let run = near(&["--apply", "--yes", "--json", "--confirm-within", "20"]).exits(0);
    let reported: Value = serde_json::from_str(&run.out).unwrap();
    let id = reported["id"].as_str().unwrap();
    assert_eq!((&reported["host"], host.differing(&before).is_empty()), (&"far".into(), false));
    assert_eq!(host.undo_timers().len(), 1);
    near(&["--confirm", id]).exits(0);
    assert!(near(&["--applied"]).exits(0).out.contains("confirmed"));
    // As sudo is put before it.
    let other = near(&["--applied", "--agent-command", "env FIRST=1 linerate"]).exits(0);
    assert!(other.out.contains("confirmed"), "{other}");
    near(&["--undo", id]).exits(0);
    assert_eq!(host.differing(&before), Vec::<String>::new());
    // The output names the steps that the host leaves out.
    let step = |key: &str, before: &str, new: &str| json!({"checks": ["x"], "setting": {"kind": "sysctl", "key": key}, "before": before, "new": new});
    let steps = [step("net.ipv4.tcp_sack", "0", "1"), step("vm.dirty_ratio", "20", "99")];
    let file = odd::planned_for("far", host.directory.path(), "two.json", &steps);
    let run = near(&["--apply", "--yes", "--from-plan", file.to_str().unwrap()]).exits(3);
    for part in ["made 1 of 2 changes", "vm.dirty_ratio is not changed: this is a container"] {
        assert!(run.out.contains(part), "{part}: {run}");
    }
    let id = run.out.split("--confirm ").nth(1).unwrap().split_whitespace().next().unwrap();
    let run = near(&["--undo", id]).exits(0);
    assert!(run.out.contains("undone, 1 setting") && !run.out.contains("settings"), "{run}");
    assert_eq!(host.differing(&before), Vec::<String>::new());
    near(&["--undo", "zzzzzz"]).exits(1).says(&["there is no treatment"]);
}

/// A remote shell that enters the namespace; each call is a new login.
fn far_shell(host: &Ill) -> String {
    let path: &Path = &host.directory.path().join("shell");
    let script = format!(
        "shift\nSSH_CONNECTION=\"127.0.0.1 $$ 127.0.0.1 22\" LINERATE_TEST_MARK={0} exec ip netns exec {0} sh -c \"$*\"\n",
        host.name
    );
    fs::write(path, script).unwrap();
    format!("sh {}", path.display())
}
