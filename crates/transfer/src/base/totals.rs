//! Totals that several threads add to.

use linerate_wire::control::Totals;
use linerate_wire::entry::Kind;
use std::sync::atomic::{AtomicU64, Ordering};

/// [`Totals`] that several threads add to.
#[derive(Default)]
pub struct SharedTotals {
    files: AtomicU64,
    directories: AtomicU64,
    symlinks: AtomicU64,
    specials: AtomicU64,
    bytes: AtomicU64,
    /// Bytes that only rsync's totals include: texts of links, and the sizes of further hard links.
    further: AtomicU64,
}

impl SharedTotals {
    /// Adds an entry of this kind to the totals. A further hard link counts as a file without bytes.
    pub fn entry(&self, kind: &Kind) {
        match kind {
            Kind::File { size } => self.file(*size),
            Kind::Directory => self.directory(),
            Kind::Symlink { .. } => self.symlink(),
            Kind::Device { .. } | Kind::Fifo | Kind::Socket => self.special(),
            Kind::HardLink { .. } => self.file(0),
        }
    }

    /// Counts a regular file of `bytes` bytes.
    pub fn file(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds bytes of a file that another call counts as an entry.
    pub fn bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Corrects the size of a file that was counted with `from` bytes and has `to` bytes.
    pub fn corrected(&self, from: u64, to: u64) {
        self.bytes.fetch_add(to.wrapping_sub(from), Ordering::Relaxed);
    }

    /// Counts a directory.
    pub fn directory(&self) {
        self.directories.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a symbolic link.
    pub fn symlink(&self) {
        self.symlinks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a device, a named pipe or a socket.
    pub fn special(&self) {
        self.specials.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that only rsync's totals include: a link's text, and `size` bytes for a further hard link.
    pub fn further(&self, kind: &Kind, size: u64) {
        let bytes = match kind {
            Kind::Symlink { target } => target.len() as u64,
            Kind::HardLink { .. } => size,
            _ => return,
        };
        self.further.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The sum of the bytes that only rsync's totals include.
    pub fn further_bytes(&self) -> u64 {
        self.further.load(Ordering::Relaxed)
    }

    /// Replaces these totals by other totals.
    pub fn set(&self, totals: Totals) {
        self.files.store(totals.files, Ordering::Relaxed);
        self.directories.store(totals.directories, Ordering::Relaxed);
        self.symlinks.store(totals.symlinks, Ordering::Relaxed);
        self.specials.store(totals.specials, Ordering::Relaxed);
        self.bytes.store(totals.bytes, Ordering::Relaxed);
    }

    /// The current totals.
    pub fn get(&self) -> Totals {
        Totals {
            files: self.files.load(Ordering::Relaxed),
            directories: self.directories.load(Ordering::Relaxed),
            symlinks: self.symlinks.load(Ordering::Relaxed),
            specials: self.specials.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
