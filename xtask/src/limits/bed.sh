# The means to create limits: data in memory, a file system whose device is throttled, a control group with a part of a
# processor, and a control group that gets a processor only when no other group needs it. $WORK is a directory in
# memory, and the names of the control groups begin with $GROUP.
set -eu
if [ -n "${LINERATE_LAB_SSH_CONFIG-}" ]; then
    SSH="ssh -F $LINERATE_LAB_SSH_CONFIG"
    SCP="scp -q -F $LINERATE_LAB_SSH_CONFIG"
    CP="$PROGRAM cp --json -F $LINERATE_LAB_SSH_CONFIG"
    STREAM="$PROGRAM stream --json -F $LINERATE_LAB_SSH_CONFIG"
    MEASURE="$PROGRAM measure --export json"
    FAR="ip netns exec $LINERATE_LAB_NETNS_B"
fi

# Makes iperf3 listen on host b until this shell ends.
listen() {
    $FAR iperf3 --server >/dev/null &
    server=$!
    trap 'kill $server' EXIT
    until $FAR ss --no-header --listening --tcp --numeric 'sport = 5201' | grep -q LISTEN; do
        kill -0 $server
    done
}

# Makes host b send to every client that connects to port 5202, until this shell ends.
send() {
    $FAR python3 -c '
import socket
listener = socket.create_server(("", 5202))
while True:
    to, _ = listener.accept()
    try:
        while True:
            to.sendall(bytes(1 << 16))
    except OSError:
        pass' &
    server=$!
    trap 'kill $server' EXIT
    until $FAR ss --no-header --listening --tcp --numeric 'sport = 5202' | grep -q LISTEN; do
        kill -0 $server
    done
}

# A program that receives from host HOST for four seconds while eight of its threads work: the first thread for the
# share FIRST of the time, each other thread for the share OTHERS.
THREADS='
import socket, sys, threading, time
host, first, others = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
end = time.monotonic() + 4
def work(share):
    while share and time.monotonic() < end:
        until = time.thread_time() + share / 50
        while time.thread_time() < until:
            pass
        time.sleep((1 - share) / 50)
for share in [first] + 7 * [others]:
    threading.Thread(target=work, args=[share]).start()
with socket.create_connection((host, 5202)) as connection:
    while time.monotonic() < end and connection.recv(1 << 16):
        pass
'

# fills RATE: checks that two connections of iperf3 reach RATE Gbit/s. If they don't, this machine is too slow for the
# limit, and the limit isn't created.
fills() {
    listen
    reached=$(iperf3 --client "$LINERATE_LAB_ADDRESS_B" --parallel 2 --time 2 --format g | awk '/SUM.*receiver/ { print $6 }')
    if awk -v reached="$reached" -v least="$1" 'BEGIN { exit !(reached < least) }'; then
        echo "NOT MADE: iperf3 reaches $reached of $1 Gbit/s"
        exit
    fi
}

# Makes another program send over four connections until this shell ends.
others() {
    listen
    iperf3 --client "$LINERATE_LAB_ADDRESS_B" --parallel 4 --time 60 >/dev/null &
    trap 'kill $server $!' EXIT
    until [ "$(ss --no-header --tcp --numeric state established 'dport = 5201' | awk '$2 > 0' | wc -l)" -ge 4 ]; do
        kill -0 $!
    done
}

# Limits the port by which host a reaches b to 60 Mbit/s, with room for a long queue.
shape() {
    port=$(ip -o route get "$LINERATE_LAB_ADDRESS_B" | sed 's/.* dev \([^ ]*\).*/\1/')
    tc qdisc replace dev "$port" root tbf rate 60mbit burst 32k latency 400ms
}

# Makes host b drop the packets that it receives above a rate of 100 Mbit/s.
police() {
    $FAR nft 'add table inet t; add chain inet t c { type filter hook input priority 0; };
        add rule inet t c limit rate over 12500000 bytes/second drop'
}

# group KIND: prints the directory of a control group, of version 1 or 2. KIND is blkio, cpu (with a quota) or weight
# (with a small weight).
group() {
    if [ "$1" = weight ] && [ -d /sys/fs/cgroup/cpu ]; then
        echo "/sys/fs/cgroup/cpu/$GROUP-weight"
    elif [ -d "/sys/fs/cgroup/$1" ]; then
        echo "/sys/fs/cgroup/$1/$GROUP"
    else
        echo "/sys/fs/cgroup/$GROUP-$1"
    fi
}

# near KIND: moves this shell, and so its commands, to the control group. far KIND: moves the processes of host b,
# including the ssh server.
near() { echo $$ >"$(group "$1")/cgroup.procs"; }
far() { for pid in $(ip netns pids "$LINERATE_LAB_NETNS_B"); do echo "$pid" >"$(group "$1")/cgroup.procs"; done; }

# Keeps every processor busy until this shell ends.
busy() {
    spinners=
    for processor in $(seq "$(nproc)"); do
        while :; do :; done &
        spinners="$spinners $!"
    done
    trap 'kill $spinners' EXIT
}

# Removes what killed runs left behind.
sweep() {
    for left in /dev/shm/linerate-limits-*; do
        if [ -d "$left" ] && ! kill -0 "${left##*-}" 2>/dev/null; then
            (WORK=$left GROUP=linerate-limits-${left##*-} && bed_down) 2>/dev/null
        fi
    done
}

bed_up() {
    sweep
    mkdir -p "$WORK/out" "$WORK/tiny" "$WORK/slow"
    head -c 300000000 /dev/urandom >"$WORK/mid"
    cat "$WORK/mid" "$WORK/mid" "$WORK/mid" "$WORK/mid" "$WORK/mid" "$WORK/mid" "$WORK/mid" "$WORK/mid" >"$WORK/big"
    head -c 60000000 "$WORK/mid" >"$WORK/little"
    head -c 8000000 "$WORK/mid" >"$WORK/few"
    (cd "$WORK/tiny" && seq 1 30000 | split -l 1 -a 4 - f)
    truncate -s 400M "$WORK/image"
    mkfs.ext4 -q -F "$WORK/image"
    loop=$(losetup --find --show "$WORK/image")
    echo "$loop" >"$WORK/loop"
    mkdir -p "$(group cpu)" "$(group weight)" "$(group blkio)"
    throttle "$(cat "/sys/block/${loop#/dev/}/dev")" 20000000
    quota 15000
    weight
    mount -o sync "$loop" "$WORK/slow"
    cp "$WORK/little" "$WORK/slow/source"
}

throttle() {
    if [ -d /sys/fs/cgroup/blkio ]; then
        echo "$1 $2" >"$(group blkio)/blkio.throttle.read_bps_device"
        echo "$1 $2" >"$(group blkio)/blkio.throttle.write_bps_device"
    else
        echo +io >/sys/fs/cgroup/cgroup.subtree_control
        echo "$1 rbps=$2 wbps=$2" >"$(group blkio)/io.max"
    fi
}

quota() {
    if [ -d /sys/fs/cgroup/cpu ]; then
        echo 100000 >"$(group cpu)/cpu.cfs_period_us"
        echo "$1" >"$(group cpu)/cpu.cfs_quota_us"
    else
        echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
        echo "$1 100000" >"$(group cpu)/cpu.max"
    fi
}

weight() {
    if [ -d /sys/fs/cgroup/cpu ]; then
        echo 50 >"$(group weight)/cpu.shares"
    else
        echo 5 >"$(group weight)/cpu.weight"
    fi
}

# Removes what the last try left, and empties the cache of the slow file system.
bed_again() {
    rm -rf "$WORK/out" "$WORK/slow/out"
    mkdir -p "$WORK/out" "$WORK/slow/out"
    umount "$WORK/slow"
    mount -o sync "$(cat "$WORK/loop")" "$WORK/slow"
    # Another namespace may still have the file system mounted.
    dd if="$WORK/slow/source" iflag=nocache count=0 status=none
}

bed_down() {
    set +e
    umount "$WORK/slow"
    losetup --detach "$(cat "$WORK/loop")"
    rmdir "$(group cpu)" "$(group weight)" "$(group blkio)"
    rm -rf "$WORK"
}
