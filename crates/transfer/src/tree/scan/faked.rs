//! Files that stand for another kind of entry by rsync's attributes (`--fake-super`).

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::tree::metadata::fake::STAT;
use crate::tree::metadata::read::{At, faked_link, seen};

/// The stat to send for an entry with the stat `real`. Also returns true if the entry stands for an entry of another
/// kind.
pub fn look(at: At<'_>, real: Result<Stat, Errno>, fakes: bool) -> (Result<Stat, Errno>, bool) {
    let stat = if fakes { real.and_then(|real| seen(at, &real)) } else { real };
    let kind = |stat: Result<Stat, Errno>| stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
    (stat, kind(stat) != kind(real))
}

/// The text of a link. If `fakes` is set, the entry may also be a file that stands for a link.
pub fn link_target(at: At<'_>, fakes: bool) -> Result<Vec<u8>, Errno> {
    let At::In(directory, name) = at else {
        // A symbolic link itself can't be opened.
        return if fakes { faked_link(at) } else { Err(Errno::LOOP) };
    };
    match rustix::fs::readlinkat(directory, name, Vec::new()) {
        Err(Errno::INVAL) if fakes => faked_link(at),
        target => Ok(target?.into_bytes()),
    }
}

/// The message that a file isn't sent because its attribute of `--fake-super` is invalid.
pub fn stands_for_nothing() -> String {
    format!("can't be read with --fake-super: its attribute {STAT} doesn't have rsync's format")
}
