//! Checksums of whole files, as rsync's `--checksum-choice` names them and `%C` shows them.

use md4::Md4;
use md5::Md5;
use md5::digest::Digest;
use sha1::Sha1;
use std::hash::Hasher;
use std::io::{self, Read};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

/// The number of bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// A checksum algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSum {
    /// The algorithm on which two current versions of rsync agree.
    #[default]
    Xxh128,
    Xxh3,
    Xxh64,
    Md5,
    Md4,
    Sha1,
    /// linerate's own algorithm, which rsync doesn't have.
    Blake3,
    None,
}

impl FileSum {
    /// The algorithm with this name, if linerate has it.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "auto" | "xxh128" => Self::Xxh128,
            "xxh3" => Self::Xxh3,
            "xxh64" | "xxhash" => Self::Xxh64,
            "md5" => Self::Md5,
            "md4" => Self::Md4,
            "sha1" => Self::Sha1,
            "blake3" => Self::Blake3,
            "none" => Self::None,
            _ => return None,
        })
    }

    /// The algorithm's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xxh128 => "xxh128",
            Self::Xxh3 => "xxh3",
            Self::Xxh64 => "xxh64",
            Self::Md5 => "md5",
            Self::Md4 => "md4",
            Self::Sha1 => "sha1",
            Self::Blake3 => "blake3",
            Self::None => "none",
        }
    }

    /// The number of characters of a printed checksum.
    pub fn width(self) -> usize {
        match self {
            Self::Xxh128 | Self::Md5 | Self::Md4 => 32,
            Self::Xxh3 | Self::Xxh64 => 16,
            Self::Sha1 => 40,
            Self::Blake3 => 64,
            // rsync prints two characters here too.
            Self::None => 2,
        }
    }

    /// Reads `file` to its end, and returns its checksum and its number of bytes.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn hex(self, file: impl Read) -> io::Result<(String, u64)> {
        match self {
            Self::Xxh128 => {
                with(file, XxHash3_128::new(), XxHash3_128::write, |sum| format!("{:032x}", sum.finish_128()))
            }
            Self::Xxh3 => {
                with(file, XxHash3_64::new(), Hasher::write, |sum| format!("{:016x}", sum.finish()))
            }
            Self::Xxh64 => {
                with(file, XxHash64::with_seed(0), Hasher::write, |sum| format!("{:016x}", sum.finish()))
            }
            Self::Md5 => digest::<Md5>(file),
            Self::Md4 => digest::<Md4>(file),
            Self::Sha1 => digest::<Sha1>(file),
            Self::Blake3 => {
                let add = |sum: &mut blake3::Hasher, bytes: &[u8]| {
                    sum.update(bytes);
                };
                with(file, blake3::Hasher::new(), add, |sum| sum.finalize().to_string())
            }
            Self::None => with(file, (), |(), _| (), |()| " ".repeat(self.width())),
        }
    }
}

fn digest<D: Digest>(file: impl Read) -> io::Result<(String, u64)> {
    let hex = |sum: D| sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    with(file, D::new(), |sum, bytes| sum.update(bytes), hex)
}

fn with<S>(
    mut file: impl Read,
    mut sum: S,
    add: impl Fn(&mut S, &[u8]),
    end: impl FnOnce(S) -> String,
) -> io::Result<(String, u64)> {
    let (mut buffer, mut length) = (vec![0; BUFFER], 0);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((end(sum), length)),
            Ok(count) => {
                add(&mut sum, &buffer[..count]);
                length += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_that_rsync_prints() {
        for (name, sum) in [
            ("auto", "6bba86c7e069f56d5a10b435f1c8e49c"),
            ("md5", "b1946ac92492d2347c6235b4d2611184"),
            ("md4", "63481c78ae04c201fa01ea9d2b1db56d"),
            ("sha1", "f572d396fae9206628714fb2ce00f72e94f2258f"),
            ("xxhash", "e4c191d091bd8853"),
            ("xxh3", "99fc819aaba2462a"),
            ("none", "  "),
        ] {
            let kind = FileSum::of(name).unwrap();
            assert_eq!(kind.hex(&b"hello\n"[..]).unwrap(), (sum.to_owned(), 6), "{name}");
            assert_eq!(kind.width(), sum.len());
            assert_eq!(FileSum::of(kind.name()), Some(kind));
        }
        assert_eq!(FileSum::Blake3.hex(&b""[..]).unwrap().0.len(), FileSum::Blake3.width());
        assert_eq!(FileSum::of("nonsense"), None);
    }
}
