//! Converts a part of a plan to a task that moves or compares the part's files.

use linerate_fleet::plan::{FleetPart, FleetPlan, PlanDirectory};
use linerate_fleet::source::is_here;
use linerate_transfer::filter::FilesFrom;
use linerate_transfer::sender::{MissingPath, Selection};
use linerate_wire::control::{DividedFile, Keep, ModeRule, Options, Sync};
use linerate_wire::filter::ListedPath;
use linerate_wire::path::RelPath;
use std::ffi::OsString;

use crate::common::failure::Failure;
use crate::copying::args::CopyingArgs;
use crate::copying::task::Task;

/// A change of modes by which the user may write to all directories. It is needed until the last task has ended,
/// because several tasks write to the same directories.
const OPEN: ModeRule =
    ModeRule { directories: true, others: false, keep: !0, set: 0o700, conditional: false };

/// The purpose of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The task moves the files.
    Move,
    /// The task shows the changes that it would make.
    Preview,
    /// The task compares contents, by hashes that both ends compute.
    Compare,
}

/// The task for an attempt at a part of a plan. `to` is the attempt's destination.
///
/// # Errors
/// If the part's list can't be read.
pub fn task(
    directory: &PlanDirectory,
    part: FleetPart,
    (to, attempt): (&str, u32),
    common: &CopyingArgs,
    purpose: Purpose,
) -> Result<Task, Failure> {
    let plan = &directory.plan;
    let (list, divided) = (directory.list(part)?, directory.divided(part)?);
    check_source(plan, &list, &divided)?;
    let mut options = options(plan, part, common, purpose);
    let list = listed(&list, &divided, purpose)?;
    if purpose == Purpose::Move {
        options.details.divided = divided;
        options.details.journal_key = directory.journal_key();
    }
    // Entries that have vanished since the plan was made aren't failures: the next plan notices them.
    let selection = Selection { missing: MissingPath::Vanished, ..Selection::new(&options, Some(list)) };
    let manifest = plan.manifest && part != FleetPart::Directories && purpose == Purpose::Move;
    Ok(Task {
        selection,
        options,
        manifest: manifest.then(|| directory.manifest(part, attempt)),
        sources: vec![OsString::from(&plan.source)],
        destination: OsString::from(to),
        list: false,
        patience: common.patience(),
        quiet: common.quiet,
        retries: common.retry,
        stop: None,
        detach: false,
        interfaces: common.interfaces.clone().unwrap_or_default(),
        login: common.login.clone(),
        destination_login: None,
    })
}

/// Checks that the source is there. Without this check, a task on a host that lacks the source's file system
/// would report all files as vanished.
fn check_source(plan: &FleetPlan, list: &[u8], divided: &[DividedFile]) -> Result<(), Failure> {
    let divided = divided.iter().map(|file| file.path.as_bytes());
    let names = list.split(|byte| *byte == 0).chain(divided).map(|name| Ok(name.to_vec()));
    if is_here(plan, names)? {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{} on this host isn't the planned directory, and has none of the planned names: mount the planned directory, or plan again",
        plan.source
    )))
}

fn options(plan: &FleetPlan, part: FleetPart, common: &CopyingArgs, purpose: Purpose) -> Options {
    // The metadata of directories is compared together with the directories.
    let is_last = part == FleetPart::Directories || purpose == Purpose::Compare;
    let dry_run = purpose != Purpose::Move;
    // A later round contains a file because the file has changed since it was planned, perhaps only in its contents, or
    // because it hasn't been compared yet. So contents are compared.
    let checksum = purpose == Purpose::Compare || plan.round > 1;
    let keep = common.details.keeping(plan.keep);
    Options {
        recursive: true,
        // Other tasks still write to the directories.
        keep: Keep { omit_dir_times: keep.omit_dir_times || !is_last, ..keep },
        modes: if is_last { Vec::new() } else { vec![OPEN] },
        sync: Some(Sync { dry_run, itemize: dry_run, checksum, ..Sync::default() }),
        listed: true,
        digests: plan.verify || plan.manifest,
        verify: plan.verify,
        resume: (!dry_run).then(|| command(plan, part)),
        ..common.options()
    }
}

/// The key of a part's journal. Each part has its own journal at the destination. Later rounds use the same journal, so
/// that half-written files are continued or removed.
fn command(plan: &FleetPlan, part: FleetPart) -> [u8; 16] {
    let mut name = [0; 16];
    let text = format!("fleet {} {} {} {}", plan.id, part.name(), plan.verify, plan.manifest);
    name.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    name
}

/// The names in a part's list. The contents of listed directories aren't included. If files are compared, a divided
/// file is compared as a whole by the task that has its first piece, so the lists of other tasks don't contain it.
fn listed(text: &[u8], divided: &[DividedFile], purpose: Purpose) -> Result<FilesFrom, Failure> {
    let mut list = FilesFrom::default();
    let names = text.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    for name in names {
        let name = if name == b"." { b"" } else { name };
        let path = RelPath::new(name).map_err(|error| {
            Failure::failed(format!("a name in the plan's list of files isn't allowed: {error}"))
        })?;
        let path = ListedPath { path, contents: false, argument: 0 };
        list.add(path).map_err(|error| Failure::failed(error.to_string()))?;
    }
    let is_due = |file: &&DividedFile| purpose == Purpose::Move || file.first == 0 && file.brings();
    for file in divided.iter().filter(is_due) {
        let path = ListedPath { path: file.path.clone(), contents: false, argument: 0 };
        list.add(path).map_err(|error| Failure::failed(error.to_string()))?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_without_what_is_in_them_and_any_name_is_one() {
        let list = listed(b".\0a\0#x\0\xff\n\0", &[], Purpose::Move).unwrap();
        let list: Vec<_> = list.listed().collect();
        assert_eq!(list.len(), 4);
        assert!(list.iter().all(|listed| !listed.contents));
        let listed = |text| listed(text, &[], Purpose::Move);
        assert!(listed(b"../x\0").is_err() && listed(b"").is_ok());
    }
}
