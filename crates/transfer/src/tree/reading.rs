//! Reads open files into memory or into a hash.

use linerate_wire::control::Digest;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Bytes that are read and hashed at a time.
const HASHED: usize = 1 << 20;

/// BLAKE3 of `length` bytes of a file, from `offset` on; `None` if the file is too short. `buffer` is overwritten.
pub fn hash(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<Digest>, Errno> {
    hash_while(fd, offset, length, buffer, || true)
}

/// Computes the hash as [`hash`] does; also returns `None` if `go_on` returns false.
pub fn hash_while(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    buffer: &mut Vec<u8>,
    go_on: impl Fn() -> bool,
) -> Result<Option<Digest>, Errno> {
    let mut hasher = blake3::Hasher::new();
    let whole = read_while(fd, offset, length, buffer, go_on, |read| {
        hasher.update(read);
    })?;
    Ok(whole.then(|| hasher.finalize().into()))
}

/// Passes `length` bytes from `offset` on to `each`, piece by piece; false if the file is too short, or `go_on` returns
/// false. `buffer` is overwritten, and is empty at the end.
pub fn read_while(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    buffer: &mut Vec<u8>,
    go_on: impl Fn() -> bool,
    mut each: impl FnMut(&[u8]),
) -> Result<bool, Errno> {
    let mut at = 0;
    while at < length && go_on() {
        buffer.clear();
        let want = usize::try_from(length - at).unwrap_or(HASHED).min(HASHED);
        append_from(fd, offset + at, want, buffer)?;
        each(buffer);
        at += buffer.len() as u64;
        if buffer.len() < want {
            break;
        }
    }
    buffer.clear();
    Ok(at == length)
}

/// Appends at most `size` bytes of a file to `out`, from offset `from` on; fewer bytes if the file ends.
pub fn append_from(fd: BorrowedFd<'_>, from: u64, size: usize, out: &mut Vec<u8>) -> Result<(), Errno> {
    let (start, end) = (out.len(), out.len() + size);
    out.reserve(size);
    while out.len() < end {
        let offset = from + (out.len() - start) as u64;
        match rustix::io::pread(fd, rustix::buffer::spare_capacity(out), offset) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    out.truncate(end);
    Ok(())
}

/// True for a file of /proc or /sys (statfs(2)). The kernel generates the contents of such a file at each read. It
/// generates the file's times when the file is looked up, so the times may differ after another look-up.
pub fn is_made_up(fd: BorrowedFd<'_>) -> bool {
    const SYSFS: rustix::fs::FsWord = 0x6265_6572;
    rustix::fs::fstatfs(fd).is_ok_and(|stat| [rustix::fs::PROC_SUPER_MAGIC, SYSFS].contains(&stat.f_type))
}
