//! Decides for which changed files only the differences are sent, and computes the digests of an older
//! version's chunks, which are compared with the chunks at the same offsets of the new version.

use linerate_wire::control::Digest;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::base::lock::lock;
use crate::tree::reading::hash;
use std::sync::Mutex;

/// The smallest chunk in bytes, unless the user requests the comparison of small files too.
pub const CHUNK_LEAST: u64 = 1 << 20;

/// Size limits for files that are compared in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaBounds {
    /// Files whose new version has fewer bytes than this are sent whole.
    file: u64,
    /// Files whose older version has fewer bytes than this are sent whole.
    older: u64,
    /// The smallest chunk in bytes.
    chunk: u64,
}

impl DeltaBounds {
    /// The limits by default. For smaller files, the comparison costs about as much as sending everything.
    pub const USUAL: Self = Self { file: 4 << 20, older: CHUNK_LEAST, chunk: CHUNK_LEAST };
    /// The limits if the user explicitly requests the search for blocks: a file must have at least eight of the
    /// smallest blocks. Sums of shorter files aren't sent.
    pub const SMALL: Self = Self { file: 32 << 10, older: 32 << 10, chunk: 64 << 10 };

    /// True if the comparison of files with these sizes in bytes costs less than it may save.
    pub fn pays(self, size: u64, older: u64) -> bool {
        size >= self.file && older >= self.older
    }
}

/// The largest chunk in bytes.
const CHUNK_MOST: u64 = 1 << 30;
/// The most digests in one answer. They take half of the longest message.
const DIGESTS: u64 = 16_384;
/// The number of threads that hash one file.
const THREADS: usize = 4;

/// The chunk size in bytes for comparing a file of `size` bytes with an older version of `older` bytes. `shared_by` is
/// the number of such files in one answer. `None` if the comparison isn't worthwhile.
pub fn chunk_of(bounds: DeltaBounds, size: u64, older: u64, shared_by: u64) -> Option<u64> {
    if !bounds.pays(size, older) {
        return None;
    }
    let most = DIGESTS / shared_by.max(1);
    let chunk = size.div_ceil(most.max(1)).checked_next_power_of_two()?.max(bounds.chunk);
    (chunk <= CHUNK_MOST && chunk <= older && chunk < size).then_some(chunk)
}

/// BLAKE3 of each whole chunk of the first `common` bytes, which both versions have. No digest is reported
/// for an incomplete chunk: the sender chooses where the new version ends, so it could find out the older
/// version's bytes by trial, one after another.
///
/// # Errors
/// If the file can't be read.
pub fn digests(file: &OwnedFd, chunk: u64, common: u64) -> Result<Vec<Digest>, Errno> {
    each_chunk(common / chunk, |number, buffer| hash(file.as_fd(), number * chunk, chunk, buffer))
}

/// The results of `of` for each of `count` chunks, calculated in parallel. The list ends before the first chunk without
/// a result, because later results are of no use.
///
/// # Errors
/// The first error of `of`.
pub fn each_chunk<T: Copy + Send>(
    count: u64,
    of: impl Fn(u64, &mut Vec<u8>) -> Result<Option<T>, Errno> + Sync,
) -> Result<Vec<T>, Errno> {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let found = Mutex::new(vec![None; count as usize]);
    let work = || {
        let mut buffer = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let digest = of(number, &mut buffer);
            let digest = digest.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            lock(&found)[number as usize] = digest;
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let ended = others.into_iter().map(|thread| thread.join().unwrap_or(Err(Errno::IO)));
        ended.fold(own, Result::and)
    })?;
    let found = std::mem::take(&mut *lock(&found));
    Ok(found.into_iter().map_while(|digest| digest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn all_answers_fit_into_a_message() {
        for (size, shared_by) in
            [(4 << 20, 1), (1 << 40, 1), (100 << 20, 1024), (1 << 34, 1024), (1 << 50, 7)]
        {
            for bounds in [DeltaBounds::USUAL, DeltaBounds::SMALL] {
                if let Some(chunk) = chunk_of(bounds, size, size, shared_by) {
                    assert!(size / chunk * shared_by <= DIGESTS, "{size} {shared_by}");
                    assert!(chunk.is_power_of_two() && chunk < size);
                }
            }
        }
        assert_eq!(chunk_of(DeltaBounds::USUAL, 4 << 30, 4 << 30, 1), Some(1 << 20));
        assert_eq!(chunk_of(DeltaBounds::USUAL, 1 << 20, 1 << 20, 1), None);
        assert_eq!(chunk_of(DeltaBounds::SMALL, 1 << 20, 1 << 20, 1), Some(64 << 10));
        assert_eq!(chunk_of(DeltaBounds::SMALL, 1 << 20, 31 << 10, 1), None);
    }

    #[test]
    fn chunks_are_hashed_at_their_places() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..5 << 18).map(|at: u32| (at >> 9) as u8).collect();
        file.write_all(&bytes).unwrap();
        let (file, older) = (OwnedFd::from(file), bytes.len() as u64);
        let hashed = |bytes: &[u8]| -> Vec<Digest> {
            bytes.chunks(1 << 18).map(|chunk| blake3::hash(chunk).into()).collect()
        };
        assert_eq!(digests(&file, 1 << 18, older).unwrap(), hashed(&bytes));
        let within = digests(&file, 1 << 18, (3 << 18) + 5).unwrap();
        assert_eq!(within, hashed(&bytes[..3 << 18]), "nothing is said of a part of a chunk");
    }
}
