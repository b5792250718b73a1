//! A record for each kind of figure, like those of the studies of the five papers. All numbers are made up,
//! except those that the papers printed.

use linerate_bench::metric::Metric;
use linerate_bench::record::*;

use super::{cpu, empty};

/// All of them, by name.
#[allow(dead_code, reason = "not every test needs all")]
pub fn all(blocks: u32) -> Vec<(&'static str, Record)> {
    vec![
        ("scaling", scaling(blocks)),
        ("differences", differences(blocks)),
        ("web", web(blocks)),
        ("ladder", ladder(blocks)),
        ("bars", bars(blocks)),
    ]
}

/// 1 to 8 links of 1 Gbit/s, native and in a guest, with the printed numbers; one case failed.
pub fn scaling(blocks: u32) -> Record {
    let mut record = study("ports", "HTTP over one to eight links of 1 Gbit/s", blocks);
    record.shared_processors = false;
    record.figures =
        vec![figure(FigureKind::Scaling, "Throughput and CPU over the number of links", "links", "variant")];
    for (variant, each, bend) in [("native", 0.941, 0.0), ("guest", 0.935, 0.055)] {
        for links in 1..=8u32 {
            let mut case =
                case(&format!("{variant}-{links}"), &format!("{links} × 1 Gbit/s, {variant}"), "http");
            case.factors = [("links", links.to_string()), ("variant", variant.to_owned())]
                .map(|(factor, level)| (factor.to_owned(), level))
                .into();
            case.link = format!("{links}x1gbit");
            record.cases.push(case);
            let n = f64::from(links);
            let rate = each * n / (1.0 + bend * (n - 1.0) * 0.5);
            let busy = (11.2 + if variant == "guest" { 8.0 } else { 0.0 }) * n;
            for block in 0..blocks {
                let outcome = if variant == "guest" && links == 7 {
                    Outcome::Failed { reason: "vsftpd in the guest did not answer within 10 s".into() }
                } else {
                    let mut m = stream(rate * wobble(block, links), busy.min(97.0), 10.0);
                    m.cpu_a = cpu(busy.min(97.0) * 0.6, 10.0);
                    m.limited_by_bed = (links == 8 && variant == "native" && block == 0)
                        .then(|| "path of 7.9 Gbit/s".to_owned());
                    Outcome::Measured(m)
                };
                push(&mut record, &format!("{variant}-{links}"), block, outcome);
            }
        }
    }
    let paper = "figure 6 of “1Gbps and 10Gbps Ethernet Server Scalability”";
    for (links, rate, busy) in [(1, 0.964, 10.98), (5, 4.793, 47.05), (8, 7.657, 91.71)] {
        let id = format!("native-{links}");
        record.printed.push(printed(&id, Metric::PayloadRate, rate, paper));
        record.printed.push(printed(&id, Metric::FarBusyPercent, busy, paper));
    }
    record
}

/// Scores of tiles on a host, with queues off and on; the baseline and nine rows as the paper printed them.
pub fn differences(blocks: u32) -> Record {
    let mut record = study("tiles", "A mixed load in 17 tiles, receive queues off and on", blocks);
    record.figures = vec![Figure {
        quantity: Metric::Score,
        ..figure(FigureKind::Differences, "Score, and its difference to the baseline", "", "")
    }];
    record.baseline = Some("base".into());
    let rows = [
        ("base", "1 GbE, published", 23.89, 23.89),
        ("1-off", "1 port, queues off", 23.52, 23.71),
        ("1-16", "1 port, 16 queues", 23.17, 24.35),
        ("1-16-again", "1 port, 16 queues, again", 23.40, 24.31),
        ("2-off", "2 ports, queues off", 23.08, 23.80),
        ("2-16", "2 ports, 16 queues", 22.78, 23.02),
        ("2-8", "2 ports, 8 queues", 23.02, 23.85),
        ("2-4", "2 ports, 4 queues", 22.86, 22.90),
    ];
    for (at, (id, label, paper, score)) in rows.into_iter().enumerate() {
        record.cases.push(case(id, label, "tiles"));
        record.printed.push(printed(id, Metric::Score, paper, "figure 1 of the VMDq white paper"));
        for block in 0..blocks {
            let outcome = if id == "2-4" {
                Outcome::Unavailable {
                    reason: "the card has no 4 queues: ethtool -L eth0 combined 4: Invalid argument".into(),
                }
            } else {
                let score = score * (1.0 + 2.5 * (wobble(block * 3 + 1, at as u32 * 5) - 1.0));
                let few = id == "2-8" && block > 2;
                if few {
                    Outcome::Failed { reason: "tile 11 lost its web server".into() }
                } else {
                    Outcome::Measured(Measures {
                        score: Some(score),
                        seconds: 60.0,
                        cpu_a: cpu(61.0, 60.0),
                        cpu_b: cpu(61.0, 60.0),
                        ..Measures::default()
                    })
                }
            };
            push(&mut record, id, block, outcome);
        }
    }
    record
}

/// Closed-loop HTTP on two hosts: response times, time series, interrupts, and bars of transactions.
pub fn web(blocks: u32) -> Record {
    let mut record = study("http", "240 users that fetch 512 kB over 1 Gbit/s", blocks);
    record.shared_processors = false;
    record.figures = vec![
        Figure {
            quantity: Metric::TransactionRate,
            ..figure(FigureKind::Bars, "Transactions by server", "", "")
        },
        Figure {
            quantity: Metric::P50,
            ..figure(FigureKind::ResponseTimes, "How long a fetch takes", "", "")
        },
        Figure {
            quantity: Metric::TransactionRate,
            cases: vec!["nginx-240".into()],
            ..figure(FigureKind::TimeSeries, "A run over its time", "", "")
        },
        Figure {
            quantity: Metric::TransactionRate,
            cases: vec!["nginx-240".into()],
            ..figure(FigureKind::Interrupts, "Interrupts by processor", "", "")
        },
    ];
    for (id, label, rate, median, spread) in [
        ("memory-240", "in-memory server", 232.0, 1.02e6, 0.10),
        ("nginx-240", "nginx", 229.5, 1.01e6, 0.22),
        ("nginx-1", "nginx, 1 worker", 171.0, 1.35e6, 0.45),
    ] {
        record.cases.push(case(id, label, "http"));
        for block in 0..blocks {
            let shift = wobble(block, id.len() as u32);
            let mut m = stream(rate * shift * 512e3 * 8e-9, 31.0, 20.0);
            m.transactions = Some((rate * shift * 20.0) as u64);
            m.latency = Some(latency(median / shift, spread, m.transactions.unwrap_or(0)));
            m.connections = vec![Connections {
                port: "10.77.0.2:80".into(),
                attempted: 240,
                made: 240,
                failed: u64::from(block == 2),
            }];
            m.series = series(rate * shift * 512e3 * 8e-9);
            m.interrupts = interrupts();
            push(&mut record, id, block, Outcome::Measured(m));
        }
    }
    record.cases.push(case("wrk-240", "wrk on nginx", "http"));
    for block in 0..blocks {
        push(
            &mut record,
            "wrk-240",
            block,
            Outcome::Unavailable { reason: "wrk is not installed: apt install wrk".into() },
        );
    }
    record.printed.push(printed("nginx-240", Metric::P50, 1.04e6, "an example, in no paper"));
    record
}

/// The cost of each stage of a transfer.
pub fn ladder(blocks: u32) -> Record {
    let mut record = study("ladder", "What each stage of a transfer costs", blocks);
    record.figures = vec![figure(FigureKind::Ladder, "From the wire to the whole tree", "rung", "")];
    for (at, (id, rate, busy)) in [
        ("wire only", 22.4, 52.0),
        ("+ encryption", 14.1, 78.0),
        ("+ read", 13.6, 84.0),
        ("+ write", 9.2, 93.0),
        ("whole tree", 8.7, 95.0),
    ]
    .into_iter()
    .enumerate()
    {
        let mut case = case(id, id, "linerate");
        case.factors = [("rung".to_owned(), id.to_owned())].into();
        case.link = "open".into();
        record.cases.push(case);
        for block in 0..blocks {
            push(
                &mut record,
                id,
                block,
                Outcome::Measured(stream(rate * wobble(block, at as u32), busy, 4.0)),
            );
        }
    }
    record
}

/// Tools native and in a guest, with the printed numbers: the model of all bars.
pub fn bars(blocks: u32) -> Record {
    let mut record = study("guest", "File copy tools, native and in one guest, 1 stream", blocks);
    record.figures = vec![figure(FigureKind::Bars, "Various file copy tools (1 stream)", "", "environment")];
    let paper = "figure 5 of “Maximizing File Transfer Performance”";
    for (tool, label, native, guest, paper_value) in [
        ("iperf3", "synthetic", 9.39, 6.1, None),
        ("scp", "scp (ssh)", 2.8, 2.1, Some(0.475)),
        ("rsync", "rsync (ssh)", 3.1, 2.2, Some(0.475)),
        ("hpnscp", "scp (HPN-SSH)", 4.4, 3.0, Some(1.4)),
        ("bbcp", "bbcp", 8.6, 4.9, Some(3.6)),
        ("linerate", "linerate cp", 9.36, 5.9, None),
    ] {
        for (environment, rate, busy) in [("native", native, 44.0), ("guest", guest, 71.0)] {
            let id = format!("{tool}-{environment}");
            let mut case = case(&id, label, tool);
            case.group = environment.into();
            case.factors = [("environment".to_owned(), environment.to_owned())].into();
            case.streams = Some(1);
            case.dataset = (tool != "iperf3").then(|| "tree".to_owned());
            record.cases.push(case);
            for block in 0..blocks {
                let m = stream(rate * wobble(block, busy as u32), busy * wobble(block, 2), 3.0);
                push(&mut record, &id, block, Outcome::Measured(m));
            }
        }
        if let Some(value) = paper_value {
            record.printed.push(printed(&format!("{tool}-native"), Metric::PayloadRate, value, paper));
        }
    }
    record
}

fn study(name: &str, title: &str, blocks: u32) -> Record {
    Record { study: name.into(), title: title.into(), blocks, baseline: None, bounds: Vec::new(), ..empty() }
}

fn figure(kind: FigureKind, title: &str, x: &str, series: &str) -> Figure {
    let some = |factor: &str| (!factor.is_empty()).then(|| factor.to_owned());
    Figure {
        kind,
        title: title.into(),
        quantity: Metric::PayloadRate,
        x: some(x),
        series: some(series),
        cases: Vec::new(),
    }
}

fn case(id: &str, label: &str, tool: &str) -> Case {
    Case {
        id: id.into(),
        label: label.into(),
        group: tool.into(),
        tool: tool.into(),
        link: "10gbit".into(),
        ..Case::default()
    }
}

fn printed(case: &str, quantity: Metric, value: f64, source: &str) -> Printed {
    Printed { case: case.into(), quantity, value, source: source.into(), layer: Layer::Payload }
}

fn push(record: &mut Record, case: &str, block: u32, outcome: Outcome) {
    let order = record.runs.len() as u32;
    let started = format!("2026-11-21T22:{:02}:{:02}Z", order / 60 % 60, order % 60);
    record.runs.push(Run { case: case.into(), block, order, started, outcome });
}

fn stream(gbit: f64, busy: f64, seconds: f64) -> Measures {
    let bytes = (gbit * 1e9 / 8.0 * seconds) as u64;
    Measures { bytes, seconds, cpu_a: cpu(busy, seconds), cpu_b: cpu(busy, seconds), ..Measures::default() }
}

/// A spread that repeats, within 1 % or so.
fn wobble(block: u32, salt: u32) -> f64 {
    1.0 + f64::from((block * 7 + salt * 3) % 11) * 0.0022 - 0.011
}

/// A skewed distribution with a long tail.
fn latency(median: f64, spread: f64, count: u64) -> Latency {
    let quantile = |z: f64| median * (spread * z + 0.09 * spread * z * z.max(0.0)).exp();
    let classes: Vec<f64> = (0..60).map(|at| -2.6 + f64::from(at) * 0.115).collect();
    // The logistic curve stands in for the normal distribution's.
    let below = |z: f64| 1.0 / (1.0 + (-1.702 * z).exp());
    let mut before = 0.0;
    let histogram = classes.iter().map(|z| {
        let share = below(*z) - before;
        before = below(*z);
        (quantile(*z).round(), (share * count as f64).round() as u64)
    });
    Latency {
        count,
        mean_us: median * 1.03,
        p50_us: median,
        p90_us: quantile(1.29),
        p99_us: quantile(2.7),
        p999_us: quantile(4.06),
        max_us: quantile(4.3),
        histogram: histogram.filter(|(_, count)| *count > 0).collect(),
    }
}

fn series(gbit: f64) -> Vec<Series> {
    let line = |host: &str, name: &str, unit: &str, level: f64, ripple: f64| {
        let point = |at: u32| {
            let t = f64::from(at) * 0.25;
            let ramp = (t / 2.5).min(1.0);
            let noise =
                f64::from((at * 7919 + host.len() as u32 * 31 + name.len() as u32 * 17) % 97) / 97.0 - 0.5;
            (t, (level * ramp * (1.0 + ripple * noise)).max(0.0))
        };
        Series {
            host: host.into(),
            name: name.into(),
            unit: unit.into(),
            points: (1..=80).map(point).collect(),
        }
    };
    vec![
        line("a", "eth0 in", "Gbit/s", gbit * 1.043, 0.05),
        line("b", "eth0 out", "Gbit/s", gbit * 1.043, 0.06),
        line("a", "cpu busy", "percent", 22.0, 0.3),
        line("b", "cpu busy", "percent", 41.0, 0.25),
        line("b", "cpu softirq", "percent", 9.0, 0.4),
        line("b", "interrupts", "1/s", 21_000.0, 0.2),
        line("a", "interrupts", "1/s", 17_500.0, 0.2),
    ]
}

fn interrupts() -> Vec<Interrupts> {
    let row = |host: &str, source: &str, rates: [u64; 8]| Interrupts {
        host: host.into(),
        source: source.into(),
        per_processor: rates.map(|rate| rate * 20).to_vec(),
    };
    vec![
        row("a", "eth0-rx-0", [9_120, 0, 0, 0, 0, 0, 0, 0]),
        row("a", "eth0-rx-1", [0, 8_311, 0, 0, 0, 0, 0, 0]),
        row("a", "NET_RX", [9_410, 8_702, 12, 4, 0, 2, 0, 1]),
        row("a", "TIMER", [251, 250, 248, 250, 120, 96, 88, 102]),
        row("b", "eth0-tx-0", [0, 0, 10_233, 0, 0, 0, 0, 0]),
        row("b", "eth0-tx-1", [0, 0, 0, 9_876, 0, 0, 0, 0]),
        row("b", "NET_TX", [1, 0, 410, 388, 0, 0, 0, 0]),
        row("b", "NET_RX", [22, 41, 10_633, 10_120, 7, 3, 0, 2]),
        row("b", "SCHED", [101, 96, 333, 301, 88, 77, 91, 60]),
    ]
}
