//! `--delete-before`: a pass of its own deletes entries before anything is sent, so that the deletions free room for
//! the new files, and the destination's own rule files decide which entries are protected.

use linerate_transfer::sender::Selection;
use linerate_wire::control::{Change, Keep, Options, Sync};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::line::Line;
use super::printer::RsyncPrinter;
use crate::common::failure::Failure;
use crate::common::output::{Output, Style};
use crate::common::printer::{Done, Printer, Sums};
use crate::common::spec::Spec;
use crate::copying::perform;
use crate::copying::task::Task;
use crate::exit::Code;

/// Prints the deletions of the first pass, and leaves everything else to the second pass.
struct DeletionPrinter(Arc<RsyncPrinter>);

impl Printer for DeletionPrinter {
    fn program(&self) -> &'static str {
        self.0.program()
    }

    fn error(&self, path: &str, message: &str) -> Option<String> {
        self.0.error(path, message)
    }

    fn connected(&self) {
        self.0.connected();
    }

    fn shown(&self, name: &[u8]) -> String {
        self.0.shown(name)
    }

    fn change(&self, change: &Change) {
        match change.item {
            Change::DELETED => self.0.change(change),
            Change::MADE => self.0.make_top(change),
            _ => {}
        }
    }

    fn skip(&self, _path: &str, _message: &str) {}

    fn remark(&self, message: &str) {
        self.0.remark(message);
    }

    fn progress(&self, _done: &Done) {}

    fn end(&self, _sums: &Sums) {}
}

/// Deletes the entries that the sources lack, if the line asks for that before the transfer. The options of `task` then
/// no longer delete. Returns the exit code of this pass.
///
/// # Errors
/// If the pass failed as a whole.
pub fn delete_first(line: &Line, task: &mut Task, printer: &Arc<RsyncPrinter>) -> Result<Code, Failure> {
    let Some(sync) = task.options.sync.as_ref().filter(|_| line.deletes_first()) else {
        return Ok(Code::Done);
    };
    let pass = deleting(task, sync);
    let output = Output::new(Style::Quiet).with_printer(DeletionPrinter(printer.clone()));
    let done = perform(output, Ok(pass));
    if let Some(sync) = &mut task.options.sync {
        // As in a single pass, a directory in the way of another kind of entry may be deleted with its contents.
        (sync.delete, sync.force) = (false, true);
        sync.max_delete = sync.max_delete.map(|most| most.saturating_sub(printer.deleted()));
        // If the pass has created the destination, the destination's own line is printed by the next pass.
        sync.unchanged |= printer.passes.have_made_top();
    }
    done
}

/// The task of the pass that deletes what `task` would delete, and leaves everything else as it is.
fn deleting(task: &Task, sync: &Sync) -> Task {
    let options = Options {
        sync: Some(Sync {
            existing: true,
            ignore_existing: true,
            unchanged: false,
            itemize: true,
            others: None,
            ..sync.clone()
        }),
        keep: Keep::NOTHING,
        modes: Vec::new(),
        remove_sources: false,
        ..task.options.clone()
    };
    Task {
        sources: task.sources.clone(),
        destination: task.destination.clone(),
        selection: Selection::new(&options, task.selection.listed.clone()),
        options,
        manifest: None,
        login: task.login.clone(),
        interfaces: task.interfaces.clone(),
        destination_login: None,
        stop: task.stop.clone(),
        ..*task
    }
}

impl Line {
    /// True if entries are deleted before the transfer, and the destination may have such entries: a missing destination
    /// of this host has none. A dry run deletes nothing, so one pass is enough.
    fn deletes_first(&self) -> bool {
        let is_missing =
            |path: &OsString| matches!(Spec::parse(path), Spec::Local(path) if !Path::new(&path).exists());
        self.deletes_before()
            && !self.sync.dry_run
            && !self.list
            && !self.paths.last().is_some_and(is_missing)
    }
}
