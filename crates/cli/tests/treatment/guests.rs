//! Tests of treating virtual machines, which have drivers' settings.

use std::path::Path;
use std::process::Command;

use linerate_testing::{has_all, is_root, skip};
use serde_json::{Value, json};

use crate::support::{self, Running};
use crate::{PROGRAM, planned};

/// A virtual machine has drivers' settings and those of a whole host. The program lies on its disk, as everything here does.
#[test]
fn a_virtual_machine_is_treated_and_is_as_before() {
    if !has_guests() {
        return;
    }
    // Everything that a treatment could change, or change by the way.
    let snap = "grep -rs '' /proc/sys/net /proc/sys/vm /sys/class/net/eth0/mtu | grep -v 'stable_secret\\|/flush:\\|stat_refresh'; \
                grep -s '' /sys/class/net/eth0/queues/*/[rx]ps_cpus /proc/irq/*/smp_affinity_list; \
                for o in -l -g -k -c -x; do ethtool $o eth0; done; tc qdisc show dev eth0 | sort";
    let script = format!(
        "set -e; g() {{ ssh -F $LINERATE_LAB_SSH_CONFIG g0 \"$@\"; }}; d=$LINERATE_LAB_DIR
         snap() {{ g \"{snap}\" > $d/$1 2>&1 || true; }}
         g 'ethtool -L eth0 combined 1; ethtool -K eth0 gro off tso off; sysctl -qw net.ipv4.tcp_rmem=\"4096 131072 262144\"
            sysctl -qw net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_allowed_congestion_control=reno'
         g 'echo 2 > /sys/class/net/eth0/queues/tx-0/xps_cpus; for i in /sys/class/net/eth0/device/../msi_irqs/*; do
                echo 1 > /proc/irq/${{i##*/}}/smp_affinity_list 2>/dev/null || true; done'
         snap before
         g {PROGRAM} doctor --apply --yes --json --target 10gbit --state /tmp/state --confirm-within 300 \\
             --only tcp-buffers,virtio-one-queue,offload-off,core-buffers,qdisc-pacing,congestion-control > $d/told || test $? = 3
         snap between
         g {PROGRAM} doctor --undo $(sed 's/.*\"id\":\"\\([a-z0-9]*\\)\".*/\\1/' $d/told) --state /tmp/state >&2
         snap after; cat $d/told; wc -l < $d/before
         diff $d/before $d/between | grep -c '^>' || true; diff $d/before $d/after || true"
    );
    let run = in_guest(2, &script);
    let lines: Vec<&str> = run.out.lines().collect();
    let [reported, all, changed, differing @ ..] = lines.as_slice() else { panic!("{run}") };
    let reported: Value = serde_json::from_str(reported).unwrap();
    let steps = reported["steps"].as_array().unwrap();
    let held =
        |kind: &str| steps.iter().any(|step| step["setting"]["kind"] == kind && !step["holds"].is_null());
    assert!(held("sysctl") && held("channels") && held("feature") && held("qdisc"), "{reported}");
    let is_control = |step: &Value| step["setting"]["key"] == "net.ipv4.tcp_congestion_control";
    assert!(steps.iter().any(is_control), "{reported}");
    assert!(all.parse::<u32>().unwrap() > 500 && changed.parse::<u32>().unwrap() > 8, "{run}");
    assert!(differing.is_empty(), "{run}");
}

/// Runs a script beside a virtual machine with the name g0.
pub fn in_guest(queues: u32, script: &str) -> support::Run {
    let mut command = Command::new(PROGRAM);
    command.args(["lab", "run", "--guests", "1", "--guest-kind", "qemu"]);
    let guest = format!("vcpus=2,queues={queues},rss=on,memory=1GiB");
    command.args(["--guest", &guest, "--", "sh", "-c", script]);
    Running::start(command).end_within(4 * support::PATIENCE).exits(0)
}

pub fn has_guests() -> bool {
    if !is_root("guests") {
        return false;
    }
    if !has_all(&["qemu-system-x86_64", "ssh", "sshd", "ethtool"]) || !Path::new("/dev/kvm").exists() {
        skip("qemu", "there is no QEMU, or no /dev/kvm");
        return false;
    }
    true
}

/// The kernel's default queueing discipline can only be restored while it is the default.
#[test]
fn a_discipline_that_cannot_come_back_is_named() {
    if !has_guests() {
        return;
    }
    let directory = support::directory("linerate-treat-");
    for before in ["fq_codel", "pfifo_fast"] {
        let step = json!({"checks": ["x"], "setting": {"kind": "qdisc", "port": "eth0"}, "before": before, "new": "fq"});
        planned(directory.path(), before, &[step]);
    }
    let script = format!(
        "set -e; g() {{ ssh -F $LINERATE_LAB_SSH_CONFIG g0 \"$@\"; }}; p={}
         g 'sysctl -qw net.core.default_qdisc=fq_codel; tc qdisc replace dev eth0 root pfifo; tc qdisc del dev eth0 root'
         for n in fq_codel pfifo_fast; do g \"cat > /tmp/$n\" < $p/$n; done
         apply() {{ g {PROGRAM} doctor --apply --yes --json --state /tmp/state --from-plan /tmp/fq_codel; }}
         apply > $p/told; id() {{ grep -o '\"id\":\"[a-z0-9]*' $p/told | cut -d'\"' -f4; }}
         g tc qdisc show dev eth0
         g {PROGRAM} doctor --undo $(id) --state /tmp/state > $p/undone
         g tc qdisc show dev eth0; apply > $p/told
         g 'sysctl -qw net.core.default_qdisc=pfifo_fast'
         g {PROGRAM} doctor --undo $(id) --state /tmp/state || echo code $?
         g 'tc qdisc del dev eth0 root; sysctl -qw net.core.default_qdisc=fq_codel'
         g {PROGRAM} doctor --apply --plan --from-plan /tmp/pfifo_fast --state /tmp/state",
        directory.path().display()
    );
    let run = in_guest(1, &script);
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].starts_with("qdisc fq 80"), "{run}");
    assert!(lines[1].starts_with("qdisc fq_codel 0: root"), "{run}");
    for part in [
        "eth0's root qdisc is not as before: it is fq_codel again, but no longer by the kernel's own choice",
        "code 3",
        "eth0's root qdisc: pfifo_fast couldn't be restored: it is no longer the kernel's default",
    ] {
        assert!(run.out.contains(part), "{part}: {run}");
    }
}

/// A driver's default RSS table follows the number of queues; a table that a user has set keeps its queues.
#[test]
fn an_rss_table_comes_back_as_the_drivers_own() {
    if !has_guests() {
        return;
    }
    let directory = support::directory("linerate-treat-");
    let step = |before: &str, new: &str| json!({"checks": ["x"], "setting": {"kind": "rss", "port": "eth0"}, "before": before, "new": new});
    let uneven = ["0 0 0 1"; 32].join(" ");
    planned(directory.path(), "equal", &[step("equal 2", "equal 1")]);
    planned(directory.path(), "uneven", &[step("equal 2", &uneven)]);
    planned(directory.path(), "over", &[step(&uneven, "equal 1")]);
    let script = format!(
        "set -e; g() {{ ssh -F $LINERATE_LAB_SSH_CONFIG g0 \"$@\"; }}; p={}
         for n in equal uneven over; do g \"cat > /tmp/$n\" < $p/$n; done
         apply() {{ g {PROGRAM} doctor --apply --yes --json --state /tmp/state --from-plan /tmp/$1 > $p/told; }}
         told() {{ grep -o '\"id\":\"[a-z0-9]*' $p/told | cut -d'\"' -f4; }}
         undo() {{ g {PROGRAM} doctor --undo $1 --state /tmp/state >&2; }}
         table() {{ echo $(g ethtool -x eth0 | grep ' 0:'); }}
         table; apply equal; table; undo $(told); table
         g 'ethtool -L eth0 combined 1 && ethtool -L eth0 combined 2'; apply uneven; table
         id=$(told); g {PROGRAM} doctor --confirm $id --state /tmp/state >&2; apply over; table; undo $(told); table; undo $id; table",
        directory.path().display()
    );
    let run = in_guest(2, &script);
    let [own, uneven, one] = ["0 1 0 1 0 1 0 1", "0 0 0 1 0 0 0 1", "0 0 0 0 0 0 0 0"];
    let tables = [own, one, own, uneven, one, uneven, own].map(|slots| format!("0: {slots}\n")).concat();
    assert_eq!(run.out, tables, "{run}");
}

/// The kernel computes a discipline's quantum from the MTU when the discipline is created.
#[test]
fn a_discipline_has_the_quantum_of_the_former_mtu_again() {
    if !has_guests() {
        return;
    }
    let directory = support::directory("linerate-treat-");
    let step = |kind: &str, before: &str, new: &str| json!({"checks": ["x"], "setting": {"kind": kind, "port": "eth0"}, "before": before, "new": new});
    let mut steps = [step("mtu", "1500", "9000"), step("qdisc", "fq_codel", "fq")];
    planned(directory.path(), "first", &steps);
    steps.reverse();
    planned(directory.path(), "last", &steps);
    let script = format!(
        "set -e; g() {{ ssh -F $LINERATE_LAB_SSH_CONFIG g0 \"$@\"; }}; p={}
         g 'sysctl -qw net.core.default_qdisc=fq_codel; tc qdisc replace dev eth0 root pfifo; tc qdisc del dev eth0 root'
         for n in first last; do g \"cat > /tmp/$n\" < $p/$n; done
         look() {{ echo $(g 'cat /sys/class/net/eth0/mtu; tc qdisc show dev eth0' | tr -s ' \\n' ' ' | grep -o '^[0-9]*\\|qdisc [a-z_]*\\| quantum [0-9]*'); }}
         apply() {{ g {PROGRAM} doctor --apply --yes --json --state /tmp/state --from-plan /tmp/$1 $2 > $p/told; }}
         undo() {{ g {PROGRAM} doctor --undo $(grep -o '\"id\":\"[a-z0-9]*' $p/told | cut -d'\"' -f4) --state /tmp/state >&2; }}
         look; apply first; look; undo; look; apply last; look; undo; look
         apply last --confirm-within=1; sleep 5; look
         apply last --confirm-within=10
         g 'kill -9 $(grep -ho pid.:[0-9]* $(ls -t /tmp/state/*/journal.jsonl | head -n 1) | cut -d: -f2)'
         sleep 14; g {PROGRAM} doctor --applied --state /tmp/state >&2; look",
        directory.path().display()
    );
    let run = in_guest(1, &script);
    let (before, after) = ("1500 qdisc fq_codel quantum 1514", "9000 qdisc fq quantum 18028");
    assert_eq!(
        run.out.lines().collect::<Vec<_>>(),
        [before, after, before, after, before, before, before],
        "{run}"
    );
}

/// The kernel makes its own discipline by the present MTU, whichever of two treatments has set that.
#[test]
fn two_treatments_of_a_port_are_undone_in_any_order() {
    if !has_guests() {
        return;
    }
    let directory = support::directory("linerate-treat-");
    let step = |kind: &str, before: &str, new: &str| json!({"checks": ["x"], "setting": {"kind": kind, "port": "eth0"}, "before": before, "new": new});
    planned(directory.path(), "mtu", &[step("mtu", "1500", "9000")]);
    planned(directory.path(), "qdisc", &[step("qdisc", "fq_codel", "fq")]);
    let script = format!(
        "set -e; g() {{ ssh -F $LINERATE_LAB_SSH_CONFIG g0 \"$@\"; }}; p={}
         g 'sysctl -qw net.core.default_qdisc=fq_codel; tc qdisc replace dev eth0 root pfifo; tc qdisc del dev eth0 root'
         for n in mtu qdisc; do g \"cat > /tmp/$n\" < $p/$n; done
         look() {{ echo $(g 'cat /sys/class/net/eth0/mtu; tc qdisc show dev eth0' | tr -s ' \\n' ' ' | grep -o '^[0-9]*\\|qdisc [a-z_]*\\| quantum [0-9]*'); }}
         apply() {{ g {PROGRAM} doctor --apply --yes --json --state /tmp/state --from-plan /tmp/$1 | grep -o '\"id\":\"[a-z0-9]*' | cut -d'\"' -f4 > $p/$1.id
             g {PROGRAM} doctor --confirm $(cat $p/$1.id) --force --state /tmp/state >&2; }}
         undo() {{ g {PROGRAM} doctor --undo $(cat $p/$1.id) --state /tmp/state > $p/told 2>&1 || echo code $?; cat $p/told >&2; grep -o 'the kernel computes.*\\|the rest of.*too' $p/told | sed \"s/$(cat $p/qdisc.id)/ID/\" || true; }}
         look; apply mtu; apply qdisc; look; undo qdisc; look; undo mtu; look
         apply mtu; apply qdisc; undo mtu; undo qdisc; look",
        directory.path().display()
    );
    let run = in_guest(1, &script);
    let before = "1500 qdisc fq_codel quantum 1514";
    let expected = [
        before,
        "9000 qdisc fq quantum 18028",
        "code 3",
        "the kernel computes the quantum from the port's MTU, which is 9000 now",
        "9000 qdisc fq_codel quantum 9014",
        "the rest of ID is undone now, too",
        before,
        before,
    ];
    assert_eq!(run.out.lines().collect::<Vec<_>>(), expected, "{run}");
}
