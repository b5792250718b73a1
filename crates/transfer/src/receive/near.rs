//! The directories that a receiver uses near its destination: other trees, and directories for backups, temporary files
//! and partial files.

use linerate_wire::control::{Appending, MAX_OTHER_TREES, Options, OtherUse, Problem, ProblemKind, Sync};
use linerate_wire::path::printable;
use rustix::fs::Mode;
use std::sync::Arc;

use crate::base::problem::{TransferError, problem};
use crate::receive::backup::Backups;
use crate::receive::partial_directory::PartialDirectory;
use crate::tree::bounds::{DestinationState, Named};
use crate::tree::root::{Directory, Root};

/// The beginning of the error message that the directory of temporary files doesn't exist or isn't a directory.
pub const NO_TEMP_DIR: &str = "The temp-dir";

/// The directories near the destination that the receiver uses.
pub struct Near {
    /// Other trees from which entries that the destination lacks may be taken.
    pub others: Vec<Root>,
    /// Keeps backups of entries that are replaced or deleted, if the user requests them.
    pub backups: Option<Backups>,
    /// The directory of temporary files; `None` if each temporary file is in the directory of its final file.
    pub temporary: Option<Arc<Directory>>,
    /// The directory for partial files and, with `--delay-updates`, for complete files that wait for their
    /// names.
    pub partial: Option<PartialDirectory>,
}

impl Near {
    /// Finds the directories that `options` request, relative to `destination`. Directories that are created
    /// for backups get the mode `mode`. Another tree that doesn't exist counts as empty, and is reported.
    ///
    /// # Errors
    /// If a path isn't allowed or can't be reached, or if the options can't be combined.
    pub fn find(
        destination: &Named,
        options: &Options,
        mode: Mode,
        report: &dyn Fn(Problem),
    ) -> Result<Self, TransferError> {
        let sync = options.sync.as_ref();
        let backups = sync.and_then(|sync| sync.backup.as_ref());
        let backups = backups.map(|backup| Backups::new(destination, backup, mode, options));
        let backups = backups.transpose()?;
        let placing = &options.details.placing;
        let partial = PartialDirectory::find(destination, placing)?;
        let in_place = sync.is_some_and(|sync| sync.inplace);
        let appends = placing.append != Appending::Never;
        if in_place && partial.is_some()
            || options.digests && (placing.delayed || appends)
            || appends && !in_place
        {
            let message = "files that are updated in place can't be kept as partial files; appending needs updates in place; delayed updates and appending can't be combined with digests";
            return Err(TransferError::Arguments(message.into()));
        }
        let temporary = placing.temporary.as_deref().map(|written| temporary(destination, written));
        Ok(Self {
            others: others(destination, sync, report)?,
            backups,
            temporary: temporary.transpose()?,
            partial,
        })
    }
}

/// Opens the directory of temporary files. If the directory doesn't exist, or isn't a directory, the error message is
/// that of rsync.
fn temporary(destination: &Named, written: &[u8]) -> Result<Arc<Directory>, TransferError> {
    let named = destination.beside(written)?;
    match named.destination()?.there {
        DestinationState::Directory { .. } => Ok(named.directory()?.top().clone()),
        there => {
            let is = if matches!(there, DestinationState::Nothing) {
                "does not exist"
            } else {
                "is not a directory"
            };
            Err(TransferError::Arguments(format!("{NO_TEMP_DIR} {is}: {}", printable(written))))
        }
    }
}

fn others(
    destination: &Named,
    sync: Option<&Sync>,
    report: &dyn Fn(Problem),
) -> Result<Vec<Root>, TransferError> {
    let others = sync.and_then(|sync| sync.others.as_ref());
    let directories = others.map_or(&[][..], |others| &others.directories);
    if directories.len() > MAX_OTHER_TREES {
        let message = format!(
            "there are more than {MAX_OTHER_TREES} directories to compare with: leave out the oldest"
        );
        return Err(TransferError::Arguments(message));
    }
    let named = directories.iter().map(|directory| destination.beside(directory));
    let passes_over = sync.is_some_and(|sync| sync.into);
    let is_passed_over = |named: &Named| {
        let why = named.strangers_link().filter(|_| passes_over);
        why.map(|why| report(problem(named.shown(), ProblemKind::Remark, why))).is_some()
    };
    let option = others.map_or("", |others| option_of(others.used));
    let there = |named: Named| {
        let there = if named.is_missing() { DestinationState::Nothing } else { named.destination()?.there };
        let why = match there {
            DestinationState::Directory { .. } => return named.directory().map(Some),
            DestinationState::Nothing => "there is no such directory",
            _ => "it isn't a directory",
        };
        let message = format!("{option}: {why}; this option is ignored");
        report(problem(named.shown(), ProblemKind::Noted, message));
        Ok(None)
    };
    // If the sources land under their own names, as with rsync, another tree is left out if its path contains another
    // user's link.
    let named = named.filter(|named| !named.as_ref().is_ok_and(is_passed_over));
    named.filter_map(|named| named.and_then(there).transpose()).collect()
}

/// The name of the option that requests other trees for this use.
fn option_of(used: OtherUse) -> &'static str {
    match used {
        OtherUse::Link => "--link-dest",
        OtherUse::Copy => "--copy-dest",
        OtherUse::Compare => "--compare-dest",
    }
}
