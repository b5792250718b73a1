//! Builds filter rules from the options of a command line.

use linerate_wire::filter::{BadRules, MAX_RULES, MergeStyle, PatternRule, Reading, Rule, Rules};
use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::io::{self, Read, StdinLock};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::FilterError;
use super::parse::{Prefixes, Said, Syntax};
use super::{MAX_FILE, MAX_NESTED, cvs};
use crate::tree::bounds::open_trusted;

/// Collects rules in the order of the options on the command line.
#[derive(Debug, Default)]
pub struct Builder {
    rules: Vec<Rule>,
    reading: Reading,
    cvs_words: Vec<u8>,
    cvs_exclude: bool,
}

impl Builder {
    /// A builder without rules. `reading` applies to all rules, regardless of the order of the options on the
    /// command line.
    pub fn new(reading: Reading) -> Self {
        Self { reading, ..Self::default() }
    }

    /// Sets the user's patterns for cvs, separated by white space, which come from `$HOME/.cvsignore` and
    /// `$CVSIGNORE`.
    pub fn cvs_words(&mut self, words: &[u8]) {
        self.cvs_words = words.to_vec();
    }

    /// Adds the rule of `--exclude PATTERN`.
    ///
    /// # Errors
    /// If a rule is invalid, or a file can't be read.
    pub fn exclude(&mut self, pattern: &[u8]) -> Result<(), FilterError> {
        self.option("--exclude", pattern, Prefixes::Old(false))
    }

    /// Adds the rule of `--include PATTERN`.
    ///
    /// # Errors
    /// The errors of [`Builder::exclude`].
    pub fn include(&mut self, pattern: &[u8]) -> Result<(), FilterError> {
        self.option("--include", pattern, Prefixes::Old(true))
    }

    /// Adds the rule of `--filter RULE`.
    ///
    /// # Errors
    /// The errors of [`Builder::exclude`].
    pub fn filter(&mut self, rule: &[u8]) -> Result<(), FilterError> {
        self.option("--filter", rule, Prefixes::All)
    }

    /// Adds the rules of `--exclude-from FILE`; `-` means standard input.
    ///
    /// # Errors
    /// The errors of [`Builder::exclude`].
    pub fn exclude_from(&mut self, file: &Path) -> Result<(), FilterError> {
        self.file(file, Syntax::option(Prefixes::Old(false), self.reading), 0)
    }

    /// Adds the rules of `--include-from FILE`; `-` means standard input.
    ///
    /// # Errors
    /// The errors of [`Builder::exclude`].
    pub fn include_from(&mut self, file: &Path) -> Result<(), FilterError> {
        self.file(file, Syntax::option(Prefixes::Old(true), self.reading), 0)
    }

    /// Requests the rules of `--cvs-exclude`, which come after all others.
    pub fn cvs_exclude(&mut self) {
        self.cvs_exclude = true;
    }

    /// All rules that were added.
    ///
    /// # Errors
    /// If there are too many rules.
    pub fn build(mut self) -> Result<Rules, FilterError> {
        if self.cvs_exclude {
            self.filter(b":C")?;
            self.filter(b"-C")?;
        }
        Ok(Rules::new(self.rules, self.reading)?)
    }

    fn option(&mut self, option: &str, text: &[u8], prefixes: Prefixes) -> Result<(), FilterError> {
        let said = Syntax::option(prefixes, self.reading)
            .one(text)
            .map_err(|error| FilterError::Rule { at: format!("{option}='{}'", printable(text)), error })?;
        self.take(said, 0)
    }

    fn file(&mut self, path: &Path, syntax: Syntax, depth: usize) -> Result<(), FilterError> {
        let file = printable(path.as_os_str().as_bytes());
        if depth == MAX_NESTED {
            return Err(FilterError::Nested { file });
        }
        let text = read(path).map_err(|error| FilterError::Read { file: file.clone(), error })?;
        let text = text.ok_or_else(|| FilterError::LongFile { file: file.clone() })?;
        let said = syntax.file(&text).map_err(|at| FilterError::line(&file, at))?;
        self.take(said, depth)
    }

    fn take(&mut self, said: Vec<Said>, depth: usize) -> Result<(), FilterError> {
        for said in said {
            match said {
                Said::Rule(rule) => self.add(rule)?,
                Said::Clear => self.rules.clear(),
                Said::CvsPatterns(rule) => self.add_cvs(&rule)?,
                Said::MergeFile(path, style) => self.merge(&path, style, depth)?,
            }
        }
        Ok(())
    }

    fn merge(&mut self, path: &[u8], style: MergeStyle, depth: usize) -> Result<(), FilterError> {
        self.file(Path::new(OsStr::from_bytes(path)), Syntax::merge(style, self.reading), depth + 1)
    }

    fn add(&mut self, rule: Rule) -> Result<(), FilterError> {
        if self.has_merge(&rule) {
            return Ok(());
        }
        rule.check()?;
        if self.rules.len() == MAX_RULES {
            return Err(BadRules::TooMany.into());
        }
        self.rules.push(rule);
        Ok(())
    }

    /// True if the merge file of this rule was already named. Only the first rule that names a merge file counts.
    fn has_merge(&self, rule: &Rule) -> bool {
        let Rule::Merge(new) = rule else { return false };
        self.rules.iter().any(|rule| matches!(rule, Rule::Merge(old) if old.name == new.name))
    }

    /// Adds cvs' own patterns, which are perishable, and the user's patterns for cvs. A single `!` among the
    /// user's patterns only removes the cvs patterns before it, and no other rule.
    fn add_cvs(&mut self, rule: &PatternRule) -> Result<(), FilterError> {
        let own = |word: &[u8]| PatternRule { pattern: word.to_vec(), perishable: true, ..rule.clone() };
        let mut rules: Vec<Rule> = cvs::patterns().map(|word| Rule::Pattern(own(word))).collect();
        let PatternRule { sides, perishable, absolute, .. } = *rule;
        let style = MergeStyle {
            patterns: Some(false),
            words: true,
            cvs: true,
            sides: Some(sides),
            perishable,
            absolute,
        };
        let said = Syntax::merge(style, self.reading).file(&self.cvs_words);
        for said in said.map_err(|at| FilterError::line("CVSIGNORE", at))? {
            match said {
                Said::Clear => rules.clear(),
                Said::Rule(rule) => rules.push(rule),
                // A list of words can't contain such instructions.
                Said::CvsPatterns(_) | Said::MergeFile(..) => {}
            }
        }
        rules.into_iter().try_for_each(|rule| self.add(rule))
    }
}

/// A file's contents; `None` if the file is too long.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if path == Path::new("-") { limited(standard_input()?) } else { limited(open_trusted(path)?) }
}

/// Standard input, for a file named `-`.
///
/// # Errors
/// If standard input was opened before, because it would be empty now.
pub fn standard_input() -> io::Result<StdinLock<'static>> {
    static IS_OPENED: AtomicBool = AtomicBool::new(false);
    if IS_OPENED.swap(true, Ordering::Relaxed) {
        return Err(io::Error::other("another option has read standard input already; name a file"));
    }
    Ok(io::stdin().lock())
}

/// All bytes of `from`; `None` if there are more than [`MAX_FILE`].
pub(super) fn limited(from: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    from.take(MAX_FILE as u64 + 1).read_to_end(&mut text)?;
    Ok((text.len() <= MAX_FILE).then_some(text))
}
