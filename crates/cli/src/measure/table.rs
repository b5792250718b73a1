//! Prints the results and costs of a command as tables.

use linerate_doctor::limiter::Limiter;
use linerate_host::sample::{Cost, PortTotals, ProcessSeconds, Traffic};
use linerate_wire::path::printable;
use std::os::unix::ffi::OsStrExt;

use super::export::Measured;
use super::host::Recorded;
use super::limiter::limiter;
use crate::units::{show_bytes, show_count, show_rate, show_time};

/// All results as text, without a newline at the end.
pub fn text(measured: &Measured<'_>) -> String {
    let mut lines = Vec::new();
    if let Some(ended) = &measured.ended {
        let words: Vec<_> = measured.command.iter().map(|word| printable(word.as_bytes())).collect();
        lines.push(format!("{}: {} after {}", words.join(" "), ended.reported, show_time(ended.time)));
        let used = format!("{:.2} CPU-s, descendants that it waited for included", ended.cpu_seconds);
        lines.push(row("command", &used));
        lines.extend(limiter(measured).map(|verdict| {
            let is_open = verdict.limiter == Limiter::NotExplained;
            row(if is_open { "limit" } else { "limited by" }, &verdict.to_string())
        }));
    }
    for host in &measured.hosts {
        lines.push(String::new());
        lines.extend(of_host(host));
    }
    lines.join("\n").trim_start().to_owned()
}

fn row(name: &str, text: &str) -> String {
    format!("  {name:<12} {text}")
}

fn of_host(host: &Recorded) -> Vec<String> {
    let cost = Cost::of(&host.recording);
    let processors = cost.cpu.map_or(0, |cpu| cpu.processors);
    let mut lines = vec![format!(
        "{}: {processors} processors, {:.2} s, {} samples",
        host.name, cost.seconds, cost.samples
    )];
    lines.extend(cpu(&cost));
    lines.extend(processes(&cost.processes));
    let busy = cost.ports.iter().filter(|port| port.received.packets + port.sent.packets > 0);
    lines.extend(busy.flat_map(|of| port(of, cost.seconds)));
    lines.extend(per_gigabyte(&cost));
    lines.extend(network(&cost));
    lines.extend(stalls(&cost));
    lines.extend(
        cost.least_memory.map(|bytes| row("memory", &format!("at least {} available", show_bytes(bytes)))),
    );
    let without = host.recording.missing.iter().filter(|(kind, _)| kind != "processes");
    lines.extend(without.map(|(kind, reason)| {
        row("not known", &format!("{}: {}", printable(kind.as_bytes()), printable(reason.as_bytes())))
    }));
    lines
}

fn cpu(cost: &Cost) -> Vec<String> {
    let Some(cpu) = cost.cpu else { return Vec::new() };
    let mean = cost.busy_percent().unwrap_or(0.0);
    let peak = cost.peak_busy_percent.unwrap_or(0.0);
    let busy = format!(
        "{:.2} CPU-s of {:.2}: {mean:.1} % busy, {peak:.1} % in the busiest interval",
        cpu.busy(),
        cpu.total()
    );
    let states = [
        ("user", cpu.user + cpu.nice),
        ("system", cpu.system),
        ("irq", cpu.irq),
        ("softirq", cpu.softirq),
        ("guests", cpu.guest),
        ("iowait", cpu.iowait),
        ("steal", cpu.steal),
    ];
    let states: Vec<_> = states.iter().map(|(state, seconds)| format!("{state} {seconds:.2}")).collect();
    vec![row("processors", &busy), row("", &format!("CPU-s: {}", states.join(", ")))]
}

/// The row with the five processes, other than this one, that used the most processor time.
fn processes(all: &[ProcessSeconds]) -> Option<String> {
    let others = all.iter().filter(|process| process.pid != std::process::id());
    let used = others.filter(|process| process.seconds >= 0.01).take(5);
    let one = |of: &ProcessSeconds| format!("{} {:.2}", printable(of.name.as_bytes()), of.seconds);
    let shown: Vec<_> = used.map(one).collect();
    (!shown.is_empty()).then(|| row("processes", &format!("CPU-s: {}", shown.join(", "))))
}

fn port(port: &PortTotals, seconds: f64) -> [String; 2] {
    let way = |traffic: &Traffic, way: &str| {
        let peak = show_rate((traffic.peak_bits / 8.0) as u64, 1.0);
        let mut text = format!(
            "{way:<3} {} at {} (wire layer), peak {peak}, {} packets",
            show_bytes(traffic.bytes),
            show_rate(traffic.bytes, seconds),
            show_count(traffic.packets)
        );
        if traffic.drops + traffic.errors > 0 {
            text += &format!(", {} dropped, {} errors", traffic.drops, traffic.errors);
        }
        text
    };
    [row(&printable(port.name.as_bytes()), &way(&port.received, "in")), row("", &way(&port.sent, "out"))]
}

/// The row with the processor time for each gigabyte; `None` if less than 1 MB passed through the ports, the loopback
/// interface excluded.
fn per_gigabyte(cost: &Cost) -> Option<String> {
    let carried = cost.carried();
    let busy = cost.cpu.filter(|_| carried >= 1_000_000)?.busy();
    let per = busy / (carried as f64 * 1e-9);
    Some(row("CPU-s/GB", &format!("{per:.2}, of {} in the busier direction", show_bytes(carried))))
}

fn network(cost: &Cost) -> [String; 2] {
    let (tcp, softnet) = (&cost.tcp, &cost.softnet);
    let tcp = format!(
        "{} of {} segments sent again, {} timeouts, {} prunes, {} listen drops",
        show_count(tcp.retransmits),
        show_count(tcp.segments_out),
        tcp.timeouts,
        tcp.prunes,
        tcp.listen_drops
    );
    let softnet = format!(
        "{} packets, {} dropped, {} times squeezed",
        show_count(softnet.processed),
        softnet.dropped,
        softnet.squeezed
    );
    [row("TCP", &tcp), row("softnet", &softnet)]
}

fn stalls(cost: &Cost) -> Option<String> {
    let reported = cost.stalls.iter().filter(|stall| stall.seconds >= 0.001).map(|stall| {
        let percent = if cost.seconds > 0.0 { 100.0 * stall.seconds / cost.seconds } else { 0.0 };
        format!("{} {:.2} s ({percent:.0} %)", printable(stall.name.as_bytes()), stall.seconds)
    });
    let reported: Vec<_> = reported.collect();
    (!reported.is_empty()).then(|| row("pressure", &reported.join(", ")))
}

/// The share of the time of all processors that the hypervisor took, in percent.
pub fn percent_of_steal(cost: &Cost) -> Option<f64> {
    let cpu = cost.cpu.filter(|cpu| cpu.total() > 0.0)?;
    Some(100.0 * cpu.steal / cpu.total())
}
