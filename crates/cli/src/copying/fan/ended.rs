//! The results of the copies to several destinations: a line and an event for each, and the exit code.

use linerate_transfer::clock::process_usage;
use linerate_transfer::lock::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::FanTarget;
use super::args::HandingOn;
use crate::common::event::{DestinationFields, Event};
use crate::common::failure::Failure;
use crate::common::log::{self, LoggedEvent, RunFigures};
use crate::common::output::{Output, Style};
use crate::exit::Code;
use crate::units::show_bytes;

/// A copy that has ended, successfully or not.
pub struct EndedCopy {
    event: Event,
    /// The destination's name in messages.
    name: String,
    /// The line about the result; `None` if there is no summary.
    row: Option<String>,
    /// The reason why the copy failed as a whole; `None` if it didn't.
    message: Option<String>,
    way: CopyWay,
    /// True if an agent has answered at the destination.
    reached: bool,
    code: Code,
}

/// How the data of a copy got to its host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CopyWay {
    /// From this host, sharing the data that was read with the other copies.
    Shared,
    /// From this host, which read the data separately for this copy.
    LeftBehind,
    /// Through other hosts.
    HandedOn(HandingOn),
    /// The copy failed before its host was one of the hosts that forward data.
    Outside(HandingOn),
}

impl EndedCopy {
    /// The result of the copy to a destination.
    pub fn new(target: &FanTarget, result: Result<Code, Failure>, way: CopyWay, elapsed: Duration) -> Self {
        let (code, message) = match result {
            Ok(code) => (code, None),
            Err(Failure(message, code)) => (code, Some(message)),
        };
        let (member, meters) = (target.output.member(), lock(&target.meters).clone());
        let done = member.and_then(|member| member.done());
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let reached = meters.local.reached.load(Ordering::Relaxed);
        let fields = DestinationFields {
            destination: target.written.clone(),
            result: result_name(code, message.is_some()),
            message: message.clone(),
            reached,
            left_behind: way == CopyWay::LeftBehind,
            chained: matches!(way, CopyWay::HandedOn(_)) && message.is_none(),
            landed: done.as_ref().map_or_else(|| target.in_place(), |done| done.landed).into(),
            sent_bytes: meters.local.stages().bytes,
            elapsed_seconds: elapsed.as_secs_f64(),
            failed: count(&meters.local.failed),
            changed: count(&meters.local.changed),
            not_kept: count(&meters.local.not_kept),
            exit: code.number(),
            summary: None,
        };
        let (row, summary) = done.map(|done| (done.line, done.summary)).unzip();
        let event = Event::Destination(Box::new(DestinationFields { summary, ..fields }));
        let name = member.map_or_else(String::new, |member| member.name.clone());
        Self { event, name, row, message, way, reached, code }
    }

    /// The result of a copy whose thread has panicked.
    pub fn broken(target: &FanTarget) -> Self {
        let failure = Failure::failed("an error in linerate ended this copy".into());
        Self::new(target, Err(failure), CopyWay::Shared, Duration::ZERO)
    }

    /// Prints the event of the copy, or the reason of its failure.
    pub fn show(&self, output: &Output) {
        let event = self.logged();
        log::record(&event);
        match (&self.message, output.style()) {
            (_, Style::Json) => output.event(&self.event),
            (Some(_), _) if log::to_journal(&event) => {}
            (Some(message), _) => output.line(&format!("linerate: {}: {message}", self.name)),
            (None, _) => {}
        }
    }

    fn logged(&self) -> LoggedEvent {
        let text = match (&self.message, self.way_in_words()) {
            (None, _) => self.text(),
            (Some(why), None) => why.clone(),
            (Some(why), Some(way)) => format!("{way}: {why}"),
        };
        LoggedEvent::destination(&self.name, &text, self.code)
    }

    /// Prints the line of the copy. The journal already has the line of a failed copy.
    fn show_row(&self, width: usize) {
        let is_taken = log::takes_result() && (self.message.is_some() || log::to_journal(&self.logged()));
        if !is_taken {
            message!("{:width$}  {}", self.name, self.text());
        }
    }

    fn text(&self) -> String {
        let row = self.row.clone().into_iter();
        let ended = match (self.code, &self.message) {
            (Code::Done, _) => "done".to_owned(),
            (code, None) => format!("not complete (exit code {})", code.number()),
            (Code::Interrupted, Some(_)) => format!("interrupted (exit code {})", self.code.number()),
            (code, Some(why)) => format!("failed (exit code {}): {why}", code.number()),
        };
        row.chain(self.way_in_words()).chain([ended]).collect::<Vec<_>>().join("; ")
    }

    fn way_in_words(&self) -> Option<String> {
        match self.way {
            _ if !self.reached => Some("not reached".to_owned()),
            CopyWay::Shared => None,
            CopyWay::LeftBehind => Some("fell behind the others".to_owned()),
            CopyWay::HandedOn(shape) if self.message.is_none() => {
                Some(format!("through the {}", shape.name()))
            }
            CopyWay::HandedOn(shape) => Some(format!("in the {}", shape.name())),
            CopyWay::Outside(shape) => Some(format!("not in the {}", shape.name())),
        }
    }
}

/// The totals of all copies.
pub struct FanEnd {
    /// The bytes that were read on this host.
    pub read: u64,
    pub begun: Instant,
    /// True for a dry run, which changed nothing.
    pub is_dry: bool,
}

/// Prints a line for each copy, and the last event; returns the exit code of the worst result.
pub fn show_all(output: &Output, ended: &[EndedCopy], end: &FanEnd) -> Code {
    output.clear();
    let code = ended.iter().map(|one| one.code).max_by_key(|code| code.severity()).unwrap_or(Code::Done);
    let done = ended.iter().filter(|one| one.code == Code::Done).count();
    let last = last_line(done, ended.len(), end);
    let numbers = vec![("destinations", ended.len() as u64), ("done", done as u64)];
    log::sum_up(RunFigures { text: last.clone(), numbers });
    match output.style() {
        Style::Quiet => {}
        Style::Json => {
            let usage = process_usage();
            output.event(&Event::FanOut {
                destinations: ended.len(),
                done,
                read_bytes: end.read,
                elapsed_seconds: end.begun.elapsed().as_secs_f64(),
                cpu_seconds: usage.cpu_seconds,
                peak_rss_bytes: usage.peak_rss_bytes,
                exit: code.number(),
            });
        }
        Style::Plain | Style::Verbose => {
            let width = ended.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
            ended.iter().for_each(|one| one.show_row(width));
            if !log::takes_result() {
                message!("{last}");
            }
        }
    }
    code
}

fn last_line(done: usize, all: usize, end: &FanEnd) -> String {
    let read = show_bytes(end.read);
    match all - done {
        0 if end.is_dry => format!("all {all} destinations were compared; nothing was changed"),
        0 => format!("all {all} destinations are complete; {read} read on this host"),
        _ => format!(
            "{done} of {all} destinations are complete; {read} read on this host; run the same command again for the others"
        ),
    }
}

fn result_name(code: Code, is_failed: bool) -> &'static str {
    match (code, is_failed) {
        (Code::Done, _) => "done",
        (Code::Interrupted, _) => "interrupted",
        (_, false) => "incomplete",
        (_, true) => "failed",
    }
}
