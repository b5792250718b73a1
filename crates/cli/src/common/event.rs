//! The lines that `--json` prints for commands with a far end. docs/formats.md specifies them.

use linerate_doctor::limiter::Verdict;
use linerate_load::window::CountedTime;
use linerate_transfer::differences::Aspect;
use linerate_wire::control::{LeftoverKind, ProblemKind, Totals};
use linerate_wire::entry::Kind;
use linerate_wire::stages::Stages;
use serde::Serialize;

use super::kept_output::Sighting;

/// The version of the events. Changes that only add fields or events don't increase it.
const SCHEMA: u32 = 1;

/// A line of JSON: an event with the version.
#[derive(Serialize)]
pub struct Versioned<'a> {
    schema: u32,
    /// The destination of the copy to which the event belongs, if there are several destinations.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a str>,
    #[serde(flatten)]
    event: &'a Event,
}

/// The kinds of events. Paths are text: bytes that aren't printable are escaped.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Event {
    /// The progress of a copy, reported twice a second.
    Progress(Sighting),
    /// A problem with one entry.
    Problem { path: String, message: String, kind: &'static str },
    /// A step that the user should know about.
    Note { message: String },
    /// An entry that would be copied (dry run).
    Entry { path: String, kind: &'static str, bytes: u64 },
    /// A change that sync makes, in the eleven characters of rsync's `--itemize-changes`.
    Change { item: String, path: String },
    /// A copy is complete; these are its totals.
    Summary(Box<CopySummary>),
    /// The copy to one of several destinations has ended, successfully or not.
    Destination(Box<DestinationFields>),
    /// The copies to several destinations have ended.
    FanOut {
        destinations: usize,
        /// The number of destinations that have everything.
        done: usize,
        /// The number of bytes that were read from files.
        read_bytes: u64,
        elapsed_seconds: f64,
        cpu_seconds: f64,
        peak_rss_bytes: u64,
        exit: u8,
    },
    /// Two far hosts continue a copy without this process.
    Detached { job: String, from: String, to: String },
    /// The totals of a copy whose entries were only listed.
    #[serde(rename = "summary")]
    Surveyed {
        dry_run: bool,
        #[serde(flatten)]
        found: TotalsFields,
        exit: u8,
    },
    /// The whole command failed. This event takes the place of the summary.
    Failed { message: String, exit: u8 },
    /// verify: an entry of SRC doesn't exist at DST.
    Missing { path: String, aspects: [&'static str; 0] },
    /// verify: an entry exists only at DST.
    Extra { path: String, aspects: [&'static str; 0] },
    /// verify: an entry differs between the two trees.
    Differs { path: String, aspects: Vec<&'static str> },
    /// clean: a transfer has left this entry, which is removed.
    Leftover { path: String, kind: &'static str, bytes: u64 },
    /// clean: the leftovers in a directory were removed, or only listed in a dry run.
    #[serde(rename = "summary")]
    Cleaned { dry_run: bool, leftovers: u64, bytes: u64, failed: u64, exit: u8 },
    /// A comparison is complete.
    #[serde(rename = "summary")]
    Compared {
        /// The number of entries that exist at both ends.
        compared: u64,
        /// The bytes of files whose contents are equal.
        bytes: u64,
        differ: u64,
        missing: u64,
        extra: u64,
        failed: u64,
        changed: u64,
        exit: u8,
    },
}

impl Event {
    /// The event with the version, for one line.
    pub fn versioned(&self) -> Versioned<'_> {
        Versioned { schema: SCHEMA, destination: None, event: self }
    }

    /// The event with the version, for one line; also with the destination, if it belongs to one of several
    /// copies.
    pub fn of_destination<'a>(&'a self, destination: Option<&'a str>) -> Versioned<'a> {
        Versioned { destination, ..self.versioned() }
    }
}

/// The limiter of a transfer, for an event.
#[derive(Serialize)]
pub struct LimiterFields {
    pub limiter: &'static str,
    /// The share of the time, from 0 to 1, for which this limiter was the limit.
    pub limiter_share: f64,
    limiter_evidence: String,
}

impl From<&Verdict> for LimiterFields {
    fn from(verdict: &Verdict) -> Self {
        Self {
            limiter: verdict.limiter.name(),
            limiter_share: verdict.share,
            limiter_evidence: verdict.to_string(),
        }
    }
}

/// The numbers of entries by kind, and the bytes of the files.
#[derive(Serialize)]
pub struct TotalsFields {
    files: u64,
    directories: u64,
    symlinks: u64,
    specials: u64,
    bytes: u64,
}

impl From<Totals> for TotalsFields {
    fn from(totals: Totals) -> Self {
        let Totals { files, directories, symlinks, bytes, specials } = totals;
        Self { files, directories, symlinks, specials, bytes }
    }
}

/// The totals and the cost of a copy.
#[derive(Serialize)]
pub struct CopySummary {
    /// The entries that are in place.
    #[serde(flatten)]
    pub landed: TotalsFields,
    pub payload_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<CountedTime>,
    pub elapsed_seconds: f64,
    pub gbit_per_second: f64,
    pub wire_bytes: u64,
    pub encrypted: bool,
    /// The cipher. It isn't known if another host sent the data.
    pub cipher: Option<String>,
    pub within_host: bool,
    pub streams: u32,
    pub turned_away: Option<u64>,
    #[serde(flatten)]
    pub limiter: LimiterFields,
    pub sender: EndFields,
    pub receiver: EndFields,
    pub failed: u64,
    pub changed: u64,
    pub not_kept: u64,
    pub exit: u8,
    #[serde(flatten)]
    pub synced: Option<SyncFields>,
}

/// The result of the copy to one of several destinations.
#[derive(Serialize)]
pub struct DestinationFields {
    /// The destination as the user wrote it.
    pub destination: String,
    pub result: &'static str,
    /// The reason why the copy failed as a whole; `None` if it didn't.
    pub message: Option<String>,
    /// True if an agent has answered at the destination.
    pub reached: bool,
    /// True if the destination was slower than the others, so that the source was read separately for it.
    pub left_behind: bool,
    /// True if the destination got all data through a chain or tree of hosts.
    pub chained: bool,
    /// The entries and bytes that are in place.
    #[serde(flatten)]
    pub landed: TotalsFields,
    /// The bytes that were sent, of those that are in place.
    pub sent_bytes: u64,
    pub elapsed_seconds: f64,
    pub failed: u64,
    pub changed: u64,
    pub not_kept: u64,
    pub exit: u8,
    /// The fields of the summary of a single copy; `None` if the copy failed as a whole.
    pub summary: Option<Box<CopySummary>>,
}

/// The processor time and memory that one end used.
#[derive(Serialize)]
pub struct EndFields {
    pub cpu_seconds: f64,
    pub cpu_seconds_per_gb: f64,
    pub peak_rss_bytes: u64,
    pub stages: Stages,
}

/// The fields that only the summary of sync has.
#[derive(Serialize)]
pub struct SyncFields {
    pub dry_run: bool,
    pub deleted: u64,
    pub unchanged_files: u64,
    pub unchanged_bytes: u64,
    pub matched_bytes: u64,
}

/// All kinds of problems.
pub const PROBLEMS: [ProblemKind; 7] = [
    ProblemKind::Failed,
    ProblemKind::Changed,
    ProblemKind::Skipped,
    ProblemKind::NotKept,
    ProblemKind::NotDeleted,
    ProblemKind::Noted,
    ProblemKind::Remark,
];

/// The name of a kind of problem in events.
pub fn problem_name(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Failed => "failed",
        ProblemKind::Changed => "changed",
        ProblemKind::Skipped => "skipped",
        ProblemKind::NotKept => "not-kept",
        ProblemKind::NotDeleted => "not-deleted",
        ProblemKind::Noted => "noted",
        ProblemKind::Remark => "remark",
    }
}

/// The name of a kind of entry in events and lists.
pub fn entry_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::File { .. } => "file",
        Kind::Directory => "directory",
        Kind::Symlink { .. } => "symlink",
        Kind::Device { .. } => "device",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::HardLink { .. } => "hard-link",
    }
}

/// The name of a kind of leftover in events and lists.
pub fn leftover_name(kind: LeftoverKind) -> &'static str {
    match kind {
        LeftoverKind::Journal => "journal",
        LeftoverKind::Partial => "partial-file",
        LeftoverKind::Other => "temporary-name",
    }
}

/// The name, in events and lists, of a property in which two entries differ.
pub fn aspect_name(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Kind => "kind",
        Aspect::Contents => "contents",
        Aspect::Target => "target",
        Aspect::Mode => "mode",
        Aspect::Time => "time",
        Aspect::Owner => "owner",
        Aspect::Group => "group",
        Aspect::Xattrs => "xattrs",
        Aspect::Acl => "acl",
        Aspect::Links => "links",
    }
}

#[cfg(test)]
mod tests;
