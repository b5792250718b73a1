//! Prints facts as text: a section for each part of the host, and a line for each value.

use linerate_host::facts::{
    CpuFacts, FileSystem, GroupFacts, IdleState, MemoryFacts, MemoryLimit, Node, SoftnetFacts, Ssh,
    StallShares, Storage, Strain, Tcp,
};
use linerate_host::{Fact, Facts};
use linerate_wire::path::printable;
use std::collections::BTreeMap;
use std::fmt::Display;

use super::port;
use crate::units::show_bytes;

/// All facts as text, without a newline at the end.
pub fn text(facts: &Facts) -> String {
    let mut lines = host(facts);
    lines.extend(section("processors", cpu(&facts.cpu)));
    lines.extend(section("memory", memory(&facts.memory)));
    lines.extend(section("control groups", groups(&facts.groups)));
    match &facts.ports {
        Fact::Known(ports) => lines.extend(ports.iter().flat_map(port::lines)),
        other => lines.extend(section("ports", vec![row("all", shown(other, |_| String::new()))])),
    }
    lines.extend(section("received packets", softnet(&facts.softnet)));
    lines.extend(section("TCP", tcp(&facts.tcp)));
    lines.extend(storage(&facts.storage));
    lines.extend(section("ssh", ssh(&facts.ssh)));
    lines.extend(section("strain", strain(&facts.strain)));
    lines.join("\n")
}

/// A blank line, a heading and the rows; empty if there are no rows.
pub fn section(name: &str, rows: Vec<String>) -> Vec<String> {
    if rows.is_empty() {
        return rows;
    }
    [vec![String::new(), printable(name.as_bytes())], rows].concat()
}

pub fn row(name: &str, text: String) -> String {
    // Names of drivers and file systems come from outside this program, so they are escaped.
    format!("  {name:<18} {}", printable(text.as_bytes()))
}

/// A row for a fact; `None` if the fact doesn't apply to the host.
pub fn line<T>(name: &str, fact: &Fact<T>, show: impl FnOnce(&T) -> String) -> Option<String> {
    match fact {
        Fact::NotApplicable => None,
        fact => Some(row(name, shown(fact, show))),
    }
}

pub fn shown<T>(fact: &Fact<T>, show: impl FnOnce(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => show(value),
        Fact::NotApplicable => "-".into(),
        Fact::Unreadable(reason) => format!("unknown: {reason}"),
    }
}

/// The known values, separated by commas.
pub fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "-".into() } else { parts.join(", ") }
}

pub fn named<T: Display>(name: &str, fact: &Fact<T>) -> Option<String> {
    fact.known().map(|value| format!("{name} {value}"))
}

pub fn on_off(name: &str, fact: &Fact<bool>) -> Option<String> {
    fact.known().map(|on| format!("{name} {}", if *on { "on" } else { "off" }))
}

/// The numbers of processors as text, in the kernel's form: `0-3,8`.
pub fn ranges(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let show =
        |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let all: Vec<String> = ranges.into_iter().map(show).collect();
    if all.is_empty() { "none".into() } else { all.join(",") }
}

fn host(facts: &Facts) -> Vec<String> {
    let machine = &facts.machine;
    let made = joined([machine.vendor.known().cloned(), machine.product.known().cloned()]);
    let guests = format!(
        "{} running, vhost-net {}, {} of its threads",
        shown(&machine.guests, u32::to_string),
        shown(&machine.vhost_net, |there| if *there { "there".into() } else { "not there".into() }),
        shown(&machine.vhost_threads, u32::to_string),
    );
    let mut lines = vec![shown(&facts.hostname, |name| printable(name.as_bytes()))];
    lines.extend(line("kernel", &facts.kernel, Clone::clone));
    lines.extend(line("distribution", &facts.distribution, Clone::clone));
    lines.push(row("machine", made));
    lines.extend(line("route of this login", &facts.route, |route| route.ports.join(" and ")));
    lines.extend(line("guest of", &machine.hypervisor(), Clone::clone));
    if machine.kvm.get() == Some(true) || machine.guests.get().is_some_and(|guests| guests > 0) {
        lines.push(row("guests", guests));
    }
    lines
}

fn cpu(cpu: &CpuFacts) -> Vec<String> {
    let counts = joined([
        cpu.sockets.known().map(|n| format!("{n} sockets")),
        cpu.cores.known().map(|n| format!("{n} cores")),
        cpu.threads().known().map(|n| format!("{n} threads")),
    ]);
    let settings =
        joined([named("SMT", &cpu.smt), on_off("turbo", &cpu.turbo), named("driver", &cpu.frequency_driver)]);
    let rate = |bytes: &f64| format!("{}/s a thread", show_bytes(*bytes as u64));
    let lines = [
        line("model", &cpu.model, Clone::clone),
        Some(row("number", counts)),
        line("NUMA nodes", &cpu.nodes, |all| all.iter().map(node).collect::<Vec<_>>().join("; ")),
        cpu.isolated.known().filter(|cpus| !cpus.is_empty()).map(|cpus| row("isolated", ranges(cpus))),
        cpu.nohz_full.known().filter(|cpus| !cpus.is_empty()).map(|cpus| row("without tick", ranges(cpus))),
        line("governor", &cpu.governors, counted),
        Some(row("settings", settings)),
        cpu.siblings
            .known()
            .filter(|cores| cores.iter().any(|threads| threads.len() > 1))
            .map(|c| siblings(c)),
        line("idle", &cpu.idle.states, |states| states.iter().map(idle).collect::<Vec<_>>().join(", ")),
        line("features", &cpu.features, |names| names.join(" ")),
        line("weaknesses", &cpu.mitigations, weaknesses),
        line("AES-128-GCM", &cpu.aes_128_gcm, rate),
        line("BLAKE3", &cpu.blake3, rate),
    ];
    lines.into_iter().flatten().collect()
}

fn node(node: &Node) -> String {
    format!("{}: {}", node.number, shown(&node.cpus, |cpus| ranges(cpus)))
}

fn counted(all: &BTreeMap<String, u32>) -> String {
    all.iter().map(|(name, count)| format!("{name} on {count}")).collect::<Vec<_>>().join(", ")
}

/// The number of processor vulnerabilities that the kernel knows, and the names of those that aren't mitigated.
fn weaknesses(all: &BTreeMap<String, String>) -> String {
    let open = all.iter().filter(|(_, state)| state.starts_with("Vulnerable"));
    let names: Vec<&str> = open.map(|(name, _)| name.as_str()).collect();
    let list = if names.is_empty() { String::new() } else { format!(": {}", names.join(" ")) };
    format!("{} known, {} open{list}", all.len(), names.len())
}

/// The numbers of the threads of the first four cores, as text.
fn siblings(cores: &[Vec<u32>]) -> String {
    let some: Vec<String> = cores.iter().take(4).map(|threads| ranges(threads)).collect();
    let more = if cores.len() > some.len() { " ..." } else { "" };
    row("siblings", format!("{}{more}", some.join("; ")))
}

fn idle(state: &IdleState) -> String {
    let off = match state.disabled.get() {
        None | Some(0) => String::new(),
        Some(count) => format!(", off on {count}"),
    };
    let latency = shown(&state.latency_us, |us| format!("{us} us"));
    format!("{} ({latency}{off})", shown(&state.name, Clone::clone))
}

fn memory(memory: &MemoryFacts) -> Vec<String> {
    let bytes = |bytes: &u64| show_bytes(*bytes);
    let lines = [
        line("total", &memory.total, bytes),
        line("available", &memory.available, bytes),
        line("swap", &memory.swap_total, |total| match memory.swap_free.known() {
            Some(free) => {
                format!("{}, of which {} used", show_bytes(*total), show_bytes(total.saturating_sub(*free)))
            }
            None => show_bytes(*total),
        }),
    ];
    lines.into_iter().flatten().collect()
}

fn softnet(softnet: &SoftnetFacts) -> Vec<String> {
    let sums = |cpus: &Vec<linerate_host::facts::SoftnetCpu>| {
        let sum = |value: fn(&linerate_host::facts::SoftnetCpu) -> u64| {
            cpus.iter().map(value).fold(0, u64::saturating_add)
        };
        let (processed, dropped, squeezed) = (sum(|c| c.processed), sum(|c| c.dropped), sum(|c| c.squeezed));
        format!("{processed} processed, {dropped} dropped, {squeezed} times squeezed")
    };
    let limits = joined([
        named("backlog", &softnet.max_backlog),
        named("budget", &softnet.budget),
        named("microseconds", &softnet.budget_usecs),
        named("RFS flows", &softnet.rps_sock_flow_entries),
        named("busy poll", &softnet.busy_poll),
    ]);
    [line("since boot", &softnet.cpus, sums), Some(row("limits", limits))].into_iter().flatten().collect()
}

fn tcp(tcp: &Tcp) -> Vec<String> {
    let buffer = |sizes: &[u64; 3]| format!("{} / {} / {} bytes", sizes[0], sizes[1], sizes[2]);
    let congestion = joined([
        tcp.congestion_control.known().cloned(),
        tcp.available.known().map(|names| format!("of {}", names.join(" "))),
        named("default qdisc", &tcp.default_qdisc),
    ]);
    let switches = joined([
        on_off("timestamps", &tcp.timestamps),
        on_off("SACK", &tcp.sack),
        on_off("window scaling", &tcp.window_scaling),
        named("MTU probing", &tcp.mtu_probing),
        named("ECN", &tcp.ecn),
    ]);
    let lines = [
        line("receive buffer", &tcp.rmem, buffer),
        line("send buffer", &tcp.wmem, buffer),
        line("rmem_max", &tcp.core_rmem_max, |bytes| format!("{bytes} bytes")),
        line("wmem_max", &tcp.core_wmem_max, |bytes| format!("{bytes} bytes")),
        Some(row("congestion", congestion)),
        Some(row("switches", switches)),
        line("since boot", &tcp.counters, sent_again),
    ];
    let routes = tcp.routes.known().into_iter().flatten().map(|route| {
        let parts = joined([
            route.port.as_ref().map(|port| format!("by {port}")),
            route.mtu.map(|mtu| format!("MTU {mtu}")),
            route.window.map(|window| format!("window {window}")),
            route.initcwnd.map(|segments| format!("initcwnd {segments}")),
            route.congestion_control.clone(),
        ]);
        row("route", format!("{} {parts}", route.destination))
    });
    lines.into_iter().flatten().chain(routes).collect()
}

fn sent_again(counters: &BTreeMap<String, u64>) -> String {
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    let (again, all, timeouts) = (of("RetransSegs"), of("OutSegs"), of("TCPTimeouts"));
    format!("{again} of {all} segments sent again, {timeouts} timeouts")
}

fn storage(storage: &Storage) -> Vec<String> {
    match &storage.file_systems {
        Fact::Known(all) => {
            all.iter().flat_map(|fs| section(&format!("path {}", fs.path), file_system(fs))).collect()
        }
        other => section("storage", vec![row("paths", shown(other, |_| String::new()))]),
    }
}

fn file_system(fs: &FileSystem) -> Vec<String> {
    let mounted = joined([
        fs.kind.known().cloned(),
        named("from", &fs.source),
        named("at", &fs.mount_point),
        fs.options.known().map(|options| options.join(",")),
    ]);
    let space = joined([
        fs.total.known().map(|bytes| show_bytes(*bytes)),
        fs.free.known().map(|bytes| format!("{} free", show_bytes(*bytes))),
    ]);
    let device = |device: &linerate_host::facts::BlockDevice| {
        joined([
            Some(device.name.clone()),
            device.model.known().cloned(),
            device
                .rotational
                .known()
                .map(|turns| if *turns { "rotating".into() } else { "not rotating".into() }),
            device.size.known().map(|bytes| show_bytes(*bytes)),
            named("scheduler", &device.scheduler),
            named("cache", &device.write_cache),
            device.encrypted.known().map(|by| format!("encrypted: {}", by.format)),
        ])
    };
    let lines =
        [Some(row("file system", mounted)), Some(row("space", space)), line("device", &fs.device, device)];
    lines.into_iter().flatten().collect()
}

fn ssh(ssh: &Ssh) -> Vec<String> {
    let version = |version: &String| version.clone() + if Ssh::is_hpn(version) { " (HPN)" } else { "" };
    let lines = [
        line("client", &ssh.client, version),
        line("server", &ssh.server, version),
        line("ciphers", &ssh.ciphers, |names| names.join(" ")),
    ];
    lines.into_iter().flatten().collect()
}

fn groups(groups: &GroupFacts) -> Vec<String> {
    let memory = |limit: &MemoryLimit| {
        let used = limit.used.get().map_or(String::new(), |used| format!(", {} in use", show_bytes(used)));
        format!("{} for {}{used}", show_bytes(limit.bytes), limit.group)
    };
    let lines = [
        line("own", &groups.name, String::clone),
        line("CPU quota", &groups.cpu_quota, |quota| {
            let period = quota.period_us / 1000;
            format!("{:.2} processors for {}, in periods of {period} ms", quota.processors, quota.group)
        }),
        line("stopped by it", &groups.throttling, |of| {
            format!("in {} of {} periods", of.throttled, of.periods)
        }),
        line("cpuset", &groups.cpuset, |cpus| ranges(cpus)),
        line("may run on", &groups.allowed, |cpus| ranges(cpus)),
        line("most memory", &groups.memory_max, memory),
        line("slowed down from", &groups.memory_high, memory),
    ];
    lines.into_iter().flatten().collect()
}

fn strain(strain: &Strain) -> Vec<String> {
    let percent = |share: &f64| format!("{:.2} % of processor time since boot", share * 100.0);
    let stall = |stall: &StallShares| {
        format!("{:.2} / {:.2} / {:.2} % of 10 / 60 / 300 s", stall.some_10, stall.some_60, stall.some_300)
    };
    let lines = [
        line("stolen", &strain.steal, percent),
        line("busy", &strain.busy, percent),
        line("waits for CPU", &strain.cpu, stall),
        line("waits for I/O", &strain.io, stall),
        line("waits for memory", &strain.memory, stall),
    ];
    lines.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_in_a_row_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 8, 10, 11]), "0-2,8,10-11");
        assert_eq!(ranges(&[]), "none");
    }

    #[test]
    fn what_is_not_known_says_why_and_nothing_else_is_invented() {
        let text = text(&Facts::default());
        assert!(text.contains("unknown: not read") && text.lines().count() > 20, "{text}");
        assert!(text.lines().all(|line| !line.contains(" 0 ")), "{text}");
    }
}
