//! Options whose values are checked by rsync's rules, and that have no other effect on the copy.

use std::ffi::OsStr;

use super::line::Line;
use super::sums::FileSum;
use crate::units::parse_rsync_size;

/// Options that only choose the output stream of lines, or that only decide whether the command line is
/// valid.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// True if all lines go to standard error.
    pub aside: bool,
    /// The names of two checksums, as in rsync's `--checksum-choice`.
    choice: Option<String>,
    /// Whether `--debug=NSTR` was given, which prints the chosen checksums and compression.
    shows_choices: bool,
}

/// The largest accepted block size, in bytes.
const MOST_BLOCK: u64 = 1 << 17;
/// The smallest accepted limit of memory, in bytes; zero is also accepted, and means no limit.
const LEAST_MEMORY: u64 = 1 << 20;

/// Reads the value of `--stderr`, which may be abbreviated.
pub fn stderr(line: &mut Line, text: &str) -> Result<(), String> {
    let found = ["errors", "all", "client"].iter().find(|word| !text.is_empty() && word.starts_with(text));
    let found = found.ok_or("write errors, all or client")?;
    line.checked.aside = *found == "all";
    Ok(())
}

/// Checks the value of `--outbuf`: None, Unbuffered, Line, Block or Full.
pub fn outbuf(text: &str) -> Result<(), String> {
    let is_known = text.starts_with(|first: char| "NULBF".contains(first.to_ascii_uppercase()));
    is_known.then_some(()).ok_or_else(|| "write N, L or B".into())
}

/// Checks the value of `--block-size`.
pub fn block_size(text: &str) -> Result<(), String> {
    match parse_rsync_size(text)? {
        0..=MOST_BLOCK => Ok(()),
        _ => Err(format!("the most is {MOST_BLOCK}")),
    }
}

/// Checks the value of `--max-alloc`.
pub fn max_alloc(text: &str) -> Result<(), String> {
    match parse_rsync_size(text)? {
        0 | LEAST_MEMORY.. => Ok(()),
        _ => Err(format!("the least is {LEAST_MEMORY}")),
    }
}

/// Checks the value of `--checksum-seed`: a decimal number, or a hexadecimal one with `0x`.
pub fn seed(text: &str) -> Result<(), String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let number = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => digits.parse::<i64>(),
    };
    let number = number.map_err(|_| "not a number".to_owned())?;
    i32::try_from(number).map(|_| ()).map_err(|_| "too large a number".into())
}

/// Stores the value of `--checksum-choice`, which [`Checked::refusal`] checks later.
pub fn choice(line: &mut Line, text: &str) {
    line.checked.choice = Some(text.to_ascii_lowercase());
}

/// The words of rsync's `--debug`.
const DEBUG_WORDS: [&str; 27] = [
    "acl", "all", "backup", "bind", "chdir", "cmd", "connect", "del", "deltasum", "dup", "exit", "filter",
    "flist", "fuzzy", "genr", "hash", "help", "hlink", "iconv", "io", "none", "nstr", "own", "proto", "recv",
    "send", "time",
];

/// Checks the words of `--debug`.
///
/// # Errors
/// If rsync has no such word.
pub fn debug_words(words: &OsStr) -> Result<(), String> {
    let words = words.to_string_lossy().to_ascii_lowercase();
    let names = words.split(',').map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    let mut unknown = names.zip(words.split(',')).filter(|(name, _)| !DEBUG_WORDS.contains(name));
    match unknown.find(|(_, word)| !word.is_empty()) {
        None => Ok(()),
        Some((_, word)) => Err(format!("Unknown --debug item: \"{word}\"")),
    }
}

/// Returns whether a word of `--debug` turns on the lines called `name`.
pub fn debugs(words: &OsStr, name: &str) -> Option<bool> {
    let words = words.to_string_lossy().to_ascii_lowercase();
    let mut found = None;
    for word in words.split(',') {
        match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "none" => found = Some(false),
            word_name if word_name == name || word_name == "all" => found = Some(!word.ends_with('0')),
            _ => {}
        }
    }
    found
}

impl Checked {
    /// Stores the words of `--debug`.
    pub fn debug(&mut self, words: &OsStr) {
        self.shows_choices = debugs(words, "nstr").unwrap_or(self.shows_choices);
    }

    /// The lines about the chosen checksums and compression. linerate uses its own methods, whichever methods
    /// these lines name.
    pub fn choices(&self, line: &Line) -> Vec<String> {
        let [on_the_way, of_files] = self.sums();
        let named = self.choice.is_some();
        let sums = match of_files == on_the_way {
            true => on_the_way.name().to_owned(),
            false => format!("{},{}", on_the_way.name(), of_files.name()),
        };
        let negotiated = if named { "" } else { "negotiated " };
        let sums = format!("Client {negotiated}checksum: {sums}");
        let compression = line.compress.shown().map(|shown| format!("Client compress: {shown}"));
        [sums].into_iter().chain(compression).filter(|_| self.shows_choices).collect()
    }

    /// The reason why rsync would refuse the chosen checksums. `compares` is true if files are compared by
    /// checksum.
    pub fn refusal(&self, compares: bool) -> Option<String> {
        let [on_the_way, of_files] = self.names();
        if let Some(unknown) = [on_the_way, of_files].into_iter().find(|name| FileSum::of(name).is_none()) {
            return Some(format!("--checksum-choice: unknown checksum name: {unknown}"));
        }
        (compares && of_files == "none").then(|| "--checksum can't be used with a choice of none".to_owned())
    }

    /// The chosen checksums: the first for files that are sent, the second for files that are compared.
    pub fn sums(&self) -> [FileSum; 2] {
        self.names().map(|name| FileSum::of(name).unwrap_or_default())
    }

    fn names(&self) -> [&str; 2] {
        let choice = self.choice.as_deref().unwrap_or("auto");
        let (on_the_way, of_files) = choice.split_once(',').unwrap_or((choice, choice));
        [on_the_way, of_files]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_right_or_wrong_as_with_rsync() {
        let right = ["0", "10", "1K", "1.5k", "131072"].map(block_size);
        assert!(right.iter().all(Result::is_ok) && block_size("131073").is_err() && block_size("x").is_err());
        assert!(["0", "1m", "0.5g", "2M-1"].iter().all(|text| max_alloc(text).is_ok()));
        assert!(["1k", "1023k", "x"].iter().all(|text| max_alloc(text).is_err()));
        assert!(["5", "-5", "0x10"].iter().all(|text| seed(text).is_ok()));
        assert!(["x", "", "99999999999"].iter().all(|text| seed(text).is_err()));
        assert!(["N", "None", "bl", "u", "full"].iter().all(|text| outbuf(text).is_ok()));
        assert!(outbuf("x").is_err() && outbuf("").is_err());
    }

    #[test]
    fn sums_are_those_that_rsync_has() {
        let refused = |text: &str, compares| {
            let mut line = Line::default();
            choice(&mut line, text);
            line.checked.refusal(compares).is_some()
        };
        assert!(
            ["auto", "md5", "MD5", "xxhash", "auto,md5", "none"].iter().all(|text| !refused(text, false))
        );
        assert!(["nonsense", "md5,", ",md5"].iter().all(|text| refused(text, false)));
        assert_eq!(["none", "md5,none", "none,md5"].map(|text| refused(text, true)), [true, true, false]);
    }
}
