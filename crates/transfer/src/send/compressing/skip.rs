//! Names that show that a file's contents are already compressed.

use std::collections::HashSet;

/// The default name extensions of files that aren't compressed: the same as in rsync.
const USUAL: &str = "3g2 3gp 7z aac ace apk avi bz2 deb dmg ear f4v flac flv gpg gz iso jar jpeg jpg lrz lz lz4 lzma lzo \
m1a m1v m2a m2ts m2v m4a m4b m4p m4r m4v mka mkv mov mp1 mp2 mp3 mp4 mpa mpeg mpg mpv mts odb odf odg odi odm odp ods \
odt oga ogg ogm ogv ogx opus otg oth otp ots ott oxt png qt rar rpm rz rzip spx squashfs sxc sxd sxg sxm sxw sz tbz \
tbz2 tgz tlz ts txz tzo vob war webm webp xz z zip zst";
/// The length of the longest extension in bytes.
const LONGEST: usize = 32;

/// The name extensions of files that aren't compressed, in lower case.
pub struct SkippedNames(HashSet<Vec<u8>>);

impl SkippedNames {
    /// The user's extensions if there are any, else the default ones.
    pub fn new(wanted: Option<&[Vec<u8>]>) -> Self {
        let usual = || USUAL.split(' ').map(|ending| ending.as_bytes().to_vec()).collect();
        Self(
            wanted.map_or_else(usual, |wanted| {
                wanted.iter().map(|ending| ending.to_ascii_lowercase()).collect()
            }),
        )
    }

    /// True if `name` has one of these extensions after its last dot.
    pub fn has(&self, name: &[u8]) -> bool {
        let Some(dot) = name.iter().rposition(|&byte| byte == b'.') else { return false };
        let ending = &name[dot + 1..];
        dot > 0 && ending.len() <= LONGEST && self.0.contains(&ending.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ending_counts_in_any_case() {
        let usual = SkippedNames::new(None);
        for name in ["a.gz", "b/c.tar.XZ", "x.y.JPEG"] {
            assert!(usual.has(name.as_bytes()), "{name}");
        }
        for name in ["gz", ".gz", "a.gz.txt", "a.", "", "a.tar"] {
            assert!(!usual.has(name.as_bytes()), "{name}");
        }
        let own = SkippedNames::new(Some(&[b"Txt".to_vec()]));
        assert!(own.has(b"a.txt") && !own.has(b"a.gz"));
        assert!(!SkippedNames::new(Some(&[])).has(b"a.gz"));
    }
}
