//! `--info`: the kinds of lines that are printed, each with its level.

use super::line::Line;

/// The highest level that a word of `--info` can have.
const MOST_LEVEL: u8 = 4;

/// The words of `--info`, in rsync's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoWord {
    /// Lines about files that `--backup` keeps.
    Backup,
    /// Lines about files that are copied on the receiver's side.
    Copied,
    /// Lines about entries that are deleted.
    Del,
    /// Lines about the list of files.
    Flist,
    /// Lines of all other kinds.
    Misc,
    /// Lines about mount points that are skipped.
    Mount,
    /// The names of the entries that are sent; at level 2, also the names of unchanged entries.
    Name,
    /// Lines about entries that are skipped because they aren't regular files.
    Nonreg,
    /// The progress of each file; at level 2, the progress of the whole copy.
    Progress,
    /// Lines about sources that are removed.
    Remove,
    /// Lines about files that are skipped.
    Skip,
    /// The totals at the end.
    Stats,
    /// Lines about links that lead out of the tree.
    Symsafe,
}

use InfoWord::{
    Backup, Copied, Del, Flist, Misc, Mount, Name, Nonreg, Progress, Remove, Skip, Stats, Symsafe,
};

const WORDS: [(&str, InfoWord); 13] = [
    ("backup", Backup),
    ("copy", Copied),
    ("del", Del),
    ("flist", Flist),
    ("misc", Misc),
    ("mount", Mount),
    ("name", Name),
    ("nonreg", Nonreg),
    ("progress", Progress),
    ("remove", Remove),
    ("skip", Skip),
    ("stats", Stats),
    ("symsafe", Symsafe),
];

/// The levels that `--info` has set. The levels of all other words follow from `-v` and other options.
#[derive(Clone, Copy, Debug, Default)]
pub struct InfoLevels([Option<u8>; WORDS.len()]);

impl InfoLevels {
    /// Reads a value such as `progress2,stats1`; returns `true` if the value requests help.
    ///
    /// # Errors
    /// If rsync has no such word.
    pub fn read(&mut self, text: &str) -> Result<bool, String> {
        let mut asks_for_help = false;
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
            let (name, level) = if name.is_empty() { (word, "") } else { word.split_at(name.len()) };
            let level =
                if level.is_empty() { 1 } else { level.parse().unwrap_or(MOST_LEVEL).min(MOST_LEVEL) };
            match name.to_ascii_lowercase().as_str() {
                "help" => asks_for_help = true,
                "all" => self.0 = [Some(level); WORDS.len()],
                "none" => self.0 = [Some(0); WORDS.len()],
                name => match WORDS.iter().find(|(known, _)| *known == name) {
                    Some((_, word)) => self.0[*word as usize] = Some(level),
                    None => return Err(format!("Unknown --info item: \"{name}\"")),
                },
            }
        }
        Ok(asks_for_help)
    }
}

impl Line {
    /// The level of a word, by rsync's rules.
    pub fn info(&self, word: InfoWord) -> u8 {
        self.info.0[word as usize].unwrap_or_else(|| self.usual_level(word))
    }

    fn usual_level(&self, word: InfoWord) -> u8 {
        let verbose = match (word, self.verbose) {
            (Nonreg, _) => 1,
            (_, 0) => 0,
            (Copied | Del | Flist | Misc | Name | Stats | Symsafe, 1) => 1,
            (Misc | Name, _) => 2,
            (Mount | Remove | Skip | Backup | Copied | Del | Flist | Stats | Symsafe, 2..) => 1,
            _ => 0,
        };
        let also = match word {
            Flist if self.progress => 2,
            Progress if self.progress => 1,
            Name if self.progress && self.itemize == 0 && self.out_format.is_none() => 1,
            Stats if self.stats => 2 + u8::from(self.verbose > 1),
            _ => 0,
        };
        verbose.max(also)
    }
}

/// The levels of the words of `--info`.
pub struct Levels {
    pub backup: u8,
    pub symsafe: u8,
    /// Whether a line names the similar file that `--fuzzy` chooses.
    pub fuzzy: bool,
    pub skip: u8,
    pub nonreg: u8,
    /// At level 1, a line names each file that is sent; at level 2, also each unchanged file.
    pub name: u8,
    pub stats: u8,
    pub progress: u8,
    /// The level at which changes are itemized.
    pub itemize: u8,
}

impl Levels {
    /// The levels of a command line; `itemizes` is true if its lines itemize changes.
    pub fn of(line: &Line, itemizes: bool) -> Self {
        Self {
            backup: line.info(Backup),
            symsafe: line.info(Symsafe),
            fuzzy: line.details.placing.shows_fuzzy,
            skip: line.info(Skip),
            nonreg: line.info(Nonreg),
            name: line.info(Name),
            stats: line.info(Stats),
            progress: line.info(Progress),
            itemize: if itemizes { line.itemize.max(1) } else { 0 },
        }
    }

    /// True if an unchanged entry has an itemized line, like a changed one.
    pub fn itemizes_all(&self) -> bool {
        self.itemize > 1 || self.itemize > 0 && self.name > 1
    }

    /// Whether a line reports each unchanged entry as up to date.
    pub fn says_uptodate(&self) -> bool {
        self.itemize == 0 && self.name > 1
    }
}

/// The text of `--debug=help`.
pub const DEBUG_HELP: &str = "\
The words of --debug are accepted, without effect: linerate lacks rsync's
internals. But FUZZY prints the file that --fuzzy has chosen, and NSTR prints the
checksums and the compression.";

/// The text of `--info=help`.
pub const INFO_HELP: &str = "\
The words of --info, each followed by a level, 0 for none:
  PROGRESS, STATS   as --progress and --stats
  NAME              the names of copied entries, as -v; 2: also of unchanged ones
  FLIST             the first line, about the list of files
  SKIP              files that are skipped, and why, as -vv
  BACKUP            files that --backup keeps, as -vv
  SYMSAFE           links that --safe-links leaves out, as -v
  NONREG            files of other kinds that are left out; on unless it is 0
  ALL, NONE         all of these
  COPY, DEL, MISC, MOUNT, REMOVE
                    are accepted, and change nothing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_words_else_of_the_options() {
        let mut line = Line { verbose: 1, ..Line::default() };
        assert_eq!([Name, Skip, Stats, Nonreg, Progress].map(|word| line.info(word)), [1, 0, 1, 1, 0]);
        line.verbose = 2;
        assert_eq!([Name, Skip, Stats].map(|word| line.info(word)), [2, 1, 1]);
        assert_eq!(line.info.read("NAME0,stats9,skip2"), Ok(false));
        assert_eq!([Name, Skip, Stats].map(|word| line.info(word)), [0, 2, MOST_LEVEL]);
        assert_eq!(line.info.read("none,help"), Ok(true));
        assert_eq!([Name, Nonreg, Misc].map(|word| line.info(word)), [0; 3]);
        assert!(line.info.read("nonsense2").is_err());
        let line = Line { progress: true, ..Line::default() };
        assert_eq!([Name, Flist, Progress].map(|word| line.info(word)), [1, 2, 1]);
    }
}
