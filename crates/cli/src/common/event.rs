//! The lines of `--json` of the commands that have a far end; docs/guide/copying.md and docs/formats.md
//! specify them.

use linerate_doctor::limiter::Verdict;
use linerate_load::window::CountedTime;
use linerate_transfer::differences::Aspect;
use linerate_wire::control::{LeftoverKind, ProblemKind, Totals};
use linerate_wire::entry::Kind;
use linerate_wire::stages::Stages;
use serde::Serialize;

use super::keeper::Sighting;

/// The version of the events; it grows with changes that are not additions.
const SCHEMA: u32 = 1;

/// One line: an event with its version.
#[derive(Serialize)]
pub struct Versioned<'a> {
    schema: u32,
    /// The copy to which it belongs, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a str>,
    #[serde(flatten)]
    event: &'a Event,
}

/// The kinds of events. Paths are text: bytes that aren't printable are escaped.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Event {
    /// The progress of a copy, twice a second.
    Progress(Sighting),
    /// Something is wrong with one entry.
    Problem { path: String, message: String, kind: &'static str },
    /// A step that the user should know of.
    Note { message: String },
    /// An entry that would be copied.
    Entry { path: String, kind: &'static str, bytes: u64 },
    /// An entry that sync changes, in rsync's eleven characters.
    Change { item: String, path: String },
    /// A copy is done.
    Summary(Box<CopySummary>),
    /// The copy to one of several destinations has ended, with success or not.
    Destination(Box<DestinationFields>),
    /// The copies to several destinations have ended.
    FanOut {
        destinations: usize,
        /// Destinations that have everything.
        done: usize,
        /// Bytes that were read from files.
        read_bytes: u64,
        elapsed_seconds: f64,
        cpu_seconds: f64,
        peak_rss_bytes: u64,
        exit: u8,
    },
    /// Two far hosts continue a copy without this process.
    Detached { job: String, from: String, to: String },
    /// The sums of a copy that was only listed.
    #[serde(rename = "summary")]
    Surveyed {
        dry_run: bool,
        #[serde(flatten)]
        found: TotalsFields,
        exit: u8,
    },
    /// The whole command failed; in place of a summary.
    Failed { message: String, exit: u8 },
    /// An entry of verify's SRC that isn't at DST.
    Missing { path: String, aspects: [&'static str; 0] },
    /// An entry that is only at verify's DST.
    Extra { path: String, aspects: [&'static str; 0] },
    /// An entry that differs between verify's trees.
    Differs { path: String, aspects: Vec<&'static str> },
    /// Something that a transfer left, which clean removes.
    Leftover { path: String, kind: &'static str, bytes: u64 },
    /// A directory is clean, or its remains were only listed.
    #[serde(rename = "summary")]
    Cleaned { dry_run: bool, leftovers: u64, bytes: u64, failed: u64, exit: u8 },
    /// A comparison is done.
    #[serde(rename = "summary")]
    Compared {
        /// Entries at both ends.
        compared: u64,
        /// Bytes of files that are the same.
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
    /// The event as a line.
    pub fn versioned(&self) -> Versioned<'_> {
        Versioned { schema: SCHEMA, destination: None, event: self }
    }

    /// The event as a line; with the name of the destination, if it belongs to the copy to one of several.
    pub fn of_destination<'a>(&'a self, destination: Option<&'a str>) -> Versioned<'a> {
        Versioned { destination, ..self.versioned() }
    }
}

/// The limiter of a transfer.
#[derive(Serialize)]
pub struct LimiterFields {
    pub limiter: &'static str,
    /// The share of the time for which it limits, 0 to 1.
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

/// Entries by kind, and the bytes of the files.
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

/// The sums of a copy, and what it cost.
#[derive(Serialize)]
pub struct CopySummary {
    /// The entries in place.
    #[serde(flatten)]
    pub landed: TotalsFields,
    pub payload_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<CountedTime>,
    pub elapsed_seconds: f64,
    pub gbit_per_second: f64,
    pub wire_bytes: u64,
    pub encrypted: bool,
    /// Also unknown if another host sent the data.
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

/// The end of the copy to one of several destinations.
#[derive(Serialize)]
pub struct DestinationFields {
    /// As the user wrote it.
    pub destination: String,
    pub result: &'static str,
    /// The reason, if the copy failed as a whole.
    pub message: Option<String>,
    /// An agent has answered there.
    pub reached: bool,
    /// The destination was slower than the others, and the source was read separately for it.
    pub left_behind: bool,
    /// The destination got everything through a chain or tree of hosts.
    pub chained: bool,
    /// Entries and bytes that are in place.
    #[serde(flatten)]
    pub landed: TotalsFields,
    /// Bytes of these that were sent.
    pub sent_bytes: u64,
    pub elapsed_seconds: f64,
    pub failed: u64,
    pub changed: u64,
    pub not_kept: u64,
    pub exit: u8,
    /// The fields of a single copy's summary; none if it failed as a whole.
    pub summary: Option<Box<CopySummary>>,
}

/// The processor time and memory of one end.
#[derive(Serialize)]
pub struct EndFields {
    pub cpu_seconds: f64,
    pub cpu_seconds_per_gb: f64,
    pub peak_rss_bytes: u64,
    pub stages: Stages,
}

/// The part of a summary that only sync has.
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

/// A kind of problem, as events call it.
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

/// A kind of entry, as events and lists call it.
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

/// The names of a transfer's remains in events and lists.
pub fn leftover_name(kind: LeftoverKind) -> &'static str {
    match kind {
        LeftoverKind::Journal => "journal",
        LeftoverKind::Partial => "partial-file",
        LeftoverKind::Other => "temporary-name",
    }
}

/// One thing in which two entries differ, as events and lists call it.
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
