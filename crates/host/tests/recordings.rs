//! Recordings of constructed trees, and of bytes that no kernel would write.

use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_host::sample::{self, Cost, Recording, Sampler, SamplerOptions};
use proptest::prelude::*;
use tempfile::TempDir;

/// The files of a host that has been busy for N ticks and has received N packets.
fn write(root: &Path, n: u64) {
    let files = [
        ("stat", format!("cpu  {n} 0 0 100 0 0 0 0 0 0\ncpu0 {n} 0 0 100 0 0 0 0 0 0\nintr 1 2 3\n")),
        ("interrupts", format!("     CPU0\n 24: {n} chip pin eth0-rx-0\n")),
        ("softirqs", format!("     CPU0\n NET_RX: {n}\n")),
        ("meminfo", format!("MemTotal: 900 kB\nMemAvailable: {n} kB\n")),
        ("net/dev", format!(" face |bytes\n eth0: {n}000 {n} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n")),
        ("net/softnet_stat", format!("{n:08x} 00000000 00000001 0 0 0 0 0 0 0 0 0 00000000\n")),
        ("net/snmp", format!("Tcp: InSegs RetransSegs\nTcp: {n} 3\n")),
        ("net/netstat", format!("TcpExt: TCPTimeouts\nTcpExt: {n}\n")),
        ("pressure/cpu", format!("some avg10=0.00 total={n}000\n")),
        ("pressure/io", "some avg10=0.00 total=7\n".to_owned()),
        ("pressure/memory", "some avg10=0.00 total=7\n".to_owned()),
    ];
    for (path, text) in files {
        let path = root.join("proc").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn record(root: &TempDir) -> Recording {
    let mut sampler = Sampler::new(&SamplerOptions { root: root.path().into(), ..SamplerOptions::default() });
    let mut bytes = sampler.heading();
    for n in [100, 140, 160] {
        write(root.path(), n);
        sampler.sample(true, &mut bytes);
        std::thread::sleep(Duration::from_millis(2));
    }
    Recording::parse(&bytes).unwrap()
}

#[test]
fn every_kind_of_a_tree_is_reported() {
    let root = TempDir::new().unwrap();
    let recording = record(&root);
    let cost = Cost::of(&recording);
    assert_eq!((cost.samples, cost.cpu.unwrap().processors), (3, 1));
    assert_eq!((cost.cpu.unwrap().user * recording.about.ticks_per_second as f64).round(), 60.0);
    assert_eq!((cost.ports[0].received.bytes, cost.ports[0].received.packets), (60_000, 60));
    assert_eq!((cost.softnet.processed, cost.tcp.segments_in, cost.tcp.timeouts), (60, 60, 60));
    assert_eq!((cost.least_memory, cost.stalls[0].seconds), (Some(102_400), 0.06));
    assert_eq!(cost.carried(), 60_000);
    assert_eq!(sample::interrupts(&recording)[0].per_processor, [60]);
    assert_eq!(sample::softirqs(&recording)[0].source, "NET_RX");
    let shown = sample::series(&recording);
    for kind in ["cpu", "interrupts", "softirqs", "ports", "softnet", "memory", "snmp", "netstat", "pressure"]
    {
        assert!(shown.iter().any(|series| series.kind == kind && !series.points.is_empty()), "{kind}");
    }
    let missing: Vec<_> = recording.missing.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(missing, ["queues", "flows", "processes"]);
}

#[test]
fn an_empty_tree_says_what_is_missing() {
    let root = TempDir::new().unwrap();
    let mut sampler = Sampler::new(&SamplerOptions { root: root.path().into(), ..SamplerOptions::default() });
    let mut bytes = sampler.heading();
    sampler.sample(true, &mut bytes);
    sampler.sample(true, &mut bytes);
    let recording = Recording::parse(&bytes).unwrap();
    assert_eq!(recording.missing.len(), 12, "each kind once: {:?}", recording.missing);
    assert!(recording.missing[0].1.contains("proc/stat"), "{:?}", recording.missing);
    assert!(sample::series(&recording).is_empty());
}

/// The bound of 1 % that docs/guide/measure.md states holds for the release build. A build without
/// optimisation needs more.
#[test]
fn sampling_this_host_costs_little() {
    let spent = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let mut sampler =
        Sampler::new(&SamplerOptions { processes: vec![std::process::id()], ..SamplerOptions::default() });
    let (before, mut recording) = (spent(), Vec::new());
    for place in 0..12 {
        sampler.sample(place == 0, &mut recording);
        std::thread::sleep(sample::DEFAULT_INTERVAL);
    }
    let percent = 100.0 * (spent() - before) / (12.0 * sample::DEFAULT_INTERVAL.as_secs_f64());
    eprintln!("sampling cost {percent:.2} % of a processor");
    assert!(percent < 2.5, "{percent} %");
}

/// Bytes that partly look like a recording.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let names = ["cpu", "interrupts", "softirqs", "ports", "queues", "softnet", "snmp", "netstat", "flows"];
    let piece = (0..12usize, prop::collection::vec(any::<u8>(), 0..60), 0..70usize).prop_map(
        move |(which, text, length)| match names.get(which) {
            Some(name) => [format!("# {name} {length}\n").as_bytes(), &text, b"\n"].concat(),
            None if which == 9 => text,
            None => format!("@ {length}.5\n").into_bytes(),
        },
    );
    prop::collection::vec(piece, 0..20)
        .prop_map(|pieces| [b"linerate recording 1\nticks 100\n".to_vec(), pieces.concat()].concat())
}

/// A recording of every kind of data, with texts of the kernel in which bytes were changed.
fn damaged_texts() -> impl Strategy<Value = Recording> {
    let text = prop_oneof![
        "[ -~\n\t]{0,200}",
        "(cpu[0-9]{0,20}( [0-9]{1,21}){0,12}\n){0,4}",
        "( CPU[0-9]{1,12}){0,3}\n([A-Z0-9]{1,3}:( [0-9]{1,21}){0,4} [a-z ]{0,9}\n){0,4}",
        "([0-9]{1,11} \\([a-z() ]{0,9}\\) S( -?[0-9]{1,21}){0,25}\n){0,4}",
        "([a-z0-9]{1,5}:( [0-9]{1,21}){0,17}\n){0,4}",
        "(Tcp:( [A-Za-z0-9]{1,21}){0,5}\n){0,4}",
        "((cpu|io) some avg10=1 total=[0-9]{0,25}\n){0,4}",
        "(cpu.(max|stat|cfs_quota_us) (nr_periods |nr_throttled )?[0-9]{1,21}( [0-9]{1,21})? /a\n){0,6}",
        "([0-9.:]{1,9} [0-9.:]{1,9}( (cookie|rtt|bytes_acked|retrans|cwnd)=[0-9]{0,21}){0,6}\n){0,4}",
    ];
    let kinds = [
        "cpu",
        "interrupts",
        "softirqs",
        "ports",
        "queues",
        "softnet",
        "memory",
        "snmp",
        "netstat",
        "flows",
        "pressure",
        "quotas",
        "processes",
    ];
    let sample = prop::collection::vec(text, kinds.len())
        .prop_map(move |texts| kinds.iter().map(|kind| (*kind).to_owned()).zip(texts).collect::<Vec<_>>());
    (prop::collection::vec(sample, 0..4), any::<u64>()).prop_map(|(samples, ticks)| {
        let sample = |(at, texts)| sample::Sample { seconds: (at / 2) as f64, texts };
        let about = sample::RecordingInfo { ticks_per_second: ticks, ..sample::RecordingInfo::default() };
        Recording {
            about,
            samples: samples.into_iter().enumerate().map(sample).collect(),
            missing: Vec::new(),
        }
    })
}

fn read_all(recording: &Recording) {
    let _ = (Cost::of(recording), sample::series(recording), sample::flows(recording));
    let _ = sample::quota_use(recording);
    let _ = (sample::interrupts(recording), sample::softirqs(recording), sample::queues(recording));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Recording::parse(&bytes);
    }

    #[test]
    fn nothing_that_is_nearly_a_recording_panics(bytes in nearly()) {
        if let Ok(recording) = Recording::parse(&bytes) {
            read_all(&recording);
        }
    }

    #[test]
    fn no_text_of_any_kind_panics(recording in damaged_texts()) {
        read_all(&recording);
        prop_assert_eq!(Recording::parse(recording.to_string().as_bytes()).is_ok(), recording.about.ticks_per_second > 0);
    }
}
