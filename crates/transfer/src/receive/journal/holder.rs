//! Determines whether a run is using a journal, and which run uses it.

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use super::file::open_records;
use super::inode_of;
use super::key::KeyStore;
use super::record::Record;
use super::seal::Sealer;
use crate::tree::root::Directory;

/// The process that has locked a file with a journal's name.
#[derive(Debug, PartialEq, Eq)]
pub enum Holder {
    /// No run uses the journal.
    Nobody,
    /// A run of this account. The value is the nonce in the run's temporary names.
    Run([u8; 8]),
    /// An unknown run: of another account, or of an account that no longer has the key of its journal.
    Somebody,
}

/// The holder of the journal `name` in `directory`; [`Holder::Somebody`] if it can't be determined.
pub fn holder(directory: &Directory, name: &OsStr, keys: &KeyStore) -> Holder {
    let file = match directory.open_to_lock(name) {
        Ok(file) => file,
        Err(Errno::ACCESS) => return Holder::Somebody,
        Err(_) => return Holder::Nobody,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Holder::Nobody,
        Err(Errno::WOULDBLOCK) => {}
        Err(_) => return Holder::Somebody,
    }
    let sealer = keys.find(None).zip(inode_of(directory));
    let sealer = sealer.map(|(key, directory)| Sealer::new(key, name, directory));
    sealer.and_then(|sealer| last_nonce(&file, &sealer)).map_or(Holder::Somebody, Holder::Run)
}

/// The nonce in the temporary names of a journal's latest run; `None` if the journal isn't this account's.
fn last_nonce(file: &OwnedFd, sealer: &Sealer) -> Option<[u8; 8]> {
    let mut records = open_records(file, sealer).ok()??;
    let mut last = None;
    while let Some(record) = records.next().ok()? {
        if let Record::Begin(begin) = record {
            last = Some(begin.nonce);
        }
    }
    last
}
