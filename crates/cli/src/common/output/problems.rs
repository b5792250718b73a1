//! Prints problems, losses and notes: as a line of text, as an event of `--json`, and as an event of the log.

use linerate_transfer::lock::lock;
use linerate_transfer::problem::Observer;
use linerate_wire::control::{Change, Problem, ProblemKind};
use linerate_wire::path::{printable, printable_path};
use std::sync::atomic::Ordering;

use super::{Output, Style};
use crate::common::event::{Event, problem_name};
use crate::common::log::{self, LoggedEvent, LoggedKind, LoggedPriority, quoted};

impl Output {
    /// Prints a problem whose texts are safe to print.
    pub fn shown_problem(&self, path: String, message: String, kind: ProblemKind) {
        let is_loss = kind == ProblemKind::NotKept && self.style != Style::Verbose;
        let event = LoggedEvent::problem(&path, &message, kind).at_member(self.member());
        if !is_loss && kind != ProblemKind::Remark {
            log::record(&event);
        }
        if is_loss && (self.style != Style::Json || log::has_file()) {
            lock(&self.losses).add(message.clone(), path.clone());
        }
        if self.style == Style::Json {
            self.event(&Event::Problem { path, message, kind: problem_name(kind) });
        } else if !is_loss && !log::to_journal(&event) {
            let plain = || Some(format!("{}: {path}: {message}", self.program()));
            let line = self.printer.as_ref().map_or_else(plain, |printer| printer.error(&path, &message));
            line.into_iter().for_each(|line| self.line(&line));
        }
    }

    /// Prints each loss that several entries share once.
    pub fn losses(&self) {
        let losses = std::mem::take(&mut *lock(&self.losses));
        losses.lines(str::to_owned).zip(losses.lines(quoted)).for_each(|(line, logged)| {
            let event = LoggedEvent::plain(LoggedKind::Loss, LoggedPriority::Warning, &line);
            let event = LoggedEvent { line: logged, ..event }.at_member(self.member());
            log::record(&event);
            if self.style != Style::Json && !log::to_journal(&event) {
                self.line(&format!("{}: {line}", self.program()));
            }
        });
    }

    /// Handles the report of a change that isn't made because its file was not sent.
    pub fn not_sent(&self, change: &Change) {
        self.printer.iter().for_each(|printer| printer.not_sent(change));
    }

    fn remark(&self, path: &str, message: &str) {
        if let Some(printer) = &self.printer {
            printer.remark(message);
        } else if self.style == Style::Verbose {
            self.line(&format!("{}: {path}: {message}", self.program()));
        }
    }
}

impl Observer for Output {
    fn problem(&self, problem: Problem) {
        self.member().into_iter().for_each(|member| member.leave(&problem));
        let path = self
            .printer
            .as_ref()
            .map_or_else(|| printable_path(&problem.path), |printer| printer.shown(&problem.path));
        if problem.kind == ProblemKind::Remark && self.style != Style::Json {
            return self.remark(&path, &printable(problem.message.as_bytes()));
        }
        let is_skipped = problem.kind == ProblemKind::Skipped;
        if let Some(printer) =
            self.printer.as_ref().filter(|printer| is_skipped && printer.leaves_out(&path, &problem.message))
        {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return printer.skip(&path, &printable(problem.message.as_bytes()));
        }
        self.shown_problem(path, printable(problem.message.as_bytes()), problem.kind);
    }

    fn changes(&self, changes: Vec<Change>) {
        changes.iter().for_each(|change| self.change(change));
    }

    fn note(&self, note: &str) {
        let event = LoggedEvent::plain(LoggedKind::Note, LoggedPriority::Notice, note);
        let event = event.at_member(self.member());
        log::record(&event);
        match self.style {
            Style::Json => self.event(&Event::Note { message: note.to_owned() }),
            Style::Quiet => {}
            Style::Plain | Style::Verbose if log::to_journal(&event) => {}
            Style::Plain | Style::Verbose => self.line(&format!("{}: {note}", self.program())),
        }
    }
}
