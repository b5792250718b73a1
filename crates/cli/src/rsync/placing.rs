//! rsync's options for temporary and partial files, and for how a received file gets its final name.

use linerate_transfer::NO_TEMP_DIR;
use linerate_wire::control::{Appending, Placing};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::checked::debugs;

/// The default directory for finished files with `--delay-updates`.
const WAITING: &[u8] = b".~tmp~";

/// Options for temporary and partial files, as the user gave them.
#[derive(Clone, Debug, Default)]
pub struct PlacingWishes {
    /// Whether `--partial` was given.
    pub partial: bool,
    /// The directory of `--partial-dir`; empty if the option was given an empty value.
    pub directory: Option<Vec<u8>>,
    /// Whether `--delay-updates` was given.
    pub delayed: bool,
    /// Set by `--append` and `--append-verify`.
    pub append: Appending,
    /// The number of times that `--fuzzy` was given.
    pub fuzzy: u8,
    /// Whether `--debug` shows the similar file that `--fuzzy` has chosen.
    pub shows_fuzzy: bool,
    /// The directory of `--temp-dir`.
    pub temporary: Option<Vec<u8>>,
}

impl PlacingWishes {
    /// Stores the words of `--debug`.
    pub fn debug(&mut self, words: &OsStr) {
        self.shows_fuzzy = debugs(words, "fuzzy").unwrap_or(self.shows_fuzzy);
    }

    /// Adds the values of the environment, once all options are read, and refuses options that exclude each
    /// other.
    ///
    /// # Errors
    /// If options exclude each other, or the value of `--temp-dir` is empty. The error messages have rsync's words.
    pub fn settle(&mut self, inplace: bool) -> Result<(), String> {
        if self.delayed && self.directory.is_none() {
            self.directory = Some(WAITING.to_vec());
        }
        let appends = self.append != Appending::Never;
        if (inplace || appends) && self.directory.is_some() {
            let with = if self.delayed { "delay-updates" } else { "partial-dir" };
            let this = if appends { "append" } else { "inplace" };
            return Err(format!("--{this} cannot be used with --{with}"));
        }
        if self.partial && self.directory.is_none() && !inplace {
            let named = std::env::var_os("RSYNC_PARTIAL_DIR").filter(|named| !named.is_empty());
            self.directory = named.map(OsString::into_vec);
        }
        self.directory = self.directory.take().filter(|named| !matches!(&named[..], b"" | b"." | b"./"));
        self.delayed &= self.directory.is_some();
        match self.temporary.as_deref() {
            Some(b"") => Err(format!("{NO_TEMP_DIR} does not exist: the value of --temp-dir is empty")),
            _ => Ok(()),
        }
    }

    /// These options in the form for the receiver.
    pub fn placing(&self) -> Placing {
        Placing {
            temporary: self.temporary.clone(),
            partial: self.directory.clone(),
            delayed: self.delayed,
            append: self.append,
            fuzzy: self.fuzzy,
        }
    }

    /// The filter rule that excludes the directory of partial files, and protects it from deletion.
    pub fn rule(&self) -> Option<OsString> {
        let directory = self.directory.as_deref().filter(|directory| !directory.starts_with(b"/"))?;
        let end = directory.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        Some(OsStr::from_bytes(&[b"-p ", &directory[..end], b"/"].concat()).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(wishes: PlacingWishes, inplace: bool) -> Result<PlacingWishes, String> {
        let mut wishes = wishes;
        wishes.settle(inplace).map(|()| wishes)
    }

    #[test]
    fn files_wait_where_parts_are_kept() {
        let delayed = PlacingWishes { delayed: true, ..PlacingWishes::default() };
        let plain = settled(delayed.clone(), false).unwrap();
        assert_eq!(plain.placing().partial.as_deref(), Some(WAITING));
        assert_eq!(plain.rule().unwrap(), "-p .~tmp~/");
        let named = PlacingWishes { directory: Some(b"/a/b".to_vec()), ..delayed.clone() };
        assert!(settled(named.clone(), false).is_ok_and(|wishes| wishes.delayed && wishes.rule().is_none()));
        let nowhere = PlacingWishes { directory: Some(b".".to_vec()), ..delayed.clone() };
        assert_eq!(settled(nowhere, false).unwrap().placing(), Placing::default());
        assert!(settled(delayed, true).unwrap_err().ends_with("--delay-updates"));
        assert!(settled(named, true).is_err());
        let unset = PlacingWishes { temporary: Some(Vec::new()), ..PlacingWishes::default() };
        assert!(settled(unset, false).unwrap_err().starts_with("The temp-dir does not exist: "));
    }
}
