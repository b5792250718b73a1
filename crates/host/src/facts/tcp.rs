//! Facts about TCP: the settings in /proc/sys/net, the counters, and the routes with their own settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{flag, number, three, words};
use crate::netlink;
use crate::root::Root;

const IPV4: &str = "proc/sys/net/ipv4";
const CORE: &str = "proc/sys/net/core";
/// The kernel's counters that show lost segments and full buffers.
const COUNTERS: [&str; 20] = [
    "OutSegs",
    "InSegs",
    "RetransSegs",
    "InErrs",
    "TCPTimeouts",
    "TCPLostRetransmit",
    "TCPFastRetrans",
    "TCPSlowStartRetrans",
    "TCPHystartTrainDetect",
    "TCPHystartTrainCwnd",
    "TCPSpuriousRTOs",
    "TCPRcvQDrop",
    "TCPBacklogDrop",
    "PruneCalled",
    "RcvPruned",
    "TCPRcvCollapsed",
    "TCPZeroWindowDrop",
    "TCPToZeroWindowAdv",
    "ListenOverflows",
    "ListenDrops",
];

/// TCP's settings and counters in the reader's network namespace (the kernel's
/// Documentation/networking/ip-sysctl.rst).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tcp {
    /// The receive buffer's sizes in bytes: minimum, default, and the maximum of automatic tuning.
    pub rmem: Fact<[u64; 3]>,
    /// The send buffer's sizes in bytes: minimum, default, and the maximum of automatic tuning.
    pub wmem: Fact<[u64; 3]>,
    /// The limits in pages for the memory of all connections together: low, pressure, maximum.
    pub mem: Fact<[u64; 3]>,
    /// The largest receive buffer that a program may set (`net.core.rmem_max`), in bytes.
    pub core_rmem_max: Fact<u64>,
    /// The largest send buffer that a program may set (`net.core.wmem_max`), in bytes.
    pub core_wmem_max: Fact<u64>,
    /// The most bytes of a socket's ancillary data (`net.core.optmem_max`).
    pub optmem_max: Fact<u64>,
    /// True if receive buffers grow automatically.
    pub moderate_rcvbuf: Fact<bool>,
    /// The share of the receive buffer that isn't part of the window: 1 means a half, and 2 means a quarter. For a
    /// value of 0 or less, -N, the window is the buffer divided by 2 to the power of N.
    pub adv_win_scale: Fact<i32>,
    /// The name of the default congestion control.
    pub congestion_control: Fact<String>,
    /// The congestion controls that the kernel has loaded.
    pub available: Fact<Vec<String>>,
    /// The congestion controls that programs without privileges may use. Only these may be the default of a network
    /// namespace other than the first (`tcp_set_default_congestion_control()` in net/ipv4/tcp_cong.c, since Linux
    /// 5.13).
    pub allowed: Fact<Vec<String>>,
    /// The queueing discipline that new interfaces get (`net.core.default_qdisc`).
    pub default_qdisc: Fact<String>,
    /// True if segments carry timestamps.
    pub timestamps: Fact<bool>,
    /// True if selective acknowledgments are on.
    pub sack: Fact<bool>,
    /// True if windows may exceed 64 KiB.
    pub window_scaling: Fact<bool>,
    /// When the path's MTU is probed: 0 never, 1 after a black hole was detected, 2 always.
    pub mtu_probing: Fact<u32>,
    /// Explicit congestion notification: 0 off, 1 requested by this end, 2 only if the other end requests it.
    pub ecn: Fact<u32>,
    /// True if connections restart with a small window after a pause.
    pub slow_start_after_idle: Fact<bool>,
    /// Whether CUBIC ends slow start early (hystart): 0 means off.
    pub hystart: Fact<u32>,
    /// The signals at which hystart ends slow start: bit 0 is a train of acknowledgments, bit 1 an
    /// increasing delay.
    pub hystart_detect: Fact<u32>,
    /// True if the metrics of closed connections aren't cached.
    pub no_metrics_save: Fact<bool>,
    /// True if the slow start threshold isn't among the cached metrics, which is the default since Linux 5.6.
    pub no_ssthresh_metrics_save: Fact<bool>,
    /// The number of unsent bytes above which a socket accepts no more data (`tcp_notsent_lowat`).
    pub notsent_lowat: Fact<u64>,
    /// The most connections that may wait to be accepted (`net.core.somaxconn`).
    pub somaxconn: Fact<u32>,
    /// The most half-open connections (`tcp_max_syn_backlog`).
    pub max_syn_backlog: Fact<u32>,
    /// The counters since boot, by the names in /proc/net/snmp and netstat: `RetransSegs`, `OutSegs`,
    /// `TCPTimeouts`, `TCPRcvQDrop`, `TCPBacklogDrop`, `PruneCalled`, `ListenDrops`.
    pub counters: Fact<BTreeMap<String, u64>>,
    /// The number of connections that the packet filter tracks; not applicable if the packet filter doesn't track
    /// connections.
    pub tracked: Fact<u64>,
    /// The most connections that the packet filter can track (`nf_conntrack_max`).
    pub most_tracked: Fact<u64>,
    /// True if the kernel has the queueing discipline fq; not applicable if that can't be determined.
    pub has_fq: Fact<bool>,
    /// How next hops of IPv4 are chosen (`fib_multipath_hash_policy`): 0 by addresses, 1 by addresses and ports, 2 by
    /// the addresses within a tunnel, 3 by [`Self::multipath_fields`].
    pub multipath_hash: Fact<u32>,
    /// The fields of packets by which next hops are chosen (`fib_multipath_hash_fields`, Linux 5.14), as a sum of bits:
    /// 16 and 32 are the ports.
    pub multipath_fields: Fact<u32>,
    /// The routes with their own settings.
    pub routes: Fact<Vec<RouteFacts>>,
    /// The limits in bits per second of the rules of nftables that limit packets. Only root can read them.
    pub rule_rates: Fact<Vec<u64>>,
}

/// A route with its own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteFacts {
    /// The route's destination: `default`, or an address with the length of its prefix.
    pub destination: String,
    /// The route's interface.
    pub port: Option<String>,
    /// The maximum transmission unit in bytes.
    pub mtu: Option<u32>,
    /// The largest TCP window in bytes.
    pub window: Option<u32>,
    /// The number of segments in the initial congestion window.
    pub initcwnd: Option<u32>,
    /// The shortest time, in milliseconds, after which an unacknowledged segment is retransmitted.
    pub rto_min: Option<u32>,
    /// The name of the congestion control.
    pub congestion_control: Option<String>,
}

impl Tcp {
    pub(super) fn read(root: &Root) -> Self {
        let cubic = |name: &str| format!("sys/module/tcp_cubic/parameters/{name}");
        let ipv4 = |name: &str| format!("{IPV4}/{name}");
        let core = |name: &str| number(root, &format!("{CORE}/{name}"));
        Self {
            rmem: three(root, &ipv4("tcp_rmem")),
            wmem: three(root, &ipv4("tcp_wmem")),
            mem: three(root, &ipv4("tcp_mem")),
            core_rmem_max: core("rmem_max"),
            core_wmem_max: core("wmem_max"),
            optmem_max: core("optmem_max"),
            moderate_rcvbuf: flag(root, &ipv4("tcp_moderate_rcvbuf")),
            adv_win_scale: number(root, &ipv4("tcp_adv_win_scale")),
            congestion_control: root.text(&ipv4("tcp_congestion_control")),
            available: words(root, &ipv4("tcp_available_congestion_control")),
            allowed: words(root, &ipv4("tcp_allowed_congestion_control")),
            default_qdisc: root.text(&format!("{CORE}/default_qdisc")),
            timestamps: flag(root, &ipv4("tcp_timestamps")),
            sack: flag(root, &ipv4("tcp_sack")),
            window_scaling: flag(root, &ipv4("tcp_window_scaling")),
            mtu_probing: number(root, &ipv4("tcp_mtu_probing")),
            ecn: number(root, &ipv4("tcp_ecn")),
            slow_start_after_idle: flag(root, &ipv4("tcp_slow_start_after_idle")),
            hystart: number(root, &cubic("hystart")),
            hystart_detect: number(root, &cubic("hystart_detect")),
            no_metrics_save: flag(root, &ipv4("tcp_no_metrics_save")),
            no_ssthresh_metrics_save: flag(root, &ipv4("tcp_no_ssthresh_metrics_save")),
            notsent_lowat: number(root, &ipv4("tcp_notsent_lowat")),
            somaxconn: number(root, &format!("{CORE}/somaxconn")),
            max_syn_backlog: number(root, &ipv4("tcp_max_syn_backlog")),
            multipath_hash: number(root, &ipv4("fib_multipath_hash_policy")),
            multipath_fields: number(root, &ipv4("fib_multipath_hash_fields")),
            counters: counters(root),
            tracked: number(root, "proc/sys/net/netfilter/nf_conntrack_count"),
            most_tracked: number(root, "proc/sys/net/netfilter/nf_conntrack_max"),
            has_fq: super::fixed::has_fq(root),
            rule_rates: root
                .answer("live/rule_rates", netlink::rules::rates)
                .map(|text| text.lines().filter_map(|line| line.trim().parse().ok()).collect()),
            routes: root.answer("live/routes", netlink::routes).map(|text| text.lines().map(route).collect()),
        }
    }
}

/// Reads the counters from /proc/net/snmp and /proc/net/netstat. Both files consist of pairs of lines: one line with
/// names, and one with values.
fn counters(root: &Root) -> Fact<BTreeMap<String, u64>> {
    root.needed("proc/net/snmp").and_then(|snmp| {
        root.needed("proc/net/netstat").map(|netstat| {
            let all = in_pairs(&snmp, "Tcp:").into_iter().chain(in_pairs(&netstat, "TcpExt:"));
            all.filter(|(name, _)| COUNTERS.contains(&name.as_str())).collect()
        })
    })
}

fn in_pairs(text: &str, protocol: &str) -> Vec<(String, u64)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

/// Parses a line such as `default eth0 mtu 1400 congctl bbr`; an unknown interface is `-`.
fn route(line: &str) -> RouteFacts {
    let mut words = line.split_whitespace();
    let mut route = RouteFacts {
        destination: words.next().unwrap_or_default().to_owned(),
        port: words.next().filter(|name| *name != "-").map(str::to_owned),
        ..RouteFacts::default()
    };
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        match key {
            "mtu" => route.mtu = value.parse().ok(),
            "window" => route.window = value.parse().ok(),
            "initcwnd" => route.initcwnd = value.parse().ok(),
            "rto_min" => route.rto_min = value.parse().ok(),
            "congctl" => route.congestion_control = Some(value.to_owned()),
            _ => {}
        }
    }
    route
}
