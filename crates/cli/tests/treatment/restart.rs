//! A treatment that is kept, in a virtual machine that is started again: its journals and /etc lie on a disk.

use linerate_testing::{has_all, skip};
use serde_json::json;

use crate::guests::{has_guests, in_guest};
use crate::{PROGRAM, planned, support};

/// Ends the lab's virtual machine, and starts it again with a disk.
const START: &str = r#"start() {
    lab=$(dirname $LINERATE_LAB_SSH_CONFIG); qemu=
    for p in $(cd /proc; ls -d [0-9]*); do
        case "$(tr '\0' ' ' 2>/dev/null < /proc/$p/cmdline)" in *qemu-system*$lab/guest.cpio*) qemu=$p;; esac
    done 2>/dev/null
    [ -e $d/words ] || tr -d '\n' < /proc/$qemu/cmdline > $d/words
    kill $qemu; while kill -0 $qemu 2>/dev/null && ! grep -q ' Z ' /proc/$qemu/stat; do sleep 0.1; done
    : > $lab/guest0.log
    (xargs -0 ip netns exec $LINERATE_LAB_NETNS_B sh -c "exec \"\$@\" -drive file=$d/disk,if=virtio,format=raw" x < $d/words > $d/qemu 2>&1 &)
    until grep -q 'guest: ready' $lab/guest0.log; do sleep 0.2; done
}"#;

/// In the machine: mounts the disk below /etc and the journals, and prints what the treatment changes.
const IN_IT: &str = r#"set -e; modprobe virtio_blk; modprobe ext4; mkdir -p /disk; mount /dev/vda /disk
    mkdir -p /disk/etc /disk/work /disk/state /var/lib/linerate
    mount -t overlay -o lowerdir=/etc,upperdir=/disk/etc,workdir=/disk/work overlay /etc
    mount --bind /disk/state /var/lib/linerate; mkdir -p /etc/systemd/system
    u=/etc/systemd/system/linerate-doctor.service; s=/etc/sysctl.d/90-linerate.conf
    look() { echo $(cat /proc/sys/net/ipv4/tcp_rmem /sys/class/net/$1/mtu /sys/class/net/$1/queues/rx-0/rps_cpus
        tc qdisc show dev $1 | grep -o 'fq[a-z_]*\| quantum [0-9]*'); }"#;

#[test]
fn what_is_kept_is_there_after_a_restart_and_is_undone_then() {
    if !has_guests() {
        return;
    }
    if !has_all(&["mkfs.ext4", "modprobe", "xargs"]) {
        return skip("disk", "mkfs.ext4, modprobe or xargs is missing");
    }
    let directory = support::directory("linerate-treat-");
    let step = |setting, before: &str, new: &str| json!({"checks": ["x"], "setting": setting, "before": before, "new": new});
    let port = |kind: &str| json!({"kind": kind, "port": "eth0"});
    let steps = [
        step(
            json!({"kind": "sysctl", "key": "net.ipv4.tcp_rmem"}),
            "4096 131072 6291456",
            "4096 131072 33554432",
        ),
        step(port("mtu"), "1500", "9000"),
        step(port("qdisc"), "fq_codel", "fq"),
        step(json!({"kind": "rps", "port": "eth0", "queue": 0}), "0", "3"),
    ];
    planned(directory.path(), "plan", &steps);
    // As systemd does it: what it reads as `$` is written twice.
    let boot = r#"ip link set eth0 down; ip link set eth0 name lan0; ip link set lan0 up; look lan0
        sysctl -qp $s; sed -n 's/^ExecStart=-//p' $u | sed 's/\$\$/\\$/g; s/%%/%/g' > /tmp/boot; sh /tmp/boot; look lan0"#;
    let script = format!(
        "set -e; d={directory}; g() {{ ssh -o ConnectTimeout=5 -F $LINERATE_LAB_SSH_CONFIG g0 \"$@\"; }}
         {START}
         truncate -s 64M $d/disk; mkfs.ext4 -qF $d/disk; start
         {{ cat <<'END'
{IN_IT}
sysctl -qw net.core.default_qdisc=fq_codel net.ipv4.tcp_rmem='4096 131072 6291456'; look eth0
base64 -d > /tmp/plan <<'PLAN'
END
         base64 $d/plan; cat <<'END'
PLAN
i=$({PROGRAM} doctor --apply --yes --json --from-plan /tmp/plan | grep -o '\"id\":\"[a-z0-9]*' | cut -d'\"' -f4); look eth0
{PROGRAM} doctor --confirm $i --force >&2; {PROGRAM} doctor --persist $i >&2; echo $i > /disk/id; sync
END
         }} | g sh
         start
         g sh <<'END'
{IN_IT}
sysctl -qw net.core.default_qdisc=fq_codel net.ipv4.tcp_rmem='4096 131072 6291456'
{boot}
{PROGRAM} doctor --applied | sed \"s/$(cat /disk/id)/ID/\" | grep -c 'confirmed\\|kept beyond'
{PROGRAM} doctor --undo $(cat /disk/id) 2>&1 | grep -o 'eth0 is named lan0 now\\|undone, 4 settings'; look lan0
ls $u $s /etc/systemd/system/multi-user.target.wants/linerate-doctor.service 2>/dev/null || echo gone
END",
        directory = directory.path().display()
    );
    let run = in_guest(1, &script);
    let (before, applied) =
        ("4096 131072 6291456 1500 0 fq_codel quantum 1514", "4096 131072 33554432 9000 3 fq quantum 18028");
    let expected = [
        before,
        applied,
        before,
        applied,
        "5",
        "eth0 is named lan0 now",
        "undone, 4 settings",
        before,
        "gone",
    ];
    assert_eq!(run.out.lines().collect::<Vec<_>>(), expected, "{run}");
}
