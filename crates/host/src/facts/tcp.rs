//! TCP: /proc/sys/net, what it counts, and routes that say more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fact;

/// How TCP is set in the reader's network namespace (the kernel's Documentation/networking/ip-sysctl.rst).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tcp {
    /// Receive buffer: minimum, default, maximum of autotuning in bytes.
    pub rmem: Fact<[u64; 3]>,
    /// Send buffer: minimum, default, maximum of autotuning in bytes.
    pub wmem: Fact<[u64; 3]>,
    /// Memory of all connections: low, pressure, maximum in pages.
    pub mem: Fact<[u64; 3]>,
    /// The most that a program may set as receive buffer (`net.core.rmem_max`), in bytes.
    pub core_rmem_max: Fact<u64>,
    /// The most that a program may set as send buffer (`net.core.wmem_max`), in bytes.
    pub core_wmem_max: Fact<u64>,
    /// Bytes of a socket's extras (`net.core.optmem_max`).
    pub optmem_max: Fact<u64>,
    /// Whether receive buffers grow by themselves.
    pub moderate_rcvbuf: Fact<bool>,
    /// Share of the receive buffer that isn't window: 1 is half, 2 a quarter; negative: the window's power of two.
    pub adv_win_scale: Fact<i32>,
    /// Congestion control in force by default.
    pub congestion_control: Fact<String>,
    /// Those that the kernel has loaded.
    pub available: Fact<Vec<String>>,
    /// Queueing discipline of new interfaces (`net.core.default_qdisc`).
    pub default_qdisc: Fact<String>,
    /// Whether segments carry their time.
    pub timestamps: Fact<bool>,
    /// Selective acknowledgements.
    pub sack: Fact<bool>,
    /// Windows beyond 64 KiB.
    pub window_scaling: Fact<bool>,
    /// Looking for the path's MTU: 0 never, 1 after a black hole, 2 always.
    pub mtu_probing: Fact<u32>,
    /// Explicit congestion notification: 0 off, 1 asked for, 2 where the other asks.
    pub ecn: Fact<u32>,
    /// Whether a pause begins with a small window again.
    pub slow_start_after_idle: Fact<bool>,
    /// Whether a connection's end is not remembered for the next one.
    pub no_metrics_save: Fact<bool>,
    /// Unsent bytes in a socket at which it takes no more.
    pub notsent_lowat: Fact<u64>,
    /// Counters since boot, by the names of /proc/net/snmp and netstat: `RetransSegs`, `OutSegs`, `TCPTimeouts`,
    /// `TCPRcvQDrop`, `TCPBacklogDrop`, `PruneCalled`, `ListenDrops`.
    pub counters: Fact<BTreeMap<String, u64>>,
    /// Routes that set something of their own.
    pub routes: Fact<Vec<Route>>,
}

/// A route that sets more than a way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Route {
    /// Where to: `default`, or an address and its prefix.
    pub destination: String,
    /// By which interface.
    pub port: Option<String>,
    /// MTU.
    pub mtu: Option<u32>,
    /// The largest window, in bytes.
    pub window: Option<u32>,
    /// Segments of the first flight.
    pub initcwnd: Option<u32>,
    /// Congestion control.
    pub congestion_control: Option<String>,
}
