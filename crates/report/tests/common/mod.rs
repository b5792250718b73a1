//! Records that a lab of 10 Gbit/s could have written, for tests and examples.

#![allow(dead_code, reason = "each test takes some of the examples")]

pub mod studies;

use linerate_bench::record::*;
use linerate_host::{Fact, Interface, Profile};
use serde_json::json;

/// A tool with its rates and CPU for 1 stream, 8 streams and its own choice of streams; `None` if it has no
/// such case.
struct Tool {
    name: &'static str,
    group: &'static str,
    label: &'static str,
    version: Option<&'static str>,
    cipher: Option<&'static str>,
    files: bool,
    /// Gbit/s and CPU percent.
    figures: [Option<(f64, f64)>; 3],
    /// Seconds of login, if the tool reports its payload time separately.
    login: Option<f64>,
}

const STREAMS: [Option<u32>; 3] = [Some(1), Some(8), None];

#[rustfmt::skip]
const TOOLS: [Tool; 7] = [
    Tool { name: "iperf3", group: "memory", label: "iperf3", version: Some("3.12"), cipher: None, files: false,
        figures: [Some((9.41, 19.0)), Some((9.40, 31.0)), None], login: Some(0.02) },
    Tool { name: "linerate-stream", group: "memory", label: "linerate stream", version: Some("0.1.0"), cipher: Some("aes128-gcm"), files: false,
        figures: [Some((9.40, 33.0)), Some((9.38, 42.0)), None], login: Some(0.02) },
    Tool { name: "linerate", group: "linerate", label: "linerate cp", version: Some("0.1.0"), cipher: Some("aes128-gcm"), files: true,
        figures: [Some((9.21, 55.0)), Some((9.37, 62.0)), Some((9.39, 57.0))], login: Some(0.06) },
    Tool { name: "linerate", group: "linerate", label: "linerate cp", version: Some("0.1.0"), cipher: None, files: true,
        figures: [Some((9.30, 45.0)), Some((9.40, 51.0)), Some((9.40, 47.0))], login: Some(0.06) },
    Tool { name: "scp", group: "scp", label: "scp", version: Some("OpenSSH 9.2"), cipher: Some("chacha20-poly1305"), files: true,
        figures: [Some((2.81, 68.0)), Some((2.87, 97.0)), None], login: None },
    Tool { name: "rsync", group: "rsync", label: "rsync over ssh", version: Some("3.2.7"), cipher: Some("aes128-gcm"), files: true,
        figures: [Some((4.90, 83.0)), Some((3.33, 98.0)), None], login: None },
    Tool { name: "bbcp", group: "bbcp", label: "bbcp", version: None, cipher: None, files: true,
        figures: [Some((0.0, 0.0)), Some((0.0, 0.0)), None], login: None },
];

/// A typical record of the quick study: one tool missing, one run failed, one disturbed.
pub fn quick(blocks: u32) -> Record {
    let mut record = empty();
    record.blocks = blocks;
    record.cases = cases();
    record.runs = runs(&record.cases, blocks);
    record
}

/// The same study on two separate hosts.
pub fn two_hosts(blocks: u32) -> Record {
    let mut record = quick(blocks);
    record.shared_processors = false;
    for run in &mut record.runs {
        if let Outcome::Measured(m) = &mut run.outcome {
            m.cpu_a = cpu(m.cpu_b.busy_percent().unwrap_or_default() * 0.55, m.seconds);
        }
    }
    record
}

/// The quick study on two links, the second without a shaper.
pub fn two_links(blocks: u32) -> Record {
    let mut record = quick(blocks);
    let open = |case: &Case| Case { id: format!("{}-open", case.id), link: "open".into(), ..case.clone() };
    record.cases.extend(record.cases.clone().iter().map(open));
    let faster = |run: &Run| {
        let mut run = run.clone();
        run.case = format!("{}-open", run.case);
        if let Outcome::Measured(m) = &mut run.outcome {
            let factor = if m.payload_gbit_per_second() > 9.0 { 2.3 } else { 1.02 };
            m.seconds /= factor;
            m.payload_seconds = m.payload_seconds.map(|s| s / factor);
        }
        run
    };
    record.runs.extend(record.runs.clone().iter().map(faster));
    record
}

/// A record without cases or runs. It is parsed from JSON, like a stored record, so that fields with defaults
/// may be added.
pub fn empty() -> Record {
    let shaped = json!({ "bits_per_second": 10_000_000_000_u64, "mtu": 1500, "kind": "veth with tbf",
        "frame_overhead_bytes": 38, "burst_bytes": 4 << 20 });
    let open = json!({ "bits_per_second": null, "mtu": 1500, "kind": "veth" });
    let record = json!({
        "schema": SCHEMA, "linerate": "0.1.0", "study": "quick", "title": "A tree of files over a 10 Gbit/s link",
        "started": "2026-11-21T21:44:03Z", "seed": 7, "blocks": 0, "shared_processors": true,
        "hosts": [host("a"), host("b")], "baseline": "scp-chacha20-poly1305-1",
        "link": shaped, "links": [{ "name": "10gbit", "link": shaped }, { "name": "open", "link": open }],
        "datasets": [{ "name": "tree", "files": 625, "bytes": 1_000_000_000,
            "origin": "generated, log-normal, mean 1.6 MB, seed 7" }],
        "cases": [], "runs": [],
        "bounds": [
            { "name": "Encrypted tree / best synthetic stream", "relation": ">=", "limit": 0.97, "unit": "ratio",
              "expression": "payload_rate(linerate-aes128-gcm-auto) / max(payload_rate(iperf3-*))" },
            { "name": "Peak memory", "relation": "<=", "limit": 50e6, "unit": "bytes",
              "expression": "peak_rss(linerate-aes128-gcm-auto)" },
        ],
    });
    serde_json::from_value(record).expect("the example is a record")
}

fn cases() -> Vec<Case> {
    let of_tool = |tool: &'static Tool| {
        STREAMS
            .iter()
            .zip(&tool.figures)
            .filter(|(_, figures)| figures.is_some())
            .map(|(s, _)| case(tool, *s))
    };
    TOOLS.iter().flat_map(of_tool).collect()
}

fn case(tool: &Tool, streams: Option<u32>) -> Case {
    let count = streams.map_or("auto".to_owned(), |n| n.to_string());
    Case {
        id: format!("{}-{}-{count}", tool.name, tool.cipher.unwrap_or("clear")),
        label: tool.label.to_owned(),
        group: tool.group.into(),
        tool: tool.name.into(),
        version: tool.version.map(str::to_owned),
        streams,
        cipher: tool.cipher.map(str::to_owned),
        dataset: tool.files.then(|| "tree".to_owned()),
        link: "10gbit".into(),
        ..Case::default()
    }
}

fn runs(cases: &[Case], blocks: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    for block in 0..blocks {
        for (index, case) in cases.iter().enumerate() {
            let order = block * cases.len() as u32 + index as u32;
            let started = format!("2026-11-21T21:{:02}:{:02}Z", 44 + order / 60, order % 60);
            runs.push(Run {
                case: case.id.clone(),
                block,
                order,
                started,
                outcome: outcome(case, block, index),
            });
        }
    }
    runs
}

fn outcome(case: &Case, block: u32, index: usize) -> Outcome {
    if case.tool == "bbcp" {
        return Outcome::Unavailable { reason: "bbcp is not installed; no Debian package has it".into() };
    }
    if case.tool == "scp" && case.streams == Some(8) && block == 1 {
        return Outcome::Failed { reason: "scp: exit 1: Connection closed by 10.77.0.2 port 22".into() };
    }
    let (rate, percent) = figures(case);
    // A small spread that repeats: no two blocks alike, the medians near the figures.
    let wobble = 1.0 + f64::from((block * 7 + index as u32 * 3) % 11) * 0.002 - 0.01;
    let login = TOOLS.iter().find(|tool| tool.name == case.tool).and_then(|tool| tool.login);
    let payload_seconds =
        8.0 / (rate * if rate > 9.0 { 1.0 - (wobble - 1.0).abs() / 3.0 } else { wobble.powi(3) });
    let seconds = payload_seconds + login.unwrap_or(0.0);
    Outcome::Measured(Measures {
        bytes: 1_000_000_000,
        files: if case.dataset.is_some() { 625 } else { 0 },
        seconds,
        payload_seconds: login.map(|_| payload_seconds),
        cpu_a: cpu(percent * wobble, seconds),
        cpu_b: cpu(percent * wobble, seconds),
        peak_rss_bytes: (case.tool == "linerate").then_some(61_000_000),
        limiter: case.tool.starts_with("linerate").then(|| "network".to_owned()),
        streams: case.streams,
        disturbed: (case.tool == "rsync" && block == 3).then(|| "steal 6 % of the processors".to_owned()),
        notes: if case.tool == "rsync" && block == 2 {
            vec!["warning: a smaller window".to_owned()]
        } else {
            Vec::new()
        },
        ..Measures::default()
    })
}

fn figures(case: &Case) -> (f64, f64) {
    let tool = TOOLS.iter().find(|t| t.name == case.tool && t.cipher == case.cipher.as_deref());
    let index = STREAMS.iter().position(|s| *s == case.streams);
    tool.zip(index).and_then(|(tool, index)| tool.figures[index]).unwrap_or((1.0, 10.0))
}

pub fn cpu(percent: f64, seconds: f64) -> Cpu {
    let total = 2.0 * seconds;
    let busy = total * (percent / 100.0).min(1.0);
    Cpu {
        processors: 2,
        user: busy * 0.25,
        system: busy * 0.6,
        irq: 0.0,
        softirq: busy * 0.15,
        steal: 0.0,
        idle: total - busy,
        iowait: 0.0,
    }
}

fn host(name: &str) -> Host {
    let facts = Profile {
        hostname: Fact::Known(format!("lab-{name}")),
        kernel: Fact::Known("6.1.0-25-cloud-amd64".into()),
        distribution: Fact::Known("Debian GNU/Linux 12 (bookworm)".into()),
        cpu_model: Fact::Known("Intel(R) Xeon(R) Processor @ 2.60GHz".into()),
        processors: Fact::Known(2),
        cpu_features: Fact::Known(vec!["aes".into(), "vaes".into(), "avx512f".into()]),
        governor: Fact::Unreadable("/sys/devices/system/cpu/cpu0/cpufreq: no such directory".into()),
        hypervisor: Fact::Known("KVM".into()),
        memory_bytes: Fact::Known(25_165_824_000),
        congestion_control: Fact::Known("bbr".into()),
        tcp_rmem: Fact::Known([4096, 131_072, 6_291_456]),
        tcp_wmem: Fact::Known([4096, 16_384, 4_194_304]),
        interfaces: vec![Interface {
            name: format!("veth-{name}"),
            driver: Fact::Known("veth".into()),
            speed_mbps: Fact::Known(10_000),
            mtu: Fact::Known(1500),
            rx_queues: Fact::Known(2),
            tx_queues: Fact::NotApplicable,
        }],
    };
    Host { name: name.into(), facts, whole: None }
}
