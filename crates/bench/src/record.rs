//! The types of a study's results. They contain the values that the study's runs recorded, but no values that are
//! computed from those.
//!
//! The types are stored as JSON (see `docs/formats.md`), so fields may be added but never renamed.

mod compared;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use compared::{Bound, Layer, Limit, Printed, Relation};

use crate::metric::Metric;

/// The version of the stored format. A reader refuses a newer version.
pub const SCHEMA: u32 = 1;

/// Everything that one invocation of a study recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The version of the format, [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that wrote the record.
    pub linerate: String,
    /// The study's name, as it is given to `linerate bench NAME`.
    pub study: String,
    /// The study's title, one line.
    pub title: String,
    /// The study's purpose, and the real path that its test bed represents; a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The time at which the study began, in UTC (RFC 3339).
    pub started: String,
    /// The seed of the random order of runs and of the generated data.
    pub seed: u64,
    /// The requested number of blocks. In each block, every case is run once.
    pub blocks: u32,
    /// The hosts of the study with their facts, sender first.
    pub hosts: Vec<Host>,
    /// True if both ends run on the same processors, as in a lab of namespaces.
    pub shared_processors: bool,
    /// True if host b is a virtual machine on host a, so that host a's processor time includes host b's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub b_is_guest_of_a: bool,
    /// The link between the hosts, if it is known; if the study has several links, the first.
    pub link: Option<Link>,
    /// All links, by the names that cases use ([`Case::link`]).
    #[serde(default)]
    pub links: Vec<NamedLink>,
    /// The ID of the case with which the table compares all others, if the study names one.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The data sets that cases move.
    pub datasets: Vec<Dataset>,
    /// The cases, in the order in which the study lists them.
    pub cases: Vec<Case>,
    /// The bounds that the results must satisfy, and rows that are only compared.
    #[serde(default)]
    pub bounds: Vec<Bound>,
    /// The experiments of the five papers that the study repeats, by their numbers in `docs/papers.md`.
    #[serde(default)]
    pub rows: Vec<u32>,
    /// The figures that the report draws. If the list is empty, the report draws a bar chart.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// The values that papers printed for the cases.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// The highest rates of the generators and the paths, which were measured before the study.
    #[serde(default)]
    pub capacity: Vec<Capacity>,
    /// The runs, in the order in which they took place.
    pub runs: Vec<Run>,
}

impl Record {
    /// True if host a's processor time includes the work of both ends.
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

/// A figure of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// The kind of figure.
    pub kind: FigureKind,
    /// The figure's title, which is printed above it.
    pub title: String,
    /// The quantity that the figure shows on its axis.
    #[serde(default, with = "crate::metric::quantity")]
    pub quantity: Metric,
    /// The factor along the x axis of a scaling figure; a key of [`Case::factors`].
    #[serde(default)]
    pub x: Option<String>,
    /// The factor whose levels are the curves or columns of the figure; a key of [`Case::factors`].
    #[serde(default)]
    pub series: Option<String>,
    /// The IDs of the cases in the figure. If the list is empty, the figure shows all cases that have the quantity.
    #[serde(default)]
    pub cases: Vec<String>,
}

/// The kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Grouped bars, with dots for processor load on a second axis.
    Bars,
    /// Curves over the levels of a factor, with processor load.
    Scaling,
    /// A table of differences from the baseline in percent.
    Differences,
    /// Values over time within a run.
    TimeSeries,
    /// The distribution of response times.
    ResponseTimes,
    /// Interrupts of each processor, as a heat map.
    Interrupts,
    /// A ladder: each rung adds a stage to the rung before, and shows that stage's cost.
    Ladder,
}

/// The highest rate of a part of the test bed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The name of the link, [`Case::link`].
    pub link: String,
    /// The part that was tested: "path", or "generator".
    pub part: String,
    /// The name of the generator, a tool that was tested alone; `None` if the part isn't a generator.
    #[serde(default)]
    pub tool: Option<String>,
    /// The payload rate in Gbit/s.
    pub gbit_per_second: f64,
}

/// A host of the study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// The host's name in the study. `a` sends and `b` receives; other hosts are only watched.
    pub name: String,
    /// The facts of the host that are compared between results.
    pub facts: linerate_host::Profile,
    /// All facts of the host, from which the doctor derives its findings; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Box<linerate_host::Facts>>,
}

/// The path between the hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// The rate of the wire in bits per second, which a shaper or the hardware limits; `None` if nothing
    /// limits it.
    pub bits_per_second: Option<u64>,
    /// The layer-3 maximum transmission unit in bytes.
    pub mtu: u32,
    /// A description of the link, such as "veth with tbf".
    pub kind: String,
    /// Bytes that the rate counts for each packet in addition to the packet's layer-3 length: 38 on physical Ethernet
    /// (preamble 8, header 14, checksum 4, gap 12), 14 with a shaper in the kernel, which counts only the header.
    #[serde(default = "ethernet_overhead")]
    pub frame_overhead_bytes: u32,
    /// The bytes that may pass at once before the rate limit applies; 0 on a physical link.
    #[serde(default)]
    pub burst_bytes: u64,
}

/// A link and the name by which cases refer to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedLink {
    /// The name that cases use in [`Case::link`].
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
    /// The set's name in the study.
    pub name: String,
    /// The number of regular files.
    pub files: u64,
    /// The payload bytes in these files.
    pub bytes: u64,
    /// The origin of the data: a description such as "generated, log-normal, mean 1.6 MB, seed 7", or a path.
    pub origin: String,
}

/// A case: a tool with its parameters, on a link. In a figure, a case is one bar.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Case {
    /// The case's ID, which is unique in the study.
    pub id: String,
    /// The text under the case's bar.
    pub label: String,
    /// The group of the case, such as "memory", "linerate", "scp" or "rsync". Bars of one group are drawn
    /// together.
    pub group: String,
    /// The name of the tool file.
    pub tool: String,
    /// The version that the tool printed, if its tool file has a command for that.
    pub version: Option<String>,
    /// The number of parallel streams or copies; `None` if the tool chooses the number.
    pub streams: Option<u32>,
    /// The cipher that encrypts the payload on the wire, such as "aes128-gcm"; `None` if the payload isn't
    /// encrypted.
    pub cipher: Option<String>,
    /// The name of the data set; `None` if data moves from memory to memory.
    pub dataset: Option<String>,
    /// The name of the link on which the case ran, such as "10gbit" or "open".
    pub link: String,
    /// The levels of all factors of the study: streams, variant, dataset, link, parameters of the tool,
    /// settings.
    #[serde(default)]
    pub factors: BTreeMap<String, String>,
}

/// One execution of one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The ID of the case, [`Case::id`].
    pub case: String,
    /// The number, from 0, of the block to which the run belongs.
    pub block: u32,
    /// The position of the run in the order of all runs, from 0.
    pub order: u32,
    /// The time at which the run began, in UTC (RFC 3339).
    pub started: String,
    /// The result of the run.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result of a run.
#[expect(
    clippy::large_enum_variant,
    reason = "a study has some hundred runs: their size in memory doesn't matter, and a box would be in every reader's way"
)]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The run succeeded and the destination was correct; these are its values.
    Measured(Measures),
    /// The run failed, or the destination was not correct.
    Failed {
        /// The reason for the failure.
        reason: String,
    },
    /// The run wasn't possible, for example because the tool isn't installed, or because the path isn't the case's
    /// link.
    Unavailable {
        /// The reason with advice: for example, the missing program and the package to install.
        reason: String,
    },
}

/// The values of one good run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measures {
    /// The number of payload bytes delivered.
    pub bytes: u64,
    /// The payload bytes that went from the receiving to the sending end, which are included in `bytes`, if
    /// the tool moves data in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_back: Option<u64>,
    /// The number of files delivered; 0 for data from memory.
    pub files: u64,
    /// The wall-clock time of the whole command in seconds, including the login.
    pub seconds: f64,
    /// The time for the payload in seconds, without the login, if the tool reports it.
    pub payload_seconds: Option<f64>,
    /// The processor time of the sending host during the whole command (`seconds`).
    pub cpu_a: Cpu,
    /// The processor time of the receiving host during the whole command. Equal to `cpu_a` if both ends share
    /// the processors.
    pub cpu_b: Cpu,
    /// The part of the run in which the tool counted bytes, and the processor time of that part; `None` if the tool
    /// reports no such part, or if its processor time is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<CountedWindow>,
    /// The peak resident memory, in bytes, of the tool's process at the end where it is larger; `None` if the tool
    /// doesn't report it.
    pub peak_rss_bytes: Option<u64>,
    /// The limiter that the tool reported; `None` if it reported none.
    pub limiter: Option<String>,
    /// The number of streams that carried data, if the tool reports it.
    pub streams: Option<u32>,
    /// The reason why the run counts as disturbed (steal, pressure, other processes); `None` if it wasn't
    /// disturbed.
    pub disturbed: Option<String>,
    /// The number of runs of the same case and block that were disturbed more than this one, and were
    /// replaced by it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set_aside: u32,
    /// The number of processors that were busy on the host just before the run, while the study itself was
    /// idle.
    #[serde(default)]
    pub foreign_processors: Option<f64>,
    /// The wall-clock seconds of the run in which at least one task waited for a processor (pressure stall
    /// information).
    #[serde(default)]
    pub pressure_seconds: Option<f64>,
    /// The number of transactions (requests with their replies), if the tool makes any.
    #[serde(default)]
    pub transactions: Option<u64>,
    /// The response times of the transactions.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// The connections of the load, by the address to which they were made.
    #[serde(default)]
    pub connections: Vec<Connections>,
    /// The score that the tool computes, if it computes one.
    #[serde(default)]
    pub score: Option<f64>,
    /// The result of the search before the run, if the case requests a search (the level `auto`) for a
    /// parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// The series of the samplers during the run, for each host.
    #[serde(default)]
    pub series: Vec<Series>,
    /// The interrupts during the run, by host, source and processor.
    #[serde(default)]
    pub interrupts: Vec<Interrupts>,
    /// The names of the files with the samplers' raw text of `a` and `b`, relative to the directory of
    /// results.
    #[serde(default)]
    pub recordings: Vec<String>,
    /// The part of the test bed that limited the run: the run reached at least 90 % of the highest rate of this part.
    /// Such a run doesn't measure the tool.
    #[serde(default)]
    pub limited_by_bed: Option<String>,
    /// Further values that the tool reports and that its tool file names, such as "retransmits: 12".
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The part of a run in which its tool counted bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedWindow {
    /// The beginning of this part, in seconds since the start of the sending host's sampler.
    pub begin: f64,
    /// The end of this part, in seconds since the start of the sending host's sampler.
    pub end: f64,
    /// The processor time of the sending host during this part.
    pub cpu_a: Cpu,
    /// The processor time of the receiving host during this part. Equal to `cpu_a` if both ends share the
    /// processors.
    pub cpu_b: Cpu,
}

/// The distribution of response times, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The number of transactions.
    pub count: u64,
    /// The mean response time.
    pub mean_us: f64,
    /// The median response time.
    pub p50_us: f64,
    /// The 90th percentile of the response times.
    pub p90_us: f64,
    /// The 99th percentile of the response times.
    pub p99_us: f64,
    /// The 99.9th percentile of the response times.
    pub p999_us: f64,
    /// The longest response time.
    pub max_us: f64,
    /// The histogram of response times, in ascending order: for each class, its upper bound in microseconds
    /// and the number of transactions in it.
    #[serde(default)]
    pub histogram: Vec<(f64, u64)>,
}

/// The best level of a parameter that a search before the run found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The name of the parameter, such as "users".
    pub parameter: String,
    /// The level that the search found and the run used.
    pub level: u32,
    /// The steps of the search in their order; empty if the tool doesn't report them.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One step of a search, in which one level was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The level that was tried.
    pub count: u32,
    /// The result at this level, in the tool's own unit: payload bits per second, or a score.
    pub reached: f64,
}

/// The TCP connections to one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// The address and TCP port number.
    pub port: String,
    /// The number of connections that were attempted.
    pub attempted: u64,
    /// The number of connections that were established.
    pub made: u64,
    /// The number of connections that were refused, timed out, or broke before they were established.
    pub failed: u64,
}

/// One quantity of a host over the time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The host's name in the study.
    pub host: String,
    /// A name for the values, such as "cpu busy" or "veth0 in".
    pub name: String,
    /// The unit of the values: "percent", "Gbit/s", "1/s" or "GB".
    pub unit: String,
    /// The points: each has the seconds since the run began, and the value for the interval that ended at this time.
    pub points: Vec<(f64, f64)>,
}

/// The interrupts of one source during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    /// The host's name in the study.
    pub host: String,
    /// The device or the kind of soft interrupt, such as "eth0-rx-1" or "NET_RX".
    pub source: String,
    /// The number of interrupts on each processor, from processor 0 on.
    pub per_processor: Vec<u64>,
}

/// The processor time of a whole host during a run, in seconds summed over its processors (`/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The number of online processors.
    pub processors: u32,
    /// Seconds in user mode, including niced processes.
    pub user: f64,
    /// Seconds in kernel mode, without interrupts.
    pub system: f64,
    /// Seconds in which processors handled hard interrupts.
    pub irq: f64,
    /// Seconds in which processors handled soft interrupts.
    pub softirq: f64,
    /// Seconds that the hypervisor gave to other guests.
    pub steal: f64,
    /// Seconds in which processors were idle without outstanding I/O.
    pub idle: f64,
    /// Seconds in which processors were idle with outstanding I/O.
    pub iowait: f64,
}

impl Cpu {
    /// The seconds for which processors worked for this host: user, system, and both kinds of interrupts.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}
