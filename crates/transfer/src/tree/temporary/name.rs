//! Names of files that don't have their final names yet.

use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The beginning of all temporary names.
const PREFIX: &str = ".linerate.";

/// The beginning of journals' names.
pub const JOURNAL: &str = ".linerate.journal.";

/// The number of hexadecimal digits at the end of a journal's name.
pub const JOURNAL_DIGITS: usize = 32;

/// The number of hexadecimal digits of a name's nonce. The number in the name has at most as many digits.
const DIGITS: usize = 16;

/// A temporary name: the nonce of the transfer that made it, and a number. Values of this type can't express
/// any other name, so they can't refer to a directory or to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Name {
    nonce: [u8; 8],
    number: u64,
}

impl Name {
    /// Temporary name `number` of the transfer that has this `nonce`.
    pub fn new(nonce: [u8; 8], number: u64) -> Self {
        Self { nonce, number }
    }

    /// Parses a name; `None` if [`Name::write`] wouldn't write it.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX.as_bytes())?;
        let (nonce, number) = (rest.get(..DIGITS)?, rest.get(DIGITS..)?.strip_prefix(b".")?);
        let read = Self { nonce: read_digits(nonce)?.to_be_bytes(), number: read_digits(number)? };
        (read.text().as_bytes() == name).then_some(read)
    }

    /// The name in the form that file system calls take.
    pub fn write(&self) -> OsString {
        self.text().into()
    }

    /// The nonce that all names of one transfer share.
    pub fn nonce(&self) -> [u8; 8] {
        self.nonce
    }

    fn text(&self) -> String {
        format!("{PREFIX}{:016x}.{:x}", u64::from_be_bytes(self.nonce), self.number)
    }
}

/// The nonce in a temporary name; `None` for another kind of name.
pub fn nonce_of(name: &[u8]) -> Option<[u8; 8]> {
    Name::parse(name).map(|name| name.nonce)
}

/// True for a journal's name.
pub fn is_journal(name: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(JOURNAL.as_bytes())
        .is_some_and(|key| key.len() == JOURNAL_DIGITS && key.iter().all(is_digit))
}

/// True for a name that only this program's temporary files and journals have. Entries with such names are
/// neither sent, nor accepted from a far end, nor deleted. Other names with the same beginning belong to the
/// user.
pub fn is_reserved(name: &OsStr) -> bool {
    is_journal(name.as_bytes()) || Name::parse(name.as_bytes()).is_some()
}

fn read_digits(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(digits, 16).ok()
}

impl TryFrom<Vec<u8>> for Name {
    type Error = &'static str;

    fn try_from(bytes: Vec<u8>) -> Result<Self, &'static str> {
        Self::parse(&bytes).ok_or("not a temporary name")
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Self {
        name.text().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_journals_and_temporary_files_are_reserved_and_no_others() {
        let journal = format!("{JOURNAL}{}", "0123456789abcdef".repeat(2));
        for ours in [".linerate.0123456789abcdef.1", &journal] {
            assert!(is_reserved(OsStr::new(ours)), "{ours}");
        }
        let (longer, upper) = (format!("{journal}0"), journal.to_uppercase());
        let others = [
            ".linerate.txt",
            ".linerate.journal.mine",
            ".linerate.",
            ".linerate",
            &journal[1..],
            &longer,
            &upper,
        ];
        for other in others {
            assert!(!is_reserved(OsStr::new(other)), "{other}");
        }
    }

    #[test]
    fn only_our_own_names_are_ours() {
        let nonce = [1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        assert_eq!(nonce_of(b".linerate.0123456789abcdef.1f"), Some(nonce));
        for number in [0, 1, 0x1f, u64::MAX] {
            let name = Name::new(nonce, number);
            assert_eq!(Name::parse(&Vec::from(name)), Some(name));
        }
        for other in [
            &b".linerate.0123456789abcdef"[..],
            b".linerate.0123456789abcdef.",
            b".linerate.0123456789abcdef.01",
            b".linerate.0123456789abcdef.10000000000000000",
            b".linerate.0123456789abcdeg.1",
            b".linerate.0123456789ABCDEF.1",
            b".linerate.0123456789abcdef.1 ",
            b".linerate.0123456789abcdef.1/../x",
            b".linerate.+123456789abcdef.1",
            b".linerate.notes",
            b"linerate.0123456789abcdef.1",
            b"/.linerate.0123456789abcdef.1",
            b"../.linerate.0123456789abcdef.1",
            b"",
        ] {
            assert_eq!(Name::parse(other), None, "{}", String::from_utf8_lossy(other));
            let bytes = postcard::to_stdvec(&other.to_vec()).unwrap();
            assert!(postcard::from_bytes::<Name>(&bytes).is_err(), "{}", String::from_utf8_lossy(other));
        }
    }
}
