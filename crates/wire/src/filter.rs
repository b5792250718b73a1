//! Parsed filter rules, and the paths of a list of files. One end sends the rules and paths to the other end, so that
//! both ends leave out the same entries.
//!
//! The rules are plain data; the crate `linerate-transfer` parses and matches them. Rules that are decoded
//! from the other end's bytes are checked in the same way as rules that the user wrote.

use crate::path::{MAX_NAME, RelPath};
use serde::{Deserialize, Serialize};

/// The most rules of one list.
pub const MAX_RULES: usize = 65_536;
/// The most bytes of a pattern, and the most bytes of a path in a rule.
pub const MAX_PATTERN: usize = 4096;
/// The most bytes of all patterns, and all names and paths of merge files, of one list together. The limit makes the
/// list fit into a control message.
pub const MAX_RULE_BYTES: usize = 512 << 10;
/// The most per-directory merge files of one list.
pub const MAX_MERGES: usize = 64;

/// The reason why a list of rules isn't accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    /// The list has more than [`MAX_RULES`] rules.
    #[error("there are more than {MAX_RULES} filter rules")]
    TooMany,
    /// The patterns, and the names and paths of merge files, together have more than [`MAX_RULE_BYTES`] bytes.
    #[error("the filter rules together have more than {} KiB", MAX_RULE_BYTES >> 10)]
    TooLong,
    /// The list has more than [`MAX_MERGES`] merge files.
    #[error("there are more than {MAX_MERGES} per-directory merge files")]
    TooManyMerges,
    /// A pattern, or the path of a merge file, is empty, has more than [`MAX_PATTERN`] bytes, or has a zero byte.
    #[error("a filter rule's pattern is empty, longer than {MAX_PATTERN} bytes, or has a zero byte")]
    Pattern,
    /// The name of a merge file isn't a single path component.
    #[error("a per-directory merge file's name isn't the name of a file")]
    MergeName,
}

/// Rules in the order in which they are tried; the first rule that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawRules", into = "RawRules")]
pub struct Rules(RawRules);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RawRules {
    rules: Vec<Rule>,
    reading: Reading,
}

/// How the rules are interpreted, and how merge files in directories are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// True if rules that name no side apply only at the sender. The receiver then deletes the entries that these rules
    /// exclude.
    pub delete_excluded: bool,
    /// True if rules in a merge file end with a zero byte, not with a newline.
    pub nul: bool,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// A pattern whose matches are excluded or included.
    Pattern(PatternRule),
    /// A merge file, which each directory may contain; the rules in this file are inserted at the position of this
    /// rule.
    Merge(DirMerge),
}

/// A pattern, and the effect on the entries that match it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternRule {
    /// True if matching entries are included, false if they are excluded.
    pub include: bool,
    /// The ends at which the rule applies.
    pub sides: Sides,
    /// True if the rule applies to names that don't match the pattern, instead of names that match it.
    pub negated: bool,
    /// True if the rule doesn't apply in a directory that is being deleted.
    pub perishable: bool,
    /// True if the pattern is matched against the absolute path.
    pub absolute: bool,
    /// True if the rule applies to the names of extended attributes, and not to paths.
    pub attributes: bool,
    /// The pattern as the user wrote it, as raw bytes.
    pub pattern: Vec<u8>,
}

/// The ends at which a rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sides {
    /// The rule excludes entries from the transfer, and protects them from deletion.
    #[default]
    Both,
    /// The rule excludes entries from the transfer.
    Sender,
    /// The rule protects entries from deletion.
    Receiver,
}

/// A per-directory merge file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirMerge {
    /// The file's name in each directory, a single path component.
    pub name: Vec<u8>,
    /// If set, the merge file is also looked for in the directories above the transfer, from this directory down. The
    /// path is absolute, or below the transfer's root.
    pub above: Option<Vec<u8>>,
    /// True if the rules of a merge file also apply in the subdirectories of its directory.
    pub inherited: bool,
    /// How the lines of the file are read.
    pub style: MergeStyle,
}

/// How a merge file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeStyle {
    /// If set, each line is only a pattern, which includes (`true`) or excludes (`false`) entries. `None` means that
    /// each line is a whole rule.
    pub patterns: Option<bool>,
    /// True if rules are separated by spaces, not by newlines.
    pub words: bool,
    /// True if the file is read as cvs reads its files: a single `!` clears the list even if lines are only patterns.
    pub cvs: bool,
    /// The ends at which all rules of the file apply. `None` means that each rule may name its ends.
    pub sides: Option<Sides>,
    /// True if the rules of the file are [`PatternRule::perishable`].
    pub perishable: bool,
    /// True if the rules of the file are [`PatternRule::absolute`].
    pub absolute: bool,
}

impl Rules {
    /// Makes a list of `rules`, after checking them.
    ///
    /// # Errors
    /// If the rules exceed a limit of this module, or a name in them isn't valid.
    pub fn new(rules: Vec<Rule>, reading: Reading) -> Result<Self, BadRules> {
        Self::try_from(RawRules { rules, reading })
    }

    /// The rules in their order.
    pub fn as_slice(&self) -> &[Rule] {
        &self.0.rules
    }

    /// How the rules are interpreted, and how merge files are read.
    pub fn reading(&self) -> Reading {
        self.0.reading
    }

    /// True if the rules exclude nothing and protect nothing.
    pub fn is_empty(&self) -> bool {
        self.0.rules.is_empty()
    }
}

impl TryFrom<RawRules> for Rules {
    type Error = BadRules;

    fn try_from(raw: RawRules) -> Result<Self, BadRules> {
        if raw.rules.len() > MAX_RULES {
            return Err(BadRules::TooMany);
        }
        raw.rules.iter().try_for_each(Rule::check)?;
        if raw.rules.iter().map(Rule::bytes).sum::<usize>() > MAX_RULE_BYTES {
            return Err(BadRules::TooLong);
        }
        if raw.rules.iter().filter(|rule| matches!(rule, Rule::Merge(_))).count() > MAX_MERGES {
            return Err(BadRules::TooManyMerges);
        }
        Ok(Self(raw))
    }
}

impl From<Rules> for RawRules {
    fn from(rules: Rules) -> Self {
        rules.0
    }
}

impl Rule {
    /// Checks one rule.
    ///
    /// # Errors
    /// If the rule's pattern, name or path isn't valid.
    pub fn check(&self) -> Result<(), BadRules> {
        match self {
            Rule::Pattern(rule) if is_text(&rule.pattern) => Ok(()),
            Rule::Pattern(_) => Err(BadRules::Pattern),
            Rule::Merge(merge) => merge.check(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Rule::Pattern(rule) => rule.pattern.len(),
            Rule::Merge(merge) => merge.name.len() + merge.above.as_ref().map_or(0, Vec::len),
        }
    }
}

impl DirMerge {
    fn check(&self) -> Result<(), BadRules> {
        let is_component = !self.name.contains(&b'/') && RelPath::new(&self.name[..]).is_ok();
        if self.name.is_empty() || self.name.len() > MAX_NAME || !is_component {
            return Err(BadRules::MergeName);
        }
        if self.above.as_ref().is_some_and(|above| !is_text(above)) {
            return Err(BadRules::Pattern);
        }
        Ok(())
    }
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len() <= MAX_PATTERN && !bytes.contains(&0)
}

/// A path of a list of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPath {
    /// The path below the source; empty means the source itself.
    pub path: RelPath,
    /// True if the user wrote the path with a slash at its end: then the entries directly in the path's directory are
    /// wanted too. If the path is the source itself and this is false, only the source's own entry is wanted.
    pub contents: bool,
    /// The number, from 0, of the path's source on the command line.
    pub argument: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exclude(pattern: &[u8]) -> Rule {
        Rule::Pattern(PatternRule {
            include: false,
            sides: Sides::Both,
            negated: false,
            perishable: false,
            absolute: false,
            attributes: false,
            pattern: pattern.to_vec(),
        })
    }

    fn merge(name: &[u8]) -> Rule {
        Rule::Merge(DirMerge {
            name: name.to_vec(),
            above: None,
            inherited: true,
            style: MergeStyle::default(),
        })
    }

    fn decoded(rules: Vec<Rule>) -> Result<Rules, postcard::Error> {
        let raw = RawRules { rules, reading: Reading::default() };
        postcard::from_bytes(&postcard::to_stdvec(&raw).unwrap())
    }

    #[test]
    fn what_passes_a_limit_is_refused_also_from_the_peer() {
        let long = vec![b'x'; MAX_PATTERN + 1];
        let cases: Vec<(Vec<Rule>, BadRules)> = vec![
            (vec![exclude(b"")], BadRules::Pattern),
            (vec![exclude(b"a\0b")], BadRules::Pattern),
            (vec![exclude(&long)], BadRules::Pattern),
            (vec![exclude(b"x"); MAX_RULES + 1], BadRules::TooMany),
            (vec![exclude(&long[1..]); 129], BadRules::TooLong),
            (vec![merge(b".r"); MAX_MERGES + 1], BadRules::TooManyMerges),
            (vec![merge(b"..")], BadRules::MergeName),
            (vec![merge(b"a/b")], BadRules::MergeName),
            (vec![merge(b"")], BadRules::MergeName),
        ];
        for (rules, why) in cases {
            assert_eq!(Rules::new(rules.clone(), Reading::default()), Err(why.clone()));
            assert!(decoded(rules).is_err(), "{why}");
        }
    }

    #[test]
    fn rules_come_back_as_they_went() {
        let list = vec![exclude(b"/a\xff/**"), merge(b".rules"), exclude(b"*.o")];
        let rules = Rules::new(list, Reading { delete_excluded: true, nul: false }).unwrap();
        let back: Rules = postcard::from_bytes(&postcard::to_stdvec(&rules).unwrap()).unwrap();
        assert_eq!(back, rules);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(rules) = postcard::from_bytes::<Rules>(&bytes) {
                prop_assert!(rules.as_slice().iter().all(|rule| rule.check().is_ok()));
            }
        }
    }
}
