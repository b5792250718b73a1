//! Each finding whose fix is a command names the command that undoes it.

use std::fs;
use std::path::Path;

use linerate_doctor::remedy::{Setting, commands, undo_commands};
use linerate_doctor::{Finding, Host, Need, examine_host};
use linerate_host::facts::Port;
use linerate_host::{Fact, Facts, Snapshot};

/// What a fix has in it that changes a running host.
const COMMANDS: [&str; 12] = [
    "sysctl -w",
    "ethtool -",
    "echo ",
    "tc qdisc",
    "ip link",
    "ip route change",
    "cpupower",
    "systemctl",
    "mount ",
    "modprobe",
    "blockdev",
    "swapoff",
];

/// Changes of a port that leave its number of queues as it is.
const EDITS: [fn(&mut Port); 3] = [
    |_| (),
    |port| port.module_options = Fact::Known([("RSS".to_owned(), Fact::Known("512".to_owned()))].into()),
    |port| {
        if let Fact::Known(irqs) = &mut port.interrupts {
            irqs.truncate(1);
        }
    },
];

fn hosts() -> Vec<(String, Facts)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures");
    let of = |path: &Path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, Facts::of_snapshot(&Snapshot::open(path).unwrap()))
    };
    fs::read_dir(fixtures).unwrap().map(|entry| of(&entry.unwrap().path())).collect()
}

fn findings() -> Vec<Finding> {
    let of = |(name, facts): &(String, Facts)| examine_host(&Host::alone(name, facts, Need::OfPorts));
    hosts().iter().flat_map(of).collect()
}

fn changes(fix: &str) -> bool {
    COMMANDS.iter().any(|command| fix.contains(command))
}

#[test]
fn each_command_can_be_taken_back() {
    let all = findings();
    let commands: Vec<_> = all.iter().filter(|finding| finding.fix.as_deref().is_some_and(changes)).collect();
    assert!(commands.len() >= 20, "only {} findings have a command", commands.len());
    let lacking: Vec<String> = commands
        .iter()
        .filter(|finding| finding.undo.as_deref().is_none_or(str::is_empty))
        .map(|finding| format!("{}: {}", finding.line(), finding.fix.as_deref().unwrap_or_default()))
        .collect();
    assert!(lacking.is_empty(), "no undo:\n{}", lacking.join("\n"));
}

/// The fix isn't the present state: neither by a program's changes nor by a command, also where a count is right but the
/// driver's options or its interrupts don't match.
#[test]
fn no_fix_sets_what_is_set_already() {
    let mut all = findings();
    for (path, facts) in hosts() {
        for edit in EDITS {
            let mut facts = facts.clone();
            if let Fact::Known(ports) = &mut facts.ports {
                ports.iter_mut().for_each(edit);
            }
            facts.machine.guests = Fact::Known(40);
            all.extend(examine_host(&Host::alone(&path, &facts, Need::Target(100e9))));
        }
    }
    let queues = all.iter().filter(|finding| finding.check == "netqueue-mismatch").count();
    assert!(queues >= 10, "only {queues} findings about the number of queues");
    for finding in all {
        for remedy in &finding.remedies {
            assert!(!remedy.setting.is_same(&remedy.now, &remedy.new), "{finding:#?}");
        }
        let Some(undo) = finding.undo.as_deref().filter(|undo| !undo.is_empty()) else { continue };
        let fix = format!("{};", finding.fix.as_deref().unwrap_or_default());
        assert!(!fix.starts_with(&format!("{undo};")), "{finding:#?}");
    }
}

/// A finding without an undo gives advice in words, like "another slot".
#[test]
fn an_undo_is_never_the_fix() {
    for finding in findings() {
        assert!(finding.undo.is_none() || finding.undo != finding.fix, "{finding:#?}");
    }
}

/// What a program would change is what the words say, and nothing that it may not.
#[test]
fn remedies_and_words_agree() {
    let all = findings();
    let treated: Vec<_> = all.iter().filter(|finding| !finding.remedies.is_empty()).collect();
    assert!(treated.len() >= 20, "only {} findings have a remedy", treated.len());
    for finding in treated {
        for remedy in &finding.remedies {
            let (setting, now, new) = (&remedy.setting, &remedy.now, &remedy.new);
            assert_eq!(remedy.host, finding.host);
            assert!(
                setting.is_sound()
                    && setting.is_proposed()
                    && !setting.lowers(now, new)
                    && !setting.is_same(now, new),
                "{remedy:?}"
            );
            let swaps = matches!(setting, Setting::Sysctl { key } if key.contains("swap"));
            assert!(!swaps, "{remedy:?}");
        }
        let bare: Vec<_> = finding.remedies.iter().map(|remedy| remedy.clone().on("")).collect();
        assert!(finding.fix.as_deref().unwrap().starts_with(&commands(&bare)), "{finding:#?}");
        assert_eq!(finding.undo.as_deref(), Some(undo_commands(&bare).as_str()), "{finding:#?}");
    }
}

/// A remedy of a sysctl that isn't among them would be missing without a word.
#[test]
fn each_sysctl_of_a_remedy_may_be_proposed() {
    let checks = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
    let mut keys = 0;
    let of = |directory: &Path| fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    for path in of(&checks).chain(of(&checks.join("shared"))).filter(|path| path.is_file()) {
        let text = fs::read_to_string(path).unwrap();
        for call in text.split("Remedy::sysctl(").skip(1) {
            let Some(key) = call.trim_start().strip_prefix('"') else { continue };
            let key = key.split('"').next().unwrap().to_owned();
            assert!(Setting::Sysctl { key: key.clone() }.is_proposed(), "{key}");
            keys += 1;
        }
    }
    assert!(keys >= 15, "{keys}");
    assert!(!Setting::Sysctl { key: "net.ipv4.ip_forward".into() }.is_proposed());
}
