//! The result of a transfer that succeeded, for the last line and the last event.

use linerate_doctor::limiter::{DeviceBytes, Evidence, Verdict, transfer};
use linerate_load::window::CountedTime;
use linerate_sys::usage::{UsageOf, usage};
use linerate_transfer::session::Meters;
use linerate_wire::control::Totals;
use linerate_wire::stages::{Stages, Usage};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::event::{CopySummary, EndFields, Event, SyncFields};
use super::kept_output::Sighting;
use super::log::RunFigures;
use super::printer::Sums;
use crate::exit::Code;
use crate::units::{show_bytes, show_count, show_counted, show_rate, show_time};

/// The result of a transfer that succeeded.
pub struct Summary {
    /// The entries that are in place.
    pub landed: Totals,
    /// The entries that the sender has found.
    pub found: Totals,
    /// The entries in `landed` that the destination already had, from other copies or from an interrupted run
    /// of this one. The bytes include existing chunks of files.
    pub there: Totals,
    /// Seconds from the first data connection to the last message.
    pub payload_seconds: f64,
    /// The time in which the payload was counted, by the clock of this host; only for measurements without
    /// files.
    pub window: Option<CountedTime>,
    /// The duration of the whole command in seconds.
    pub elapsed_seconds: f64,
    /// The number of streams that carried data.
    pub streams: u32,
    /// True if the data was encrypted.
    pub encrypted: bool,
    /// The cipher; `None` if there is none or it isn't known here.
    pub cipher: Option<String>,
    /// The times of the sender's stages, and the usage of its process.
    pub sender: (Stages, Usage),
    /// The times of the receiver's stages, and the usage of its process.
    pub receiver: (Stages, Usage),
    /// The hosts of the two ends.
    pub ends: Ends,
    /// The number of rejected connections to this end's data port; `None` if this end didn't listen.
    pub turned_away: Option<u64>,
    /// The kind of data.
    pub kind: Payload,
    /// The other changes that sync made; `None` for other commands.
    pub synced: Option<Synced>,
}

/// The roles of this process in a transfer, and the hosts of the ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// This process sent.
    Push,
    /// This process received.
    Pull,
    /// This process sent and received, and the data stayed on its host.
    Within,
    /// Both ends are far hosts.
    Between {
        /// The sender's host.
        from: String,
        /// The receiver's host.
        to: String,
        /// True if the data passed through this host.
        through: bool,
    },
}

/// The changes that sync made in addition to moving data.
#[derive(Clone, Copy, Debug)]
pub struct Synced {
    /// The bytes of changed files that the destination already had, and that weren't sent.
    pub matched: u64,
    /// The bytes of links' texts and of files' further names, which only rsync counts.
    pub further: u64,
    /// The number of entries that were deleted.
    pub deleted: u64,
    /// True for a dry run, which changed nothing.
    pub dry_run: bool,
}

/// The kind of data that a transfer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Files and directories.
    Files,
    /// Bytes from memory to memory.
    Memory,
    /// Contents of files, which the far end discards.
    Discarded,
}

/// The bytes that this process read from devices and wrote to devices.
fn own_devices() -> DeviceBytes {
    let used = usage(UsageOf::Process);
    DeviceBytes { read: used.device_read, written: used.device_written }
}

impl Summary {
    /// The limiter of the transfer.
    pub fn limiter(&self) -> Verdict {
        transfer::name(&Evidence {
            sender: self.sender.0,
            receiver: self.receiver.0,
            sender_usage: Some(self.sender.1),
            receiver_usage: Some(self.receiver.1),
            seconds: self.payload_seconds,
            through_ssh: self.cipher.as_deref() == Some("ssh") || self.is_through(),
            within: self.is_within(),
            devices: self.is_within().then(own_devices),
        })
    }

    fn is_within(&self) -> bool {
        self.ends == Ends::Within
    }

    fn is_through(&self) -> bool {
        matches!(self.ends, Ends::Between { through: true, .. })
    }

    /// The totals of the moved data, without data that the destination already had.
    pub fn moved(&self) -> Totals {
        let there = self.there;
        Totals {
            files: self.landed.files.saturating_sub(there.files),
            directories: self.landed.directories.saturating_sub(there.directories),
            symlinks: self.landed.symlinks.saturating_sub(there.symlinks),
            bytes: self.landed.bytes.saturating_sub(there.bytes),
            specials: self.landed.specials.saturating_sub(there.specials),
        }
    }

    /// The progress at the end of the run.
    pub fn sighting(&self, limiter: &Verdict) -> Sighting {
        let Totals { files, bytes, .. } = self.landed;
        let (seconds, found_files, found_bytes) = (self.payload_seconds, files, bytes);
        Sighting {
            seconds,
            bytes,
            files,
            found_files,
            found_bytes,
            scanned: true,
            ..Sighting::limited(limiter)
        }
    }

    /// The totals, for output in another program's format.
    pub fn sums(&self) -> Sums {
        Sums {
            there: self.found,
            size: self.found.bytes + self.synced.map_or(0, |synced| synced.further),
            moved: self.moved(),
            matched: self.synced.map_or(0, |synced| synced.matched),
            wire: self.wire().unwrap_or(self.moved().bytes),
            elapsed: Duration::from_secs_f64(self.elapsed_seconds),
            received: self.ends == Ends::Pull,
        }
    }

    /// The bytes that the data connections carried; `None` if there were no connections.
    pub fn wire(&self) -> Option<u64> {
        Some(self.sender.0.wire.max(self.receiver.0.wire)).filter(|wire| *wire > 0 && !self.is_within())
    }

    fn cpu_per_gb(&self, usage: Usage) -> f64 {
        usage.cpu_seconds / (self.moved().bytes.max(1) as f64 * 1e-9)
    }

    /// The last line of the output.
    pub fn text(&self, limiter: &Verdict) -> String {
        let Totals { files, bytes, .. } = self.moved();
        if let Some(synced) = self.synced.filter(|synced| synced.dry_run) {
            return format!(
                "would send {} of {}, {}; delete {}",
                show_count(files),
                show_counted(self.landed.files, "file", "files"),
                show_bytes(bytes),
                show_counted(synced.deleted, "entry", "entries"),
            );
        }
        let what = match (self.kind, files) {
            (Payload::Memory, _) => "memory to memory".to_owned(),
            (Payload::Discarded, _) => "files to memory".to_owned(),
            (Payload::Files, files) => show_counted(files, "file", "files"),
        };
        let of_all = self.of_all();
        format!("{what}{of_all}, {}, {}; {}; {limiter:#}", self.rate(), self.way(), self.cpu(bytes))
    }

    /// The result for a log.
    pub fn figures(&self, limiter: &Verdict, meters: &Meters) -> RunFigures {
        let (moved, count) = (self.moved(), |counter: &AtomicU64| counter.load(Ordering::Relaxed));
        let rate = moved.bytes as f64 * 8.0 / self.payload_seconds.max(1e-9);
        let mut numbers = vec![("files", moved.files), ("bytes", moved.bytes), ("rate", rate as u64)];
        numbers.extend(self.synced.map(|synced| ("deleted", synced.deleted)));
        if self.synced.is_some_and(|synced| synced.dry_run) {
            // For a dry run, these numbers have no meaning.
            numbers.clear();
        }
        let of = &meters.local;
        numbers.extend([
            ("failed", count(&of.failed)),
            ("changed", count(&of.changed)),
            ("not_kept", count(&of.not_kept)),
        ]);
        RunFigures { text: self.text(limiter), numbers }
    }

    /// The line for one of several copies.
    pub fn row(&self) -> String {
        let Totals { files, bytes, .. } = self.moved();
        match self.synced {
            Some(synced) if synced.dry_run => {
                format!("would send {}, {}", show_counted(files, "file", "files"), show_bytes(bytes))
            }
            _ => format!("{}{}, {}", show_counted(files, "file", "files"), self.of_all(), self.rate()),
        }
    }

    /// The total number of files (if not all of them were moved) and the number of deletions, as text.
    fn of_all(&self) -> String {
        let of_all = || format!(" of {}", show_count(self.landed.files));
        match self.synced {
            Some(synced) => of_all() + &deleted(synced.deleted),
            // An interrupted run of the same copy has moved the other files.
            None if self.there != Totals::default() => of_all(),
            None => String::new(),
        }
    }

    /// The moved bytes, the time that they took, and the rate, as text.
    fn rate(&self) -> String {
        let (bytes, seconds) = (self.moved().bytes, self.payload_seconds);
        let time = show_time(Duration::from_secs_f64(seconds));
        format!("{} in {time}: {}", show_bytes(bytes), show_rate(bytes, seconds))
    }

    /// How the data was sent, as text: encryption, number of streams or workers, and bytes on the wire.
    fn way(&self) -> String {
        let cipher = if self.encrypted { "encrypted" } else { "NOT ENCRYPTED" };
        match (self.is_within(), u64::from(self.streams)) {
            (true, workers) => format!("within this host, {}", show_counted(workers, "worker", "workers")),
            (false, streams) => {
                let wire = self.wire().filter(|_| self.sender.0.packed > 0);
                let wire = wire.map(|wire| format!(", {} on the wire", show_bytes(wire)));
                let streams = show_counted(streams, "stream", "streams");
                format!("{cipher}, {streams}{}", wire.unwrap_or_default())
            }
        }
    }

    /// The processor time as text; per gigabyte if enough data was moved.
    fn cpu(&self, bytes: u64) -> String {
        let shown = |usage: Usage| match bytes {
            1_000_000.. => format!("{:.2} s/GB", self.cpu_per_gb(usage)),
            _ => format!("{:.3} s", usage.cpu_seconds),
        };
        let (sender, receiver) = (self.sender.1, self.receiver.1);
        match &self.ends {
            Ends::Within => format!("CPU {}", shown(sender)),
            Ends::Push => format!("CPU {} here, {} there", shown(sender), shown(receiver)),
            Ends::Pull => format!("CPU {} here, {} there", shown(receiver), shown(sender)),
            Ends::Between { from, to, .. } => {
                format!("CPU {} at {from}, {} at {to}", shown(sender), shown(receiver))
            }
        }
    }

    /// The last event of `--json`.
    pub fn event(&self, limiter: &Verdict, code: Code, meters: &Meters) -> Event {
        Event::Summary(self.fields(limiter, code, meters))
    }

    /// The fields of the last event of `--json`.
    pub fn fields(&self, limiter: &Verdict, code: Code, meters: &Meters) -> Box<CopySummary> {
        let end = |(stages, usage): (Stages, Usage)| EndFields {
            cpu_seconds: usage.cpu_seconds,
            cpu_seconds_per_gb: self.cpu_per_gb(usage),
            peak_rss_bytes: usage.peak_rss_bytes,
            stages,
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Box::new(CopySummary {
            landed: self.landed.into(),
            payload_seconds: self.payload_seconds,
            window: self.window,
            elapsed_seconds: self.elapsed_seconds,
            gbit_per_second: self.moved().bytes as f64 * 8e-9 / self.payload_seconds.max(1e-9),
            wire_bytes: self.wire().unwrap_or_default(),
            encrypted: self.encrypted,
            cipher: self.cipher.clone(),
            within_host: self.is_within(),
            streams: self.streams,
            turned_away: self.turned_away,
            limiter: limiter.into(),
            sender: end(self.sender),
            receiver: end(self.receiver),
            failed: count(&meters.local.failed),
            changed: count(&meters.local.changed),
            not_kept: count(&meters.local.not_kept),
            exit: code.number(),
            synced: self.synced.map(|synced| SyncFields {
                dry_run: synced.dry_run,
                deleted: synced.deleted,
                unchanged_files: self.there.files,
                unchanged_bytes: self.there.bytes,
                matched_bytes: synced.matched,
            }),
        })
    }
}

fn deleted(entries: u64) -> String {
    match entries {
        0 => String::new(),
        entries => format!(", {} deleted", show_counted(entries, "entry", "entries")),
    }
}
