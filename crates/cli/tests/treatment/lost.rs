//! Treatments whose journals, files or disks fail at an awkward moment.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use linerate_testing::skip;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::host::Ill;
use super::support::{Run, Running, send, within};
use super::{DEADLINE, PROGRAM};

type Damage = fn(&Path);

/// What may become of a journal, and whether its first line survives.
const DAMAGES: [(&str, Damage, bool); 4] = [
    ("cut", |path| keep_lines(path, |line| !line.contains("\"confirmed\"")), true),
    ("garbage", |path| replace(path, "\"confirmed\"", "\u{1}\u{2}"), true),
    ("written anew", written_anew, true),
    ("emptied", |path| fs::write(path, "").unwrap(), false),
];

fn keep_lines(path: &Path, is_kept: impl Fn(&str) -> bool) {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| is_kept(line)).collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn replace(path: &Path, word: &str, by: &str) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, text.replace(word, by)).unwrap();
}

/// As an editor does it: the open file is another one then.
fn written_anew(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let other = path.with_extension("other");
    fs::write(&other, text).unwrap();
    fs::rename(other, path).unwrap();
    keep_lines(path, |line| !line.contains("\"confirmed\""));
}

/// Between a confirmation and the next look of the undo timer.
#[test]
fn a_confirmation_holds_whatever_becomes_of_the_journal() {
    for (name, damage, has_first) in DAMAGES {
        let Some(host) = Ill::host() else { return };
        let before = host.settings();
        let id = host.apply(&["--only", "tcp-sack,tcp-buffers", "--confirm-within", "3"]);
        let journal = host.state().join(&id).join("journal.jsonl");
        let undo_timer = host.undo_timers()[0];
        send(undo_timer, Signal::STOP);
        let mut confirming = host.doctor(&["--confirm", &id]);
        let is_noted = || host.state().join(&id).join("confirmed").exists();
        assert!(within(DEADLINE, is_noted), "{name}");
        assert!(!confirming.has_ended(), "{name}: the undo timer hasn't seen it yet");
        damage(&journal);
        send(undo_timer, Signal::CONT);
        let run = confirming.end();
        assert_eq!(run.code, Some(if has_first { 0 } else { 1 }), "{name}: {run}");
        assert!(within(DEADLINE, || host.undo_timers().is_empty()));
        sleep(Duration::from_secs(3));
        // Also the next run leaves it.
        let run = host.doctor(&["--applied"]).end().exits(if has_first { 0 } else { 3 });
        assert!(host.differing(&before).len() >= 3, "{name}: {run}");
        assert_eq!(run.out.contains("  confirmed\n"), has_first, "{name}: {run}");
        if has_first {
            host.doctor(&["--undo", &id]).end().exits(0);
            assert_eq!(host.differing(&before), Vec::<String>::new(), "{name}");
        }
    }
}

#[test]
fn without_a_confirmation_a_damaged_journal_takes_everything_back() {
    for (name, damage, _) in DAMAGES {
        let Some(host) = Ill::host() else { return };
        let before = host.settings();
        let id = host.apply(&["--only", "tcp-sack,tcp-buffers", "--confirm-within", "2"]);
        let journal = host.state().join(&id).join("journal.jsonl");
        replace(&journal, "\"applied\"", "\"confirmed\u{1}\"");
        damage(&journal);
        assert!(within(DEADLINE, || host.undo_timers().is_empty()), "{name}");
        assert_eq!(host.differing(&before), Vec::<String>::new(), "{name}");
        let run = host.doctor(&["--applied"]).end();
        assert!(name == "written anew" || run.out.contains("  undone"), "{name}: {run}");
    }
}

/// Without its undo timer, and with nothing but the first lines of its journal.
#[test]
fn a_run_without_a_confirmation_that_it_can_read_says_so() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let id = host.apply(&["--only", "tcp-sack", "--confirm-within", "1"]);
    host.doctor(&["--confirm", &id]).end().exits(0);
    let place = host.state().join(&id);
    replace(&place.join("journal.jsonl"), "\"confirmed\"", "\u{1}");
    fs::remove_file(place.join("confirmed")).unwrap();
    let reported = |run: &Run| {
        run.err.contains(
            "has a damaged journal that doesn't show whether it was confirmed, and was undone now: 1 setting",
        )
    };
    assert!(within(DEADLINE, || reported(&host.doctor(&["--applied"]).end().exits(0))));
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

/// Runs a script with the doctor where other files are mounted; only this script sees them.
fn mounted(host: &Ill, script: &str) -> Run {
    let mut command = host.command("sh");
    let script =
        format!("doctor() {{ {PROGRAM} doctor \"$@\" --state {}; }}\n{script}", host.state().display());
    command.args(["-ec", &script]);
    Running::start(command).end()
}

#[test]
fn where_files_cannot_be_removed_the_settings_are_restored_nevertheless() {
    let Some(host) = Ill::host() else { return };
    let root = host.directory.path().join("root");
    fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
    let before = host.settings();
    let id = host.apply(&["--only", "tcp-sack,tcp-buffers"]);
    host.doctor(&["--confirm", &id]).end().exits(0);
    let root = root.display();
    let read_only = |words: &str| {
        let mount = format!("mount --bind {root} {root} && mount -o remount,bind,ro {root} || exit 77");
        mounted(&host, &format!("{mount}\ndoctor {words} --system {root}"))
    };
    let run = read_only(&format!("--persist {id}"));
    if run.code == Some(77) {
        return skip("mount", "nothing can be mounted here");
    }
    run.exits(1).says(&["Read-only file system"]);
    assert_eq!(host.json(&["--applied"])["treatments"][0]["kept"], json!([]));
    let system = ["--system", &root.to_string()];
    host.doctor(&[&["--persist", &id], &system[..]].concat()).end().exits(0);
    let own = Path::new(&root.to_string()).join("etc/sysctl.d/90-linerate.conf");
    assert!(own.exists());
    let run = read_only(&format!("--undo {id}")).exits(1);
    run.says(&["Read-only file system", "again when the host starts", &format!("run --undo {id} again")]);
    assert_eq!((host.differing(&before), own.exists()), (Vec::new(), true));
    assert_ne!(host.json(&["--applied"])["treatments"][0]["kept"], json!([]), "the file still does");
    host.doctor(&[&["--undo", &id], &system[..]].concat()).end().exits(0);
    assert!(!own.exists());
}

#[test]
fn a_full_disk_stops_a_treatment_and_no_way_back() {
    let Some(host) = Ill::host() else { return };
    let before = host.settings();
    let state = host.state();
    let state = state.display();
    // The next line of the journal needs another block.
    let full = "pad=$((4096 - $(stat -c %s $j) % 4096)); head -c $pad /dev/zero | tr '\\0' '\\n' >> $j
         dd if=/dev/zero of=$s/fill bs=4096 2>/dev/null || true";
    let run = mounted(
        &host,
        &format!(
            "s={state}; mkdir -m 700 $s; mount -t tmpfs -o size=256k,mode=700 tmpfs $s || exit 77
             id() {{ grep -o '\"id\":\"[a-z0-9]*' | cut -d'\"' -f4; }}
             i=$(doctor --apply --yes --json --only tcp-sack,tcp-buffers | id); j=$s/$i/journal.jsonl
             doctor --confirm $i >&2; {full}
             doctor --undo $i || echo \"undoing $?\"
             sysctl -n net.ipv4.tcp_sack; doctor --applied || echo code $?
             doctor --apply --yes --only tcp-sack || echo \"applied $?\"
             sysctl -n net.ipv4.tcp_sack; ls -A $s | grep -c new || true
             rm $s/fill; doctor --undo $i; doctor --applied
             i=$(doctor --apply --yes --json --only tcp-sack --confirm-within 2 | id); j=$s/$i/journal.jsonl; {full}
             sleep 5; sysctl -n net.ipv4.tcp_sack; rm $s/fill; sleep 3; doctor --applied; umount -l $s"
        ),
    );
    if run.code == Some(77) {
        return skip("mount", "nothing can be mounted here");
    }
    let run = run.exits(0);
    let words =
        ["undoing 1\n0\n", "applied 1\n0\n0\n", "No space left on device", "; the settings are as before"];
    for part in words {
        assert!(run.out.contains(part) || run.err.contains(part), "{part}: {run}");
    }
    assert!(!run.err.contains("damaged"), "{run}");
    assert!(run.out.matches("undone").count() >= 2 && !run.out.contains("not confirmed"), "{run}");
    assert_eq!(host.differing(&before), Vec::<String>::new());
}

/// As after a restart of the host; the undo timer is gone with it.
fn restarted(host: &Ill, id: &str) {
    host.undo_timers().into_iter().for_each(|pid| send(pid, Signal::KILL));
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let path = host.state().join(id).join("journal.jsonl");
    replace(&path, boot.trim(), "0b5e55ed-0000-4000-8000-000000000000");
}

#[test]
fn after_a_restart_a_file_says_what_the_journal_has_lost() {
    let Some(host) = Ill::host() else { return };
    let root = host.directory.path().join("root");
    fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
    let system = ["--system", root.to_str().unwrap()];
    let treatment = || -> Value {
        let run = host.doctor(&[&["--applied", "--json"], &system[..]].concat()).end();
        serde_json::from_str::<Value>(&run.out).unwrap()["treatments"][0].clone()
    };
    let id = host.apply(&["--only", "tcp-sack,tcp-buffers"]);
    host.doctor(&["--confirm", &id]).end().exits(0);
    host.doctor(&[&["--persist", &id], &system[..]].concat()).end().exits(0);
    restarted(&host, &id);
    let place = host.state().join(&id);
    keep_lines(&place.join("journal.jsonl"), |line| {
        !line.contains(":\"confirmed\"") && !line.contains(":\"kept\"")
    });
    fs::remove_file(place.join("confirmed")).unwrap();
    let reported = treatment();
    assert_eq!(
        (reported["standing"].as_str(), reported["kept"].as_array().unwrap().len()),
        (Some("confirmed"), 3),
        "{reported}"
    );
}

#[test]
fn what_was_only_confirmed_ends_with_the_restart() {
    let Some(host) = Ill::host() else { return };
    let id = host.apply(&["--only", "tcp-sack"]);
    host.doctor(&["--confirm", &id]).end().exits(0);
    restarted(&host, &id);
    let now = host.settings();
    let persist = ["--persist", &id, "--system", host.directory.path().to_str().unwrap()];
    host.doctor(&persist).end().exits(1).says(&["the host has restarted since"]);
    let run = host.doctor(&["--applied"]).end().exits(0);
    assert!(run.out.contains("  undone") && run.err.is_empty(), "{run}");
    assert_eq!(host.differing(&now), Vec::<String>::new());
}
