//! The result types of a study: the recorded values of its runs, and nothing that is derived from them.
//!
//! The types are stored as JSON (see `docs/formats.md`), so fields may be added but never renamed.

mod compared;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use compared::{Bound, Layer, Limit, Printed, Relation};

use crate::metric::Metric;

/// The version of the stored format. A reader refuses a newer major number.
pub const SCHEMA: u32 = 1;

/// Everything that one invocation of a study recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// Version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that wrote it.
    pub linerate: String,
    /// The study's name, as `linerate bench NAME` takes it.
    pub study: String,
    /// A title of one line.
    pub title: String,
    /// Its purpose, and the real path for which its test bed stands; a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The time at which the study began (RFC 3339, UTC).
    pub started: String,
    /// The seed of the order of runs and of the data set.
    pub seed: u64,
    /// The requested number of blocks. A block runs every case once.
    pub blocks: u32,
    /// The hosts of the study with their facts, sender first.
    pub hosts: Vec<Host>,
    /// True if both ends run on the same processors, as in a lab of namespaces.
    pub shared_processors: bool,
    /// True if host b is a virtual machine on host a. Then host a's processor time includes host b's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub b_is_guest_of_a: bool,
    /// The link, if it is known; the first link if the study has several.
    pub link: Option<Link>,
    /// Every link that a case names, by that name ([`Case::link`]).
    #[serde(default)]
    pub links: Vec<NamedLink>,
    /// The case with which the table compares the others, if the study names one.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The data sets, by name.
    pub datasets: Vec<Dataset>,
    /// The cases, in the order in which the study lists them.
    pub cases: Vec<Case>,
    /// The bounds that the study must reach, and rows that it only compares.
    #[serde(default)]
    pub bounds: Vec<Bound>,
    /// The experiments of the five papers that the study runs again, by their number in `docs/papers.md`.
    #[serde(default)]
    pub rows: Vec<u32>,
    /// The figures that the report draws; if empty, only bars.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// The values that papers printed for cases.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// The largest rates of the generators and the paths, measured before the study.
    #[serde(default)]
    pub capacity: Vec<Capacity>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
}

impl Record {
    /// True if host a's processor time includes that of both ends.
    pub fn counts_cpu_once(&self) -> bool {
        self.shared_processors || self.b_is_guest_of_a
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A figure that the report draws.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// The kind of figure.
    pub kind: FigureKind,
    /// The line above the figure.
    pub title: String,
    /// The quantity on its axis.
    #[serde(default, with = "crate::metric::quantity")]
    pub quantity: Metric,
    /// The factor along the x axis (scaling), a key of [`Case::factors`].
    #[serde(default)]
    pub x: Option<String>,
    /// The factor whose levels are the figure's curves or columns, a key of [`Case::factors`].
    #[serde(default)]
    pub series: Option<String>,
    /// The cases in the figure; if empty, all cases that have the quantity.
    #[serde(default)]
    pub cases: Vec<String>,
}

/// Kinds of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Grouped bars with dots of CPU on a second axis.
    Bars,
    /// Curves over a factor, with CPU.
    Scaling,
    /// A table of differences to the baseline in percent.
    Differences,
    /// Values over time within a run.
    TimeSeries,
    /// The distribution of response times.
    ResponseTimes,
    /// Interrupts by processor, as a heat map.
    Interrupts,
    /// Rungs that each add a stage, with the cost of each stage.
    Ladder,
}

/// The largest rate of a part of the test bed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// [`Case::link`].
    pub link: String,
    /// The tested part: "path", or "generator" with its tool.
    pub part: String,
    /// The tool that was tested by itself, if the part is a generator.
    #[serde(default)]
    pub tool: Option<String>,
    /// Payload in Gbit/s.
    pub gbit_per_second: f64,
}

/// One end of the path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// The name in the study: `a` sends, `b` receives; other hosts are only watched.
    pub name: String,
    /// The host's facts that are compared between results.
    pub facts: linerate_host::Profile,
    /// All facts of the host, from which the doctor makes its findings; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Box<linerate_host::Facts>>,
}

/// The path between the hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// The rate of the wire in bit/s, by a shaper or by hardware; `None` if nothing limits it.
    pub bits_per_second: Option<u64>,
    /// Layer-3 maximum transmission unit in bytes.
    pub mtu: u32,
    /// A description of the link: "veth with tbf".
    pub kind: String,
    /// Bytes that the rate counts for each packet in addition to its layer-3 length: 38 on a physical
    /// Ethernet (preamble 8, header 14, checksum 4, gap 12), 14 if a kernel's shaper counts frames as it sees
    /// them.
    #[serde(default = "ethernet_overhead")]
    pub frame_overhead_bytes: u32,
    /// Bytes that may pass at once before the rate limit applies; 0 on a physical link.
    #[serde(default)]
    pub burst_bytes: u64,
}

/// A link and the name by which cases refer to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedLink {
    /// The name in [`Case::link`].
    pub name: String,
    /// The link.
    pub link: Link,
}

fn ethernet_overhead() -> u32 {
    38
}

/// A set of files that cases move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dataset {
    /// Its name in the study.
    pub name: String,
    /// The number of regular files.
    pub files: u64,
    /// The payload bytes in these files.
    pub bytes: u64,
    /// The origin of the data: "generated, log-normal, mean 1.6 MB, seed 7" or a path.
    pub origin: String,
}

/// A case: one bar of a figure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Case {
    /// Unique within the study.
    pub id: String,
    /// The label under the bar.
    pub label: String,
    /// The group; its bars are drawn together: "memory", "linerate", "scp", "rsync".
    pub group: String,
    /// The tool file's name.
    pub tool: String,
    /// The version that the tool printed, if the tool was asked for it.
    pub version: Option<String>,
    /// Parallel streams or copies; `None` if the tool chooses.
    pub streams: Option<u32>,
    /// The cipher that encrypts the payload on the wire ("aes128-gcm"); `None` is clear text.
    pub cipher: Option<String>,
    /// The name of the data set; `None` for memory to memory.
    pub dataset: Option<String>,
    /// The name of the link on which the case ran: "10gbit", "open".
    pub link: String,
    /// The levels of all factors of the study: streams, variant, dataset, link, parameters of the tool,
    /// settings.
    #[serde(default)]
    pub factors: BTreeMap<String, String>,
}

/// One execution of one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// [`Case::id`].
    pub case: String,
    /// The block it belongs to, from 0.
    pub block: u32,
    /// The position in the order of all runs, from 0.
    pub order: u32,
    /// The time at which the run began (RFC 3339, UTC).
    pub started: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of a run.
#[expect(
    clippy::large_enum_variant,
    reason = "a study has some hundred runs: their size in memory doesn't matter, and a box would be in every reader's way"
)]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The run succeeded, and the destination was correct.
    Measured(Measures),
    /// The run failed, or the destination was wrong.
    Failed {
        /// The reason for the failure, as a message.
        reason: String,
    },
    /// The tool isn't installed, or the path isn't the case's link.
    Unavailable {
        /// The missing program, and the package to install; or how the path differs.
        reason: String,
    },
}

/// The values of one good run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measures {
    /// Payload bytes delivered.
    pub bytes: u64,
    /// The part of `bytes` that went from the receiving end to the sending end, if the tool moves data in
    /// both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_back: Option<u64>,
    /// Files delivered; 0 for memory to memory.
    pub files: u64,
    /// Wall time of the whole command in seconds, including the login.
    pub seconds: f64,
    /// The time for the payload in seconds, without the login, if the tool reports it.
    pub payload_seconds: Option<f64>,
    /// CPU of the sending host over `seconds`.
    pub cpu_a: Cpu,
    /// CPU of the receiving host over `seconds`. Equal to `cpu_a` if both ends share the processors.
    pub cpu_b: Cpu,
    /// The part of the run in which the tool counted, if there was a ramp before that, and the CPU over that
    /// part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<CountedWindow>,
    /// Peak resident memory of the tool's process in bytes, at the end at which it is larger, if the tool
    /// reports it.
    pub peak_rss_bytes: Option<u64>,
    /// The limiter that the tool reported, if any.
    pub limiter: Option<String>,
    /// Streams in use at the end, if the tool reports them.
    pub streams: Option<u32>,
    /// The reason why the run counts as disturbed (steal, pressure, CPU of other processes); `None` for a
    /// quiet run.
    pub disturbed: Option<String>,
    /// The number of more disturbed runs of the same case and block that this run replaces.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_aside: u32,
    /// The number of processors that were busy on the host just before the run, while the study was idle.
    #[serde(default)]
    pub foreign_processors: Option<f64>,
    /// Wall seconds of the run in which at least one task waited for a processor (pressure stall
    /// information).
    #[serde(default)]
    pub pressure_seconds: Option<f64>,
    /// Transactions (requests with their replies), if the tool makes any.
    #[serde(default)]
    pub transactions: Option<u64>,
    /// The response times of these transactions.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Connections of the load, by the address to which they went.
    #[serde(default)]
    pub connections: Vec<Connections>,
    /// The tool's score, if it has one.
    #[serde(default)]
    pub score: Option<f64>,
    /// The result of the search before the run, if the case has `auto` for a parameter that its tool can
    /// search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// The samplers' series over the run, for each host.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Interrupts during the run, by host, source and processor.
    #[serde(default)]
    pub interrupts: Vec<Interrupts>,
    /// Files with the samplers' raw text of `a` and `b`, relative to the directory of results.
    #[serde(default)]
    pub recordings: Vec<String>,
    /// The part of the test bed to whose limit the run came within 10 %. Such a run doesn't measure the tool.
    #[serde(default)]
    pub limited_by_bed: Option<String>,
    /// Further values that the tool reports and its tool file names, such as "retransmits: 12".
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The part of a run in which its tool counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedWindow {
    /// Its start, in seconds since the sending host's sampler began.
    pub begin: f64,
    /// Its end.
    pub end: f64,
    /// CPU of the sending host over this part.
    pub cpu_a: Cpu,
    /// CPU of the receiving host over this part. Equal to `cpu_a` if both ends share the processors.
    pub cpu_b: Cpu,
}

/// Response times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Transactions.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The longest response time.
    pub max_us: f64,
    /// A histogram in ascending order: the upper bound of a class in microseconds, and the transactions in
    /// the class.
    #[serde(default)]
    pub histogram: Vec<(f64, u64)>,
}

/// The best level of a parameter that a search before the run found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The parameter: "users".
    pub parameter: String,
    /// The level that the run used.
    pub level: u32,
    /// The tries of the search in their order; empty if the tool doesn't report them.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// A try of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The level.
    pub count: u32,
    /// The result of the try, in the tool's own unit: payload bits a second, or a score.
    pub reached: f64,
}

/// TCP connections to one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Address and TCP port.
    pub port: String,
    /// Connections that were attempted.
    pub attempted: u64,
    /// Connections that were established.
    pub made: u64,
    /// Connections that were refused, timed out or broke before they were established.
    pub failed: u64,
}

/// One quantity of one host over the time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The host's name in the study.
    pub host: String,
    /// The subject: "cpu busy", "veth0 in".
    pub name: String,
    /// "percent", "Gbit/s", "1/s".
    pub unit: String,
    /// Pairs of seconds since the run began and the value of the interval that ended then.
    pub points: Vec<(f64, f64)>,
}

/// Interrupts of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    /// The host's name in the study.
    pub host: String,
    /// The device, or the kind of soft interrupt: "eth0-rx-1", "NET_RX".
    pub source: String,
    /// Counts by processor, from processor 0.
    pub per_processor: Vec<u64>,
}

/// Processor time of a whole host over a run, in seconds summed over its processors (`/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The number of online processors.
    pub processors: u32,
    /// Time in user mode, including niced processes.
    pub user: f64,
    /// Time in the kernel.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Soft interrupts.
    pub softirq: f64,
    /// Given to other guests by the hypervisor.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
    /// Idle with I/O outstanding.
    pub iowait: f64,
}

impl Cpu {
    /// Seconds in which processors worked for this host: user, system and both kinds of interrupts.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}
