//! What a receiver uses near its destination: other trees, and a place for backups.

use linerate_wire::control::{MAX_OTHER_TREES, Sync};
use rustix::fs::Mode;

use crate::base::problem::TransferError;
use crate::receive::backup::Backups;
use crate::tree::bounds::{DestinationState, Named};
use crate::tree::root::Root;

/// What is near the destination.
pub struct Near {
    /// Other trees that may have what it lacks.
    pub others: Vec<Root>,
    /// Keeps what is replaced or removed, where it is to be kept.
    pub backups: Option<Backups>,
}

impl Near {
    /// As `sync` asks for it, near `destination`. Directories for backups get `mode`. Another tree that isn't there has nothing.
    ///
    /// # Errors
    /// If a path can't be named, or may not be reached.
    pub fn find(destination: &Named, sync: Option<&Sync>, mode: Mode) -> Result<Self, TransferError> {
        let backups = sync.and_then(|sync| sync.backup.as_ref());
        let backups = backups.map(|backup| Backups::new(destination, backup, mode)).transpose()?;
        Ok(Self { others: others(destination, sync)?, backups })
    }
}

fn others(destination: &Named, sync: Option<&Sync>) -> Result<Vec<Root>, TransferError> {
    let others = sync.and_then(|sync| sync.others.as_ref());
    let directories = others.map_or(&[][..], |others| &others.directories);
    if directories.len() > MAX_OTHER_TREES {
        let message = format!("more than {MAX_OTHER_TREES} other trees: leave the oldest out");
        return Err(TransferError::Arguments(message));
    }
    let named = directories.iter().map(|directory| destination.beside(directory));
    let there = |named: Named| match named.destination()?.there {
        DestinationState::Directory { .. } => named.directory().map(Some),
        _ => Ok(None),
    };
    named.filter_map(|named| named.and_then(there).transpose()).collect()
}
