//! Determines what limited the measured command: converts the recordings to the evidence by which the crate of the
//! doctor names the limiter.

use linerate_doctor::limiter::command::{self, HostLoad, Program, RateOption};
use linerate_doctor::limiter::{CommandEvidence, Flows, Verdict};
use linerate_host::CpuSeconds;
use linerate_host::sample::{Cost, Flow, flows_of_followed, process_times, quota_use};
use linerate_wire::path::printable;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::export::Measured;
use super::host::Recorded;
use crate::units::parse_rate;

/// A connection counts if it moved at least this share of the bytes of the largest connection.
const COUNTS: f64 = 0.1;
/// Options with which programs limit their rate.
const RATE_LIMITS: [&str; 3] = ["--bwlimit", "--limit-rate", "--max-rate"];

/// The limiter of the measured command; `None` without a command.
pub fn limiter(measured: &Measured<'_>) -> Option<Verdict> {
    let ended = measured.ended.as_ref()?;
    let seconds = ended.time.as_secs_f64();
    let hosts = measured.hosts.iter().map(|host| load(host, seconds)).collect();
    let paced_by = rate_limit(measured.command);
    Some(command::name(&CommandEvidence { seconds, paced_by, hosts, devices: Some(ended.devices) }))
}

fn rate_limit(words: &[OsString]) -> Option<RateOption> {
    let words: Vec<String> = words.iter().map(|word| printable(word.as_bytes())).collect();
    let is = |program: &str| words.first().is_some_and(|word| Path::new(word).ends_with(program));
    let own: &[&str] = match () {
        () if is("scp") => &["-l"],
        () if is("iperf3") => &["--bitrate", "-b"],
        () => &[],
    };
    let is_set = |word: &str| RATE_LIMITS.iter().chain(own).copied().find(|option| word.starts_with(option));
    let (at, option) = words.iter().enumerate().find_map(|(at, word)| Some((at, is_set(word)?)))?;
    let behind = words[at][option.len()..].trim_start_matches('=');
    let next = words.get(at + 1).map_or("", String::as_str);
    let bits = bits(option, if behind.is_empty() { next } else { behind });
    (bits != Some(0.0)).then(|| RateOption { option: words[at].clone(), bits })
}

/// The rate limit in bits per second that an option of a program sets. `value` is in the units of that program. 0 if
/// the value means no limit, and `None` if the value can't be parsed.
fn bits(option: &str, value: &str) -> Option<f64> {
    match (option, value.parse::<f64>()) {
        // scp's unit is kbit, of 1024 bits.
        ("-l", number) => Some(number.ok()? * 1024.0),
        ("--bitrate" | "-b", _) => of_iperf(value),
        // curl and wget count in bytes.
        ("--limit-rate", Ok(number)) => Some(number * 8.0),
        ("--bwlimit" | "--limit-rate", _) => {
            Some(parse_rate(value).ok()?.map_or(0.0, |bytes| bytes as f64 * 8.0))
        }
        _ => None,
    }
}

/// Parses a rate in the notation of iperf3, and returns it in bits per second. A rate is a number with a unit, such as
/// `100M`; a slash and a burst may follow. The units are powers of ten.
fn of_iperf(value: &str) -> Option<f64> {
    let value = value.split('/').next().unwrap_or_default();
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let factor = match value[end..].to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        _ => return None,
    };
    Some(value[..end].parse::<f64>().ok()? * factor)
}

fn load(host: &Recorded, seconds: f64) -> HostLoad {
    let Recorded { name, recording } = host;
    let cost = Cost::of(recording);
    let share = |part: fn(&CpuSeconds) -> f64| {
        cost.cpu.filter(|cpu| cpu.total() > 0.0).map_or(0.0, |cpu| part(&cpu) / cpu.total())
    };
    let own = std::process::id();
    let programs =
        process_times(recording).into_iter().filter(|process| process.pid != own).map(|of| Program {
            name: printable(of.name.as_bytes()),
            processors: of.processors,
            threads: of.threads,
            thread_use: of.thread_use,
            disk: of.waits,
            present: (of.seen.1 - of.seen.0) / seconds.max(1e-3),
        });
    let all = flows_of_followed(recording);
    let pressure =
        cost.stalls.iter().find(|stall| stall.name == "io some").map_or(0.0, |stall| stall.seconds);
    let (counted, sends, seen) = together(&all);
    // If no sample contains a connection, the direction follows from the bytes that the ports counted.
    let sends = if counted.is_some() { sends } else { mostly_sends(&cost) };
    HostLoad {
        name: printable(name.as_bytes()),
        // Processes of a lower priority give way, so their time counts as idle.
        idle: share(|cpu| cpu.idle + cpu.iowait + cpu.nice),
        softirq: share(|cpu| cpu.softirq),
        storage_pressure: pressure / cost.seconds.max(1e-3),
        programs: programs.collect(),
        flows: counted,
        sends,
        seconds: seen,
        quota: quota_use(recording),
    }
}

fn mostly_sends(cost: &Cost) -> bool {
    let ports = || cost.ports.iter().filter(|port| port.name != "lo");
    let (sent, received) = (ports().map(|port| port.sent.bytes), ports().map(|port| port.received.bytes));
    sent.fold(0, u64::saturating_add) > received.fold(0, u64::saturating_add)
}

/// The largest connections, combined to one; whether they sent more than they received; and the seconds from the start
/// of the first to the end of the last.
fn together(all: &[Flow]) -> (Option<Flows>, bool, f64) {
    let moved = |flow: &Flow| flow.bytes_sent.saturating_add(flow.bytes_received) as f64;
    let Some(largest) = all.first().map(moved).filter(|bytes| *bytes > 0.0) else {
        return (None, false, 0.0);
    };
    let counted: Vec<&Flow> = all.iter().filter(|flow| moved(flow) >= COUNTS * largest).collect();
    let sum = |value: fn(&Flow) -> u64| counted.iter().map(|flow| value(flow) as f64).sum::<f64>();
    let number = counted.len() as f64;
    let mean = |value: fn(&Flow) -> f64| counted.iter().map(|flow| value(flow)).sum::<f64>() / number;
    let from = counted.iter().map(|flow| flow.seen.0).fold(f64::INFINITY, f64::min);
    let seconds = counted.iter().map(|flow| flow.seen.1).fold(0.0, f64::max) - from;
    // Connections one after another are open for only a part of the time each.
    let open: f64 = counted.iter().map(|flow| flow.seen.1 - flow.seen.0).sum();
    let concurrent = (open / seconds.max(1e-3)).clamp(1.0, number);
    let (sent, received) = (sum(|flow| flow.bytes_sent), sum(|flow| flow.bytes_received));
    let segment_size = sum(|flow| flow.segment_size) / number;
    let retransmits = sum(|flow| flow.retransmits);
    let flows = Flows {
        held: 0.0,
        number: concurrent,
        // Bytes that a connection moved before its first sample aren't counted, because the time in which it moved them
        // isn't known.
        bits: 8.0 * sum(|flow| flow.bytes_seen) / seconds.max(1e-3),
        busy: sum(|flow| flow.busy_us),
        rwnd_limited: sum(|flow| flow.rwnd_limited_us),
        sndbuf_limited: sum(|flow| flow.sndbuf_limited_us),
        retransmits,
        segments: sent / segment_size.max(1.0) + retransmits,
        rtt: sum(|flow| flow.rtt_us) / number,
        min_rtt: sum(|flow| flow.min_rtt_us) / number,
        segment_size,
        window_size: sum(|flow| flow.window) / number,
        window_closed: mean(|flow| flow.window_closed),
        data_segments: sum(|flow| flow.data_segments),
        data: sent + received,
        delivery_rate: sum(|flow| flow.delivery_rate) / number,
        send_buffer_full: mean(|flow| flow.send_buffer_full),
        send_buffer: sum(|flow| flow.send_buffer) / number,
        in_flight: sum(|flow| flow.in_flight) / number,
        link: counted.iter().map(|flow| flow.link).max().unwrap_or(0) as f64,
        waiting: mean(|flow| flow.waiting),
        unread: mean(|flow| flow.unread),
    };
    (Some(flows), sent > received, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_the_user_set_is_seen() {
        let by = |words: &[&str]| {
            let pace = rate_limit(&words.iter().map(OsString::from).collect::<Vec<_>>())?;
            Some((pace.option, pace.bits))
        };
        let set = |option: &str, bits| Some((option.to_owned(), bits));
        assert_eq!(
            by(&["rsync", "--bwlimit=5m", "a"]),
            set("--bwlimit=5m", Some(5.0 * 8.0 * 1024f64.powi(2)))
        );
        assert_eq!(by(&["rsync", "--bwlimit", "1000", "a"]), set("--bwlimit", Some(8.192e6)));
        assert_eq!(by(&["/usr/bin/scp", "-l", "8000", "a"]), set("-l", Some(8.192e6)));
        assert_eq!(by(&["scp", "-l8000", "a"]), set("-l8000", Some(8.192e6)));
        assert_eq!(by(&["curl", "--limit-rate", "1000000"]), set("--limit-rate", Some(8e6)));
        assert_eq!(by(&["iperf3", "-c", "b", "-b", "100M/8"]), set("-b", Some(100e6)));
        assert_eq!(by(&["iperf3", "--bitrate=2g"]), set("--bitrate=2g", Some(2e9)));
        assert_eq!(by(&["any", "--max-rate=x"]), set("--max-rate=x", None));
        assert_eq!((by(&["ls", "-l"]), by(&[]), by(&["rsync", "--bwlimit=0", "a"])), (None, None, None));
    }

    #[test]
    fn small_flows_do_not_count() {
        let flow = |sent, received, from, to| Flow {
            bytes_sent: sent,
            bytes_received: received,
            bytes_seen: sent / 2,
            busy_us: 1000,
            segment_size: 1000,
            seen: (from, to),
            ..Flow::default()
        };
        let (flows, sends, seconds) =
            together(&[flow(1_000_000, 10, 1.0, 3.0), flow(500_000, 0, 2.0, 5.0), flow(9, 0, 0.0, 9.0)]);
        let flows = flows.unwrap();
        // Together they were open for 5 of 4 seconds.
        assert_eq!((flows.number, flows.bits, flows.busy, flows.segments), (1.25, 1.5e6, 2000.0, 1500.0));
        assert!(sends && seconds == 4.0);
        let in_turn: Vec<Flow> =
            (0..4).map(|at| flow(1_000, 0, f64::from(at), f64::from(at) + 0.9)).collect();
        assert_eq!(together(&in_turn).0.unwrap().number, 1.0);
        assert_eq!(together(&[flow(0, 0, 0.0, 1.0)]), (None, false, 0.0));
    }
}
