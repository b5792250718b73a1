//! Parses rules in rsync's syntax: the rule of an option, or all rules of a file.

use linerate_wire::filter::{
    DirMerge, MAX_PATTERN, MAX_RULES, MergeStyle, PatternRule, Reading, Rule, Sides,
};

use super::cvs;
use super::head::{Head, HeadKind, Modifiers, head_with_modifiers};

/// The syntax of the rules in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syntax {
    /// The prefixes that each rule may have.
    pub prefixes: Prefixes,
    /// The settings that rules inherit from their file. The field `patterns` of these settings must agree with
    /// `prefixes`.
    pub style: MergeStyle,
    /// How files with rules are read.
    pub reading: Reading,
}

/// The prefixes that a rule may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefixes {
    /// All prefixes that `--filter` accepts.
    All,
    /// The prefixes `- `, `+ ` and `!`, as `--exclude` and `--include` accept them. A rule without a prefix
    /// includes (`true`) or excludes (`false`).
    Old(bool),
    /// No prefixes: each rule is a pattern that includes (`true`) or excludes (`false`).
    None(bool),
}

/// One instruction that results from a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Add this rule.
    Rule(Rule),
    /// Add the rules in this file.
    MergeFile(Vec<u8>, MergeStyle),
    /// Add cvs' own patterns, and the user's patterns for cvs.
    CvsPatterns(PatternRule),
    /// Remove all earlier rules.
    Clear,
}

/// The reason why a rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// The rule doesn't begin with a rule's name.
    #[error(
        "no filter rule begins like this; write '- PATTERN', '+ PATTERN', '. FILE', ': FILE', '!' or another rule of rsync"
    )]
    Unknown,
    /// A letter after the rule's name isn't a modifier, or isn't allowed for this rule.
    #[error("the modifier '{}' doesn't belong to this filter rule", .0.escape_ascii())]
    Modifier(u8),
    /// The pattern or file name is missing.
    #[error("the pattern or file name of the filter rule is missing")]
    Missing,
    /// Text follows after `!`.
    #[error("nothing may follow the rule '!', which clears the rules")]
    Trailing,
    /// A rule in a merge file names a side, although the merge file itself already has one.
    #[error(
        "the rule names a side (sender or receiver), but its merge file already names one for all its rules"
    )]
    SideTwice,
    /// The pattern is longer than [`MAX_PATTERN`], or has a zero byte.
    #[error("the pattern is longer than {MAX_PATTERN} bytes or has a zero byte")]
    Pattern,
    /// A file contains more than [`MAX_RULES`] rules.
    #[error("there are more than {MAX_RULES} rules")]
    TooMany,
    /// The modifier `x` is used in a per-directory merge file.
    #[error(
        "a rule for extended attributes ('x') must be on the command line or in a file that the command line names, not in a file of a directory"
    )]
    Xattr,
    /// A per-directory merge file includes a file in another directory.
    #[error("a merge file in a directory can only name files in the same directory")]
    Elsewhere,
}

impl Syntax {
    /// The syntax of a rule in an option.
    pub fn option(prefixes: Prefixes, reading: Reading) -> Self {
        Self { prefixes, style: MergeStyle::default(), reading }
    }

    /// The syntax of the rules in a merge file.
    pub fn merge(style: MergeStyle, reading: Reading) -> Self {
        let prefixes = style.patterns.map_or(Prefixes::All, Prefixes::None);
        Self { prefixes, style, reading }
    }

    /// Parses all rules of one text, such as an option's value.
    pub fn one(&self, text: &[u8]) -> Result<Vec<Said>, BadRule> {
        let mut said = Vec::new();
        self.rules_of(text, &mut said)?;
        Ok(said)
    }

    /// Parses all rules in a file's `text`.
    ///
    /// # Errors
    /// The number of the line, from 1, and the fault.
    pub fn file(&self, text: &[u8]) -> Result<Vec<Said>, (usize, BadRule)> {
        let mut said = Vec::new();
        if self.style.words {
            self.rules_of(text, &mut said).map_err(|error| (1, error))?;
            return Ok(said);
        }
        for (index, line) in lines(text, self.reading.nul).enumerate() {
            if !matches!(line.first(), None | Some(b'#' | b';')) {
                self.rules_of(line, &mut said).map_err(|error| (index + 1, error))?;
            }
        }
        Ok(said)
    }

    fn rules_of(&self, mut text: &[u8], said: &mut Vec<Said>) -> Result<(), BadRule> {
        loop {
            if self.style.words {
                text = text.trim_ascii_start();
            }
            if text.is_empty() {
                return Ok(());
            }
            text = self.rule(text, said)?;
            if said.len() > MAX_RULES {
                return Err(BadRule::TooMany);
            }
        }
    }

    /// Parses one rule at the beginning of `text`, and returns the rest of the text.
    fn rule<'a>(&self, text: &'a [u8], said: &mut Vec<Said>) -> Result<&'a [u8], BadRule> {
        let (head, rest) = self.head(text)?;
        let (argument, rest) = self.argument(rest);
        if argument.len() > MAX_PATTERN || argument.contains(&0) {
            return Err(BadRule::Pattern);
        }
        match head.what {
            HeadKind::Clear if argument.is_empty() => said.push(Said::Clear),
            HeadKind::Clear => return Err(BadRule::Trailing),
            HeadKind::Pattern { include } => said.push(self.pattern(&head, include, argument)?),
            HeadKind::Merge | HeadKind::DirMerge => self.merge_rule(&head, argument, said)?,
        }
        Ok(rest)
    }

    fn head<'a>(&self, text: &'a [u8]) -> Result<(Head, &'a [u8]), BadRule> {
        let clears = |clear: bool| clear && self.argument(text).0 == b"!";
        let (what, rest) = match self.prefixes {
            Prefixes::All => return head_with_modifiers(text, self.style),
            Prefixes::Old(_) if clears(true) => (HeadKind::Clear, &text[1..]),
            Prefixes::None(_) if clears(self.style.cvs) => (HeadKind::Clear, &text[1..]),
            Prefixes::Old(include) => match text {
                [b'-', b' ', rest @ ..] => (HeadKind::Pattern { include: false }, rest),
                [b'+', b' ', rest @ ..] => (HeadKind::Pattern { include: true }, rest),
                _ => (HeadKind::Pattern { include }, text),
            },
            Prefixes::None(include) => (HeadKind::Pattern { include }, text),
        };
        Ok((Head { what, modifiers: Modifiers::of_file(self.style) }, rest))
    }

    fn argument<'a>(&self, text: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let end = if self.style.words { text.iter().position(u8::is_ascii_whitespace) } else { None };
        text.split_at(end.unwrap_or(text.len()))
    }

    fn pattern(&self, head: &Head, include: bool, argument: &[u8]) -> Result<Said, BadRule> {
        let modifiers = &head.modifiers;
        let rule = PatternRule {
            include,
            sides: modifiers.sides.unwrap_or(self.default_sides()),
            negated: modifiers.negated,
            perishable: modifiers.perishable,
            absolute: modifiers.absolute,
            attributes: modifiers.attributes,
            pattern: argument.to_vec(),
        };
        match (modifiers.style.cvs && self.prefixes == Prefixes::All, argument) {
            (true, b"") => Ok(Said::CvsPatterns(rule)),
            (true, _) => Err(BadRule::Trailing),
            (false, b"") => Err(BadRule::Missing),
            (false, _) => Ok(Said::Rule(Rule::Pattern(rule))),
        }
    }

    fn default_sides(&self) -> Sides {
        if self.reading.delete_excluded { Sides::Sender } else { Sides::Both }
    }

    /// The rule that excludes a merge file itself, without the modifiers that the file's rules inherit.
    fn exclude(&self, name: &[u8]) -> Rule {
        Rule::Pattern(PatternRule {
            include: false,
            sides: self.default_sides(),
            negated: false,
            perishable: false,
            absolute: false,
            attributes: false,
            pattern: name.to_vec(),
        })
    }

    fn merge_rule(&self, head: &Head, argument: &[u8], said: &mut Vec<Said>) -> Result<(), BadRule> {
        let modifiers = &head.modifiers;
        let path = match argument {
            b"" if modifiers.style.cvs => cvs::FILE,
            b"" => return Err(BadRule::Missing),
            path => path,
        };
        let (above, name) = split(path);
        if modifiers.excludes_itself {
            said.push(Said::Rule(self.exclude(name)));
        }
        said.push(match head.what {
            HeadKind::Merge => Said::MergeFile(path.to_vec(), modifiers.merge_style()),
            _ => Said::Rule(Rule::Merge(DirMerge {
                name: name.to_vec(),
                above: above.map(<[u8]>::to_vec),
                inherited: modifiers.inherited,
                style: modifiers.merge_style(),
            })),
        });
        Ok(())
    }
}

/// The lines of a file. They end with a line feed, a carriage return or both; with `nul`, they end with zero
/// bytes.
pub(super) fn lines(text: &[u8], nul: bool) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let ends = |&b: &u8| if nul { b == 0 } else { b == b'\n' || b == b'\r' };
        let Some(end) = text.iter().position(ends) else { return rest.take() };
        let behind = &text[end + 1..];
        let both = text[end] == b'\r' && behind.first() == Some(&b'\n');
        rest = Some(&behind[usize::from(both)..]);
        Some(&text[..end])
    })
}

fn split(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(0) => (Some(b"/"), &path[1..]),
        Some(at) => (Some(&path[..at]), &path[at + 1..]),
        None => (None, path),
    }
}
