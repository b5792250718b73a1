//! The result types of a study: what a run recorded, and nothing derived from it.
//!
//! The types are stored as JSON (see `docs/formats.md`), so a field may be added and never renamed.

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
    /// The program's version that wrote it.
    pub linerate: String,
    /// The study's name, as `linerate bench NAME` takes it.
    pub study: String,
    /// One line for people.
    pub title: String,
    /// Its purpose, and what its test bed stands for; a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// When the study began, RFC 3339, UTC.
    pub started: String,
    /// The seed of the order of runs and of the data set.
    pub seed: u64,
    /// Blocks asked for; a block runs every case once.
    pub blocks: u32,
    /// The hosts of the study with their facts, sender first.
    pub hosts: Vec<Host>,
    /// True if both ends run on the same processors, as in a lab of namespaces.
    pub shared_processors: bool,
    /// True if host b is a virtual machine of host a, whose processor time then holds b's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub b_is_guest_of_a: bool,
    /// The link, if it is known; the first one if the study has several.
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
    /// The rows that the study must reach, or compares.
    #[serde(default)]
    pub bounds: Vec<Bound>,
    /// The experiments of the five papers that the study runs again, by their number in `docs/papers.md`.
    #[serde(default)]
    pub rows: Vec<u32>,
    /// The figures that the report draws; empty for bars alone.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// A paper's printed values for a case.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// The largest rates of generator and path, measured before the study.
    #[serde(default)]
    pub capacity: Vec<Capacity>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
}

impl Record {
    /// True if host a's processor time holds that of both ends.
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
    /// One line above it.
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
    /// The cases in the figure; empty for all that have the quantity.
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
    /// The cost of each stage.
    Ladder,
}

/// The largest rate of a part of the test bed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// [`Case::link`].
    pub link: String,
    /// The tested part: "path", or "generator" with its tool.
    pub part: String,
    /// The tool that was tested alone, if the part is a generator.
    #[serde(default)]
    pub tool: Option<String>,
    /// Payload in Gbit/s.
    pub gbit_per_second: f64,
}

/// One end of the path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// The name in the study: `a` sends, `b` receives; others are only watched.
    pub name: String,
    /// The host's facts that are compared between results.
    pub facts: linerate_host::Profile,
    /// All that it said, from which the doctor's findings follow; records of before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Box<linerate_host::Facts>>,
}

/// The path between the hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Shaped or physical rate of the wire in bit/s; `None` if nothing shapes it.
    pub bits_per_second: Option<u64>,
    /// Layer-3 maximum transmission unit in bytes.
    pub mtu: u32,
    /// A description of the link, for people: "veth with tbf".
    pub kind: String,
    /// Bytes that the rate counts for each packet beyond its layer-3 length: 38 on a physical Ethernet
    /// (preamble 8, header 14, checksum 4, gap 12), 14 where a kernel's shaper counts the frame as it sees
    /// it.
    #[serde(default = "ethernet_overhead")]
    pub frame_overhead_bytes: u32,
    /// Bytes that may pass at once before the rate holds; 0 on a physical link.
    #[serde(default)]
    pub burst_bytes: u64,
}

/// A link and the name by which cases refer to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedLink {
    /// As in [`Case::link`].
    pub name: String,
    /// The link.
    pub link: Link,
}

fn ethernet_overhead() -> u32 {
    38
}

/// The files that the cases move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dataset {
    /// Its name in the study.
    pub name: String,
    /// Regular files.
    pub files: u64,
    /// Payload bytes in them.
    pub bytes: u64,
    /// The origin of the data: "generated, log-normal, mean 1.6 MB, seed 7" or a path.
    pub origin: String,
}

/// One bar of the figure.
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
    /// The tool's version in its own words, if the tool was asked.
    pub version: Option<String>,
    /// Parallel streams or copies; `None` if the tool chooses.
    pub streams: Option<u32>,
    /// Whether the payload is encrypted on the wire, and by what ("aes128-gcm"); `None` is clear text.
    pub cipher: Option<String>,
    /// The name of the data set; `None` for memory to memory.
    pub dataset: Option<String>,
    /// Name of the link variant the case ran on: "10gbit", "open".
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
    /// The place in the whole order of runs, from 0.
    pub order: u32,
    /// When the run began, RFC 3339, UTC.
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
    /// The run ended well and the destination was right.
    Measured(Measures),
    /// The run failed, or left a wrong destination.
    Failed {
        /// The reason of the failure, for people.
        reason: String,
    },
    /// The tool isn't there, or the path isn't the case's link.
    Unavailable {
        /// The missing program, and the package to install; or what the path has instead.
        reason: String,
    },
}

/// The figures of one good run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measures {
    /// Payload bytes delivered.
    pub bytes: u64,
    /// The part of `bytes` that went from the receiving end to the sending one, if the tool moves data both
    /// ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_back: Option<u64>,
    /// Files delivered; 0 for memory to memory.
    pub files: u64,
    /// Wall time of the whole command, login included, in seconds.
    pub seconds: f64,
    /// The tool's own time for the payload in seconds (login excluded), if it reports one.
    pub payload_seconds: Option<f64>,
    /// CPU of the sending host over `seconds`.
    pub cpu_a: Cpu,
    /// CPU of the receiving host over `seconds`. Equal to `cpu_a` if both ends share the processors.
    pub cpu_b: Cpu,
    /// The part of the run in which the tool counted, if it had a ramp before it, and the CPU over that part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<CountedWindow>,
    /// Peak resident memory of the tool's process at either end, the larger, in bytes, where it states one.
    pub peak_rss_bytes: Option<u64>,
    /// The limiter that the tool reported, if any.
    pub limiter: Option<String>,
    /// Streams in use at the end, if the tool reports them.
    pub streams: Option<u32>,
    /// Why the run counts as disturbed (steal, pressure, foreign CPU); `None` for a quiet one.
    pub disturbed: Option<String>,
    /// More disturbed runs of the same case and block, in whose place this one counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_aside: u32,
    /// Processors' worth of work that the host did just before the run, while the study was idle.
    #[serde(default)]
    pub foreign_processors: Option<f64>,
    /// Wall seconds of the run in which some task waited for a processor (pressure stall information).
    #[serde(default)]
    pub pressure_seconds: Option<f64>,
    /// Transactions (requests with their replies), if the tool makes any.
    #[serde(default)]
    pub transactions: Option<u64>,
    /// The response times of these transactions.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Connections of the load by the address that they went to.
    #[serde(default)]
    pub connections: Vec<Connections>,
    /// The tool's score, if it has one.
    #[serde(default)]
    pub score: Option<f64>,
    /// The result of the search before the run, if the case has `auto` for a parameter that its tool can
    /// search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// The samplers' series over the run, by host.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Interrupts during the run, by host, source and processor.
    #[serde(default)]
    pub interrupts: Vec<Interrupts>,
    /// Files with the samplers' raw text, relative to the directory of results: of `a` and of `b`.
    #[serde(default)]
    pub recordings: Vec<String>,
    /// The part of the test bed whose limit the run came within 10 % of; such a run doesn't measure the tool.
    #[serde(default)]
    pub limited_by_bed: Option<String>,
    /// Further values of the tool that its tool file names, such as "retransmits: 12"; empty if there are
    /// none.
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
    /// CPU of the sending host over it.
    pub cpu_a: Cpu,
    /// CPU of the receiving host over it. Equal to `cpu_a` if both ends share the processors.
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
    /// The longest.
    pub max_us: f64,
    /// Upper bound of a class in microseconds, and the transactions in it; ascending.
    #[serde(default)]
    pub histogram: Vec<(f64, u64)>,
}

/// The best level of a parameter, as a search before the run found it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The parameter: "users".
    pub parameter: String,
    /// The level that the run had.
    pub level: u32,
    /// The tries in their order; empty if the tool doesn't report them.
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
    /// Begun.
    pub attempted: u64,
    /// Established.
    pub made: u64,
    /// Refused, timed out or broken before they were established.
    pub failed: u64,
}

/// One quantity of one host over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The host's name in the study.
    pub host: String,
    /// The subject: "cpu busy", "veth0 in".
    pub name: String,
    /// "percent", "Gbit/s", "1/s".
    pub unit: String,
    /// Seconds since the run began, and the value of the interval that ended there.
    pub points: Vec<(f64, f64)>,
}

/// Interrupts of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    /// The host's name in the study.
    pub host: String,
    /// Device or kind of soft interrupt: "eth0-rx-1", "NET_RX".
    pub source: String,
    /// Counts by processor, from processor 0.
    pub per_processor: Vec<u64>,
}

/// Processor time of a whole host over a run, in seconds summed over its processors (`/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Processors on line.
    pub processors: u32,
    /// Time in user mode, nice included.
    pub user: f64,
    /// Time in the kernel.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Soft interrupts.
    pub softirq: f64,
    /// Taken by the hypervisor for others.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
    /// Idle with I/O outstanding.
    pub iowait: f64,
}

impl Cpu {
    /// Seconds in which a processor worked for this host: user, system and both kinds of interrupts.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}
