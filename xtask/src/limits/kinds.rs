//! The limits that the test creates on purpose.

/// One kind of limit, with the script that creates it.
pub struct LimitKind {
    /// The name of the created limit, for output and for the option `--only`.
    pub made: &'static str,
    /// The limiting factor that linerate must name.
    pub expected: &'static str,
    /// The options of the lab.
    pub lab: &'static str,
    /// The script that runs on host a, with the functions of bed.sh and `$CP`, `$STREAM`, `$MEASURE`, `$SCP`, `$SSH`,
    /// `$FAR`.
    pub script: &'static str,
}

/// Every kind of limit.
pub const KINDS: &[LimitKind] = &[
    LimitKind {
        made: "link-1g",
        expected: "network",
        lab: "--link 1gbit",
        script: "$CP $WORK/mid b:$WORK/out",
    },
    // Data goes from memory to memory, because writing files would overload a host with two processors.
    LimitKind {
        made: "link-10g",
        expected: "network",
        lab: "--link 10gbit",
        script: "fills 9.2; $STREAM --streams 2 b",
    },
    LimitKind {
        made: "window",
        expected: "window",
        lab: "--link 1gbit --rtt 50ms --tcp-buffer-max 300000",
        script: "$CP --streams 2 $WORK/little b:$WORK/out",
    },
    LimitKind {
        made: "loss",
        expected: "loss",
        lab: "--link 1gbit --rtt 20ms --loss 1% --congestion cubic",
        script: "$CP --streams 4 $WORK/few b:$WORK/out",
    },
    LimitKind {
        made: "send-buffer",
        expected: "send-buffer",
        lab: "--link 1gbit --rtt 20ms",
        script: "sysctl -q -w net.ipv4.tcp_wmem='4096 16384 262144'; $CP --streams 2 $WORK/little b:$WORK/out",
    },
    // With no data connection possible in either direction, data goes through ssh, whose window allows 2 MiB
    // in flight.
    LimitKind {
        made: "through-ssh",
        expected: "through-ssh",
        lab: "--link 1gbit --rtt 50ms",
        script: "for side in sport dport; do ip rule add iif lo ipproto tcp $side 7131-7134 prohibit; done; \
                 $CP --port-range 7131-7134 $WORK/little b:$WORK/out",
    },
    LimitKind {
        made: "bwlimit",
        expected: "rate-limit",
        lab: "",
        script: "$CP --bwlimit 30m $WORK/little b:$WORK/out",
    },
    LimitKind {
        made: "tiny-files",
        expected: "small-files",
        lab: "",
        script: "$CP -r $WORK/tiny b:$WORK/out",
    },
    LimitKind {
        made: "slow-source",
        expected: "source-read",
        lab: "",
        script: "near blkio; $CP $WORK/slow/source b:$WORK/out",
    },
    LimitKind {
        made: "slow-destination",
        expected: "destination-write",
        lab: "",
        script: "far blkio; $CP $WORK/little b:$WORK/slow/out",
    },
    LimitKind {
        made: "busy-sender",
        expected: "sender-cpu",
        lab: "",
        script: "busy; near weight; $CP $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "busy-receiver",
        expected: "receiver-cpu",
        lab: "",
        script: "busy; far weight; $CP $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "quota-sender",
        expected: "cpu-quota",
        lab: "",
        script: "near cpu; $CP $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "quota-receiver",
        expected: "cpu-quota",
        lab: "",
        script: "far cpu; $CP $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "one-stream",
        expected: "one-thread",
        lab: "",
        script: "$CP --streams 1 $WORK/big b:$WORK/out",
    },
    LimitKind {
        made: "measure-scp",
        expected: "one-thread",
        lab: "",
        script: "$MEASURE -- $SCP -C $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "measure-rsync",
        expected: "one-thread",
        lab: "",
        script: "$MEASURE -- rsync -e \"$SSH\" --compress --compress-choice=zlib --compress-level=9 $WORK/mid b:$WORK/out/",
    },
    LimitKind {
        made: "measure-slow-far-end",
        expected: "far-end-tool",
        lab: "",
        script: "far cpu; $MEASURE -- $SCP $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "measure-quota",
        expected: "cpu-quota",
        lab: "",
        script: "near cpu; $MEASURE -- $SCP $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "measure-quota-far-end",
        expected: "cpu-quota",
        lab: "",
        script: "far cpu; $MEASURE -F $LINERATE_LAB_SSH_CONFIG --host b -- $SCP $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "measure-send-buffer",
        expected: "send-buffer",
        lab: "--link 1gbit --rtt 20ms",
        script: "sysctl -q -w net.ipv4.tcp_wmem='4096 16384 262144'; $MEASURE -- $SCP $WORK/little b:$WORK/out",
    },
    // ssh has at most 2 MiB in flight, which no counter of the kernel shows.
    LimitKind {
        made: "measure-ssh-window",
        expected: "not-explained",
        lab: "--link 1gbit --rtt 100ms",
        script: "$MEASURE -- $SCP $WORK/little b:$WORK/out",
    },
    LimitKind {
        made: "measure-slow-source",
        expected: "source-read",
        lab: "",
        script: "near blkio; $MEASURE -- $SCP $WORK/slow/source b:$WORK/out",
    },
    LimitKind {
        made: "measure-slow-destination",
        expected: "destination-write",
        lab: "",
        script: "near blkio; $MEASURE -- $SCP b:$WORK/little $WORK/slow/out",
    },
    LimitKind {
        made: "measure-link",
        expected: "network",
        lab: "--link 100mbit",
        script: "$MEASURE -- $SCP $WORK/little b:$WORK/out",
    },
    LimitKind {
        made: "measure-bwlimit",
        expected: "rate-limit",
        lab: "",
        script: "$MEASURE -- rsync -e \"$SSH\" --bwlimit=10m $WORK/little b:$WORK/out/",
    },
    LimitKind {
        made: "pull-link-1g",
        expected: "network",
        lab: "--link 1gbit",
        script: "$CP b:$WORK/mid $WORK/out",
    },
    LimitKind {
        made: "pull-window",
        expected: "window",
        lab: "--link 1gbit --rtt 50ms --tcp-buffer-max 300000",
        script: "$CP --streams 2 b:$WORK/little $WORK/out",
    },
    LimitKind {
        made: "pull-send-buffer",
        expected: "send-buffer",
        lab: "--link 1gbit --rtt 20ms",
        script: "$FAR sysctl -q -w net.ipv4.tcp_wmem='4096 16384 262144'; $CP --streams 2 b:$WORK/little $WORK/out",
    },
    LimitKind {
        made: "pull-slow-source",
        expected: "source-read",
        lab: "",
        script: "far blkio; $CP b:$WORK/slow/source $WORK/out",
    },
    LimitKind {
        made: "pull-slow-destination",
        expected: "destination-write",
        lab: "",
        script: "near blkio; $CP b:$WORK/little $WORK/slow/out",
    },
    LimitKind {
        made: "pull-tiny-files",
        expected: "small-files",
        lab: "",
        script: "$CP -r b:$WORK/tiny $WORK/out",
    },
    LimitKind {
        made: "pull-quota",
        expected: "cpu-quota",
        lab: "",
        script: "far cpu; $CP b:$WORK/mid $WORK/out",
    },
    LimitKind {
        made: "pull-bwlimit",
        expected: "rate-limit",
        lab: "",
        script: "$CP --bwlimit 30m b:$WORK/little $WORK/out",
    },
    LimitKind {
        made: "send-buffer-64k",
        expected: "send-buffer",
        lab: "--link 1gbit --rtt 20ms",
        script: "sysctl -q -w net.ipv4.tcp_wmem='4096 16384 65536'; $CP --streams 2 $WORK/few b:$WORK/out",
    },
    LimitKind {
        made: "route-window",
        expected: "window",
        lab: "--link 1gbit --rtt 20ms",
        script: "$FAR sh -c 'ip route change $(ip -4 route show | head -n 1) window 65536'; $CP --streams 2 $WORK/few b:$WORK/out",
    },
    LimitKind {
        made: "through-ssh-open",
        expected: "through-ssh",
        lab: "",
        script: "for side in sport dport; do ip rule add iif lo ipproto tcp $side 7131-7134 prohibit; done; $CP --port-range 7131-7134 $WORK/mid b:$WORK/out",
    },
    LimitKind {
        made: "others-traffic",
        expected: "network",
        lab: "--link 300mbit",
        script: "others; $CP $WORK/few b:$WORK/out",
    },
    LimitKind {
        made: "own-shaper",
        expected: "network",
        lab: "--link 200mbit --rtt 20ms",
        script: "shape; $CP $WORK/little b:$WORK/out",
    },
    LimitKind {
        made: "measure-own-shaper",
        expected: "network",
        lab: "--link 200mbit --rtt 20ms",
        script: "shape; $MEASURE -- $SCP $WORK/little b:$WORK/out",
    },
    LimitKind {
        made: "host-slow-source",
        expected: "source-read",
        lab: "",
        script: "near blkio; $CP $WORK/slow/source $WORK/out/",
    },
    LimitKind {
        made: "host-slow-destination",
        expected: "destination-write",
        lab: "",
        script: "near blkio; $CP $WORK/little $WORK/slow/out/",
    },
    LimitKind {
        made: "measure-cp-source",
        expected: "source-read",
        lab: "",
        script: "near blkio; $MEASURE -- cp $WORK/slow/source $WORK/out/",
    },
    LimitKind {
        made: "measure-cp-destination",
        expected: "destination-write",
        lab: "",
        script: "near blkio; $MEASURE -- cp $WORK/little $WORK/slow/out/",
    },
    LimitKind {
        made: "measure-iperf-window",
        expected: "window",
        lab: "--link 1gbit --rtt 20ms",
        script: "listen; $MEASURE -- iperf3 --client $LINERATE_LAB_ADDRESS_B --window 128K --time 4",
    },
    LimitKind {
        made: "measure-tar-ssh",
        expected: "network",
        lab: "--link 100mbit",
        script: "$MEASURE -- sh -c \"tar -cC $WORK little | $SSH b 'cat >$WORK/out/tar'\"",
    },
    LimitKind {
        made: "measure-pull-quota",
        expected: "cpu-quota",
        lab: "",
        script: "near cpu; $MEASURE -- $SCP b:$WORK/mid $WORK/out",
    },
    LimitKind {
        made: "measure-rsync-quota",
        expected: "cpu-quota",
        lab: "",
        script: "near cpu; $MEASURE -- rsync -e \"$SSH\" $WORK/mid b:$WORK/out/",
    },
    LimitKind {
        made: "measure-rsync-link",
        expected: "network",
        lab: "--link 100mbit",
        script: "$MEASURE -- rsync -e \"$SSH\" $WORK/little b:$WORK/out/",
    },
    // The disk of the far end isn't visible from this end.
    LimitKind {
        made: "measure-far-source",
        expected: "not-explained",
        lab: "",
        script: "far blkio; $MEASURE -- $SCP b:$WORK/slow/source $WORK/out",
    },
    LimitKind {
        made: "measure-rsync-send-buffer",
        expected: "send-buffer",
        lab: "--link 1gbit --rtt 20ms",
        script: "sysctl -q -w net.ipv4.tcp_wmem='4096 16384 262144'; $MEASURE -- rsync -e \"$SSH\" $WORK/little b:$WORK/out/",
    },
    LimitKind {
        made: "measure-rsync-source",
        expected: "source-read",
        lab: "",
        script: "near blkio; $MEASURE -- rsync -e \"$SSH\" $WORK/slow/source b:$WORK/out/",
    },
    LimitKind {
        made: "measure-busy-sender",
        expected: "sender-cpu",
        lab: "",
        script: "busy; near weight; $MEASURE -- $SCP $WORK/little b:$WORK/out",
    },
    // Together the threads use a whole processor, but none of them is full.
    LimitKind {
        made: "measure-many-threads",
        expected: "not-explained",
        lab: "--link 100mbit",
        script: "send; $MEASURE -- python3 -c \"$THREADS\" $LINERATE_LAB_ADDRESS_B 0.14 0.14",
    },
    LimitKind {
        made: "measure-one-of-many-threads",
        expected: "one-thread",
        lab: "--link 100mbit",
        script: "send; $MEASURE -- python3 -c \"$THREADS\" $LINERATE_LAB_ADDRESS_B 1 0",
    },
    LimitKind {
        made: "policer",
        expected: "network",
        lab: "--link 1gbit --rtt 10ms",
        script: "police; $CP --streams 2 $WORK/little b:$WORK/out",
    },
];
