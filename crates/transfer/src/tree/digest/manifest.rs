//! A manifest lists the digests of files in the format that `b3sum --check` reads.
//!
//! A line is 64 lower-case hexadecimal digits, two spaces and the name. If the name contains a backslash, a
//! newline or a carriage return, these characters are written as `\\`, `\n` and `\r`, and the line begins
//! with a backslash.

use linerate_wire::control::Digest;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The names and digests of files, sorted by the bytes of the names.
#[derive(Debug, Default)]
pub struct Manifest {
    files: BTreeMap<Vec<u8>, Digest>,
}

impl Manifest {
    /// Adds a file; if a name is added again, the last digest counts.
    pub fn add(&mut self, name: Vec<u8>, digest: Digest) {
        self.files.insert(name, digest);
    }

    /// Removes the files for which `is_there` returns false.
    pub fn retain(&mut self, is_there: impl Fn(&[u8]) -> bool) {
        self.files.retain(|name, _| is_there(name));
    }

    /// The text of the manifest, and the names that its format can't express. b3sum refuses names that aren't
    /// UTF-8, and names with U+FFFD, which could stand for any invalid bytes.
    pub fn text(&self) -> (String, Vec<&[u8]>) {
        let mut text = String::new();
        let mut unfit = Vec::new();
        for (name, digest) in &self.files {
            match std::str::from_utf8(name) {
                Ok(name) if !name.contains(char::REPLACEMENT_CHARACTER) => line(&mut text, name, digest),
                _ => unfit.push(name.as_slice()),
            }
        }
        (text, unfit)
    }
}

/// Whether `beginning` looks like the beginning of a manifest file.
#[must_use]
pub fn begins_manifest(beginning: &[u8]) -> bool {
    let digits = beginning.strip_prefix(b"\\").unwrap_or(beginning);
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits
        .split_at_checked(64)
        .is_some_and(|(digits, name)| digits.iter().all(is_digit) && name.starts_with(b"  "))
}

fn line(text: &mut String, name: &str, digest: &Digest) {
    let escaped = name.contains(['\\', '\n', '\r']);
    if escaped {
        text.push('\\');
    }
    // Writing to a string can't fail.
    let _ = write!(text, "{}  ", blake3::Hash::from_bytes(*digest));
    // b3sum would interpret the name `-` as its standard input.
    text.push_str(if name == "-" { "./" } else { "" });
    match escaped {
        true => text.push_str(&name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")),
        false => text.push_str(name),
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::of_bytes;
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    const NAMES: [&str; 10] =
        ["plain", "two  spaces", "back\\slash", "new\nline", "\rcarriage\r", "-", "--x", " ", "é", "\\n"];

    fn manifest() -> Manifest {
        let mut manifest = Manifest::default();
        NAMES.iter().for_each(|name| manifest.add(name.as_bytes().to_vec(), of_bytes(name.as_bytes())));
        manifest
    }

    #[test]
    fn the_lines_are_those_of_the_format() {
        let mut manifest = Manifest::default();
        manifest.add(b"b\\\n\r".to_vec(), of_bytes(b""));
        manifest.add(b"a".to_vec(), of_bytes(b""));
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(manifest.text().0, format!("{empty}  a\n\\{empty}  b\\\\\\n\\r\n"));
    }

    #[test]
    fn a_manifest_is_known_by_its_first_line() {
        let one = |name: &str| {
            let mut manifest = Manifest::default();
            manifest.add(name.as_bytes().to_vec(), of_bytes(b""));
            manifest.text().0
        };
        for name in NAMES {
            assert!(begins_manifest(one(name).as_bytes()), "{name:?}");
        }
        let text = one("a");
        for other in ["", "\\", "text", &text[1..], &text[..65], &text.to_uppercase(), &format!(" {text}")] {
            assert!(!begins_manifest(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn names_that_the_format_cannot_tell_are_given_back() {
        let mut manifest = manifest();
        let whole = manifest.text().0;
        manifest.add(vec![b'x', 0xff], [0; 32]);
        manifest.add("y\u{fffd}".into(), [0; 32]);
        let (text, unfit) = manifest.text();
        assert_eq!(text, whole);
        assert_eq!(unfit, [&b"x\xff"[..], "y\u{fffd}".as_bytes()]);
    }

    #[test]
    fn the_last_digest_counts_and_what_failed_is_left_out() {
        let mut manifest = Manifest::default();
        manifest.add(b"a".to_vec(), [1; 32]);
        manifest.add(b"a".to_vec(), [2; 32]);
        manifest.add(b"b".to_vec(), [3; 32]);
        manifest.retain(|name| name != b"b");
        assert_eq!(manifest.text().0, format!("{}  a\n", "02".repeat(32)));
    }

    #[test]
    fn b3sum_accepts_it() {
        if !linerate_testing::has("b3sum") {
            return;
        }
        let top = tempfile::tempdir().unwrap();
        NAMES.iter().for_each(|name| fs::write(top.path().join(name), name).unwrap());
        let list = tempfile::NamedTempFile::new().unwrap();
        fs::write(list.path(), manifest().text().0).unwrap();
        let check = || Command::new("b3sum").arg("--check").arg(list.path()).current_dir(top.path()).output();
        let checked = check().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        assert_eq!(String::from_utf8_lossy(&checked.stdout).matches(": OK").count(), NAMES.len());
        fs::write(top.path().join(std::ffi::OsStr::from_bytes(b"back\\slash")), "other").unwrap();
        assert!(!check().unwrap().status.success());
    }
}
